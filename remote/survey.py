"""A partition's ledger from the objects of its tier alone, for when the remote log metadata cannot be had.

| of a segment             | is told by                                                                  |
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
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from ..log.checkpoints import decode_leader_epochs
from ..log.epochs import EpochEntry, LeaderEpochCache
from ..log.errors import CorruptFileError
from ..log.index import OffsetIndex, TimeIndex
from ..protocol.errors import CorruptRecordError
from ..protocol.records import BATCH_HEADER_SIZE, parse_header
from ..protocol.topics import TopicIdPartition
from .findings import Finding, FindingKind
from .ledger import RemoteLogLedger
from .segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from .storage import (
    IndexType,
    ListsFromOffset,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
)

T = TypeVar("T")

SEGMENTS_AT_ONCE_MAX: Final = 16
TAIL_BYTES: Final = 64 * 1024
"""Read at once where the end of a log is looked for."""
NOT_TOLD: Final = -1

Parts = Mapping[IndexType | None, RemoteObject]
"""The objects of one segment, the `.log` as None."""


@dataclass(frozen=True, slots=True)
class Survey:
    """`findings` are about segments that are not in the ledger."""

    ledger: RemoteLogLedger
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a look at a store found: `listed` are the segments that are there and readable, those known before
    included; `described` are the others of them. Below `log_start_offset` nothing is to be read any more.
    """

    listed: frozenset[UUID]
    described: tuple[RemoteLogSegmentMetadata, ...]
    findings: tuple[Finding, ...] = ()
    log_start_offset: int = 0


async def survey(storage: RemoteStorageManager, partition: TopicIdPartition) -> Survey:
    """RemoteStorageError if the store cannot be asked, or if its names do not tell where segments begin."""
    sighting = await sight(storage, partition)
    ledger = RemoteLogLedger(partition)
    for metadata in sighting.described:
        enter(ledger, metadata)
    return Survey(ledger, sighting.findings)


def enter(ledger: RemoteLogLedger, metadata: RemoteLogSegmentMetadata) -> None:
    """As a readable segment."""
    ledger.apply(metadata)
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    ledger.apply(RemoteLogSegmentMetadataUpdate(metadata.segment_id, finished, NOT_TOLD, NOT_TOLD))


async def sight(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    known: Collection[UUID] = (),
    start_offset: int = 0,
) -> Sighting:
    """The segments that begin at `start_offset` or above; those of `known` ids are not looked at again. The errors are
    those of `survey`.
    """
    segments = await _segments(storage, partition, start_offset)
    unknown = [segment for segment in segments.items() if segment[0].id not in known]
    looks = (partial(_look_at, storage, segment_id, parts) for segment_id, parts in unknown)
    found = await at_once(looks, SEGMENTS_AT_ONCE_MAX)
    described = tuple(one for one in found if isinstance(one, RemoteLogSegmentMetadata))
    listed = {segment_id.id for segment_id, parts in segments.items() if segment_id.id in known and None in parts}
    findings = sorted((one for one in found if isinstance(one, Finding)), key=str)
    return Sighting(frozenset(listed.union(one.segment_id.id for one in described)), described, tuple(findings))


async def at_once(calls: Iterable[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
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


async def _look_at(
    storage: RemoteStorageManager, segment_id: RemoteLogSegmentId, parts: Parts
) -> RemoteLogSegmentMetadata | Finding:
    if None not in parts:
        message = f"{len(parts)} objects without a log: a copy that is under way, or was abandoned"
        return Finding(FindingKind.ORPHAN, str(segment_id), message)
    start_offset = parts[None].start_offset
    try:
        return await _describe(storage, segment_id, parts)
    except RemoteResourceNotFoundError as error:
        return Finding(FindingKind.MISSING, str(segment_id), str(error), start_offset)
    except (CorruptRecordError, CorruptFileError, RemoteStorageCorruptError) as error:
        return Finding(FindingKind.CORRUPT, str(segment_id), str(error), start_offset)


async def _describe(
    storage: RemoteStorageManager, segment_id: RemoteLogSegmentId, parts: Parts
) -> RemoteLogSegmentMetadata:
    log = parts[None]
    if log.start_offset is None:
        raise RemoteStorageError(f"{log.key}: the name does not tell the start offset; ask for remote log metadata")
    start = log.start_offset
    named = RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=start,
        end_offset=start,
        max_timestamp_ms=NOT_TOLD,
        broker_id=NOT_TOLD,
        event_timestamp_ms=NOT_TOLD,
        segment_size_in_bytes=log.size,
        segment_leader_epochs=(EpochEntry(0, start),),
        txn_index_empty=IndexType.TRANSACTION not in parts,
    )
    offsets = OffsetIndex.decode(await storage.fetch_index(named, IndexType.OFFSET), start)
    times = TimeIndex.decode(await storage.fetch_index(named, IndexType.TIMESTAMP), start)
    epochs = LeaderEpochCache(decode_leader_epochs(await storage.fetch_index(named, IndexType.LEADER_EPOCH)))
    end_offset = await _end_offset(storage, named, offsets.last_entry.position if offsets.last_entry else 0)
    entries = epochs.range(start, end_offset + 1)
    if not entries:  # the first may begin above the segment's start: at the log start when it was copied
        raise CorruptFileError(
            f"leader epoch checkpoint of {log.key}: no epoch for offset {end_offset}: {epochs.entries}"
        )
    return replace(
        named,
        end_offset=end_offset,
        max_timestamp_ms=times.last_entry.timestamp,
        segment_leader_epochs=entries,
    )


async def _end_offset(storage: RemoteStorageManager, segment: RemoteLogSegmentMetadata, position: int) -> int:
    """Last offset of the log, by the headers of the batches from `position` on; CorruptRecordError."""
    next_offset = segment.start_offset
    while position < segment.segment_size_in_bytes:
        data = await storage.fetch_log_segment(segment, position, position + TAIL_BYTES)
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
    if position != segment.segment_size_in_bytes or next_offset == segment.start_offset:
        raise CorruptRecordError(f"the log of {segment.segment_size_in_bytes} bytes ends within a batch", position)
    return next_offset - 1
