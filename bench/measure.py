"""Figures as they are printed and kept: every value, min/median/max, ratios within one run, the load of the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from tierfetch.cli.local import captured

GROUP_RATIO: Final = 1.5
GROUP_SIZE_MIN: Final = 2


@dataclass(slots=True)
class Figure:
    """One measured quantity of one system, over several runs."""

    benchmark: str
    case: str
    system: str
    quantity: str
    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def spread(self) -> str:
        """Return min / median / max; and every value where they come in groups, which a median hides."""
        text = f"{min(self.values):,.2f} / {self.median:,.2f} / {max(self.values):,.2f} {self.unit}"
        found = groups(self.values)
        if len(found) < 2:
            return text
        return f"{text}\nin groups: {' | '.join(listed(group) for group in found)}"


def groups(values: Sequence[float]) -> list[list[float]]:
    """Return the values in order, cut where the next one is `GROUP_RATIO` times as large and both sides have at least
    `GROUP_SIZE_MIN`: a single outlier is no group.
    """
    found: list[list[float]] = [[]]
    for value in sorted(values):
        if found[-1] and value > GROUP_RATIO * found[-1][-1] and value > 0:
            found.append([])
        found[-1].append(value)
    if any(len(group) < GROUP_SIZE_MIN for group in found):
        return [sorted(values)]
    return found


def listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:,.2f}" for value in values)


class Results:
    """All figures of a session, in the order in which they were first added."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str, str, str], Figure] = {}
        self.loads: list[float] = []

    def add(self, benchmark: str, case: str, system: str, quantity: str, value: float, unit: str) -> None:
        key = (benchmark, case, quantity, system)
        figure = self._figures.setdefault(key, Figure(benchmark, case, system, quantity, unit))
        figure.values.append(value)
        self.loads.append(os.getloadavg()[0])

    def figure(self, benchmark: str, case: str, system: str, quantity: str) -> Figure | None:
        return self._figures.get((benchmark, case, quantity, system))

    def figures(self) -> list[Figure]:
        return list(self._figures.values())

    def print(self, console: Console) -> None:
        console.print(f"{machine()}; load {min(self.loads):.1f} to {max(self.loads):.1f} during the runs")
        table = Table("case", "quantity", "system", "min / median / max", "ratio of medians to kafka")
        for figure in self.figures():
            other = self._figures.get((figure.benchmark, figure.case, figure.quantity, "kafka"))
            ratio = "" if other in (None, figure) or not other.median else f"{figure.median / other.median:.2f}"
            case = f"{figure.benchmark}: {figure.case}"
            table.add_row(case, figure.quantity, f"{figure.system} (n={len(figure.values)})", figure.spread(), ratio)
        console.print(table)

    def write(self, path: Path) -> None:
        document = {
            "command": command_line(),
            "commit": commit(),
            "machine": machine(),
            "load": [min(self.loads, default=0), max(self.loads, default=0)],
            "unix_time_s": int(time.time()),
            "figures": [asdict(figure) for figure in self.figures()],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n")


def command_line() -> str:
    """Return the command that makes the figures of this process."""
    return " ".join(["python -m bench", *sys.argv[1:]])


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for what a benchmark runs, as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="tierfetch-bench-", ignore_cleanup_errors=True) as base:
        yield Path(base)


def machine() -> str:
    memory = psutil.virtual_memory().total / (1 << 30)
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


@cache
def commit() -> str:
    """Return the commit of the code, as it was when this process first asked."""
    done = captured(["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent)
    return done.stdout.strip() or "unknown"


@dataclass(slots=True)
class Elapsed:
    """Wall seconds of a block, and CPU seconds that some processes used meanwhile."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time of all threads of these processes, those that have ended too, to the microsecond."""
    return sum(time.clock_gettime(cpu_clock(pid)) for pid in pids)


def pss_mib(pid: int) -> float:
    """Return the memory of a process: what it shares with others counts by its share."""
    return float(psutil.Process(pid).memory_full_info().pss / (1 << 20))


def cpu_clock(pid: int) -> int:
    """Return the id of a process's CPU clock, as clock_getcpuclockid(3) makes it on Linux."""
    return (~pid << 3) | 2


@contextmanager
def elapsed(pids: list[int] | None = None) -> Iterator[Elapsed]:
    measured = Elapsed()
    cpu, began = cpu_seconds(pids or []), time.perf_counter()
    yield measured
    measured.wall_s = time.perf_counter() - began
    measured.cpu_s = cpu_seconds(pids or []) - cpu
