"""Sets of offsets as runs without a gap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from .segment import RemoteLogSegmentMetadata


class OffsetRuns:
    """Runs never touch each other. Ends are exclusive."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    @classmethod
    def of(cls, segments: Iterable[RemoteLogSegmentMetadata]) -> OffsetRuns:
        """What `segments` hold; quick where they come by start offset."""
        runs = cls()
        for segment in segments:
            runs.add(segment.start_offset, segment.end_offset + 1)
        return runs

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over the runs, each as its first offset and its end."""
        return zip(self._starts, self._ends, strict=True)

    def add(self, start_offset: int, end_offset: int) -> None:
        """Add [start_offset, end_offset)."""
        assert start_offset < end_offset, (start_offset, end_offset)
        starts, ends = self._starts, self._ends
        if not starts or start_offset > ends[-1]:
            starts.append(start_offset)
            ends.append(end_offset)
            return
        if start_offset >= starts[-1]:
            ends[-1] = max(ends[-1], end_offset)
            return
        first = bisect_left(ends, start_offset)
        behind = bisect_right(starts, end_offset)
        if first < behind:
            start_offset = min(start_offset, starts[first])
            end_offset = max(end_offset, ends[behind - 1])
        starts[first:behind] = [start_offset]
        ends[first:behind] = [end_offset]

    def end_of_run(self, offset: int) -> int:
        """End of the run that holds `offset`; `offset` itself if none does."""
        index = bisect_right(self._starts, offset)
        return max(offset, self._ends[index - 1]) if index else offset

    def holds(self, start_offset: int, end_offset: int) -> bool:
        """Whether all of [start_offset, end_offset) is held."""
        return self.end_of_run(start_offset) >= end_offset
