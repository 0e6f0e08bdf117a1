"""Columns decoded all at once, against the decoder that goes record by record"""

from __future__ import annotations

import random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import AbortedTransaction
from tierfetch.pipeline.core.batch_table import OFFSET_END, Selection
from tierfetch.pipeline.core.decode import COLUMN_TYPES, WIDE_BATCHES_MIN, decode
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import (
    Compression,
    Record,
    TimestampType,
    build_batch,
    iter_batches,
    iter_records,
)
from tierfetch.protocol.records.budget import BATCH_ELEMENTS_MAX
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.tests import samples
from tierfetch.tests.bombs import header_bomb
from tierfetch.tests.protocol.record_strategies import batches

Row = dict[str, Any]


def rows(data: bytes, selection: Selection | None = None, columns: tuple[str, ...] = tuple(COLUMN_TYPES)) -> list[Row]:
    found: list[Row] = []
    for table in decode(memoryview(data), columns, selection or Selection()):
        table["timestamp"] = table["timestamp"].cast("int64") if "timestamp" in table else None
        lists = [table[name].to_pylist() for name in columns]
        found += [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
    return found


def expected_rows(data: bytes) -> list[Row]:
    """By the decoder that brokers and tools use."""
    found = []
    for position, header in iter_batches(data):
        if header.is_control:
            continue
        for record in iter_records(data, position, header):
            delta = record.offset - header.base_offset
            found.append(
                {
                    "key": record.key,
                    "value": record.value,
                    "offset": record.offset,
                    "timestamp": record.timestamp * 1000,
                    "timestampType": int(header.timestamp_type),
                    "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
                    "leader_epoch": header.partition_leader_epoch,
                    "producer_id": header.producer_id,
                    "producer_epoch": header.producer_epoch,
                    "sequence": -1 if header.base_sequence < 0 else (header.base_sequence + delta) % 2**31,
                }
            )
    return found


def record(offset: int, value: bytes | None = b"v", key: bytes | None = None) -> Record:
    return Record(offset, 1_700_000_000_000 + offset, key, value)


@pytest.mark.slow
@given(st.lists(batches(), max_size=4))
def test_P1_columns_equal_records_one_by_one(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert rows(data) == expected_rows(data)


@pytest.mark.parametrize("topic", samples.TOPICS)
def test_P1_columns_of_real_kafka_files(topic: str) -> None:
    for path in samples.log_files(topic):
        data = path.read_bytes()
        assert rows(data) == expected_rows(data)


@pytest.mark.parametrize("per_batch", [1, 3, 700])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_many_small_batches_and_few_large_ones(per_batch: int, codec: Compression) -> None:
    """Both ways of finding where records begin; lengths of one, two and three bytes."""
    rng = random.Random(1)
    count = per_batch * WIDE_BATCHES_MIN * 2 if per_batch < 10 else per_batch * 3
    sizes = [rng.choice((0, 10, 100, 9000 if offset % 97 == 0 else 5)) for offset in range(count)]
    records = [record(offset, rng.randbytes(size)) for offset, size in enumerate(sizes)]
    data = b"".join(
        build_batch(records[at : at + per_batch], base_offset=at, compression=codec)
        for at in range(0, count, per_batch)
    )
    found = rows(data, columns=("offset", "value"))
    assert found == [{"offset": record.offset, "value": record.value} for record in records]


def test_offsets_outside_of_the_selection_are_left_out() -> None:
    data = b"".join(build_batch([record(o) for o in range(at, at + 10)], base_offset=at) for at in range(0, 50, 10))
    found = rows(data, Selection(15, 32), ("offset",))
    assert [row["offset"] for row in found] == list(range(15, 32))


def test_control_batches_and_aborted_transactions_are_left_out() -> None:
    def part(base: int, producer: int, *, transactional: bool) -> bytes:
        return build_batch(
            [record(base), record(base + 1)],
            base_offset=base,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=transactional,
        )

    abort = EndTransactionMarker(ControlType.ABORT, 7)
    marker = build_end_transaction_batch(abort, base_offset=6, producer_id=1, producer_epoch=0, timestamp_ms=5)
    data = part(0, 1, transactional=True) + part(2, 2, transactional=True) + part(4, 1, transactional=False) + marker
    later = part(8, 1, transactional=True)
    aborted = (AbortedTransaction(1, 0, 6, 7),)
    found = rows(data + later, Selection(0, OFFSET_END, aborted), ("offset",))
    assert [row["offset"] for row in found] == [2, 3, 4, 5, 8, 9]


def test_log_append_time_and_absent_fields() -> None:
    data = build_batch([record(0, None), record(1, b"")], base_offset=0, timestamp_type=TimestampType.LOG_APPEND_TIME)
    found = rows(data, columns=("key", "value", "timestamp", "timestampType", "headers"))
    assert [row["value"] for row in found] == [None, b""]
    assert {row["timestamp"] for row in found} == {1_700_000_000_001_000}
    assert {(row["key"], row["timestampType"], row["headers"]) for row in found} == {(None, 1, None)}


def test_header_names_that_are_no_text_are_read_as_the_java_consumer_does() -> None:
    data = bytearray(build_batch([Record(0, 0, None, None, (("ab", b"x"),))], base_offset=0))
    at = data.index(b"ab")
    data[at : at + 2] = b"\xff\xfe"
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    assert rows(bytes(data), columns=("headers",)) == [{"headers": [{"key": "��", "value": b"x"}]}]


# What is wrong is named, or passed over where that is wanted.


def three_batches() -> tuple[bytes, list[int]]:
    parts = [build_batch([record(o) for o in range(at, at + 5)], base_offset=at) for at in (0, 5, 10)]
    return b"".join(parts), [0, len(parts[0]), len(parts[0]) + len(parts[1])]


def permissive(data: bytearray) -> tuple[list[int], list[CorruptRecordError]]:
    """Offsets that could be read, and what was told."""
    faults: list[CorruptRecordError] = []
    tables = decode(memoryview(data), ("offset",), Selection(), faults.append)
    return [offset for table in tables for offset in table["offset"].to_pylist()], faults


def test_a_flipped_bit_is_named_with_its_batch() -> None:
    data, positions = three_batches()
    broken = bytearray(data)
    broken[positions[1] + 70] ^= 1
    with pytest.raises(CorruptRecordError, match="batch at offset 5 has CRC") as caught:
        rows(bytes(broken))
    assert caught.value.position == positions[1]


def test_permissive_passes_over_the_broken_batch_alone() -> None:
    data, positions = three_batches()
    broken = bytearray(data)
    broken[positions[1] + 70] ^= 1
    found, faults = permissive(broken)
    assert found == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert [fault.position for fault in faults] == [positions[1]]


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00"])
def test_permissive_finds_the_next_batch_behind_a_length_that_cannot_be(length: bytes) -> None:
    data, positions = three_batches()
    broken = bytearray(data)
    broken[positions[1] + 8 : positions[1] + 12] = length
    found, faults = permissive(broken)
    assert found == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert [fault.position for fault in faults] == [positions[1]]
    broken[positions[2] + 8 : positions[2] + 12] = length
    found, faults = permissive(broken)
    assert found == [0, 1, 2, 3, 4]
    assert [fault.position for fault in faults] == [positions[1]], "there is nothing more to tell"


@given(st.data())
def test_permissive_loses_no_batch_that_is_whole(data: st.DataObject) -> None:
    """Any bytes put over any part of one batch of three."""
    whole, positions = three_batches()
    which = data.draw(st.integers(0, 2))
    end = [*positions, len(whole)][which + 1]
    at = data.draw(st.integers(positions[which], end - 1))
    noise = data.draw(st.binary(min_size=1, max_size=end - at))
    broken = bytearray(whole)
    broken[at : at + len(noise)] = noise
    found, _ = permissive(broken)
    for other in {0, 1, 2} - {which}:
        assert set(range(other * 5, other * 5 + 5)) <= set(found)


@pytest.mark.parametrize("cut", [1, 30, 61, 90])
def test_a_batch_that_is_cut_is_a_fault(cut: int) -> None:
    data, _ = three_batches()
    with pytest.raises(CorruptRecordError, match="the data ends"):
        rows(data[:-cut])


@given(st.data())
def test_whatever_the_records_are_it_is_columns_or_a_named_fault(data: st.DataObject) -> None:
    """Records with a right CRC that no encoder wrote: the same verdict as the decoder that goes one by one."""
    whole = bytearray(build_batch([record(0, b"abc", b"k"), record(1, None)], base_offset=0))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(61, len(whole) - 1))] = data.draw(st.integers(0, 255))
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    try:
        expected = expected_rows(bytes(whole))
    except CorruptRecordError:
        with pytest.raises(CorruptRecordError):
            rows(bytes(whole))
    else:
        assert rows(bytes(whole)) == expected


def test_a_record_with_very_many_headers_is_read_and_a_batch_with_more_is_a_named_fault() -> None:
    fits, bomb = header_bomb(BATCH_ELEMENTS_MAX - 1), header_bomb(BATCH_ELEMENTS_MAX)
    (table,) = decode(memoryview(fits), ("offset", "headers"), Selection())
    assert len(table["headers"][0]) == BATCH_ELEMENTS_MAX - 1
    with pytest.raises(CorruptRecordError, match="batch at offset 0: 1000001 records and headers in one batch"):
        list(decode(memoryview(bomb), ("offset",), Selection()))
    offsets, faults = permissive(bytearray(bomb + build_batch([record(1)], base_offset=1)))
    assert (offsets, len(faults)) == ([1], 1)


def test_headers_are_the_same_in_step_and_one_by_one() -> None:
    headers = tuple((f"name{number}", None if number % 3 else b"v" * number) for number in range(200))
    batch = build_batch([Record(0, 0, b"k", b"v", headers), Record(1, 0, headers=headers[:3])], base_offset=0)
    assert rows(batch) == expected_rows(batch)
