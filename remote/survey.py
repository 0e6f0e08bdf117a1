"""A partition's ledger from the objects of its tier alone, for when the remote log metadata cannot be had.

| of a segment             | is found in                                                                 |
|--------------------------|-----------------------------------------------------------------------------|
| id, start offset         | the objects' names                                                          |
| size, transactions       | the listing                                                                 |
| end offset               | the last batch of the log, found by the last entry of the offset index      |
| leader epochs            | its leader-epoch checkpoint, cut at its offsets                             |
| largest timestamp        | the last entry of the time index                                            |
| state                    | FINISHED if there is a `.log`, which is uploaded last; an orphan otherwise  |
| broker, time of the copy | nothing: -1                                                                 |

So a copy that is under way looks like an orphan, and a deletion that is under way like damage.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from ..light_dataclass import dataclass
from ..log.core import CorruptFileError, EpochEntry, LeaderEpochCache, OffsetIndex, TimeIndex, decode_leader_epochs
from ..protocol import CorruptRecordError, TopicIdPartition
from ..protocol.records import BATCH_HEADER_SIZE, parse_header
from .core.findings import Finding, FindingKind
from .core.ledger import RemoteLogLedger
from .core.segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from .index_bound import check_index_size
from .storage import (
    IndexType,
    ListsFromOffset,
    ObjectRange,
    ReadsObjects,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
)

T = TypeVar("T")
Index = TypeVar("Index", OffsetIndex, TimeIndex)

SHARE_MAX: Final = 64
"""Segments whose parts are asked for together."""
SHARES_AT_ONCE_MAX: Final = 2
READS_AT_ONCE_MAX: Final = 16
"""The most concurrent reads of a storage that is read part by part."""
TAIL_BYTES: Final = 64 * 1024
"""Read at once where the end of a log is looked for."""
NOT_REPORTED: Final = -1
ENTRY_SIZES: Final = {IndexType.OFFSET: 8, IndexType.TIMESTAMP: 12}
"""Bytes."""

Parts = Mapping[IndexType | None, RemoteObject]
"""The objects of one segment, the `.log` as None."""


class _Part(NamedTuple):
    """Bytes [start, end) of one of a segment's objects."""

    kind: IndexType | None
    start: int
    end: int


_Answer = bytes | RemoteResourceNotFoundError | RemoteStorageCorruptError
_Steps = Generator[tuple[_Part, ...], Sequence[bytes], T]
"""Gives what it wants to read, gets the bytes of each."""


@dataclass(frozen=True, slots=True)
class Survey:
    """`findings` are about segments that are not in the ledger."""

    ledger: RemoteLogLedger
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a look at a store found: `listed` are the segments that are there and readable, those known before
    included; `described` are the others of them. Below `log_start_offset` nothing needs to be read.
    """

    listed: frozenset[UUID]
    described: tuple[RemoteLogSegmentMetadata, ...]
    findings: tuple[Finding, ...] = ()
    log_start_offset: int = 0


async def survey_partition(storage: RemoteStorageManager, partition: TopicIdPartition) -> Survey:
    """RemoteStorageError if the store cannot be asked, or if its names do not tell where segments begin."""
    sighting = await sight_segments(storage, partition)
    ledger = RemoteLogLedger(partition)
    for metadata in sighting.described:
        enter_segment(ledger, metadata)
    return Survey(ledger, sighting.findings)


def enter_segment(ledger: RemoteLogLedger, metadata: RemoteLogSegmentMetadata) -> None:
    """As a readable segment."""
    ledger.apply(metadata)
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    ledger.apply(RemoteLogSegmentMetadataUpdate(metadata.segment_id, finished, NOT_REPORTED, NOT_REPORTED))


async def sight_segments(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    known: Collection[UUID] = (),
    start_offset: int = 0,
) -> Sighting:
    """The segments that begin at `start_offset` or above; those of `known` ids are not looked at again. The errors are
    those of `survey_partition`.
    """
    segments = await _segments(storage, partition, start_offset)
    unknown = [segment for segment in segments.items() if segment[0].id not in known]
    shares = (unknown[first : first + SHARE_MAX] for first in range(0, len(unknown), SHARE_MAX))
    looks = await gather_limited((partial(_look_at_share, storage, share) for share in shares), SHARES_AT_ONCE_MAX)
    found = [one for share in looks for one in share]
    described = tuple(one for one in found if isinstance(one, RemoteLogSegmentMetadata))
    listed = {segment_id.id for segment_id, parts in segments.items() if segment_id.id in known and None in parts}
    findings = sorted((one for one in found if isinstance(one, Finding)), key=str)
    return Sighting(frozenset(listed.union(one.segment_id.id for one in described)), described, tuple(findings))


async def gather_limited(calls: Iterable[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """Their results in order, `limit` of them under way; the first error ends all."""
    numbered = enumerate(calls)
    results: dict[int, T] = {}

    async def work() -> None:
        for number, call in numbered:
            results[number] = await call()

    tasks = [asyncio.create_task(work()) for _ in range(limit)]
    try:
        await asyncio.gather(*tasks)
        return [results[number] for number in range(len(results))]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _segments(
    storage: RemoteStorageManager, partition: TopicIdPartition, start_offset: int
) -> dict[RemoteLogSegmentId, dict[IndexType | None, RemoteObject]]:
    segments: dict[RemoteLogSegmentId, dict[IndexType | None, RemoteObject]] = {}
    async for listed in _listing(storage, partition, start_offset):
        if listed.segment_id is not None:
            segments.setdefault(listed.segment_id, {})[listed.kind] = listed
    return segments


def _listing(
    storage: RemoteStorageManager, partition: TopicIdPartition, start_offset: int
) -> AsyncIterator[RemoteObject]:
    if start_offset and isinstance(storage, ListsFromOffset):
        return storage.list_objects_from(partition, start_offset)
    return storage.list_objects(partition)


async def _look_at_share(
    storage: RemoteStorageManager, share: Sequence[tuple[RemoteLogSegmentId, Parts]]
) -> list[RemoteLogSegmentMetadata | Finding]:
    """In its order. All that the segments want to read next is asked for together."""
    looks = [_Look(segment_id, parts) for segment_id, parts in share]
    while waiting := [look for look in looks if look.wanted]:
        answers = await _read(storage, waiting)
        for look in waiting:
            look.go_on([next(answers) for _ in look.wanted])
    return [look.found for look in looks if look.found is not None]


class _Look:
    """At one segment: what it wants to read next, and in the end what was found."""

    def __init__(self, segment_id: RemoteLogSegmentId, parts: Parts) -> None:
        self.parts = parts
        self.wanted: tuple[_Part, ...] = ()
        self.found: RemoteLogSegmentMetadata | Finding | None = None
        if None not in parts:
            message = f"{len(parts)} objects without a log: a copy that is under way, or was abandoned"
            self.found = Finding(FindingKind.ORPHAN, str(segment_id), message)
            return
        self.named = _named(segment_id, parts)
        self._steps = _describe(self.named, {kind: part.size for kind, part in parts.items()})
        self._step(None)

    def go_on(self, answers: Sequence[_Answer]) -> None:
        self.wanted, faults = (), [one for one in answers if not isinstance(one, bytes)]
        if faults:
            is_missing = isinstance(faults[0], RemoteResourceNotFoundError)
            self.found = self._damaged(FindingKind.MISSING if is_missing else FindingKind.CORRUPT, faults[0])
            return
        self._step([one for one in answers if isinstance(one, bytes)])

    def _step(self, answers: Sequence[bytes] | None) -> None:
        try:
            self.wanted = self._steps.send(answers)  # type: ignore[arg-type]
        except StopIteration as done:
            self.found = done.value
        except (CorruptRecordError, CorruptFileError, RemoteStorageCorruptError) as error:
            self.found = self._damaged(FindingKind.CORRUPT, error)

    def _damaged(self, kind: FindingKind, error: Exception) -> Finding:
        return Finding(kind, str(self.named.segment_id), str(error), self.named.start_offset)


async def _read(storage: RemoteStorageManager, looks: Sequence[_Look]) -> Iterator[_Answer]:
    """What all of them want, in order. RemoteStorageError."""
    wanted = [(look, part) for look in looks for part in look.wanted]
    if not isinstance(storage, ReadsObjects):
        reads = (partial(_read_by_call, storage, look.named, part) for look, part in wanted)
        return iter(await gather_limited(reads, READS_AT_ONCE_MAX))
    keys = [look.parts[part.kind].key if part.kind in look.parts else None for look, part in wanted]
    ranges = [
        ObjectRange(key, part.start, part.end)
        for key, (_, part) in zip(keys, wanted, strict=True)
        if key is not None and part.start != part.end
    ]
    found = iter(await storage.read_objects(ranges))
    answers: list[_Answer] = []
    for key, (look, part) in zip(keys, wanted, strict=True):
        if key is not None and part.start == part.end:
            answers.append(b"")
            continue
        data = None if key is None else next(found)
        named = key or f"{look.parts[None].key} has no {part_name(part.kind)}"
        answers.append(RemoteResourceNotFoundError(f"{named}: no such object in the tier") if data is None else data)
    return iter(answers)


async def _read_by_call(storage: RemoteStorageManager, named: RemoteLogSegmentMetadata, part: _Part) -> _Answer:
    try:
        if part.kind is not None:
            return (await storage.fetch_index(named, part.kind))[part.start : part.end]
        return await storage.fetch_log_segment(named, part.start, part.end)
    except (RemoteResourceNotFoundError, RemoteStorageCorruptError) as error:
        return error


def _named(segment_id: RemoteLogSegmentId, parts: Parts) -> RemoteLogSegmentMetadata:
    """Return what the listing shows. Raise RemoteStorageError."""
    log = parts[None]
    if log.start_offset is None:
        raise RemoteStorageError(
            f"{log.key}: the object's name does not contain the start offset; use the remote log metadata"
        )
    return RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=log.start_offset,
        end_offset=log.start_offset,
        max_timestamp_ms=NOT_REPORTED,
        broker_id=NOT_REPORTED,
        event_timestamp_ms=NOT_REPORTED,
        segment_size_in_bytes=log.size,
        segment_leader_epochs=(EpochEntry(0, log.start_offset),),
        txn_index_empty=IndexType.TRANSACTION not in parts,
    )


def _describe(
    named: RemoteLogSegmentMetadata, sizes: Mapping[IndexType | None, int]
) -> _Steps[RemoteLogSegmentMetadata]:
    """Asks for parts, gets their bytes, returns the whole. CorruptRecordError, CorruptFileError."""
    start = named.start_offset
    last_offset, last_time = _last_entries(IndexType.OFFSET, sizes), _last_entries(IndexType.TIMESTAMP, sizes)
    whole_epochs = _whole(named, IndexType.LEADER_EPOCH, sizes.get(IndexType.LEADER_EPOCH, 0))
    offset_data, time_data, checkpoint = yield last_offset, last_time, whole_epochs
    offsets = yield from _decoded(named, OffsetIndex, last_offset, offset_data)
    times = yield from _decoded(named, TimeIndex, last_time, time_data)
    epochs = LeaderEpochCache(decode_leader_epochs(checkpoint))
    position = offsets.last_entry.position if offsets.last_entry else 0
    if position < 0:
        raise CorruptFileError(f"offset index of {named.segment_id}: its last entry names byte {position}")
    end_offset = yield from _find_end(named, position)
    entries = epochs.range(start, end_offset + 1)
    if not entries:  # the first may begin above the segment's start: at the log start when it was copied
        raise CorruptFileError(
            f"leader epoch checkpoint of {named.segment_id}: no epoch for offset {end_offset}: {epochs.entries}"
        )
    return replace(
        named,
        end_offset=end_offset,
        max_timestamp_ms=times.last_entry.timestamp,
        segment_leader_epochs=entries,
    )


def _last_entries(kind: IndexType, sizes: Mapping[IndexType | None, int]) -> _Part:
    """The last one of an index, and what is left over where its size is no multiple of an entry's."""
    size, entry = sizes.get(kind, 0), ENTRY_SIZES[kind]
    return _Part(kind, max(0, size - size % entry - entry), size)


def _whole(named: RemoteLogSegmentMetadata, kind: IndexType, size: int) -> _Part:
    """All of an index that is listed with this size. RemoteStorageCorruptError if the segment has no such index."""
    check_index_size(named, kind, size)
    return _Part(kind, 0, size)


def _decoded(named: RemoteLogSegmentMetadata, kind: type[Index], end: _Part, data: bytes) -> _Steps[Index]:
    """The index, or its end where that holds an entry: one that Kafka preallocated ends with zeros."""
    index = kind.decode(data, named.start_offset)
    if len(index) or not end.start:
        return index
    assert end.kind is not None, end
    (data,) = yield (_whole(named, end.kind, end.end),)
    return kind.decode(data, named.start_offset)


def _find_end(named: RemoteLogSegmentMetadata, position: int) -> _Steps[int]:
    """Last offset of the log, by the headers of the batches from `position` on; CorruptRecordError."""
    next_offset, size = named.start_offset, named.segment_size_in_bytes
    while position < size:
        (data,) = yield (_Part(None, position, min(size, position + TAIL_BYTES)),)
        begin = 0
        while begin + BATCH_HEADER_SIZE <= len(data):
            try:
                header = parse_header(data, begin)
            except CorruptRecordError as error:
                raise error.at(position + begin) from None
            if header.base_offset < next_offset:
                raise CorruptRecordError(f"base offset {header.base_offset} below {next_offset}", position + begin)
            next_offset = header.next_offset
            begin += header.size_bytes
        if begin == 0:
            break
        position += begin
    if position != size or next_offset == named.start_offset:
        raise CorruptRecordError(f"the log of {size} bytes ends within a batch", position)
    return next_offset - 1


def part_name(kind: IndexType | None) -> str:
    return "log" if kind is None else kind.value
