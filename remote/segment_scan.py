"""Reads a remote segment's whole log, batch by batch, where one of its small objects does not give the answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from ..log.core import SegmentIndexes
from ..protocol import CorruptRecordError
from ..protocol.net import pace
from ..protocol.records import (
    BATCH_HEADER_SIZE,
    CONTROL_BYTES_MAX,
    BatchChecksum,
    BatchHeader,
    iter_batches,
    parse_header,
)
from .batches import check_place
from .core.segment import RemoteLogSegmentMetadata
from .storage import ReadsSegments, RemoteStorageCorruptError

SCAN_BYTES: Final = 1 << 20
"""The size of one read, and so of what is held in memory, whatever size a batch claims to have."""
BATCH_ELEMENTS: Final = 2
"""What a batch counts in its share of the event loop: its header is parsed and its CRC computed."""


class ScannedBatch(NamedTuple):
    """A batch, at byte `position` of the log, and at byte `at` of `data`; of one that is larger than a read, `data` has
    only the beginning, unless it is a control batch.
    """

    position: int
    header: BatchHeader
    data: bytes
    at: int


async def scan(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> AsyncGenerator[ScannedBatch, None]:
    """Yield all batches in order, with their CRCs checked. RemoteStorageError, also where the log is damaged or ends in
    the middle of a batch.
    """
    position, next_offset, scanned = 0, segment.start_offset, 0
    while position < segment.segment_size_in_bytes:
        data = await storage.fetch_log_segment(segment, position, _end_of_read(segment, position))
        read = 0
        try:
            for at, header in iter_batches(data):
                check_place(at, header, segment, next_offset)
                await pace().spend(BATCH_ELEMENTS, scanned)
                scanned += BATCH_ELEMENTS
                yield ScannedBatch(position + at, header, data, at)
                read, next_offset = at + header.size_bytes, header.next_offset
            if read == 0:
                header, kept = await _check_in_pieces(segment, storage, position, data)
                check_place(0, header, segment, next_offset)
                yield ScannedBatch(position, header, kept, 0)
                read, next_offset = header.size_bytes, header.next_offset
        except CorruptRecordError as error:
            raise RemoteStorageCorruptError(
                f"{segment.segment_id}, at offset {next_offset} or above: {error.at(position + error.position).message}"
            ) from None
        position += read


def _end_of_read(segment: RemoteLogSegmentMetadata, position: int) -> int:
    return min(position + SCAN_BYTES, segment.segment_size_in_bytes)


async def _check_in_pieces(
    segment: RemoteLogSegmentMetadata, storage: ReadsSegments, position: int, beginning: bytes
) -> tuple[BatchHeader, bytes]:
    """Check the batch at byte `position`, of which a read gave the beginning, piece by piece; return what is kept of
    it, which is all of a control batch. CorruptRecordError.
    """
    if len(beginning) < BATCH_HEADER_SIZE:
        raise CorruptRecordError(f"the log ends in the middle of a batch, {len(beginning)} bytes after its beginning")
    header = parse_header(beginning)
    end = position + header.size_bytes
    if end > segment.segment_size_in_bytes:
        left = segment.segment_size_in_bytes - position
        raise CorruptRecordError(f"the log ends in the middle of a batch: {left} bytes of {header.size_bytes}")
    if header.is_control and header.size_bytes > CONTROL_BYTES_MAX:
        raise CorruptRecordError(f"a control batch of {header.size_bytes} bytes, at most {CONTROL_BYTES_MAX} are one")
    checksum, kept, piece = BatchChecksum(header), [beginning], beginning
    start = position
    while piece:
        checksum.feed(piece)
        start += len(piece)
        if start >= end:
            break
        piece = await storage.fetch_log_segment(segment, start, min(_end_of_read(segment, start), end))
        if header.is_control:
            kept.append(piece)
    checksum.check(0)
    return header, b"".join(kept)


async def scanned_indexes(segment: RemoteLogSegmentMetadata, storage: ReadsSegments) -> SegmentIndexes:
    """Build the offset and the time index from the log, as its broker did. RemoteStorageError."""
    indexes = SegmentIndexes(segment.start_offset)
    async for batch in scan(segment, storage):
        indexes.account((batch.header,), batch.position)
    indexes.close()
    return indexes
