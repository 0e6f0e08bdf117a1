"""The limit of closed segments of one node with an open file and indexes in memory: a bounded, recently-used set.

A closed segment opens its file and loads its indexes when it is read, and parks again when newer ones push it out.
Active segments are not in the set. Pinned ones and those whose indexes are not in files yet cannot be parked: they go
behind all others, and the limit is exceeded while there are too many of them. A use looks at `LOOKS_MAX` segments,
however many there are.
"""

from __future__ import annotations

from typing import Final, Protocol

SEGMENTS_MAX: Final = 256
LOOKS_MAX: Final = 4
"""A use adds one: with more looks than that the set shrinks to its limit again."""


class Parkable(Protocol):
    """A segment that can be parked."""

    @property
    def is_active(self) -> bool: ...

    @property
    def can_park(self) -> bool: ...

    async def park(self) -> None: ...


class OpenSegments:
    """The open closed segments of all logs of a node; a segment calls `opened` at each use."""

    def __init__(self, segments_max: int = SEGMENTS_MAX) -> None:
        self._segments_max = segments_max
        self._segments: dict[Parkable, None] = {}

    def __len__(self) -> int:
        return len(self._segments)

    async def opened(self, segment: Parkable) -> None:
        """Mark a segment as the most recently used one, and park those over the limit."""
        self.forget(segment)
        if segment.is_active:
            return
        self._segments[segment] = None
        for _ in range(LOOKS_MAX):
            if len(self._segments) <= self._segments_max:
                return
            oldest = next(iter(self._segments))
            self.forget(oldest)
            if oldest.can_park:
                await oldest.park()
            else:
                self._segments[oldest] = None

    def forget(self, segment: Parkable) -> None:
        self._segments.pop(segment, None)
