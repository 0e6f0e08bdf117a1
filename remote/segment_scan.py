"""Reads a remote segment's whole log, batch by batch, where one of its small objects does not give the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from ..log.core import SegmentIndexes
from ..protocol import CorruptRecordError
from ..protocol.net import pace
from ..protocol.records import BatchHeader, iter_batches
from .batches import check_place
from .core.segment import RemoteLogSegmentMetadata
from .storage import ReadsSegments, RemoteStorageCorruptError

SCAN_BYTES: Final = 1 << 20
"""The size of one read, and so of what is held in memory; more only for a batch that is larger."""
BATCH_ELEMENTS: Final = 2
"""What a batch counts in its share of the event loop: its header is parsed and its CRC computed."""


class ScannedBatch(NamedTuple):
    """A batch, at byte `position` of the log, and at byte `at` of `data`."""

    position: int
    header: BatchHeader
    data: bytes
    at: int


async def scan(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> AsyncGenerator[ScannedBatch, None]:
    """Yield all batches in order, with their CRCs checked. RemoteStorageError, also where the log is damaged or ends in
    the middle of a batch.
    """
    position, next_offset, size_bytes = 0, segment.start_offset, SCAN_BYTES
    scanned = 0
    while position < segment.segment_size_in_bytes:
        end = min(position + size_bytes, segment.segment_size_in_bytes)
        data = await storage.fetch_log_segment(segment, position, end)
        read = 0
        try:
            for at, header in iter_batches(data):
                check_place(at, header, segment, next_offset)
                await pace().spend(BATCH_ELEMENTS, scanned)
                scanned += BATCH_ELEMENTS
                yield ScannedBatch(position + at, header, data, at)
                read, next_offset = at + header.size_bytes, header.next_offset
        except CorruptRecordError as error:
            raise RemoteStorageCorruptError(f"{segment.segment_id}: {error.message}") from error
        if read == 0 and (end == segment.segment_size_in_bytes or len(data) < end - position):
            raise RemoteStorageCorruptError(
                f"{segment.segment_id}: the log ends in the middle of a batch at byte {position}"
            )
        size_bytes = SCAN_BYTES if read else 2 * size_bytes
        position += read


async def scanned_indexes(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> SegmentIndexes:
    """Build the offset and the time index from the log, as its broker did. RemoteStorageError."""
    indexes = SegmentIndexes(segment.start_offset)
    async for batch in scan(segment, storage):
        indexes.account((batch.header,), batch.position)
    indexes.close()
    return indexes
