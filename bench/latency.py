"""Produce latency at a steady rate: alone, and while closed segments of another topic are copied to the tier.

The backlog is written while copying is off for its topic (`remote.log.copy.disable`, KIP-950). Both figures of a run
come from one cluster, one right after the other: alone for some seconds, then for as long as the tier grows.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tierfetch.cli.local import poll

from .measure import Results
from .systems import Cluster, System
from .workload import STEP_TIMEOUT_S, admin, create_topic, log_bytes, produce

PARTITIONS = 4
RECORD_BYTES = 1_000
RECORDS_PER_S = 1_000
ALONE_S = 5.0
SEGMENT_BYTES = 16 << 20
TOPIC = "steady"
COPY_OFF = "remote.log.copy.disable"
LOOK_INTERVAL_S = 0.1


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    with system.run(base, 2, True, {"remote.log.manager.task.interval.ms": "1000"}) as cluster:
        tier = cluster.data_directory(1).parent / "tier"
        create_topic(cluster, [[1, 2]] * PARTITIONS, {}, TOPIC)
        latencies_ms(cluster, for_s(ALONE_S))  # warm-up
        for number in range(runs):
            backlog = f"backlog-{number}"
            configs = {"remote.storage.enable": "true", COPY_OFF: "true", "segment.bytes": str(SEGMENT_BYTES)}
            create_topic(cluster, [[1]] * PARTITIONS, configs, backlog)
            produce(cluster, PARTITIONS, total_mb * 1_000_000, RECORD_BYTES, topic=backlog)
            os.sync()
            alone = latencies_ms(cluster, for_s(ALONE_S))
            before = tier_bytes(tier)
            full = before + log_bytes(cluster.data_directory(1), backlog) - PARTITIONS * SEGMENT_BYTES
            set_topic_config(cluster, backlog, COPY_OFF, "false")
            for _ in poll(STEP_TIMEOUT_S, "the copy to begin", 0.01):
                if tier_bytes(tier) > before:
                    break
            began = time.perf_counter()
            copying = latencies_ms(cluster, lambda full=full: tier_bytes(tier) >= full)  # type: ignore[misc]
            copied_mb = (full - before) / 1e6
            report(results, system.name, alone, copying, copied_mb / (time.perf_counter() - began))


def report(results: Results, name: str, alone: list[float], copying: list[float], copy_mb_per_s: float) -> None:
    case = f"{RECORDS_PER_S:,} records of {RECORD_BYTES:,} B a second, acks=all, 2 replicas"
    for state, latencies in (("alone", alone), ("while copying", copying)):
        results.add("latency", case, name, f"p50 {state}", statistics.median(latencies), "ms")
        results.add("latency", case, name, f"p99 {state}", percentile_99(latencies), "ms")
    results.add("latency", case, name, "p99 copying / alone", percentile_99(copying) / percentile_99(alone), "")
    results.add("latency", case, name, "copied to the tier", copy_mb_per_s, "MB/s")


def percentile_99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def for_s(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def latencies_ms(cluster: Cluster, is_over: Callable[[], bool]) -> list[float]:
    """From the handing over of each record to its acknowledgement, until `is_over`."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 5, "log_level": 2})
    found: list[float] = []
    value = os.urandom(RECORD_BYTES)
    began = look_at = time.perf_counter()
    sent = 0
    while True:
        now = time.perf_counter()
        if now >= look_at:
            if is_over():
                break
            look_at = now + LOOK_INTERVAL_S
        while sent < (now - began) * RECORDS_PER_S:
            producer.produce(TOPIC, value, partition=sent % PARTITIONS, on_delivery=_note(found, time.perf_counter()))
            sent += 1
        producer.poll(1 / RECORDS_PER_S)
    if producer.flush(STEP_TIMEOUT_S) or len(found) != sent:
        raise RuntimeError(f"{sent - len(found)} of {sent} records were not acknowledged")
    return found


def _note(found: list[float], began: float) -> Callable[[object, object], None]:
    def acknowledged(error: object, _: object) -> None:
        if error is None:
            found.append((time.perf_counter() - began) * 1000)

    return acknowledged


def set_topic_config(cluster: Cluster, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(cluster)
    client.incremental_alter_configs([resource])[resource].result(STEP_TIMEOUT_S)


def tier_bytes(tier: Path) -> int:
    total = 0
    for path in tier.rglob("*.log*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total
