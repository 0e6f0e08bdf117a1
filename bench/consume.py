"""Consume 1 kB records with librdkafka: from warm local segments, and from the tier."""

from __future__ import annotations

from pathlib import Path

from tierfetch.cli.local import poll

from .measure import Results
from .systems import System
from .workload import BATCH_RECORDS, STEP_TIMEOUT_S, consume, create_topic, log_bytes, produce

RECORD_BYTES = 1_000
SEGMENT_BYTES = 16 << 20


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    records = total_mb * 1_000_000 // (RECORD_BYTES * BATCH_RECORDS) * BATCH_RECORDS
    with system.run(base, 1, True, {"log.retention.check.interval.ms": "1000"}) as cluster:
        cases = {"local, warm": {}, "tiered, warm": {"remote.storage.enable": "true", "local.retention.bytes": "1"}}
        for number, (case, configs) in enumerate(cases.items()):
            topic = f"bench-{number}"
            create_topic(cluster, [[1]], {"segment.bytes": str(SEGMENT_BYTES), **configs}, topic)
            produce(cluster, 1, total_mb * 1_000_000, RECORD_BYTES, topic=topic)
            if configs:
                wait_moved(cluster.data_directory(1), topic)
            consume(cluster, [0], records, topic=topic)  # warm-up
            for _ in range(runs):
                seconds = consume(cluster, [0], records, topic=topic)
                results.add("consume", case, system.name, "throughput", records * RECORD_BYTES / 1e6 / seconds, "MB/s")


def wait_moved(directory: Path, topic: str, partitions: int = 1, segment_bytes: int = SEGMENT_BYTES) -> None:
    for _ in poll(STEP_TIMEOUT_S, "closed segments to leave the local disk", 0.2):
        if log_bytes(directory, topic) <= partitions * segment_bytes:
            return
