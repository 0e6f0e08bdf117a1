"""Samples of the running nodes, from `/proc` and from their metrics, and the latencies of acknowledgements."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psutil
from prometheus_client.parser import text_string_to_metric_families

from .verdict import Sample

SCRAPE_TIMEOUT_S: Final = 10.0
TASKS: Final = "tierfetch_loop_tasks"
PAUSES: Final = "tierfetch_loop_pause_seconds"
OWN_PAUSES: Final = "tierfetch_loop_pause_own_seconds"


@dataclass(frozen=True, slots=True)
class Node:
    """A process that is looked at."""

    name: str
    pid: int
    metrics_url: str

    def sample(self, at_s: float) -> Sample:
        """Return what it holds now. OSError if it does not answer."""
        process = psutil.Process(self.pid)
        memory = process.memory_full_info()
        tasks = scraped(self.metrics_url, TASKS)[TASKS]
        return Sample(at_s, memory.pss, memory.rss, process.num_fds(), int(tasks))

    def cpu_s(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


def scraped(url: str, family: str) -> dict[str, float]:
    """Return the samples of one metric family by name, a histogram's buckets as `NAME_bucket{le}`."""
    with urllib.request.urlopen(url, timeout=SCRAPE_TIMEOUT_S) as answer:
        text = answer.read().decode()
    return {
        sample.name + (f"{{{sample.labels['le']}}}" if "le" in sample.labels else ""): sample.value
        for found in text_string_to_metric_families(text)
        if found.name == family
        for sample in found.samples
    }


class Latencies:
    """Seconds from `produce` to the acknowledgement, of the records since the last `take`. Threads may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self.acknowledged = 0
        self.failed = 0

    def note(self, seconds: float | None) -> None:
        """Note one record; None says that it was not acknowledged."""
        with self._lock:
            if seconds is None:
                self.failed += 1
            else:
                self.acknowledged += 1
                self._seconds.append(seconds)

    def take(self) -> list[float]:
        """Return them in order, and begin again."""
        with self._lock:
            taken, self._seconds = self._seconds, []
        return sorted(taken)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value at this quantile; nan of none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
