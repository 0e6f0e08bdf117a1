"""One point over the number of partitions: a broker that leads all of them, from their creation to a catch-up.

| figure | from | to |
|---|---|---|
| created | the first CreateTopics | all ISRs are full |
| produce | the first record | the last acknowledgement, of as many bytes for any number of partitions |
| memory | - | PSS of the leader, some seconds after that |
| failover | kill -9 has returned | a record of each partition, produced then, is acknowledged |
| start | the process begins | it serves; all ISRs are full |
| catch-up | the last look at an empty follower | the first look at a full one |

Three brokers, the third one without replicas, as in `clients`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from tierfetch.cli.local import poll
from tierfetch.protocol import TopicPartition

from ..measure import Elapsed, cpu_seconds, pss_mib
from ..systems import Cluster, System
from ..workload import STEP_TIMEOUT_S, admin, log_bytes, topics_of
from .points import Settings

LEADER: Final = 1
FOLLOWER: Final = 2
TOPICS: Final = "curve"
RECORD_BYTES: Final = 1_000
BATCH_RECORDS_MAX: Final = 500
TURNS_MIN: Final = 4
"""Each partition gets so many batches at least, as far as the records reach."""
SETTLE_S: Final = 5.0
LOOK_INTERVAL_S: Final = 0.02
LOOK_SHARE: Final = 0.05
"""Looks at the files take this share of the time at most: with many partitions a look is long."""


def batches(count: int, records: int) -> Iterator[tuple[TopicPartition, int]]:
    """Yield which partition gets how many records next, until all records are given: round the partitions."""
    size = max(1, min(BATCH_RECORDS_MAX, records // (count * TURNS_MIN)))
    topics = topics_of(TOPICS, count)
    targets = [TopicPartition(topic, number) for topic, of_topic in topics.items() for number in range(of_topic)]
    turn = 0
    while records > 0:
        yield targets[turn % count], min(size, records)
        records -= size
        turn += 1


def measure(system: System, base: Path, count: int, settings: Settings, figures: dict[str, float]) -> None:
    """Put the figures of a cluster with so many partitions into `figures`, each as soon as it is known."""
    with system.run(base, 3, False, {}) as cluster:
        _create(cluster, count, figures)
        _produce_all(cluster, count, settings.size_mb, figures)
        time.sleep(SETTLE_S)
        figures["memory of the leader, MiB"] = pss_mib(cluster.process(LEADER).pid)
        _fail_over(cluster, count, figures)
        _start(cluster, count, figures)
        _catch_up(cluster, count, settings.size_mb, figures)


def _create(cluster: Cluster, count: int, figures: dict[str, float]) -> None:
    client, began = admin(cluster), time.monotonic()
    configs = {"min.insync.replicas": "1", "segment.bytes": str(64 << 20)}
    for name, of_topic in topics_of(TOPICS, count).items():
        topic = NewTopic(
            name, num_partitions=of_topic, replica_assignment=[[LEADER, FOLLOWER]] * of_topic, config=configs
        )
        client.create_topics([topic])[name].result(STEP_TIMEOUT_S)
    _wait_isrs(cluster, LEADER, count, {LEADER, FOLLOWER})
    figures["created, s"] = time.monotonic() - began


def _produce_all(cluster: Cluster, count: int, size_mb: int, figures: dict[str, float]) -> None:
    _produce(cluster, LEADER, count, size_mb * 100, "all")  # a tenth, which is not counted
    pids = [cluster.process(broker).pid for broker in (LEADER, FOLLOWER)]
    cpu_s = cpu_seconds(pids)
    seconds = _produce(cluster, LEADER, count, size_mb * 1_000, "all")
    figures["produce, MB/s"] = size_mb / seconds
    figures["produce: CPU of both brokers, s/GB"] = (cpu_seconds(pids) - cpu_s) / (size_mb / 1e3)


def _fail_over(cluster: Cluster, count: int, figures: dict[str, float]) -> None:
    producers = _producers(cluster, FOLLOWER, count)
    _burst(producers, count)  # connections and metadata are no part of a failover
    cluster.kill(LEADER)
    figures["failover: all acknowledged again, s"] = _burst(producers, count)


def _start(cluster: Cluster, count: int, figures: dict[str, float]) -> None:
    began = cluster.start(LEADER)
    cluster.wait_serving(LEADER)
    figures["start to serving, s"] = time.monotonic() - began
    _wait_isrs(cluster, FOLLOWER, count, {LEADER, FOLLOWER})
    figures["start to full ISRs, s"] = time.monotonic() - began


def _catch_up(cluster: Cluster, count: int, size_mb: int, figures: dict[str, float]) -> None:
    """Wipe the first broker, which follows since its failover, and have it copy all from the second."""
    cluster.kill(LEADER)
    _wait_isrs(cluster, FOLLOWER, count, {FOLLOWER})
    _produce(cluster, FOLLOWER, count, size_mb * 1_000, "1")
    full = log_bytes(cluster.data_directory(FOLLOWER), TOPICS)
    cluster.wipe(LEADER)
    os.sync()
    cluster.start(LEADER)
    pids = [cluster.process(broker).pid for broker in (LEADER, FOLLOWER)]
    copying = _time_copy(cluster.data_directory(LEADER), full, pids)
    figures["catch-up, MB/s"] = full / 1e6 / copying.wall_s
    figures["catch-up: CPU of both brokers, s/GB"] = copying.cpu_s / (full / 1e9)


def _time_copy(directory: Path, full: int, pids: Sequence[int]) -> Elapsed:
    """Time from the last look at no data to the first look at all of it."""
    empty_at, cpu_s = time.perf_counter(), cpu_seconds(list(pids))
    deadline, size = empty_at + STEP_TIMEOUT_S, 0
    while (now := time.perf_counter()) < deadline:
        size, used_s = log_bytes(directory, TOPICS), cpu_seconds(list(pids))
        if size == 0:
            empty_at, cpu_s = now, used_s
        elif size >= full:
            return Elapsed(now - empty_at, used_s - cpu_s)
        time.sleep(max(LOOK_INTERVAL_S, (time.perf_counter() - now) / LOOK_SHARE))
    raise TimeoutError(f"the follower has {size} of {full} bytes after {STEP_TIMEOUT_S:.0f} s")


def _produce(cluster: Cluster, broker: int, count: int, records: int, acks: str) -> float:
    """Produce so many records of 1 kB round the partitions; return the seconds until the last acknowledgement."""
    failures: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    options = {"acks": acks, "linger.ms": 5, "batch.size": 262_144, "queue.buffering.max.kbytes": 65_536}
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{cluster.port(broker)}", "log_level": 0, **options})
    value = os.urandom(RECORD_BYTES)
    began = time.perf_counter()
    for target, size in batches(count, records):
        send = [{"value": value, "callback": delivered} for _ in range(size)]
        while queued := len(send) - producer.produce_batch(target.topic, send, partition=target.partition):
            send = send[-queued:]
            producer.poll(0.02)
        producer.poll(0)
    if producer.flush(STEP_TIMEOUT_S) or failures:
        raise RuntimeError(f"records were not acknowledged: {failures[:1] or 'timed out'}")
    return time.perf_counter() - began


def _producers(cluster: Cluster, broker: int, count: int) -> Mapping[str, Producer]:
    """Return a producer for each topic: it asks for the metadata of that one alone."""
    options = {"bootstrap.servers": f"127.0.0.1:{cluster.port(broker)}", "acks": "all", "linger.ms": 5, "log_level": 0}
    return {topic: Producer(options) for topic in topics_of(TOPICS, count)}


def _burst(producers: Mapping[str, Producer], count: int) -> float:
    """Return the seconds until one record of each partition, produced now, is acknowledged."""
    began, failures, acknowledged = time.monotonic(), list[str](), 0

    def delivered(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None
        if error is not None:
            failures.append(str(error))

    for topic, of_topic in topics_of(TOPICS, count).items():
        for number in range(of_topic):
            producers[topic].produce(topic, b"v", partition=number, on_delivery=delivered)
    for _ in poll(STEP_TIMEOUT_S, f"a record of each of {count} partitions to be acknowledged", 0.005):
        for producer in producers.values():
            producer.poll(0)
        if failures:
            raise RuntimeError(f"{len(failures)} records were not acknowledged: {failures[0]}")
        if acknowledged == count:
            break
    return time.monotonic() - began


def _wait_isrs(cluster: Cluster, ask: int, count: int, wanted: set[int]) -> None:
    client, topics = admin(cluster, ask), topics_of(TOPICS, count)
    for _ in poll(STEP_TIMEOUT_S, f"the ISRs of {count} partitions to be {wanted}", 0.05):
        found = client.list_topics(timeout=STEP_TIMEOUT_S).topics
        isrs = [set(each.isrs) for name in topics if name in found for each in found[name].partitions.values()]
        if len(isrs) == count and all(isr == wanted for isr in isrs):
            return
