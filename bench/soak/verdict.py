"""Decide whether a process grew, or the cluster became slow: the end, beside what was after a tenth of the time.

| quantity | may grow by the larger of |
|---|---|
| memory, private and shared in proportion (PSS) | 10 %, 8 MiB |
| resident memory (RSS) | 10 %, 8 MiB |
| file descriptors | 10 %, 16 |
| tasks of the event loop | 10 %, 16 |
| median of the latencies of a minute | 25 %, 10 ms |
| their 99th percentile | 50 %, 50 ms |

Each side is the median of a window, a tenth of the time: one sample may fall into a compaction or a restart. The first
tenth is warm-up: topics are made, caches fill.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

MIB: Final = 1 << 20
WINDOW: Final = 0.1
SAMPLES_MIN: Final = 10
"""Fewer say nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one process holds at one moment."""

    at_s: float
    pss_bytes: int
    rss_bytes: int
    descriptors: int
    tasks: int


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The growth that is not a leak: a share of what there was, or a number, whichever is larger."""

    share: float
    number: int

    def limit(self, before: float) -> float:
        return before + max(self.share * before, self.number)


TOLERANCES: Final[Mapping[str, Tolerance]] = {
    "pss_bytes": Tolerance(0.1, 8 * MIB),
    "rss_bytes": Tolerance(0.1, 8 * MIB),
    "descriptors": Tolerance(0.1, 16),
    "tasks": Tolerance(0.1, 16),
}
assert set(TOLERANCES) == {field.name for field in fields(Sample)} - {"at_s"}
LATENCIES: Final[Mapping[str, Tolerance]] = {"p50_ms": Tolerance(0.25, 10), "p99_ms": Tolerance(0.5, 50)}
"""The latencies of acknowledgements: what else the machine does is in them, so they may vary more."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One quantity of one process, or of all of them together, early and late."""

    quantity: str
    before: float
    after: float

    @property
    def is_leak(self) -> bool:
        return self.after > {**TOLERANCES, **LATENCIES}[self.quantity].limit(self.before)


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Return each quantity of one process after the first tenth of the time and at the end. ValueError: too few."""
    return [_growth(name, [getattr(sample, name) for sample in samples]) for name in TOLERANCES]


def latency_growths(rows: Sequence[Mapping[str, float]]) -> list[Growth]:
    """Return each latency after the first tenth of the minutes and at the end. ValueError: too few."""
    return [_growth(name, [row[name] for row in rows if math.isfinite(row[name])]) for name in LATENCIES]


def _growth(name: str, values: Sequence[float]) -> Growth:
    if len(values) < SAMPLES_MIN:
        raise ValueError(f"{len(values)} samples of {name}: at least {SAMPLES_MIN} are needed")
    window = max(1, round(len(values) * WINDOW))
    return Growth(name, statistics.median(values[window : 2 * window]), statistics.median(values[-window:]))
