from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import (
    BATCH_HEADER_SIZE,
    Compression,
    Record,
    TimestampType,
    build_batch,
    iter_batches,
    iter_records,
    parse_header,
)
from tierfetch.tests.protocol.record_strategies import codecs, record_lists

RECORDS = [
    Record(100, 1000, b"k", b"v", (("h", b"1"), ("h", None))),
    Record(101, 990, None, None),
    Record(105, 1020, b"", b""),
]


@given(records=record_lists(), compression=codecs, data=st.data())
@settings(max_examples=60, deadline=None)
def test_build_then_parse_is_equal(records: list[Record], compression: Compression, data: st.DataObject) -> None:
    base_offset = data.draw(st.integers(max(0, records[0].offset - 1000), records[0].offset))
    fields: dict[str, Any] = {
        "partition_leader_epoch": data.draw(st.integers(-1, 2**31 - 1)),
        "producer_id": data.draw(st.integers(-1, 2**63 - 1)),
        "producer_epoch": data.draw(st.integers(-1, 2**15 - 1)),
        "base_sequence": data.draw(st.integers(-1, 2**31 - 1)),
        "is_transactional": data.draw(st.booleans()),
        "is_control": data.draw(st.booleans()),
    }
    built = build_batch(records, base_offset=base_offset, compression=compression, **fields)
    ((position, header),) = iter_batches(built)
    assert (position, header.size_bytes) == (0, len(built))
    assert list(iter_records(built)) == records
    assert {name: getattr(header, name) for name in fields} == fields
    assert header.compression is compression
    assert (header.base_offset, header.last_offset) == (base_offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_log_append_time_gives_all_records_the_max_timestamp() -> None:
    data = build_batch(RECORDS, base_offset=100, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in iter_records(data)] == [1020, 1020, 1020]


def test_delete_horizon_is_the_base_of_timestamps() -> None:
    data = bytearray(build_batch(RECORDS, base_offset=100))
    struct.pack_into(">h", data, 21, 0x40)
    assert parse_header(data).has_delete_horizon
    assert list(iter_records(data)) == RECORDS


def test_foreign_header_name_is_read_with_replacement_characters() -> None:
    data = build_batch([Record(0, 0, headers=(("abc", b"x"),))], base_offset=0)
    (record,) = iter_records(data.replace(b"abc", b"a\xffc"))
    assert record.headers == (("a\ufffdc", b"x"),)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "needs at least one record"),
        ([Record(99, 0)], "is below the base offset 100"),
        ([Record(100, 0), Record(100, 0)], "do not rise"),
    ],
)
def test_builder_refuses_nonsense(records: list[Record], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        build_batch(records, base_offset=100)


def body(*records: bytes) -> bytes:
    """An uncompressed batch at offset 0 around hand-made records; its last offset delta is 9."""
    payload = b"".join(bytes([len(record) * 2]) + record for record in records)
    built = bytearray(build_batch([Record(0, 0), Record(9, 0)], base_offset=0)[:BATCH_HEADER_SIZE]) + payload
    struct.pack_into(">i", built, 8, len(built) - 12)
    struct.pack_into(">i", built, 57, len(records))
    return bytes(built)


# attributes, timestamp delta, offset delta, null key, null value, no headers
PLAIN = b"\0\0\0\1\1\0"


def test_hand_made_record_is_right() -> None:
    assert list(iter_records(body(PLAIN))) == [Record(0, 0)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (body(b"\0\0\0\3\1\0"), "field length -2"),
        (body(b"\0\0\0\x40\1\0"), "field length 32 at byte 5 of the records, where its record ends at 7"),
        (body(b"\0\0\0\1\1\1"), "negative header count -1"),
        (body(b"\0\0\0\1\1\2\1\0"), "a header's name is null"),
        (body(b"\0\0\0\1\1\2\2a\3"), "field length -2"),
        (body(b"\0\0\0\1\1\0\0"), "its fields take 6 bytes where its length is 7"),
        (body(b"\0\0\0\1\1"), "the records end early"),
        (body(b"\0\0\0\1\1", PLAIN), "field length 0 at byte 8 of the records, where its record ends at 6"),
        (body(b"\0\0\xff\xff\xff\xff\x7f\1\1\0"), "wider than 32 bits"),
        (body(b"\0" + b"\xff" * 10 + b"\0\0\1\1\0"), "wider than 64 bits"),
        (body(b"\0\0\x14\1\1\0"), "offset 10 after -1 in a batch that ends at 9"),
        (body(PLAIN, PLAIN), "offset 0 after 0"),
        (body(b"\0\0\1\1\1\0"), "offset -1 after -1"),
        (body(b""), "the records end early"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_record(data: bytes, message: str) -> None:
    with pytest.raises(CorruptRecordError, match=message) as caught:
        list(iter_records(b"####" + data, 4))
    assert caught.value.position == 4
    assert "of the records" in caught.value.message


@pytest.mark.parametrize(("length", "encoded"), [(-1, b"\1"), (7, b"\x0e"), (63, b"\x7e")])
def test_record_length_that_cannot_be(length: int, encoded: bytes) -> None:
    data = body(PLAIN)
    with pytest.raises(CorruptRecordError, match=f"record length {length} where 6 bytes are left"):
        list(iter_records(data[:BATCH_HEADER_SIZE] + encoded + data[BATCH_HEADER_SIZE + 1 :]))


def test_timestamp_beyond_int64() -> None:
    data = bytearray(body(b"\0\2\0\1\1\0"))
    struct.pack_into(">q", data, 27, 2**63 - 1)
    with pytest.raises(CorruptRecordError, match=f"timestamp {2**63} is no int64"):
        list(iter_records(data))


@pytest.mark.parametrize(
    ("count", "message"), [(1, "7 bytes after the last of 1 records"), (3, "record 2 of 3.*the records end early")]
)
def test_record_count_must_match(count: int, message: str) -> None:
    data = bytearray(body(PLAIN, b"\0\0\2\1\1\0"))
    struct.pack_into(">i", data, 57, count)
    with pytest.raises(CorruptRecordError, match=message):
        list(iter_records(data))


def test_batch_that_ends_early() -> None:
    data = build_batch(RECORDS, base_offset=100)
    with pytest.raises(CorruptRecordError, match=f"batch of {len(data)} bytes ends early"):
        iter_records(data[:-1])


@pytest.mark.parametrize("compression", [codec for codec in Compression if codec is not Compression.NONE])
def test_decompression_bomb_is_refused(compression: Compression) -> None:
    bomb = build_batch([Record(0, 0, None, bytes(1 << 20))], base_offset=0, compression=compression)
    assert len(bomb) < 60_000
    with pytest.raises(CorruptRecordError, match=compression.name.lower()):
        iter_records(bomb, decompressed_bytes_max=1 << 20)


@pytest.mark.parametrize("grow", [lambda payload: payload + b"\0", lambda payload: payload[:-2]])
@pytest.mark.parametrize("compression", [codec for codec in Compression if codec is not Compression.NONE])
def test_damaged_compression_names_the_batch(compression: Compression, grow: Callable[[bytes], bytes]) -> None:
    data = bytearray(build_batch(RECORDS, base_offset=100, compression=compression))
    data[BATCH_HEADER_SIZE:] = grow(bytes(data[BATCH_HEADER_SIZE:]))
    struct.pack_into(">i", data, 8, len(data) - 12)
    with pytest.raises(CorruptRecordError, match=f"{compression.name.lower()}.*batch at byte 0"):
        iter_records(data)
