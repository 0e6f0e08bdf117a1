"""Process start to serving, and memory of an idle broker; and the start of a test's cluster (`tierfetch.testing`).

`python -m bench.startup [RUNS]` prints the second one: the shortest, median and longest start in a warm interpreter,
the CPU time of each (which the load of the machine changes less), and the first start of a process, which imports.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from tierfetch.cli.local import captured

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


class Start(NamedTuple):
    """Until all brokers serve; `cpu_s` is that of the process, user and system."""

    wall_s: float
    cpu_s: float


def measured_start(brokers: int) -> Start:
    """Start a cluster, and end it."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    from tierfetch.testing import ClusterOptions, InProcessCluster

    with InProcessCluster(ClusterOptions(brokers=brokers)):
        return Start(time.perf_counter() - began_s, time.process_time() - began_cpu_s)


FIRST = """
import logging, time
logging.disable(logging.WARNING)
began_s, began_cpu_s = time.perf_counter(), time.process_time()
from tierfetch.testing import ClusterOptions, InProcessCluster
with InProcessCluster(ClusterOptions(brokers={brokers})):
    print(time.perf_counter() - began_s, time.process_time() - began_cpu_s)
"""


def first_start(brokers: int) -> Start:
    """Start a cluster in a process that has imported nothing yet, as the first test of a session does."""
    program = [sys.executable, "-c", FIRST.format(brokers=brokers)]
    done = captured(program, timeout_s=60)
    done.check_returncode()
    return Start(*map(float, done.stdout.split()))


def spread(values: Sequence[float]) -> str:
    return f"min {min(values):.3f}, median {statistics.median(values):.3f}, max {max(values):.3f} s"


def main(runs: int = 20) -> None:
    print(f"load {os.getloadavg()[0]:.1f}")
    logging.disable(logging.WARNING)  # a tier's broker waits for the metadata topic, and says so
    for brokers in (1, 3):
        _, *rest = (measured_start(brokers) for _ in range(runs + 1))
        firsts = [first_start(brokers) for _ in range(runs)]
        print(f"{brokers} brokers, {runs} starts: {spread([each.wall_s for each in rest])}")
        print(f"  CPU of each: {spread([each.cpu_s for each in rest])}")
        print(f"  the first of a process, which imports: {spread([each.wall_s for each in firsts])}")
        print(f"  CPU of each: {spread([each.cpu_s for each in firsts])}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
