"""The readable segments of one leader epoch, and which of them holds an offset.

A segment enters with the range of offsets that it holds *of this epoch*. Uploads overlap: a new leader copies
[0, 200] after the old one copied [0, 100], a retry under a new id repeats a range. So there are two groups:

* referenced: none of them lies within another, so that both their first and their last offsets rise; the one that
  begins last at or before an offset is then the one that reaches farthest, and covers the offset if any does;
* shadowed: lies within a referenced one (of equal ranges, the later one is referenced). It adds nothing to a look-up
  until the segment that shadows it is deleted; then it is considered again.

Kafka drops shadowed segments from its map for good (`unreferencedSegmentIds`), and loses offsets that only they hold
once the larger segment is deleted, or when the smaller copy finishes after the larger one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

Segment = TypeVar("Segment")


class EpochSegments(Generic[Segment]):
    """The segments of one epoch, in whatever form the ledger keeps them. Ranges are given as first and last offset,
    both inclusive.
    """

    __slots__ = ("_firsts", "_lasts", "_segments", "_shadowed")

    def __init__(self) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        self._segments: list[Segment] = []
        self._shadowed: list[tuple[int, int, Segment]] = []

    def __bool__(self) -> bool:
        return bool(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """Iterate over the referenced segments by their first offsets, then over the shadowed ones."""
        yield from self._segments
        for _, _, segment in self._shadowed:
            yield segment

    def find(self, offset: int) -> Segment | None:
        """Return the segment that covers `offset` and reaches farthest beyond it."""
        index = bisect_right(self._firsts, offset) - 1
        if index < 0 or self._lasts[index] < offset:
            return None
        return self._segments[index]

    def add(self, first: int, last: int, segment: Segment) -> None:
        assert first <= last, (first, last, segment)
        before = bisect_left(self._firsts, first) - 1
        if before >= 0 and self._lasts[before] >= last:
            self._shadowed.append((first, last, segment))
            return
        start = end = before + 1
        while end < len(self._lasts) and self._lasts[end] <= last:
            self._shadowed.append((self._firsts[end], self._lasts[end], self._segments[end]))
            end += 1
        if start == end < len(self._firsts) and self._firsts[start] == first:
            self._shadowed.append((first, last, segment))
            return
        self._firsts[start:end] = array("q", (first,))
        self._lasts[start:end] = array("q", (last,))
        self._segments[start:end] = [segment]

    def remove(self, first: int, last: int, segment: Segment) -> None:
        """Take back an `add` with the same arguments."""
        index = bisect_left(self._firsts, first)
        if index == len(self._firsts) or self._segments[index] != segment:
            self._shadowed = [entry for entry in self._shadowed if entry[2] != segment]
            return
        del self._firsts[index], self._lasts[index], self._segments[index]
        freed = [entry for entry in self._shadowed if first <= entry[0] and entry[1] <= last]
        if freed:
            self._shadowed = [entry for entry in self._shadowed if not (first <= entry[0] and entry[1] <= last)]
            for entry in freed:
                self.add(*entry)
