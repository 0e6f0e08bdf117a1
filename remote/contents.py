"""Is a remote segment what it is named? Every byte of its objects read and judged.

| object            | must                                                                                       |
|-------------------|--------------------------------------------------------------------------------------------|
| log               | hold whole batches with a right CRC, which rise, lie within the segment's offsets and have |
|                   | the stated leader epoch at each; its last batch ends where the segment does                |
| offset index      | rise; each entry names a place where a batch begins, and an offset that is not before it   |
| time index        | rise; name offsets of the segment                                                          |
| transaction index | rise; markers lie in the segment, behind the beginning of their transactions               |
| producer snapshot | have a right CRC; know no batch behind the segment                                         |
| leader epochs     | give the segment's offsets the epochs that its metadata states                             |

The log is read in pieces (`segment_scan`), so that memory is bounded whatever the size; of the offset index there is
one entry for some KiB of log. What is wrong in the log is one finding, what is wrong beside it another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from itertools import islice

from ..log.core import (
    CorruptFileError,
    LeaderEpochCache,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    decode_leader_epochs,
)
from ..protocol import CorruptRecordError
from ..protocol.records import BatchHeader
from .aborts import fetch_transaction_index, fetched_producers
from .core.findings import Finding, FindingKind
from .core.lineage import is_within_lineage
from .core.segment import RemoteLogSegmentMetadata
from .index_cache import check_slots
from .segment_scan import scan
from .storage import (
    IndexType,
    ReadsSegments,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
)

_FAULTS = (CorruptRecordError, CorruptFileError, RemoteStorageCorruptError, RemoteResourceNotFoundError)


def ignore_batch(_: BatchHeader) -> None:
    """Ignore the batch."""


async def check_contents(
    segment: RemoteLogSegmentMetadata,
    storage: ReadsSegments,
    on_batch: Callable[[BatchHeader], None] = ignore_batch,
) -> list[Finding]:
    """CORRUPT findings, none if all is well; `on_batch` is called with each sound batch of the log. RemoteStorageError
    if the store cannot be asked.
    """
    findings: list[Finding] = []
    borders: dict[int, int] = {}
    try:
        borders = await _check_indexes(segment, storage)
    except _FAULTS as error:
        findings.append(_corrupt(segment, error))
    try:
        await _check_log(segment, storage, borders, on_batch)
    except _FAULTS as error:
        findings.insert(0, _corrupt(segment, error))
    return findings


async def _check_log(
    segment: RemoteLogSegmentMetadata,
    storage: ReadsSegments,
    borders: dict[int, int],
    on_batch: Callable[[BatchHeader], None],
) -> None:
    """`borders`: by position of a batch the offset that the offset index gives it; those that are found are removed."""
    epochs = LeaderEpochCache(segment.segment_leader_epochs)
    position, next_offset = 0, segment.start_offset
    async with aclosing(scan(segment, storage)) as batches:
        async for batch in batches:
            _check_batch(batch.position, batch.header, epochs, borders)
            on_batch(batch.header)
            position, next_offset = batch.position + batch.header.size_bytes, batch.header.next_offset
    if next_offset != segment.end_offset + 1:
        raise CorruptRecordError(
            f"the log ends at offset {next_offset - 1} where {segment.end_offset} is expected", position
        )
    if borders:
        raise CorruptFileError(f"offset index: no batch begins at byte {min(borders)}")


def _check_batch(position: int, header: BatchHeader, epochs: LeaderEpochCache, borders: dict[int, int]) -> None:
    stated = epochs.epoch_for_offset(header.base_offset)
    if stated is not None and header.partition_leader_epoch != stated:  # None: below the log start of its copy
        raise CorruptRecordError(
            f"a batch of leader epoch {header.partition_leader_epoch} at offset {header.base_offset} where the "
            f"segment's metadata states epoch {stated}",
            position,
        )
    offset = borders.pop(position, header.base_offset)
    if offset < header.base_offset:
        raise CorruptFileError(f"offset index: offset {offset} at byte {position}, where {header.base_offset} begins")


async def _check_indexes(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> dict[int, int]:
    """Offsets by position, as the offset index has them. CorruptFileError for what the segment's name refutes."""
    first = segment.start_offset
    borders: dict[int, int] = {}
    offsets = OffsetIndex.decode(await storage.fetch_index(segment, IndexType.OFFSET), first)
    entries = iter(offsets)
    async for slot, end in check_slots(len(offsets)):
        offsets.check(first=slot, end=end)
        borders |= {entry.position: entry.offset for entry in islice(entries, end - slot)}
    times = TimeIndex.decode(await storage.fetch_index(segment, IndexType.TIMESTAMP), first)
    async for slot, end in check_slots(len(times)):
        times.check(first=slot, end=end)
    _expect_within("time index", segment, [times.last_entry.offset])
    await _check_aborted(segment, storage)
    await _check_producers(segment, storage)
    await _check_epochs(segment, storage)
    return borders


async def _check_aborted(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> None:
    index = TransactionIndex.unchecked(await fetch_transaction_index(segment, storage))
    async for slot, end in check_slots(len(index)):
        index.check(first=slot, end=end)
        aborted = list(index.slots(slot, end))
        _expect_within("transaction index", segment, [entry.last_offset for entry in aborted])
        for entry in aborted:
            if entry.first_offset > entry.last_offset:
                raise CorruptFileError(f"transaction index: a marker before its transaction: {entry}")


async def _check_producers(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> None:
    async with aclosing(fetched_producers(segment, storage, name="producer snapshot")) as slices:
        async for producers in slices:
            for producer in producers:
                if producer.batches and producer.batches[-1].last_offset > segment.end_offset:
                    raise CorruptFileError(
                        f"producer snapshot: producer {producer.producer_id} at offset "
                        f"{producer.batches[-1].last_offset}, after the segment's end {segment.end_offset}"
                    )


async def _check_epochs(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> None:
    epochs = LeaderEpochCache(decode_leader_epochs(await storage.fetch_index(segment, IndexType.LEADER_EPOCH)))
    earliest = epochs.earliest_entry
    is_forgotten = earliest is not None and earliest.start_offset > segment.end_offset
    if not is_forgotten and not is_within_lineage(segment, epochs, segment.end_offset + 1):
        stated = LeaderEpochCache(segment.segment_leader_epochs)
        raise CorruptFileError(f"leader epoch checkpoint: {epochs}, where the metadata states {stated}")


def _expect_within(what: str, segment: RemoteLogSegmentMetadata, offsets: list[int]) -> None:
    for offset in offsets:
        if not segment.start_offset <= offset <= segment.end_offset:
            raise CorruptFileError(f"{what}: offset {offset}, which is outside the segment")


def _corrupt(segment: RemoteLogSegmentMetadata, error: Exception) -> Finding:
    # The finding names the segment already.
    what = str(error).removeprefix(f"{segment.segment_id}, ")
    message = f"offsets [{segment.start_offset}, {segment.end_offset}]: {what}"
    return Finding(FindingKind.CORRUPT, str(segment.segment_id), message)
