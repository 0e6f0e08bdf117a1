"""Decide whether a process grew: what it holds at the end, beside what it held after a tenth of the time.

| quantity | may grow by the larger of |
|---|---|
| memory, private and shared in proportion (PSS) | 10 %, 8 MiB |
| resident memory (RSS) | 10 %, 8 MiB |
| file descriptors | 10 %, 16 |
| tasks of the event loop | 10 %, 16 |

Each side is the median of a window, a tenth of the time: one sample may fall into a compaction or a restart. The first
tenth is warm-up: topics are made, caches fill.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Growth:
    """One quantity of one process, early and late."""

    quantity: str
    before: float
    after: float

    @property
    def is_leak(self) -> bool:
        return self.after > TOLERANCES[self.quantity].limit(self.before)


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Return each quantity of one process after the first tenth of the time and at the end. ValueError: too few."""
    if len(samples) < SAMPLES_MIN:
        raise ValueError(f"{len(samples)} samples of a process: at least {SAMPLES_MIN} are needed")
    window = max(1, round(len(samples) * WINDOW))
    early, late = samples[window : 2 * window], samples[-window:]
    return [Growth(name, _median(early, name), _median(late, name)) for name in TOLERANCES]


def _median(samples: Sequence[Sample], name: str) -> float:
    values: list[int] = [getattr(sample, name) for sample in samples]
    return statistics.median(values)
