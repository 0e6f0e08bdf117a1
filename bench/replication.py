"""Catch-up without a tier: a follower that missed everything copies four partitions from one leader.

Both sides fetch with the same limits. The time runs from the last look at an empty follower to the first look at a
full one, so that neither process start nor elections count.
"""

from __future__ import annotations

import time
from pathlib import Path

from .measure import Results, elapsed
from .systems import System
from .workload import STEP_TIMEOUT_S, create_topic, log_bytes, produce, wait_isr

PARTITIONS = 4
LIMITS = {
    "replica.fetch.max.bytes": str(1 << 20),
    "replica.fetch.response.max.bytes": str(10 << 20),
    "replica.lag.time.max.ms": "3000",
}


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    with system.run(base, 2, False, LIMITS) as cluster:
        create_topic(cluster, [[1, 2]] * PARTITIONS, {"segment.bytes": str(64 << 20), "min.insync.replicas": "1"})
        cluster.kill(2)
        cluster.fence(2)
        wait_isr(cluster, {partition: {1} for partition in range(PARTITIONS)})
        produce(cluster, PARTITIONS, total_mb * 1_000_000, 1000, acks="1")
        full = log_bytes(cluster.data_directory(1))
        for number in range(runs):
            if number:
                cluster.kill(2)
                cluster.fence(2)
                wait_isr(cluster, {partition: {1} for partition in range(PARTITIONS)})
            cluster.wipe(2)
            cluster.start(2)
            pids = [cluster.process(1).pid, cluster.process(2).pid]
            with elapsed(pids) as cost:
                seconds = time_copy(cluster.data_directory(2), full)
            case = f"{total_mb} MB, {PARTITIONS} partitions, 1 MiB a partition, 10 MiB a fetch"
            results.add("replication", case, system.name, "throughput", full / 1e6 / seconds, "MB/s")
            results.add("replication", case, system.name, "CPU", cost.cpu_s / (full / 1e9), "s/GB")


def time_copy(directory: Path, full: int) -> float:
    """Seconds from the last look at no data to the first look at all of it."""
    empty_at = time.perf_counter()
    deadline = empty_at + STEP_TIMEOUT_S
    while (now := time.perf_counter()) < deadline:
        size = log_bytes(directory)
        if size == 0:
            empty_at = now
        elif size >= full:
            return now - empty_at
        time.sleep(0.005)
    raise TimeoutError(f"the follower has {log_bytes(directory)} of {full} bytes after {STEP_TIMEOUT_S:.0f} s")
