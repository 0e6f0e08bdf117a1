"""The records of a batch without their headers, which are skipped by the record's length and never looked at.

    record := length, attributes int8, timestamp delta, offset delta, key, value, | header count, header*
              ^------------------------------ parsed ---------------------------^   ^----- skipped -----^

This is how brokers, the cleaner and Spark's checks read records: what a batch costs is bounded by its number of
records, which its header states, whatever its headers hold. The rules of `record_body` hold for all that is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..errors import CorruptRecordError
from ..wire.varint import read_varint, read_varlong
from .batch_header import BatchHeader, TimestampType
from .budget import BATCH_ELEMENTS_MAX

_TIMESTAMP_MIN: Final = -(2**63)
_TIMESTAMP_MAX: Final = 2**63 - 1


class SkimmedRecord(NamedTuple):
    """One record of the decompressed `data`. Sizes are in bytes, -1 for null; `timestamp` is in ms since the epoch."""

    offset: int
    timestamp: int
    data: bytes
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    end: int

    @property
    def has_key(self) -> bool:
        return self.key_size >= 0

    @property
    def has_value(self) -> bool:
        return self.value_size >= 0

    @property
    def key(self) -> bytes | None:
        return None if self.key_size < 0 else self.data[self.key_at : self.key_at + self.key_size]

    @property
    def value(self) -> bytes | None:
        return None if self.value_size < 0 else self.data[self.value_at : self.value_at + self.value_size]


def skim(data: bytes, header: BatchHeader, position: int = 0) -> Iterator[SkimmedRecord]:
    """Yield the records of decompressed `data`; `position` is the batch's, for error messages. CorruptRecordError."""
    check_elements(header.record_count, header, position)
    appended_at = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    base_offset, last_offset = header.base_offset, header.last_offset
    base_timestamp, size, new = header.base_timestamp, len(data), tuple.__new__
    previous, at = base_offset - 1, 0
    for index in range(header.record_count):
        start = at
        try:
            # Most numbers take one byte; a call for each would be most of what a record costs.
            byte = data[at]
            length, at = (byte >> 1 ^ -(byte & 1), at + 1) if byte < 0x80 else read_varint(data, at)
            end = at + length
            if length < 0 or end > size:
                raise ValueError(f"record length {length} where {size - at} bytes are left")
            byte = data[at + 1]
            delta, at = (byte >> 1 ^ -(byte & 1), at + 2) if byte < 0x80 else read_varlong(data, at + 1)
            timestamp = base_timestamp + delta if appended_at is None else appended_at
            if not _TIMESTAMP_MIN <= timestamp <= _TIMESTAMP_MAX:
                raise ValueError(f"timestamp {timestamp} is no int64")
            byte = data[at]
            delta, at = (byte >> 1 ^ -(byte & 1), at + 1) if byte < 0x80 else read_varint(data, at)
            byte = data[at]
            key_size, key_at = (byte >> 1 ^ -(byte & 1), at + 1) if byte < 0x80 else read_varint(data, at)
            at = key_at + key_size if key_size > 0 else key_at
            byte = data[at]
            value_size, value_at = (byte >> 1 ^ -(byte & 1), at + 1) if byte < 0x80 else read_varint(data, at)
            stop = value_at + value_size if value_size > 0 else value_at
            if key_size < -1 or value_size < -1 or stop >= end:
                raise ValueError(f"key of {key_size} bytes, value of {value_size}, in a record of {length}")
            offset = base_offset + delta
            if not previous < offset <= last_offset:
                raise ValueError(f"offset {offset} after {previous} in a batch that ends at {last_offset}")
        except (IndexError, ValueError) as error:
            raise record_fault(error, index, start, header, position) from error
        previous, at = offset, end
        yield new(SkimmedRecord, (offset, timestamp, data, key_at, key_size, value_at, value_size, end))
    check_end(data, at, header, position)


def check_elements(count: int, header: BatchHeader, position: int) -> None:
    """CorruptRecordError if a batch has so many records and headers that it cannot be meant."""
    if count > BATCH_ELEMENTS_MAX:
        reason = f"{count} records and headers, at most {BATCH_ELEMENTS_MAX} are read"
        raise CorruptRecordError(f"batch at offset {header.base_offset}: {reason}", position)


def check_end(data: bytes, at: int, header: BatchHeader, position: int) -> None:
    """CorruptRecordError if anything follows the last record."""
    if at != len(data):
        raise CorruptRecordError(f"{len(data) - at} bytes after the last of {header.record_count} records", position)


def record_fault(error: Exception, index: int, at: int, header: BatchHeader, position: int) -> CorruptRecordError:
    """Return the error that names the record, which begins at byte `at` of the records."""
    reason = "the records end early" if isinstance(error, IndexError) else error
    return CorruptRecordError(
        f"record {index} of {header.record_count} (from byte {at} of the records): {reason}", position
    )
