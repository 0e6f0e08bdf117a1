"""Process start to serving, and memory of an idle broker; and the start of a test's cluster (`tierfetch.testing`).

`python -m bench.startup [RUNS]` prints the second one: the shortest, median and longest start in a warm interpreter,
and the first, which imports.
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from pathlib import Path

import psutil

from .measure import Results
from .systems import System
from .workload import create_topic

IDLE_S = 3.0


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    del total_mb
    with system.run(base, 2, True, {}) as cluster:
        create_topic(cluster, [[1, 2]] * 4, {"remote.storage.enable": "true"})
        for _ in range(runs):
            cluster.stop(2)
            began = cluster.start(2)
            cluster.wait_serving(2)
            results.add("startup", "broker", system.name, "start to serving", time.monotonic() - began, "s")
            time.sleep(IDLE_S)
            resident = psutil.Process(cluster.process(2).pid).memory_info().rss / 1e6
            results.add("startup", "broker, idle", system.name, "resident memory", resident, "MB")


def start_s(brokers: int) -> float:
    """Return the seconds until all brokers serve."""
    began_s = time.perf_counter()
    from tierfetch.testing import ClusterOptions, InProcessCluster

    with InProcessCluster(ClusterOptions(brokers=brokers)):
        return time.perf_counter() - began_s


def main(runs: int = 20) -> None:
    logging.disable(logging.WARNING)  # a tier's broker waits for the metadata topic, and says so
    for brokers in (1, 3):
        first, *rest = (start_s(brokers) for _ in range(runs + 1))
        low, middle, high = min(rest), statistics.median(rest), max(rest)
        print(f"{brokers} brokers, {runs} starts: min {low:.3f} s, median {middle:.3f} s, max {high:.3f} s", end="")
        print(f" (first, with imports where there are any: {first:.3f} s)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
