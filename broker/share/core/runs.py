"""The states of the offsets that a share group has under way, as runs of neighbours that are alike.

| state | what it means | what is next |
|---|---|---|
| AVAILABLE | may be delivered | ACQUIRED; ARCHIVED if it cannot be delivered |
| ACQUIRED | one member has it, until its lock ends | the three others |
| ACKNOWLEDGED | processed | - |
| ARCHIVED | rejected, delivered too often, or nothing to deliver | - |

A run may have a transition: what it becomes once that is written. Until then it is what it was, and no other transition
begins on it.

What is asked at each fetch and acknowledgement (`Sums`) is kept while runs change, not summed up when it is asked.

Invariants: runs cover every offset from the start to the end, without overlap, in their order; neighbours that are
alike are one run. So there are at most twice as many runs as offsets that are not finished, and two.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

NOBODY: Final = ""
NO_DEADLINE: Final = -1
DEADLINES_KEPT: Final = 64
"""Deadlines of locks that have ended are dropped once there are more than this, besides as many as are needed."""


class RecordState(IntEnum):
    """The states by their numbers in `WriteShareGroupState`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


FINISHED: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class Change(NamedTuple):
    """What a run becomes once the write of that number has succeeded."""

    number: int
    state: RecordState
    delivery_count: int


class Lot(NamedTuple):
    """All that is known of an offset. `member` and `deadline_ms` are those of the lock."""

    state: RecordState
    delivery_count: int = 0
    member: str = NOBODY
    deadline_ms: int = NO_DEADLINE
    change: Change | None = None

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED

    @property
    def will_be_finished(self) -> bool:
        """Whether it is finished, or is once its transition is written."""
        return self.state in FINISHED or (self.change is not None and self.change.state in FINISHED)

    @property
    def is_locked(self) -> bool:
        """Whether its lock may end: nothing is decided of it."""
        return self.state is RecordState.ACQUIRED and self.change is None

    def is_held_by(self, member: str) -> bool:
        """Return whether the member may decide what becomes of it now."""
        return self.state is RecordState.ACQUIRED and self.member == member and self.change is None


class Run(NamedTuple):
    """Offsets `first` to `last`, which are alike."""

    first: int
    last: int
    lot: Lot

    @property
    def size(self) -> int:
        """The number of its offsets."""
        return self.last - self.first + 1


class Sums:
    """What runs add up to."""

    def __init__(self) -> None:
        self.unfinished = 0
        """The offsets that are not finished."""
        self.unfinished_runs = 0
        self.completed = 0
        """The offsets that are finished, or will be."""
        self.available_runs = 0
        self.busy_runs = 0
        """The runs that are acquired, or have a transition."""
        self._deadlines: Counter[int] = Counter()
        """The number of locked runs that have each deadline."""
        self._heap: list[int] = []
        """The deadlines, and some that are none any longer."""

    def replace(self, old: Iterable[Run], new: Iterable[Run]) -> None:
        """Some runs have taken the place of others."""
        for run in new:  # first, so that a deadline that stays is not pushed again
            self._add(run, 1)
        for run in old:
            self._add(run, -1)
        if len(self._heap) > 2 * len(self._deadlines) + DEADLINES_KEPT:
            self._heap = sorted(self._deadlines)

    def _add(self, run: Run, sign: int) -> None:
        lot = run.lot
        if not lot.is_finished:
            self.unfinished += sign * run.size
            self.unfinished_runs += sign
        if lot.will_be_finished:
            self.completed += sign * run.size
        if lot.is_available:
            self.available_runs += sign
        if lot.state is RecordState.ACQUIRED or lot.change is not None:
            self.busy_runs += sign
        if lot.is_locked:
            self._count_deadline(lot.deadline_ms, sign)

    def _count_deadline(self, deadline_ms: int, sign: int) -> None:
        count = self._deadlines[deadline_ms] + sign
        if not count:
            del self._deadlines[deadline_ms]
            return
        if count == sign == 1:
            heapq.heappush(self._heap, deadline_ms)
        self._deadlines[deadline_ms] = count

    def next_deadline_ms(self) -> int | None:
        """Return when the next lock ends; None without one."""
        while self._heap and self._heap[0] not in self._deadlines:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None


class Runs:
    """The runs from `start` to below `end`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.sums = Sums()
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def within(self, first: int, last: int) -> list[Run]:
        """Return the runs between two offsets, cut at them."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if first > last:
            return []
        found = self._runs[self._index(first) : self._index(last) + 1]
        return [Run(max(run.first, first), min(run.last, last), run.lot) for run in found]

    def append(self, last: int, lot: Lot) -> None:
        """Let the end move to the offset after `last`; what is new is `lot`."""
        if last >= self.end:
            self._put(len(self._runs), len(self._runs), [Run(self.end, last, lot)])
            self.end = last + 1

    def replace(self, first: int, last: int, changed: Callable[[Lot], Lot]) -> None:
        """Change what is between two offsets."""
        self.update([(first, last, changed)])

    def update(self, changes: Sequence[tuple[int, int, Callable[[Lot], Lot]]]) -> None:
        """Change what is in ranges of offsets, in one pass. They are in their order, and do not overlap."""
        end = self.end - 1
        clipped = [
            (max(first, self.start), min(last, end), changed)
            for first, last, changed in changes
            if max(first, self.start) <= min(last, end)
        ]
        if not clipped:
            return
        low, high = self._index(clipped[0][0]), self._index(clipped[-1][1])
        runs: list[Run] = []
        next_change = 0
        for run in self._runs[low : high + 1]:
            offset = run.first
            while next_change < len(clipped) and clipped[next_change][0] <= run.last:
                first, last, changed = clipped[next_change]
                if first > offset:
                    runs.append(Run(offset, first - 1, run.lot))
                runs.append(Run(max(offset, first), min(run.last, last), changed(run.lot)))
                offset = runs[-1].last + 1
                if last > run.last:
                    break
                next_change += 1
            if offset <= run.last:
                runs.append(Run(offset, run.last, run.lot))
        self._put(low, high + 1, runs)

    def drop_below(self, offset: int) -> None:
        """Let the start move to an offset. It never moves back."""
        if offset <= self.start:
            return
        if offset >= self.end:
            self._set(0, len(self._runs), [])
            self.end = offset
        else:
            index = self._index(offset)
            run = self._runs[index]
            self._set(0, index + 1, [Run(offset, run.last, run.lot)])
        self.start = offset

    def _index(self, offset: int) -> int:
        """Return the index of the run that has an offset."""
        return bisect_right(self._runs, offset, key=_first) - 1

    def _put(self, low: int, high: int, runs: list[Run]) -> None:
        """Put runs in the place of those from index `low` to below `high`, joined with their like neighbours."""
        joined = self._runs[low - 1 : low] if low else []
        for run in (*runs, *self._runs[high : high + 1]):
            if joined and joined[-1].lot == run.lot:
                joined[-1] = Run(joined[-1].first, run.last, run.lot)
            else:
                joined.append(run)
        self._set(max(low - 1, 0), high + 1, joined)

    def _set(self, low: int, high: int, runs: list[Run]) -> None:
        self.sums.replace(self._runs[low:high], runs)
        self._runs[low:high] = runs


def _first(run: Run) -> int:
    return run.first
