"""Finding and judging batches in bytes that came from the tier. Pure.

What the tier returns is outside input even where its size is right: it may be another object's bytes. Everything that
is served has a right CRC, lies within its segment's offsets, and rises.
"""

from __future__ import annotations

from ..light_dataclass import dataclass
from ..protocol import CorruptRecordError
from ..protocol.records import BATCH_HEADER_SIZE, BatchHeader, Buffer, iter_batches, parse_header
from .core.segment import RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class Found:
    """The batch that holds an offset: where it begins, and its header."""

    position: int
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class ReadOn:
    """The batch comes after these bytes: continue at `position`, where a batch begins."""

    position: int


def find_batch(data: Buffer, segment: RemoteLogSegmentMetadata, offset: int) -> Found | ReadOn:
    """The first batch in `data`, which begins with one, whose last offset is `offset` or above. Bodies may be cut off.
    CorruptRecordError.
    """
    position = 0
    next_offset = segment.start_offset
    while position + BATCH_HEADER_SIZE <= len(data):
        header = parse_header(data, position)
        check_place(position, header, segment, next_offset)
        next_offset = header.next_offset
        if header.last_offset >= offset:
            return Found(position, header)
        position += header.size_bytes
    return ReadOn(position)


def batch_at(data: Buffer, segment: RemoteLogSegmentMetadata, offset: int) -> BatchHeader | None:
    """The header of the batch at the beginning of `data`, in the segment; None unless it begins with `offset`."""
    if len(data) < BATCH_HEADER_SIZE:
        return None
    try:
        header = parse_header(data)
    except CorruptRecordError:
        return None
    return header if header.base_offset == offset and header.last_offset <= segment.end_offset else None


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """`size_bytes` of whole batches from the beginning of the data; `next_offset` follows the last of them.
    `has_transactions`: records among them are part of a transaction.
    """

    size_bytes: int
    next_offset: int
    has_transactions: bool


def whole_batches(
    data: Buffer, segment: RemoteLogSegmentMetadata, *, limit_offset: int, from_offset: int | None = None
) -> WholeBatches:
    """The complete batches at the beginning of `data` that lie below `limit_offset`; none of them may lie below
    `from_offset`. CorruptRecordError.
    """
    size_bytes, has_transactions = 0, False
    next_offset = segment.start_offset if from_offset is None else from_offset
    for position, header in iter_batches(data):
        check_place(position, header, segment, next_offset)
        if header.last_offset >= limit_offset:
            break
        size_bytes = position + header.size_bytes
        next_offset = header.next_offset
        has_transactions = has_transactions or (header.is_transactional and not header.is_control)
    return WholeBatches(size_bytes, next_offset, has_transactions)


def check_place(position: int, header: BatchHeader, segment: RemoteLogSegmentMetadata, next_offset: int) -> None:
    """CorruptRecordError unless the batch lies in the segment, at `next_offset` or above."""
    if header.base_offset < next_offset or header.last_offset > segment.end_offset:
        raise CorruptRecordError(
            f"a batch [{header.base_offset}, {header.last_offset}] where offsets from {next_offset} to "
            f"{segment.end_offset} are expected",
            position,
        )
