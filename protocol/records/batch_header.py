"""The 61-byte header of a record batch, format v2 (KIP-98), and everything that needs no look at the records.

| byte | field | | byte | field |
|---|---|---|---|---|
| 0 | base offset, int64 | | 27 | base timestamp, int64 |
| 8 | batch length, int32: bytes after this field | | 35 | max timestamp, int64 |
| 12 | partition leader epoch, int32 | | 43 | producer id, int64 |
| 16 | magic, int8: 2 | | 51 | producer epoch, int16 |
| 17 | CRC-32C of byte 21 to the end, uint32 | | 53 | base sequence, int32 |
| 21 | attributes, int16 | | 57 | record count, int32 |
| 23 | last offset delta, int32 | | 61 | the records, compressed as a whole |

Attributes: bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 the base timestamp is a delete horizon.

Rules:
* A leader may write base offset and leader epoch in place: the CRC does not cover them.
* `record count <= last offset delta + 1`; fewer after compaction, which keeps the offsets of what it removes. A batch
  takes at least one offset, so that a reader that continues at its next offset advances.
* A batch is found by its length alone, so a length that reaches beyond the buffer is an incomplete tail, not a fault.

Leader and follower call `iter_batches` for every byte they move: it unpacks, checks and sums, and makes no copy.
Headers are named tuples, made of what the struct has unpacked as it is: `_make` takes twice as long.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from ..errors import CorruptRecordError
from .compression import Compression

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

BATCH_HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes of base offset and batch length, which the batch length does not count."""

MAGIC: Final = 2
MAGIC_AT: Final = 16
CRC_START: Final = 21
"""First byte under the CRC."""

LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC_MASK: Final = 0x07
_CODEC_MAX: Final = max(Compression).value
_BATCH_LENGTH_MIN: Final = BATCH_HEADER_SIZE - LOG_OVERHEAD
SEQUENCE_MAX: Final = 2**31 - 1

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_CRC = struct.Struct(">I")
_LEADER_EPOCH_AT: Final = 12
_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35


class TimestampType(IntEnum):
    """Who gave the records their timestamps: the producer, or the leader as it appended them."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """Fields in wire order. -1 stands for "none" in leader epoch, producer id, producer epoch and base sequence."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def compression(self) -> Compression:
        return Compression(self.attributes & _CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME_BIT))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which tombstones and markers in here may go (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0; -1 if there is no base sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def has_transactional_bit(buf: Buffer) -> bool:
    """Return whether the first batch of `buf` says that it is transactional. False if no whole header is in `buf`."""
    return len(buf) >= BATCH_HEADER_SIZE and bool(buf[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_BIT)


def parse_header(buf: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; the records need not be in the buffer. CorruptRecordError if it can be no header."""
    if len(buf) - position < BATCH_HEADER_SIZE:
        raise CorruptRecordError(
            f"{len(buf) - position} bytes where a batch header of {BATCH_HEADER_SIZE} is expected", position
        )
    header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(buf, position))
    _check_header(header, position)
    return header


def iter_batches(
    buf: Buffer, start: int = 0, end: int | None = None, *, check_crc: bool = True
) -> Iterator[tuple[int, BatchHeader]]:
    """`(position, header)` of each complete batch in `buf[start:end]`.

    Stops silently at an incomplete tail: the caller sees it, because the last batch ends before `end`. Raises
    CorruptRecordError where a header is impossible or a CRC is wrong.
    """
    with memoryview(buf) as view:
        if end is None:
            end = len(view)
        last_header_position = end - BATCH_HEADER_SIZE
        position = start
        while position <= last_header_position:
            header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(view, position))
            _check_header(header, position)
            next_position = position + LOG_OVERHEAD + header.batch_length
            if next_position > end:
                return
            if check_crc and crc32c(view[position + CRC_START : next_position]) != header.crc:
                raise _crc_mismatch(view, position, header)
            yield position, header
            position = next_position


def check_complete(buf: Buffer, position: int, header: BatchHeader) -> None:
    """CorruptRecordError unless all of the batch is in the buffer."""
    if position + header.size_bytes > len(buf):
        raise CorruptRecordError(
            f"batch of {header.size_bytes} bytes ends early: {len(buf) - position} bytes are left", position
        )


def check_batch(buf: Buffer, position: int, header: BatchHeader) -> None:
    """CorruptRecordError unless all of the batch is in the buffer and its CRC is right."""
    if position + LOG_OVERHEAD + header.batch_length > len(buf):
        check_complete(buf, position, header)
    if _crc_of(buf, position, header) != header.crc:
        raise _crc_mismatch(buf, position, header)


def stamp_batch(
    buf: WritableBuffer,
    position: int,
    header: BatchHeader,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    log_append_time_ms: int | None = None,
) -> BatchHeader:
    """Write in place what a leader decides, and return the header as it is now.

    With `log_append_time_ms` the batch also changes to log append time with this max timestamp and gets a new CRC.
    """
    _BASE_OFFSET.pack_into(buf, position, base_offset)
    _LEADER_EPOCH.pack_into(buf, position + _LEADER_EPOCH_AT, partition_leader_epoch)
    if log_append_time_ms is not None:
        _ATTRIBUTES.pack_into(buf, position + CRC_START, header.attributes | LOG_APPEND_TIME_BIT)
        _MAX_TIMESTAMP.pack_into(buf, position + _MAX_TIMESTAMP_AT, log_append_time_ms)
        _CRC.pack_into(buf, position + _CRC_AT, _crc_of(buf, position, header))
    return tuple.__new__(BatchHeader, HEADER.unpack_from(buf, position))


def sealed(header: bytes, payload: bytes) -> bytes:
    """The batch of a packed header, whatever CRC it has, and its records."""
    batch = bytearray(header)
    batch += payload
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return bytes(batch)


def _check_header(header: BatchHeader, position: int) -> None:
    if (
        header.magic == MAGIC
        and header.batch_length >= _BATCH_LENGTH_MIN
        and header.base_offset >= 0
        and 0 <= header.record_count <= header.last_offset_delta + 1 != 0
        and header.attributes & _CODEC_MASK <= _CODEC_MAX
    ):
        return
    raise CorruptRecordError(_header_fault(header), position)


def _header_fault(header: BatchHeader) -> str:
    """What is wrong with a header that `_check_header` refused."""
    if header.magic != MAGIC:
        return f"magic {header.magic} where {MAGIC} is expected: no record batch, or one of a format before Kafka 0.11"
    if header.batch_length < _BATCH_LENGTH_MIN:
        return f"batch length {header.batch_length} where at least {_BATCH_LENGTH_MIN} is expected"
    if header.base_offset < 0:
        return f"negative base offset {header.base_offset}"
    if header.attributes & _CODEC_MASK > _CODEC_MAX:
        return f"unknown codec {header.attributes & _CODEC_MASK}"
    return f"{header.record_count} records where the last offset delta is {header.last_offset_delta}"


def _crc_of(buf: Buffer, position: int, header: BatchHeader) -> int:
    with memoryview(buf) as view:
        return crc32c(view[position + CRC_START : position + LOG_OVERHEAD + header.batch_length])


class BatchChecksum:
    """Check the CRC of a batch that arrives in pieces: its memory is theirs, whatever size its header claims."""

    __slots__ = ("_crc", "_header", "_left", "_skip")

    def __init__(self, header: BatchHeader) -> None:
        self._header = header
        self._crc = 0
        self._skip = CRC_START
        self._left = header.size_bytes

    def feed(self, piece: Buffer) -> None:
        """Take the next bytes; those after the batch's end are ignored."""
        with memoryview(piece) as view:
            some = view[: self._left]
            self._left -= len(some)
            self._crc = crc32c(some[self._skip :], self._crc)
            self._skip = max(0, self._skip - len(some))

    def check(self, position: int) -> None:
        """Raise CorruptRecordError if the batch at `position` is not whole, or not what its header says."""
        if self._left:
            raise CorruptRecordError(f"batch of {self._header.size_bytes} bytes lacks its last {self._left}", position)
        if self._crc != self._header.crc:
            raise CorruptRecordError(
                f"CRC-32C is {self._crc:#010x}, the header says {self._header.crc:#010x}", position
            )


def _crc_mismatch(buf: Buffer, position: int, header: BatchHeader) -> CorruptRecordError:
    computed = _crc_of(buf, position, header)
    return CorruptRecordError(f"CRC-32C is {computed:#010x}, the header says {header.crc:#010x}", position)
