"""Where the last batches of an active segment lie, so that readers at the log's end need no look into the file.

Bounded: at most `BATCHES_MAX` batches, 16 bytes each; the older half goes when it is full. `None` as an answer means
"older than what is known here": look into the index.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

BATCHES_MAX: Final = 1024


class RecentBatches:
    """Last offset and position of consecutive batches that end at `end_position`."""

    __slots__ = ("_last_offsets", "_positions", "_previous_offset", "end_position")

    def __init__(self, next_offset: int, end_position: int) -> None:
        """Begins empty: the first batch to come is at `next_offset` or above, at `end_position`."""
        self._last_offsets = array("q")
        self._positions = array("q")
        self._previous_offset = next_offset - 1
        self.end_position = end_position

    def append(self, last_offset: int, size_bytes: int) -> None:
        assert last_offset > (self._last_offsets[-1] if self._last_offsets else self._previous_offset)
        self._last_offsets.append(last_offset)
        self._positions.append(self.end_position)
        self.end_position += size_bytes
        if len(self._positions) > BATCHES_MAX:
            half = BATCHES_MAX // 2
            self._previous_offset = self._last_offsets[half - 1]
            del self._last_offsets[:half], self._positions[:half]

    def position_of(self, offset: int) -> int | None:
        """Where the first batch begins whose last offset is `offset` or above; the end if there is none."""
        if offset <= self._previous_offset:
            return None
        index = bisect_left(self._last_offsets, offset)
        return self._positions[index] if index < len(self._positions) else self.end_position

    def span(self, offset: int, end_offset: int) -> tuple[int, int] | None:
        """Begin and end of the batches from the one that holds `offset` to the last one below `end_offset`."""
        start, end = self.position_of(offset), self.position_of(end_offset)
        return None if start is None or end is None or start >= end else (start, end)

    def border_at_or_before(self, position: int) -> int | None:
        """The last border between two batches that is not behind `position`."""
        if position >= self.end_position:
            return self.end_position
        index = bisect_right(self._positions, position)
        return self._positions[index - 1] if index else None
