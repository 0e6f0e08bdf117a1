"""Produce with acks=all to two replicas, by record size, through librdkafka."""

from __future__ import annotations

from pathlib import Path

from .measure import Results, elapsed
from .systems import System
from .workload import create_topic, produce

PARTITIONS = 4
RECORD_BYTES = (1_000, 10_000, 100)


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    with system.run(base, 2, False, {}) as cluster:
        for record_bytes in RECORD_BYTES:
            topic = f"bench-{record_bytes}"
            create_topic(cluster, [[1, 2]] * PARTITIONS, {"segment.bytes": str(256 << 20)}, topic)
            size_mb = total_mb if record_bytes > 100 else total_mb // 4
            produce(cluster, PARTITIONS, size_mb * 100_000, record_bytes, topic=topic)  # warm-up, a tenth
            for _ in range(runs):
                with elapsed([cluster.process(1).pid, cluster.process(2).pid]) as cost:
                    seconds = produce(cluster, PARTITIONS, size_mb * 1_000_000, record_bytes, topic=topic)
                case = f"{record_bytes:,} B records, acks=all, 2 replicas"
                results.add("produce", case, system.name, "throughput", size_mb / seconds, "MB/s")
                results.add("produce", case, system.name, "CPU of both brokers", cost.cpu_s / (size_mb / 1e3), "s/GB")
