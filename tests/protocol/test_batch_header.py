from __future__ import annotations

import struct

import pytest

from tierfetch.protocol.errors import CorruptRecordError, ErrorCode
from tierfetch.protocol.records import (
    BATCH_HEADER_SIZE,
    Compression,
    Record,
    TimestampType,
    build_batch,
    check_batch,
    iter_batches,
    iter_records,
    parse_header,
    stamp_batch,
)


def batch(base_offset: int = 10, count: int = 3, **fields) -> bytes:
    records = [Record(base_offset + i, 1000 + i, b"key", b"value") for i in range(count)]
    return build_batch(records, base_offset=base_offset, **fields)


def spoiled(at: int, form: str, value: int) -> bytes:
    data = bytearray(batch())
    struct.pack_into(form, data, at, value)
    return bytes(data)


def test_header_of_a_built_batch() -> None:
    data = batch(
        10, 3, partition_leader_epoch=4, producer_id=7, producer_epoch=2, base_sequence=5, is_transactional=True
    )
    header = parse_header(b"??" + data, 2)
    assert (header.base_offset, header.last_offset, header.next_offset) == (10, 12, 13)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 5, 7)
    assert header.has_producer_id
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert header.size_bytes == len(data)
    assert header.partition_leader_epoch == 4
    assert header.compression is Compression.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME


@pytest.mark.parametrize(
    ("base_sequence", "count", "last_sequence"),
    [(-1, 3, -1), (0, 1, 0), (2**31 - 3, 3, 2**31 - 1), (2**31 - 1, 2, 0), (2**31 - 2, 4, 1)],
)
def test_sequences_wrap_to_zero(base_sequence: int, count: int, last_sequence: int) -> None:
    assert parse_header(batch(0, count, base_sequence=base_sequence)).last_sequence == last_sequence


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (16, ">b", 1, "magic 1 where 2 is expected"),
        (8, ">i", 48, "batch length 48 where at least 49"),
        (8, ">i", -1, "batch length -1"),
        (0, ">q", -5, "negative base offset -5"),
        (21, ">h", 5, "unknown codec 5"),
        (57, ">i", 4, "4 records where the last offset delta is 2"),
        (57, ">i", -1, "-1 records"),
        (23, ">i", -1, "3 records where the last offset delta is -1"),
    ],
)
def test_impossible_header(at: int, form: str, value: int, message: str) -> None:
    data = spoiled(at, form, value)
    with pytest.raises(CorruptRecordError, match=message) as caught:
        parse_header(data)
    assert caught.value.code is ErrorCode.corrupt_message
    with pytest.raises(CorruptRecordError, match=message) as caught:
        list(iter_batches(batch() + data))
    assert caught.value.position == len(batch())


def test_producer_ids_begin_at_0() -> None:
    header = parse_header(batch())
    assert not header._replace(producer_id=-1).has_producer_id
    assert header._replace(producer_id=0).has_producer_id


def test_short_header() -> None:
    assert parse_header(batch()[:BATCH_HEADER_SIZE]) == parse_header(batch())
    with pytest.raises(CorruptRecordError, match="60 bytes where a batch header of 61 is expected"):
        parse_header(batch()[: BATCH_HEADER_SIZE - 1])


def test_iter_batches_gives_positions_and_stops_at_an_incomplete_tail() -> None:
    first, second = batch(0), batch(3, 5)
    data = first + second
    for cut in range(len(second)):
        found = [(position, header.base_offset) for position, header in iter_batches(data[: len(first) + cut])]
        assert found == [(0, 0)]
    assert [position for position, _ in iter_batches(data)] == [0, len(first)]
    assert [position for position, _ in iter_batches(data, len(first))] == [len(first)]
    assert [position for position, _ in iter_batches(data, 0, len(data) - 1)] == [0]


def test_empty_batch_left_by_compaction_is_legal() -> None:
    data = bytearray(batch()[:BATCH_HEADER_SIZE])
    struct.pack_into(">i", data, 8, BATCH_HEADER_SIZE - 12)
    struct.pack_into(">i", data, 57, 0)
    ((position, header),) = iter_batches(data, check_crc=False)
    assert (header.last_offset, header.record_count) == (12, 0)
    assert list(iter_records(data, position, header)) == []


def test_a_batch_without_an_offset_is_impossible() -> None:
    data = bytearray(batch())
    struct.pack_into(">i", data, 23, -1)
    struct.pack_into(">i", data, 57, 0)
    with pytest.raises(CorruptRecordError, match="0 records where the last offset delta is -1"):
        parse_header(data)


def test_every_bit_under_the_crc_counts() -> None:
    data = batch()
    for byte in range(21, len(data)):
        flipped = bytearray(data)
        flipped[byte] ^= 0x04
        with pytest.raises(CorruptRecordError):
            list(iter_batches(flipped))


def test_wrong_crc_is_named_unless_unasked() -> None:
    data = batch(0) + spoiled(17, ">I", 0x1234)
    with pytest.raises(CorruptRecordError, match=r"CRC-32C is 0x\w{8}, the header says 0x00001234") as caught:
        list(iter_batches(data))
    assert caught.value.position == len(batch(0))
    assert len(list(iter_batches(data, check_crc=False))) == 2
    with pytest.raises(CorruptRecordError, match="CRC-32C"):
        check_batch(data, len(batch(0)), parse_header(data, len(batch(0))))
    check_batch(data, 0, parse_header(data))


def test_check_batch_wants_the_whole_batch() -> None:
    data = batch()
    with pytest.raises(CorruptRecordError, match="ends early"):
        check_batch(data[:-1], 0, parse_header(data))


def test_walking_does_not_keep_the_buffer_locked() -> None:
    data = bytearray(batch())
    for _ in iter_batches(data):
        pass
    list(iter_records(data))
    data += b"grows"


@pytest.mark.parametrize("wrap", [bytearray, lambda data: memoryview(bytearray(data))])
def test_stamp_offset_and_epoch_leaves_the_crc_alone(wrap) -> None:
    data = wrap(b"???" + batch(0))
    header = parse_header(data, 3)
    stamped = stamp_batch(data, 3, header, base_offset=500, partition_leader_epoch=9)
    assert stamped == header._replace(base_offset=500, partition_leader_epoch=9)
    assert list(iter_batches(data, 3)) == [(3, stamped)]
    assert [record.offset for record in iter_records(data, 3)] == [500, 501, 502]


def test_stamp_log_append_time() -> None:
    data = bytearray(batch(0))
    stamped = stamp_batch(
        data, 0, parse_header(data), base_offset=0, partition_leader_epoch=0, log_append_time_ms=77_000
    )
    assert stamped.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert stamped.max_timestamp == 77_000
    assert list(iter_batches(data)) == [(0, stamped)]
    assert {record.timestamp for record in iter_records(data)} == {77_000}
