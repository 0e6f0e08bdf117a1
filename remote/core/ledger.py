"""The ledger of one partition's remote segments: which exist, in which state, and which one holds an offset.

`apply` is the one place where state changes, live and on replay alike. Rules:

* A transition that is not in the tables below raises IllegalTransitionError and changes nothing.
* A copy is one id: a retry has a new one. COPY_SEGMENT_STARTED without COPY_SEGMENT_FINISHED is an orphan.
* A segment leaves the ledger with DELETE_SEGMENT_FINISHED.
* `version` counts the events that changed something. An event that arrives twice (a retried write) is idempotent:

| repeated event                                      | effect                                               |
|-----------------------------------------------------|------------------------------------------------------|
| identical to what is known                          | none                                                 |
| update to the present state, with other values      | the new values are taken (a new leader deletes again)|
| DELETE_SEGMENT_FINISHED of an unknown segment       | none: it is gone already                             |
| COPY_SEGMENT_STARTED of a known id, other content   | refused                                              |
| a state that the segment has left                   | refused (a late duplicate; a reader of events skips) |

Which look-up sees which state:

| look-up        | COPY_STARTED | COPY_FINISHED | DELETE_STARTED            |
|----------------|--------------|---------------|---------------------------|
| find, finished | no           | yes           | no                        |
| get, segments  | yes          | yes           | yes                       |
| deleted_to     | no           | no            | yes, also once it is gone |

What it costs (n segments; lists are moved by one memmove, which is not counted):

| call                                          | cost                                                    |
|-----------------------------------------------|---------------------------------------------------------|
| apply, check, get, find, newest_epoch         | O(log n), whatever else is in the ledger                |
| changes_since                                 | O(1), and the changes that are returned                 |
| finished_before, finished_rows, first_...     | O(log n), and what the caller takes of it               |
| rows_from, finished_from                      | the same, and a sort of what is nearly sorted           |
| finished, segments, segments(COPY_FINISHED)   | O(n), and an object for each: for tools, not per event  |

A readable segment is kept packed (`packed.py`), about 270 bytes with all its places; the few others as objects.

Knows no lineage: a segment of a lost leader is here like any other (`lineage.py` separates them). Sources: KIP-405,
Kafka's `RemoteLogSegmentState`, `RemoteLogMetadataCache`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from ...log.core import EpochEntry
from ...protocol import RetriableError, TopicIdPartition
from .epoch_index import EpochSegments
from .offset_runs import OffsetRuns
from .packed import end_key, last_epoch_of, offset_key, offsets_of, pack, unpack
from .segment import (
    RemoteLogEvent,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)

INT64_MAX: Final = 2**63 - 1
CHANGES_KEPT: Final = 1024
"""How many changes a follower of the ledger may be late before it has to look at all segments again."""
NO_EPOCH: Final = -1
_COPY_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_COPY_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
_MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
_PARTITION_STARTED = RemotePartitionDeleteState.DELETE_PARTITION_STARTED
_PARTITION_FINISHED = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

SEGMENT_TRANSITIONS: Final[Mapping[RemoteLogSegmentState | None, tuple[RemoteLogSegmentState, ...]]] = {
    None: (_COPY_STARTED,),
    _COPY_STARTED: (_COPY_FINISHED, _DELETE_STARTED),
    _COPY_FINISHED: (_DELETE_STARTED,),
    _DELETE_STARTED: (_DELETE_FINISHED,),
    _DELETE_FINISHED: (),
}
PARTITION_TRANSITIONS: Final[Mapping[RemotePartitionDeleteState | None, tuple[RemotePartitionDeleteState, ...]]] = {
    None: (_MARKED,),
    _MARKED: (_PARTITION_STARTED,),
    _PARTITION_STARTED: (_PARTITION_FINISHED,),
    _PARTITION_FINISHED: (),
}


class IllegalTransitionError(RetriableError):
    """An event that the state table refuses. `current` is None where nothing is known yet."""

    def __init__(
        self, what: str, current: IntEnum | None, target: IntEnum, legal: tuple[IntEnum, ...], why: str = ""
    ) -> None:
        after = "an unknown segment or partition" if current is None else current.name
        allowed = ", ".join(state.name for state in legal) or "nothing: this state is final"
        super().__init__(f"{what}: {target.name} cannot follow {after}{why}; legal: {allowed}")
        self.current = current
        self.target = target


class LedgerChange(NamedTuple):
    """What one event did to the readable segments: the packed one that became readable, or no longer is."""

    added: bytes | None
    removed: bytes | None


_OTHER_CHANGE: Final = LedgerChange(None, None)


class LedgerState(NamedTuple):
    """All of a ledger but its readable segments. `unreadable` are the others in the order in which they got into their
    states; `deleted` has (epoch, first offset, end) of each run that was readable once.
    """

    version: int
    delete_state: RemotePartitionDeleteState | None
    unreadable: tuple[RemoteLogSegmentMetadata, ...]
    deleted: tuple[tuple[int, int, int], ...]


class RemoteLogLedger:
    """The remote segments of one partition, in memory. Offsets of segments are inclusive at both ends."""

    def __init__(self, partition: TopicIdPartition, *, version: int = 0) -> None:
        """Begin empty. `version` continues that of a ledger whose place this one takes."""
        self.partition = partition
        self._version = version
        self._unreadable: dict[RemoteLogSegmentState, dict[UUID, RemoteLogSegmentMetadata]] = {
            _COPY_STARTED: {},
            _DELETE_STARTED: {},
        }
        self._finished: dict[int, bytes] = {}
        self._by_start: list[bytes] = []
        self._by_end: list[bytes] = []
        self._by_epoch: dict[int, EpochSegments[bytes]] = {}
        self._deleted: dict[int, OffsetRuns] = {}
        self._last_epochs: Counter[int] = Counter()
        self._newest_epoch = NO_EPOCH
        self._changes: deque[LedgerChange] = deque(maxlen=CHANGES_KEPT)
        self._finished_size_bytes = 0
        self._delete_state: RemotePartitionDeleteState | None = None

    @classmethod
    def restore(cls, partition: TopicIdPartition, state: LedgerState) -> RemoteLogLedger:
        """Return the ledger that `state` was taken of, but for its readable segments: `restore_finished` those."""
        ledger = cls(partition, version=state.version)
        ledger._delete_state = state.delete_state
        for metadata in state.unreadable:
            ledger._unreadable[metadata.state][metadata.segment_id.id] = metadata
            ledger._count_epoch(metadata, 1)
        for epoch, first, end in state.deleted:
            ledger._deleted.setdefault(epoch, OffsetRuns()).add(first, end)
        return ledger

    def restore_finished(self, rows: Iterable[bytes]) -> None:
        """Add readable segments, packed, of the ledger that this one restores."""
        for row in rows:
            metadata = unpack(row, self.partition)
            self._count_epoch(metadata, 1)
            self._index_finished(metadata)

    def state(self) -> LedgerState:
        """Return all of this ledger but its readable segments."""
        unreadable = tuple(metadata for segments in self._unreadable.values() for metadata in segments.values())
        deleted = tuple((epoch, *run) for epoch, runs in self._deleted.items() for run in runs)
        return LedgerState(self._version, self._delete_state, unreadable, deleted)

    def continue_version(self, version: int) -> None:
        """Count on from `version`, that of a ledger whose place this one takes, if it is higher."""
        self._version = max(self._version, version)
        self._changes.clear()

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(segments)} {state.name}" for state, segments in self._unreadable.items())
        return (
            f"RemoteLogLedger({self.partition} at version {self._version}:"
            f" {len(self._finished)} {_COPY_FINISHED.name}, {counts})"
        )

    def __len__(self) -> int:
        """Return the number of segments in any state."""
        return len(self._finished) + sum(len(segments) for segments in self._unreadable.values())

    @property
    def version(self) -> int:
        """How many events have changed this ledger."""
        return self._version

    @property
    def finished_size_bytes(self) -> int:
        """Sum of the `.log` sizes of the readable segments, those that overlap counted each."""
        return self._finished_size_bytes

    @property
    def finished_count(self) -> int:
        """The number of readable segments."""
        return len(self._finished)

    @property
    def newest_epoch(self) -> int:
        """The latest leader epoch that any segment here, in any state, ends in; -1 for none."""
        return self._newest_epoch

    @property
    def delete_state(self) -> RemotePartitionDeleteState | None:
        """How far the deletion of the whole partition is; None if it was not requested."""
        return self._delete_state

    def get(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        """Return the segment with this id, in whatever state, or None."""
        if (row := self._finished.get(segment_id.id.int)) is not None:
            return unpack(row, self.partition)
        for segments in self._unreadable.values():
            if (metadata := segments.get(segment_id.id)) is not None:
                return metadata
        return None

    def finished_row(self, segment_id: RemoteLogSegmentId) -> bytes | None:
        """Return the packed segment if it is readable, else None."""
        return self._finished.get(segment_id.id.int)

    def segments(self, state: RemoteLogSegmentState | None = None) -> list[RemoteLogSegmentMetadata]:
        """Return the segments in `state`, or all, in the order of their start offsets."""
        if state is _COPY_FINISHED:
            return self.finished()
        states = self._unreadable.values() if state is None else [self._unreadable.get(state, {})]
        found = [metadata for segments in states for metadata in segments.values()]
        if state is None:
            found += self.finished()
        return sorted(found, key=_start_key)

    def first_of(self, state: RemoteLogSegmentState, count: int) -> list[RemoteLogSegmentMetadata]:
        """Return the `count` segments with the lowest start offsets of those in `state`."""
        if state is _COPY_FINISHED:
            return [unpack(row, self.partition) for row in self._by_start[:count]]
        return nsmallest(count, self._unreadable.get(state, {}).values(), key=_start_key)

    def started(self) -> list[RemoteLogSegmentMetadata]:
        """Return the unfinished copies in the order in which they were begun."""
        return list(self._unreadable[_COPY_STARTED].values())

    def finished(self) -> list[RemoteLogSegmentMetadata]:
        """Return the readable segments in the order of their start offsets, overlapping ones included."""
        return [unpack(row, self.partition) for row in self._by_start]

    def finished_rows(self, after: bytes, count: int) -> list[bytes]:
        """Return up to `count` readable segments, packed and in their order, that come after `after` (empty: from the
        first one on).
        """
        start = bisect_right(self._by_start, after) if after else 0
        return self._by_start[start : start + count]

    def rows_from(self, offset: int) -> list[bytes]:
        """Return the readable segments, packed, that reach `offset` or beyond, by their start offsets."""
        # Cheap although it sorts: both orders are nearly the same, and bytes are compared without a key.
        return sorted(self._by_end[bisect_left(self._by_end, offset_key(max(0, offset)), key=end_key) :])

    def finished_from(self, offset: int) -> Iterator[RemoteLogSegmentMetadata]:
        """The readable segments that reach `offset` or beyond, by their start offsets, unpacked one by one."""
        return (unpack(row, self.partition) for row in self.rows_from(offset))

    def finished_before(self, end_offset: int) -> Iterator[RemoteLogSegmentMetadata]:
        """Return the readable segments that end below `end_offset` (exclusive), the one that ends last first. Not to be
        continued after an `apply`.
        """
        if end_offset <= 0:
            return
        for index in range(bisect_left(self._by_end, offset_key(end_offset), key=end_key) - 1, -1, -1):
            yield unpack(self._by_end[index], self.partition)

    def first_before(self, end_offset: int, count: int) -> list[RemoteLogSegmentMetadata]:
        """Return the `count` readable segments that end lowest, of those that end below `end_offset` (exclusive)."""
        index = bisect_left(self._by_end, offset_key(max(0, end_offset)), key=end_key)
        return [unpack(row, self.partition) for row in self._by_end[: min(index, count)]]

    def first_of_epochs_before(self, epoch: int, count: int) -> list[RemoteLogSegmentMetadata]:
        """Return `count` readable segments whose last leader epoch is below `epoch`."""
        older = (segments for known, segments in self._by_epoch.items() if known < epoch)
        rows = (row for segments in older for row in segments if last_epoch_of(row) < epoch)
        return [unpack(row, self.partition) for row in islice(dict.fromkeys(islice(rows, 2 * count)), count)]

    def lowest_start_from(self, offset: int) -> int | None:
        """Return the lowest start offset of the readable segments that reach `offset` or beyond; None without one."""
        return next((offsets_of(row)[0] for row in self._by_start if offsets_of(row)[1] >= offset), None)

    def find(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """Return the readable segment that holds `offset` as written by the leader of `epoch`; of several, the one
        that reaches farthest within the epoch.
        """
        segments = self._by_epoch.get(epoch)
        row = segments.find(offset) if segments else None
        return None if row is None else unpack(row, self.partition)

    def changes_since(self, version: int) -> list[LedgerChange] | None:
        """Return what the events after `version` did to the readable segments; None if that is too long ago."""
        count = self._version - version
        if not 0 <= count <= len(self._changes):
            return None
        return list(islice(self._changes, len(self._changes) - count, None)) if count else []

    def deleted_to(self, epochs: Sequence[EpochEntry], offset: int) -> int:
        """Return the end of the offsets from `offset` on that were readable here, as written by the leaders of `epochs`
        (a lineage), and whose deletion was begun; `offset` if it is none of them. What is merely absent is not deleted.
        """
        for entry, following in zip(epochs, (*epochs[1:], None), strict=False):
            limit = INT64_MAX if following is None else following.start_offset
            if limit <= offset:
                continue
            runs = self._deleted.get(entry.epoch)
            if entry.start_offset > offset or runs is None:
                return offset
            offset = max(offset, min(limit, runs.end_of_run(offset)))
            if offset < limit:
                return offset
        return offset

    def check(self, event: RemoteLogEvent) -> bool:
        """Return whether `apply` would change anything. Raise IllegalTransitionError if it would refuse the event."""
        match event:
            case RemoteLogSegmentMetadata():
                return self._check_start(event)
            case RemoteLogSegmentMetadataUpdate():
                return self._check_update(event)
            case RemotePartitionDeleteMetadata():
                return self._check_partition_delete(event)

    def apply(self, event: RemoteLogEvent) -> bool:
        """Take an event. Return False if it repeats what is known (see the table above). Raise IllegalTransitionError
        if the event is refused.
        """
        if not self.check(event):
            return False
        self._version += 1
        change = _OTHER_CHANGE
        match event:
            case RemoteLogSegmentMetadata():
                self._unreadable[_COPY_STARTED][event.segment_id.id] = event
                self._count_epoch(event, 1)
            case RemoteLogSegmentMetadataUpdate():
                change = self._update(event)
            case RemotePartitionDeleteMetadata():
                self._delete_state = event.state
        self._changes.append(change)
        return True

    def _check_start(self, event: RemoteLogSegmentMetadata) -> bool:
        self._assert_own(event.segment_id.topic_id_partition)
        assert 0 <= event.start_offset <= event.end_offset, (
            str(event.segment_id),
            event.start_offset,
            event.end_offset,
        )
        assert event.segment_leader_epochs, f"{event.segment_id}: a segment holds at least one leader epoch"
        known = self.get(event.segment_id)
        if known == event:
            return False
        current = None if known is None else known.state
        why = " with other content" if event.state is current else " by a record that starts a copy"
        if known is not None or event.state is not _COPY_STARTED:
            raise IllegalTransitionError(str(event.segment_id), current, event.state, SEGMENT_TRANSITIONS[current], why)
        return True

    def _check_update(self, event: RemoteLogSegmentMetadataUpdate) -> bool:
        self._assert_own(event.segment_id.topic_id_partition)
        known = self.get(event.segment_id)
        if known is None and event.state is _DELETE_FINISHED:
            return False
        current = None if known is None else known.state
        if known is not None and event.state is current and current is not _COPY_STARTED:
            return known.with_update(event) != known
        legal = SEGMENT_TRANSITIONS[current]
        if known is None or event.state not in legal:
            raise IllegalTransitionError(str(event.segment_id), current, event.state, legal)
        return True

    def _check_partition_delete(self, event: RemotePartitionDeleteMetadata) -> bool:
        self._assert_own(event.topic_id_partition)
        if event.state is self._delete_state:
            return False
        legal = PARTITION_TRANSITIONS[self._delete_state]
        if event.state not in legal:
            raise IllegalTransitionError(str(event.topic_id_partition), self._delete_state, event.state, legal)
        return True

    def _assert_own(self, partition: TopicIdPartition) -> None:
        assert partition == self.partition, f"event of {partition} in the ledger of {self.partition}"

    def _update(self, event: RemoteLogSegmentMetadataUpdate) -> LedgerChange:
        before = self.get(event.segment_id)
        assert before is not None, event
        after = before.with_update(event)
        removed = self._forget_finished(before) if before.state is _COPY_FINISHED else None
        if removed is None:
            del self._unreadable[before.state][event.segment_id.id]
        elif after.state is not _COPY_FINISHED:
            # Its offsets count as deleted from here on, also once the segment itself is forgotten.
            for epoch, first, last in before.epoch_ranges():
                self._deleted.setdefault(epoch, OffsetRuns()).add(first, last + 1)
        if after.state is _DELETE_FINISHED:
            self._count_epoch(after, -1)
        elif after.state is not _COPY_FINISHED:
            self._unreadable[after.state][event.segment_id.id] = after
        return LedgerChange(self._index_finished(after) if after.state is _COPY_FINISHED else None, removed)

    def _count_epoch(self, metadata: RemoteLogSegmentMetadata, change: int) -> None:
        epoch = metadata.segment_leader_epochs[-1].epoch
        self._last_epochs[epoch] += change
        if self._last_epochs[epoch] == 0:
            del self._last_epochs[epoch]
            if epoch == self._newest_epoch:
                self._newest_epoch = max(self._last_epochs, default=NO_EPOCH)
        elif epoch > self._newest_epoch:
            self._newest_epoch = epoch

    def _index_finished(self, metadata: RemoteLogSegmentMetadata) -> bytes:
        row = pack(metadata)
        self._finished[metadata.segment_id.id.int] = row
        insort(self._by_start, row)
        insort(self._by_end, row, key=_end_order)
        self._finished_size_bytes += metadata.segment_size_in_bytes
        for epoch, first, last in metadata.epoch_ranges():
            self._by_epoch.setdefault(epoch, EpochSegments()).add(first, last, row)
        return row

    def _forget_finished(self, metadata: RemoteLogSegmentMetadata) -> bytes:
        row = self._finished.pop(metadata.segment_id.id.int)
        del self._by_start[bisect_left(self._by_start, row)]
        del self._by_end[bisect_left(self._by_end, _end_order(row), key=_end_order)]
        self._finished_size_bytes -= metadata.segment_size_in_bytes
        for epoch, first, last in metadata.epoch_ranges():
            segments = self._by_epoch[epoch]
            segments.remove(first, last, row)
            if not segments:
                del self._by_epoch[epoch]
        return row


def _start_key(metadata: RemoteLogSegmentMetadata) -> tuple[int, int, int]:
    """The id makes the order total, so that an entry is found again among overlapping ones."""
    return metadata.start_offset, metadata.end_offset, metadata.segment_id.id.int


def _end_order(row: bytes) -> bytes:
    """The order by last offset, then by start offset and id."""
    return row[8:16] + row[0:8] + row[16:32]
