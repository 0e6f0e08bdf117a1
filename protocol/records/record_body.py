"""The records inside a batch, uncompressed: bytes <-> values. Lengths and deltas are variable-length integers.

    record := length, attributes int8 (unused), timestamp delta, offset delta, key, value, header count, header*
    key, value, header value := length or -1 for null, bytes        header := name length, UTF-8 name, value

Rules, each a CorruptRecordError when broken: offsets rise within the batch up to the last offset delta; a record fills
its length and the records fill the batch; no length below -1; a header's name is never null. A name that is no UTF-8
is read with U+FFFD in place of what is wrong, as the Java consumer does: no broker ever checked it. A batch has at most
`BATCH_ELEMENTS_MAX` records and headers together; what needs no headers reads records by `skim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from ..wire.varint import read_varint, read_varlong, write_varint
from .batch_header import BatchHeader, TimestampType
from .budget import BATCH_ELEMENTS_MAX
from .skim import SkimmedRecord, check_elements, check_end, record_fault

Headers = tuple[tuple[str, bytes | None], ...]

_TIMESTAMP_MIN = -(2**63)
_TIMESTAMP_MAX = 2**63 - 1


class Record(NamedTuple):
    """One record. `timestamp` in ms since the epoch, -1 if there is none; names in `headers` may repeat."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


RecordT = TypeVar("RecordT", Record, SkimmedRecord)


def decode_records(data: bytes, header: BatchHeader, position: int = 0) -> Iterator[Record]:
    """Yield the records of the batch with this header; `position` is the batch's, for error messages."""
    appended_at = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    base_offset, base_timestamp, last_offset = header.base_offset, header.base_timestamp, header.last_offset
    previous, elements, at = base_offset - 1, header.record_count, 0
    check_elements(elements, header, position)
    for index in range(header.record_count):
        try:
            record, end = _decode_record(data, at, base_offset, base_timestamp, BATCH_ELEMENTS_MAX - elements)
            if not previous < record.offset <= last_offset:
                raise ValueError(f"offset {record.offset} after {previous} in a batch that ends at {last_offset}")
        except (IndexError, ValueError) as error:
            raise record_fault(error, index, at, header, position) from error
        previous, at = record.offset, end
        elements += len(record.headers)
        yield record if appended_at is None else record._replace(timestamp=appended_at)
    check_end(data, at, header, position)


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Return the records as the bytes that `decode_records` reads, with deltas to the given bases."""
    return _encoded(records, base_offset, base_timestamp, _write_fields)


def encode_skimmed(records: Iterable[SkimmedRecord], base_offset: int, base_timestamp: int) -> bytes:
    """Encode records that were skimmed, with deltas to the given bases; key, value and headers keep their bytes."""
    return _encoded(records, base_offset, base_timestamp, _copy_fields)


def _encoded(
    records: Iterable[RecordT],
    base_offset: int,
    base_timestamp: int,
    write_fields: Callable[[bytearray, RecordT], None],
) -> bytes:
    out = bytearray()
    for record in records:
        body = bytearray(1)
        write_varint(body, record.timestamp - base_timestamp)
        write_varint(body, record.offset - base_offset)
        write_fields(body, record)
        write_varint(out, len(body))
        out += body
    return bytes(out)


def _write_fields(body: bytearray, record: Record) -> None:
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for name, value in record.headers:
        _write_nullable(body, name.encode())
        _write_nullable(body, value)


def _copy_fields(body: bytearray, record: SkimmedRecord) -> None:
    write_varint(body, record.key_size)
    body += record.data[record.key_at : record.end]


def _decode_record(
    data: bytes, start: int, base_offset: int, base_timestamp: int, headers_max: int
) -> tuple[Record, int]:
    length, start = read_varint(data, start)
    end = start + length
    if length < 0 or end > len(data):
        raise ValueError(f"record length {length} where {len(data) - start} bytes are left")
    timestamp_delta, at = read_varlong(data, start + 1)
    timestamp = base_timestamp + timestamp_delta
    if not _TIMESTAMP_MIN <= timestamp <= _TIMESTAMP_MAX:
        raise ValueError(f"timestamp {timestamp} is no int64")
    offset_delta, at = read_varint(data, at)
    key, at = _read_nullable(data, at, end)
    value, at = _read_nullable(data, at, end)
    header_count, at = read_varint(data, at)
    headers: Headers = ()
    if header_count:
        if header_count > headers_max:
            raise ValueError(f"{header_count} headers, where its batch may have {headers_max} more")
        headers, at = _read_headers(data, at, end, header_count)
    if at != end:
        raise ValueError(f"its fields take {at - start} bytes where its length is {length}")
    return Record(base_offset + offset_delta, timestamp, key, value, headers), end


def _read_headers(data: bytes, at: int, end: int, count: int) -> tuple[Headers, int]:
    if count < 0:
        raise ValueError(f"negative header count {count}")
    headers = []
    for _ in range(count):
        name, at = _read_nullable(data, at, end)
        if name is None:
            raise ValueError("a header's name is null")
        value, at = _read_nullable(data, at, end)
        headers.append((name.decode("utf-8", "replace"), value))
    return tuple(headers), at


def _read_nullable(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length == -1:
        return None, at
    stop = at + length
    if length < 0 or stop > end:
        raise ValueError(f"field length {length} at byte {at} of the records, where its record ends at {end}")
    return data[at:stop], stop


def _write_nullable(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value
