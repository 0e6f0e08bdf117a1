"""How many closed segments of one node keep their file open and their indexes in memory: a bounded, recently-used set.

A closed segment opens its file and loads its indexes when it is read, and parks again when newer ones push it out.
Active segments, pinned ones and those whose indexes are not in files yet are never parked; while there are more of
these than the limit, the limit is exceeded.
"""

from __future__ import annotations

from typing import Final, Protocol

SEGMENTS_MAX: Final = 256


class Parkable(Protocol):
    """What a closed segment offers here."""

    @property
    def can_park(self) -> bool: ...

    async def park(self) -> None: ...


class OpenSegments:
    """One for all logs of a node; `opened` is called at each use."""

    def __init__(self, segments_max: int = SEGMENTS_MAX) -> None:
        self._segments_max = segments_max
        self._segments: dict[Parkable, None] = {}

    def __len__(self) -> int:
        return len(self._segments)

    async def opened(self, segment: Parkable) -> None:
        """Mark as the most recently used one, and park what is too much."""
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
