"""A rate over sampled windows, and the throttle time that follows from it: Kafka's Rate, SampledStat and QuotaUtils.

A sample covers one window of `window_ms`; `samples` of them count, and one more that overlaps the oldest. The rate is
the sum of the samples over the time since the oldest began, but over `samples - 1` whole windows at least: the first
bytes of a client are no burst. A sample in which nothing came for all these windows is forgotten.

Who is above its bound by a factor of 1 + x waits x times the measured time: after that, had nothing come, the rate
would be at the bound.
"""

from __future__ import annotations

from math import floor
from typing import Final

from ....light_dataclass import dataclass

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The longest throttle time that a response can report."""


@dataclass(slots=True)
class Sample:
    """What was recorded in one window."""

    start_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        """Begin again."""
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """A rate a second. Calls come in the order of their times."""

    __slots__ = ("_current", "_kept", "_samples", "_window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._kept: list[Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add to the current window. A negative value takes back what was recorded."""
        if not self._kept:
            self._kept.append(Sample(now_ms, now_ms))
        sample = self._kept[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> Sample:
        self._current = (self._current + 1) % (self._samples + 1)
        if self._current == len(self._kept):
            self._kept.append(Sample(now_ms, now_ms))
        else:
            self._kept[self._current].reset(now_ms)
        return self._kept[self._current]

    def measure(self, now_ms: int) -> float:
        """Return the rate."""
        elapsed_ms = self.measured_ms(now_ms)
        return sum(sample.value for sample in self._kept) * 1000 / elapsed_ms if elapsed_ms else 0.0

    def measured_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is measured."""
        for sample in self._kept:
            if now_ms - sample.last_ms >= self._samples * self._window_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min((sample.start_ms for sample in self._kept), default=now_ms)
        missing = self._samples - 1 - elapsed_ms // self._window_ms
        return elapsed_ms + max(0, missing) * self._window_ms


def throttle_ms(observed: float, bound: float, measured_ms: int) -> int:
    """Return for how long a client has to wait whose rate is `observed`; 0 up to its `bound`."""
    if observed <= bound:
        return 0
    return floor(min(THROTTLE_MS_MAX, (observed - bound) / bound * measured_ms + 0.5))  # infinite for a tiny bound
