"""The usable segments of a ledger for one replica, kept up to date by what changed: which offsets the tier has for it.

A segment is *usable* if it is readable (COPY_FINISHED), lies whole on the replica's lineage (`lineage.py`), ends below
its log end and at or above its log start, and was not found missing or damaged in the store (`exclude`).

`advance` brings this up to date, in slices: a replica that has just got its role begins with all segments of the
ledger, later calls with what changed. Where each readable segment is:

| place       | holds the segments that              | they leave it when deleted, and                     |
|-------------|--------------------------------------|-----------------------------------------------------|
| the rows    | are usable                           | below the log start; by `exclude`                   |
| `_ahead`    | end at or above the log end          | once the log has grown over them                    |
| `_foreign`  | do not lie whole on the lineage      | once the log start has risen, if they do then       |
| `_excluded` | were found missing or damaged (ids)  | by `include`                                        |
| none        | end below the log start              |                                                     |

| what happened since the last call                                  | what is done                                 |
|--------------------------------------------------------------------|----------------------------------------------|
| events of the ledger, at most `CHANGES_KEPT`                       | each is applied: O(log n)                    |
| the log start rose                                                 | what is below goes; `_foreign` is checked    |
| the log end rose                                                   | `_ahead` is checked up to it                 |
| a new leader epoch begins above all that was checked               | nothing: verdicts below it stay              |
| any other change of the epochs, a lower log start, a log end below | everything is looked at again                |
| what was checked, another ledger, more events                      |                                              |

The rows are in the order of their start offsets. With each goes how far the rows up to it reach (`_reach`), so that
runs without a gap and sizes without overlaps are known at once; a change continues to the rows after it only as far as
that reach changes, which is to the end of an overlap. Pure.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, NamedTuple

from ...log.core import EpochEntry, LeaderEpochCache
from .ledger import RemoteLogLedger
from .lineage import is_within_lineage
from .packed import id_of, offset_key, offsets_of, size_of, unpack
from .segment import RemoteLogSegmentId, RemoteLogSegmentMetadata

_NOTHING: Final = -2
"""How far no row reaches: the first row always begins a run, also at offset 0."""


class Bounds(NamedTuple):
    """What of a replica's log decides whether a segment is usable."""

    epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int


class UsableSegments:
    """See the module's docstring. Offsets named `end` are exclusive."""

    def __init__(self) -> None:
        self._ledger: RemoteLogLedger | None = None
        self._version = 0
        self._entries: tuple[EpochEntry, ...] = ()
        self._log_start = 0
        self._log_end = 0
        self._cursor: bytes | None = b""
        self._ahead: list[bytes] = []
        self._foreign: set[bytes] = set()
        self._excluded: set[int] = set()
        self._clear_rows()

    @classmethod
    def of(cls, ledger: RemoteLogLedger, bounds: Bounds) -> UsableSegments:
        """Return the usable segments of `ledger`, looked at in one go."""
        usable = cls()
        while not usable.advance(ledger, bounds, len(ledger) + 1):
            pass
        return usable

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RemoteLogSegmentMetadata]:
        """The usable segments by their start offsets, unpacked one by one."""
        assert self._ledger is not None
        for row in self._rows:
            yield unpack(row, self._ledger.partition)

    @property
    def size_bytes(self) -> int:
        """The sum of their sizes; bytes that several of them hold count once."""
        return self._size_bytes

    @property
    def end_offset(self) -> int | None:
        """The end of the last offset that any of them holds; None without one."""
        return self._reach[-1] + 1 if self._rows else None

    def end_of_run(self, offset: int) -> int:
        """Return the end of the offsets without a gap from `offset` on; `offset` itself if they do not hold it."""
        following = bisect_right(self._runs, offset)
        if following == 0:
            return offset
        if following == len(self._runs):
            return max(offset, self._reach[-1] + 1)
        before = bisect_left(self._rows, offset_key(self._runs[following])) - 1
        return max(offset, self._reach[before] + 1)

    def holds(self, start_offset: int, end_offset: int) -> bool:
        """Return whether they hold all of [start_offset, end_offset)."""
        return self.end_of_run(start_offset) >= end_offset

    def with_sizes(self) -> Iterator[tuple[RemoteLogSegmentMetadata, int]]:
        """The segments by their start offsets, each with the part of its size that no earlier one holds."""
        assert self._ledger is not None
        before = _NOTHING
        for row, reach in zip(self._rows, self._reach, strict=True):
            yield unpack(row, self._ledger.partition), _share(row, before)
            before = reach

    def overlapping(self, start_offset: int, end_offset: int) -> list[RemoteLogSegmentMetadata]:
        """Return the segments with offsets in [start_offset, end_offset), by their start offsets."""
        assert self._ledger is not None
        found = []
        index = bisect_left(self._rows, offset_key(end_offset)) - 1
        while index >= 0 and self._reach[index] >= start_offset:
            if offsets_of(self._rows[index])[1] >= start_offset:
                found.append(unpack(self._rows[index], self._ledger.partition))
            index -= 1
        return found[::-1]

    def exclude(self, segment_id: RemoteLogSegmentId) -> None:
        """Count a segment as missing until `include`."""
        self._excluded.add(segment_id.id.int)
        row = None if self._ledger is None else self._ledger.finished_row(segment_id)
        if row is not None and self._is_reached(row):
            self._drop(row)

    def include(self, segment_id: RemoteLogSegmentId) -> None:
        """Take back an `exclude`."""
        if segment_id.id.int not in self._excluded:
            return
        self._excluded.discard(segment_id.id.int)
        row = None if self._ledger is None else self._ledger.finished_row(segment_id)
        if row is not None and self._is_reached(row):
            self._take(row)

    def advance(self, ledger: RemoteLogLedger, bounds: Bounds, count: int) -> bool:
        """Come closer to what `ledger` and `bounds` say now, looking at about `count` segments. Return False while
        there are more to look at: then what the rows say does not hold.
        """
        changes = ledger.changes_since(self._version) if ledger is self._ledger else None
        if changes is None or not self._may_keep(bounds):
            self._begin(ledger, bounds)
        else:
            self._adjust(bounds)
            for added, removed in changes:
                if removed is not None and self._is_reached(removed):
                    self._drop(removed)
                    if added is None:
                        self._excluded.discard(id_of(removed))
                if added is not None and self._is_reached(added):
                    self._take(added)
        self._version = ledger.version
        return self._look_on(ledger, count)

    def _begin(self, ledger: RemoteLogLedger, bounds: Bounds) -> None:
        self._clear_rows()
        self._ahead.clear()
        self._foreign.clear()
        self._ledger = ledger
        self._epochs, self._log_start, self._log_end = bounds
        self._entries = bounds.epochs.entries
        self._cursor = b""

    def _clear_rows(self) -> None:
        self._rows: list[bytes] = []
        self._reach = array("q")
        self._runs: list[int] = []
        self._size_bytes = 0

    def _may_keep(self, bounds: Bounds) -> bool:
        """Return whether what was found usable under the former bounds still is, but for what the log start passed."""
        if bounds.log_start_offset < self._log_start:
            return False
        if bounds.log_end_offset < self._log_end and (self._rows or self._foreign):
            # A log that was truncated may get other records at the same offsets, under the same epochs' entries.
            return False
        entries = bounds.epochs.entries
        if entries is self._entries or entries == self._entries:
            return True
        if not entries or not self._entries:
            return False
        kept = LeaderEpochCache(self._entries)
        kept.truncate_from_start(entries[0].start_offset)
        former = kept.entries
        added = entries[len(former) :]
        return entries[: len(former)] == former and all(entry.start_offset >= self._log_end for entry in added)

    def _adjust(self, bounds: Bounds) -> None:
        """Take the new bounds, which `_may_keep` has passed."""
        has_risen = bounds.log_start_offset > self._log_start
        self._epochs, self._log_start, self._log_end = bounds
        self._entries = bounds.epochs.entries
        if has_risen:
            for row in self._rows_below_log_start():
                self._remove(row)
            foreign, self._foreign = self._foreign, set()
            for row in foreign:
                # What differs from the lineage may be below the log start now, where epochs are not compared.
                self._take(row)

    def _rows_below_log_start(self) -> list[bytes]:
        candidates = self._rows[: bisect_left(self._rows, offset_key(self._log_start))]
        return [row for row in candidates if offsets_of(row)[1] < self._log_start]

    def _look_on(self, ledger: RemoteLogLedger, count: int) -> bool:
        grown_over = bisect_left(self._ahead, self._log_end, key=_last_offset)
        taken, self._ahead = self._ahead[: min(count, grown_over)], self._ahead[min(count, grown_over) :]
        for row in taken:
            self._take(row)
        if self._cursor is not None:
            rows = ledger.finished_rows(self._cursor, count)
            for row in rows:
                self._take(row)
            self._cursor = rows[-1] if len(rows) == count else None
        return self._cursor is None and grown_over <= count

    def _is_reached(self, row: bytes) -> bool:
        """Return whether the first pass over the ledger is beyond `row`; what it has not reached it will meet."""
        return self._cursor is None or row <= self._cursor

    def _take(self, row: bytes) -> None:
        """Put a readable segment into its place."""
        assert self._ledger is not None
        last_offset = offsets_of(row)[1]
        if last_offset < self._log_start or id_of(row) in self._excluded:
            return
        if last_offset >= self._log_end:
            insort(self._ahead, row, key=_last_offset)
        elif is_within_lineage(unpack(row, self._ledger.partition), self._epochs, self._log_end):
            self._insert(row)
        else:
            self._foreign.add(row)

    def _drop(self, row: bytes) -> None:
        """Take a segment out of whatever place it is in."""
        index = bisect_left(self._rows, row)
        if index < len(self._rows) and self._rows[index] == row:
            self._remove(row)
        elif row in self._foreign:
            self._foreign.discard(row)
        elif row in self._ahead[bisect_left(self._ahead, offsets_of(row)[1], key=_last_offset) :]:
            self._ahead.remove(row)

    def _insert(self, row: bytes) -> None:
        start, last = offsets_of(row)
        index = bisect_left(self._rows, row)
        before = self._reach[index - 1] if index else _NOTHING
        self._rows.insert(index, row)
        self._reach.insert(index, max(before, last))
        self._size_bytes += _share(row, before)
        if start > before + 1:
            insort(self._runs, start)
        self._settle(index + 1, before, max(before, last))

    def _remove(self, row: bytes) -> None:
        start, _ = offsets_of(row)
        index = bisect_left(self._rows, row)
        before = self._reach[index - 1] if index else _NOTHING
        reached = self._reach[index]
        del self._rows[index], self._reach[index]
        self._size_bytes -= _share(row, before)
        if start > before + 1:
            del self._runs[bisect_left(self._runs, start)]
        self._settle(index, reached, before)

    def _settle(self, index: int, was_before: int, before: int) -> None:
        """Correct the rows from `index` on: those before them reach to `before` now instead of `was_before`."""
        while index < len(self._rows) and was_before != before:
            row = self._rows[index]
            start, last = offsets_of(row)
            self._size_bytes += _share(row, before) - _share(row, was_before)
            began_run, begins_run = start > was_before + 1, start > before + 1
            if begins_run and not began_run:
                insort(self._runs, start)
            elif began_run and not begins_run:
                del self._runs[bisect_left(self._runs, start)]
            was_before, before = self._reach[index], max(before, last)
            self._reach[index] = before
            index += 1


def _last_offset(row: bytes) -> int:
    return offsets_of(row)[1]


def _share(row: bytes, before: int) -> int:
    """Return the size of a segment, in proportion to its offsets above `before`."""
    start, last = offsets_of(row)
    if start > before:
        return size_of(row)
    return size_of(row) * max(0, last - before) // (last + 1 - start)
