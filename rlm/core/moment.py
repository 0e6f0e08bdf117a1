"""A wall-clock time that remembers until when, and since when, a decision would be the same. Pure.

A decision asks about time only by `is_after`. Each answer bounds the times at which it would be the same; a decision
that was given the same answers is the same. So it holds at all times in [since_ms, until_ms), whatever it asked.
"""

from __future__ import annotations

from math import inf


class Moment:
    """The time `now_ms` of a decision, and the bounds of the times at which it would be the same. Times in ms since the
    epoch; -inf and inf are no bound.
    """

    __slots__ = ("now_ms", "since_ms", "until_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.since_ms: float = -inf
        """The first time at which the decision is known to be the same."""
        self.until_ms: float = inf
        """The first time at which the decision may be another one."""

    def is_after(self, timestamp_ms: int) -> bool:
        """Return whether it is later than `timestamp_ms`."""
        if self.now_ms > timestamp_ms:
            self.since_ms = max(self.since_ms, timestamp_ms + 1)
            return True
        self.until_ms = min(self.until_ms, timestamp_ms + 1)
        return False
