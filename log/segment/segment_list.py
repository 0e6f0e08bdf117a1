"""The segments of one log in the order of their base offsets; the last one is the active one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import overload

from .segment import LogSegment

_base_of = attrgetter("base_offset")


class LogSegments:
    """The segments of one log: never empty once the log is open; base offsets increase strictly."""

    __slots__ = ("_segments", "active", "first_base_offset", "version")

    active: LogSegment
    """The last segment; unset while there is none. A plain attribute, as every append reads it."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = list(segments)
        self.first_base_offset = -1
        """The base offset of the first segment; -1 while there is none."""
        self.version = 0
        """How many changes the list has seen. While it stays, a closed segment changes only as the log end rises."""
        self._note_change()
        assert all(a.base_offset < b.base_offset for a, b in pairwise(self._segments)), self._segments

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, index: int) -> LogSegment: ...

    @overload
    def __getitem__(self, index: slice) -> list[LogSegment]: ...

    def __getitem__(self, index: int | slice) -> LogSegment | list[LogSegment]:
        return self._segments[index]

    def __contains__(self, segment: object) -> bool:
        return isinstance(segment, LogSegment) and self.floor(segment.base_offset) is segment

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def as_tuple(self) -> tuple[LogSegment, ...]:
        return tuple(self._segments)

    def floor(self, offset: int) -> LogSegment | None:
        """The segment with the largest base offset at or below `offset`."""
        index = bisect_right(self._segments, offset, key=_base_of)
        return self._segments[index - 1] if index else None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """Return the segment that covers `offset`, or the first one above it, and all segments after it."""
        index = bisect_right(self._segments, offset, key=_base_of)
        return self._segments[max(index - 1, 0) :]

    def after(self, segment: LogSegment) -> LogSegment | None:
        index = bisect_right(self._segments, segment.base_offset, key=_base_of)
        return self._segments[index] if index < len(self._segments) else None

    def replace_all(self, segment: LogSegment) -> list[LogSegment]:
        """Replace all segments by `segment`; return the old ones, newest first."""
        removed, self._segments = self._segments[::-1], [segment]
        self._note_change()
        return removed

    def replace(self, old: Sequence[LogSegment], segment: LogSegment) -> None:
        """Put `segment` in the place of neighbours, whose remaining records it has."""
        index = bisect_right(self._segments, segment.base_offset, key=_base_of) - 1
        assert self._segments[index : index + len(old)] == list(old), (self._segments, old)
        self._segments[index : index + len(old)] = [segment]
        self._note_change()

    def prepend(self, segment: LogSegment) -> None:
        assert segment.next_offset == self.first_base_offset, (segment, self._segments[0])
        self._segments.insert(0, segment)
        self._note_change()

    def append(self, segment: LogSegment) -> None:
        assert not self._segments or segment.base_offset > self.active.base_offset, (self.active, segment)
        self._segments.append(segment)
        self._note_change()

    def remove_first(self, count: int) -> list[LogSegment]:
        """Remove the oldest `count` segments; return them oldest first."""
        assert 0 <= count <= len(self._segments), (count, len(self._segments))
        removed, self._segments[:count] = self._segments[:count], []
        self._note_change()
        return removed

    def remove_from(self, offset: int) -> list[LogSegment]:
        """Remove the segments whose base offset is `offset` or above; return them newest first."""
        keep = bisect_right(self._segments, offset - 1, key=_base_of)
        removed = self._segments[keep:]
        del self._segments[keep:]
        self._note_change()
        return removed[::-1]

    def _note_change(self) -> None:
        self.version += 1
        if self._segments:
            self.first_base_offset, self.active = self._segments[0].base_offset, self._segments[-1]
        elif self.first_base_offset >= 0:
            self.first_base_offset = -1
            del self.active
