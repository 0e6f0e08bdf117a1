"""Catch-up without a tier: a follower that missed everything copies four partitions from one leader.

Both sides fetch with the same limits. Wall and CPU time run from the last look at an empty follower to the first look
at a full one, so that neither process start nor elections count. After each copy two bare loops send the same files
through a socket, check them and write them, in either way of sending: the better one is the machine's own limit, and
what the copy is a share of.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from .ceiling import bare_copy
from .fetching.bare import WAYS
from .measure import Elapsed, Results, cpu_seconds
from .systems import System
from .warm_memory import warm_memory
from .workload import STEP_TIMEOUT_S, TOPIC, create_topic, log_bytes, produce, wait_isr

PARTITIONS = 4
LOOK_INTERVAL_S = 0.02
"""A look costs a millisecond of one core, which is taken from those who are measured."""
WARM_EXTRA_BYTES = 1 << 30
"""The memory of the follower's process."""
LIMITS = {
    "replica.fetch.max.bytes": str(1 << 20),
    "replica.fetch.response.max.bytes": str(10 << 20),
    "replica.lag.time.max.ms": "3000",
}


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    with system.run(base, 2, False, LIMITS) as cluster:
        create_topic(cluster, [[1, 2]] * PARTITIONS, {"segment.bytes": str(64 << 20), "min.insync.replicas": "1"})
        cluster.kill(2)
        wait_isr(cluster, {partition: {1} for partition in range(PARTITIONS)})
        produce(cluster, PARTITIONS, total_mb * 1_000_000, 1000, acks="1")
        full = log_bytes(cluster.data_directory(1))
        for number in range(runs):
            if number:
                cluster.kill(2)
                wait_isr(cluster, {partition: {1} for partition in range(PARTITIONS)})
            cluster.wipe(2)
            os.sync()
            with warm_memory(base, full + WARM_EXTRA_BYTES):
                cluster.start(2)
                pids = [cluster.process(1).pid, cluster.process(2).pid]
                copying = time_copy(cluster.data_directory(2), full, pids)
            case = f"{total_mb} MB, {PARTITIONS} partitions, 1 MiB a partition, 10 MiB a fetch"
            add(results, case, system.name, full, copying)
            sources = sorted(cluster.data_directory(1).glob(f"{TOPIC}-*/*.log"))
            best_s = add_bare(results, case, base, sources, full)
            results.add("replication", case, system.name, "share of the bare loops", best_s / copying.wall_s, "")


def add_bare(results: Results, case: str, base: Path, sources: Sequence[Path], full: int) -> float:
    """Have the bare loops copy, each way; return the seconds of the better one."""
    walls_s = []
    for way in WAYS:
        with warm_memory(base, full):
            copying = bare_copy(sources, base / "bare-copy", way)
        add(results, case, f"bare loops, {way}", full, copying)
        walls_s.append(copying.wall_s)
    return min(walls_s)


def add(results: Results, case: str, name: str, size_bytes: int, copying: Elapsed) -> None:
    results.add("replication", case, name, "throughput", size_bytes / 1e6 / copying.wall_s, "MB/s")
    results.add("replication", case, name, "CPU", copying.cpu_s / (size_bytes / 1e9), "s/GB")


def time_copy(directory: Path, full: int, pids: list[int]) -> Elapsed:
    """Time these processes from the last look at no data to the first look at all of it."""
    empty_at, cpu_s = time.perf_counter(), cpu_seconds(pids)
    deadline = empty_at + STEP_TIMEOUT_S
    while (now := time.perf_counter()) < deadline:
        size = log_bytes(directory)
        if size == 0:
            empty_at, cpu_s = now, cpu_seconds(pids)
        elif size >= full:
            return Elapsed(now - empty_at, cpu_seconds(pids) - cpu_s)
        time.sleep(LOOK_INTERVAL_S)
    raise TimeoutError(f"the follower has {log_bytes(directory)} of {full} bytes after {STEP_TIMEOUT_S:.0f} s")
