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

Knows no lineage: a segment of a lost leader is here like any other (`lineage.py` tells them apart). Sources: KIP-405,
Kafka's `RemoteLogSegmentState`, `RemoteLogMetadataCache`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Final
from uuid import UUID

from ...log.core.epochs import EpochEntry
from ...protocol.errors import RetriableError
from ...protocol.topics import TopicIdPartition
from .epoch_index import EpochSegments
from .offset_runs import OffsetRuns
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


class RemoteLogLedger:
    """The remote segments of one partition, in memory. Offsets of segments are inclusive at both ends."""

    def __init__(self, partition: TopicIdPartition, *, version: int = 0) -> None:
        """Empty. `version` goes on from a ledger whose place this one takes."""
        self.partition = partition
        self._version = version
        self._by_state: dict[RemoteLogSegmentState, dict[UUID, RemoteLogSegmentMetadata]] = {
            _COPY_STARTED: {},
            _COPY_FINISHED: {},
            _DELETE_STARTED: {},
        }
        self._by_start: list[RemoteLogSegmentMetadata] = []
        self._by_end: list[RemoteLogSegmentMetadata] = []
        self._by_epoch: dict[int, EpochSegments] = {}
        self._deleted: dict[int, OffsetRuns] = {}
        self._finished_size_bytes = 0
        self._delete_state: RemotePartitionDeleteState | None = None

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(segments)} {state.name}" for state, segments in self._by_state.items())
        return f"RemoteLogLedger({self.partition} at version {self._version}: {counts})"

    def __len__(self) -> int:
        """Segments in any state."""
        return sum(len(segments) for segments in self._by_state.values())

    @property
    def version(self) -> int:
        """How many events have changed this ledger."""
        return self._version

    @property
    def finished_size_bytes(self) -> int:
        """Sum of the `.log` sizes of the readable segments, those that overlap counted each."""
        return self._finished_size_bytes

    @property
    def delete_state(self) -> RemotePartitionDeleteState | None:
        """How far the deletion of the whole partition is; None if nobody asked for it."""
        return self._delete_state

    def get(self, segment_id: RemoteLogSegmentId) -> RemoteLogSegmentMetadata | None:
        for segments in self._by_state.values():
            if (metadata := segments.get(segment_id.id)) is not None:
                return metadata
        return None

    def segments(self, state: RemoteLogSegmentState | None = None) -> list[RemoteLogSegmentMetadata]:
        """Return the segments in `state`, or all, in the order of their start offsets."""
        if state is _COPY_FINISHED:
            return self.finished()
        states = self._by_state.values() if state is None else [self._by_state.get(state, {})]
        return sorted((metadata for segments in states for metadata in segments.values()), key=_start_key)

    def started_after(self, segment_id: RemoteLogSegmentId) -> list[RemoteLogSegmentMetadata]:
        """The unfinished copies that were begun after this one, in their order; none if it is not unfinished itself."""
        started = iter(self._by_state[_COPY_STARTED].values())
        for metadata in started:
            if metadata.segment_id == segment_id:
                return list(started)
        return []

    def finished(self) -> list[RemoteLogSegmentMetadata]:
        """The readable segments in the order of their start offsets, overlapping ones included."""
        return list(self._by_start)

    def finished_before(self, end_offset: int) -> Iterator[RemoteLogSegmentMetadata]:
        """The readable segments that end below `end_offset` (exclusive), the one that ends last first. Not to be
        continued after an `apply`.
        """
        for index in range(bisect_left(self._by_end, end_offset, key=_end_offset) - 1, -1, -1):
            yield self._by_end[index]

    def find(self, epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The readable segment that holds `offset` as written by the leader of `epoch`; of several, the one that
        reaches farthest within the epoch.
        """
        segments = self._by_epoch.get(epoch)
        return segments.find(offset) if segments else None

    def deleted_to(self, epochs: Sequence[EpochEntry], offset: int) -> int:
        """The end of the offsets from `offset` on that were readable here, as written by the leaders of `epochs` (a
        lineage), and whose deletion was begun; `offset` if it is none of them. What is merely absent is not deleted.
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
        """Whether `apply` would change anything; IllegalTransitionError if it would refuse."""
        match event:
            case RemoteLogSegmentMetadata():
                return self._check_start(event)
            case RemoteLogSegmentMetadataUpdate():
                return self._check_update(event)
            case RemotePartitionDeleteMetadata():
                return self._check_partition_delete(event)

    def apply(self, event: RemoteLogEvent) -> bool:
        """Take an event. False if it repeats what is known (see the table above); IllegalTransitionError if refused."""
        if not self.check(event):
            return False
        self._version += 1
        match event:
            case RemoteLogSegmentMetadata():
                self._by_state[_COPY_STARTED][event.segment_id.id] = event
            case RemoteLogSegmentMetadataUpdate():
                self._update(event)
            case RemotePartitionDeleteMetadata():
                self._delete_state = event.state
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

    def _update(self, event: RemoteLogSegmentMetadataUpdate) -> None:
        before = self.get(event.segment_id)
        assert before is not None, event
        after = before.with_update(event)
        del self._by_state[before.state][event.segment_id.id]
        if before.state is _COPY_FINISHED:
            self._forget_finished(before)
        if after.state is not _DELETE_FINISHED:
            self._by_state[after.state][event.segment_id.id] = after
        if after.state is _COPY_FINISHED:
            self._index_finished(after)

    def _index_finished(self, metadata: RemoteLogSegmentMetadata) -> None:
        _insert(self._by_start, metadata, _start_key)
        _insert(self._by_end, metadata, _end_key)
        self._finished_size_bytes += metadata.segment_size_in_bytes
        for epoch, first, last in metadata.epoch_ranges():
            self._by_epoch.setdefault(epoch, EpochSegments()).add(first, last, metadata)

    def _forget_finished(self, metadata: RemoteLogSegmentMetadata) -> None:
        del self._by_start[bisect_left(self._by_start, _start_key(metadata), key=_start_key)]
        del self._by_end[bisect_left(self._by_end, _end_key(metadata), key=_end_key)]
        self._finished_size_bytes -= metadata.segment_size_in_bytes
        for epoch, first, last in metadata.epoch_ranges():
            self._deleted.setdefault(epoch, OffsetRuns()).add(first, last + 1)
            segments = self._by_epoch[epoch]
            segments.remove(first, last, metadata)
            if not segments:
                del self._by_epoch[epoch]


_end_offset = attrgetter("end_offset")


def _start_key(metadata: RemoteLogSegmentMetadata) -> tuple[int, ...]:
    """The id makes the order total, so that an entry is found again among overlapping ones."""
    return metadata.start_offset, metadata.end_offset, metadata.segment_id.id.int


def _end_key(metadata: RemoteLogSegmentMetadata) -> tuple[int, ...]:
    return metadata.end_offset, metadata.start_offset, metadata.segment_id.id.int


def _insert(
    segments: list[RemoteLogSegmentMetadata],
    metadata: RemoteLogSegmentMetadata,
    key: Callable[[RemoteLogSegmentMetadata], tuple[int, ...]],
) -> None:
    if not segments or key(segments[-1]) < key(metadata):
        segments.append(metadata)
    else:
        insort(segments, metadata, key=key)
