"""A machine's time of day on virtual time: wrong by what the seed or a scenario chose, and able to jump.

The loop's own clock is every machine's monotonic clock: it never jumps.
"""

from __future__ import annotations

from typing import Final

from .loop import SimLoop

EPOCH_MS: Final = 1_750_000_000_000
"""The time of day at virtual time 0, in ms."""


class WallClock:
    """`skew_ms` is what it is ahead of the truth; it gains `drift_ppm` microseconds in a second."""

    def __init__(self, loop: SimLoop, *, skew_ms: int = 0, drift_ppm: float = 0.0) -> None:
        self.skew_ms = skew_ms
        self.drift_ppm = drift_ppm
        self._loop = loop

    def now_ms(self) -> int:
        now_s = self._loop.now_s
        return EPOCH_MS + self.skew_ms + int(now_s * 1000 + now_s * self.drift_ppm / 1000)

    def jump(self, by_ms: int) -> None:
        """As when an operator, or NTP, sets it."""
        self.skew_ms += by_ms
