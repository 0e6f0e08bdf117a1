"""The limit of closed segments of one node with an open file and indexes in memory: a bounded, recently-used set.

A closed segment opens its file and loads its indexes when it is read, and parks again when newer ones push it out.
Active segments, pinned ones and those whose indexes are not in files yet are never parked; while there are more of
these than the limit, the limit is exceeded.
"""

from __future__ import annotations

from typing import Final, Protocol

SEGMENTS_MAX: Final = 256


class Parkable(Protocol):
    """A closed segment that can be parked."""

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
        self._segments[segment] = None
        while len(self._segments) > self._segments_max:
            victim = next((candidate for candidate in self._segments if candidate.can_park), None)
            if victim is None:
                return
            self.forget(victim)
            await victim.park()

    def forget(self, segment: Parkable) -> None:
        self._segments.pop(segment, None)
