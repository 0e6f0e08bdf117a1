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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

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
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
)

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


async def survey(storage: RemoteStorageManager, partition: TopicIdPartition) -> Survey:
    """RemoteStorageError if the store cannot be asked, or if its names do not tell where segments begin."""
    ledger = RemoteLogLedger(partition)
    findings: list[Finding] = []
    slots = asyncio.Semaphore(SEGMENTS_AT_ONCE_MAX)

    async def look_at(segment_id: RemoteLogSegmentId, parts: Parts) -> None:
        async with slots:
            found = await _look_at(storage, segment_id, parts)
        if isinstance(found, Finding):
            findings.append(found)
            return
        ledger.apply(found)
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ledger.apply(RemoteLogSegmentMetadataUpdate(segment_id, finished, NOT_TOLD, NOT_TOLD))

    segments = await _segments(storage, partition)
    tasks = [asyncio.create_task(look_at(*segment)) for segment in segments.items()]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Survey(ledger, tuple(sorted(findings, key=str)))


async def _segments(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> dict[RemoteLogSegmentId, dict[IndexType | None, RemoteObject]]:
    segments: dict[RemoteLogSegmentId, dict[IndexType | None, RemoteObject]] = {}
    async for listed in storage.list_objects(partition):
        if listed.segment_id is not None:
            segments.setdefault(listed.segment_id, {})[listed.kind] = listed
    return segments


async def _look_at(
    storage: RemoteStorageManager, segment_id: RemoteLogSegmentId, parts: Parts
) -> RemoteLogSegmentMetadata | Finding:
    if None not in parts:
        message = f"{len(parts)} objects without a log: a copy that is under way, or was abandoned"
        return Finding(FindingKind.ORPHAN, str(segment_id), message)
    try:
        return await _describe(storage, segment_id, parts)
    except RemoteResourceNotFoundError as error:
        return Finding(FindingKind.MISSING, str(segment_id), str(error))
    except (CorruptRecordError, CorruptFileError, RemoteStorageCorruptError) as error:
        return Finding(FindingKind.CORRUPT, str(segment_id), str(error))


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
    if not entries or entries[0].start_offset != start:
        raise CorruptFileError(f"leader epoch checkpoint of {log.key}: no epoch for offset {start}: {epochs.entries}")
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
