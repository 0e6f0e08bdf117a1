"""Process start to serving, and memory of an idle broker."""

from __future__ import annotations

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
