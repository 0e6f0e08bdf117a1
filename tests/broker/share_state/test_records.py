"""Kafka's format of `__share_group_state`: ShareSnapshot and ShareUpdate, byte for byte."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.share_state.core.batches import ACKNOWLEDGED, Batch
from tierfetch.broker.share_state.core.records import ShareKey, ShareRecord, Snapshot, Update, decode_record
from tierfetch.protocol import CorruptRecordError

KEY = ShareKey("g", UUID(int=7), 3)
SNAPSHOT = Snapshot(
    snapshot_epoch=1,
    state_epoch=2,
    leader_epoch=3,
    start_offset=10,
    delivery_complete_count=4,
    create_timestamp_ms=5,
    write_timestamp_ms=6,
    batches=(Batch(11, 12, ACKNOWLEDGED, 1),),
)
UPDATE = Update(snapshot_epoch=1, leader_epoch=3, start_offset=-1, batches=(Batch(11, 12, ACKNOWLEDGED, 1),))
KEY_TAIL = "000167" + "00000000000000000000000000000007" + "00000003"
BATCH = "02" + "000000000000000b" + "000000000000000c" + "02" + "0001" + "00"


def test_a_snapshot() -> None:
    key, value = ShareRecord(KEY, SNAPSHOT).encoded()
    assert value is not None
    assert key.hex() == "0000" + KEY_TAIL
    head = "0000" + "00000001" + "00000002" + "00000003" + "000000000000000a"
    times = "0000000000000005" + "0000000000000006"
    assert value.hex() == head + times + BATCH + "01" + "0004" + "00000004"
    assert decode_record(key, value) == ShareRecord(KEY, SNAPSHOT)


def test_an_update() -> None:
    key, value = ShareRecord(KEY, UPDATE).encoded()
    assert value is not None
    assert key.hex() == "0001" + KEY_TAIL
    assert value.hex() == "0000" + "00000001" + "00000003" + "ffffffffffffffff" + BATCH + "00"
    assert decode_record(key, value) == ShareRecord(KEY, UPDATE)


def test_a_tombstone_is_of_the_snapshot() -> None:
    key, value = ShareRecord(KEY, None).encoded()
    assert (key.hex(), value) == ("0000" + KEY_TAIL, None)
    assert decode_record(key, None) == ShareRecord(KEY, None)


def test_the_text_of_a_key_is_kafkas() -> None:
    assert str(KEY) == "g:AAAAAAAAAAAAAAAAAAAABw:3"


def test_another_kind_is_skipped() -> None:
    assert decode_record(b"\0\2", b"") is None


@pytest.mark.parametrize("record", [SNAPSHOT, UPDATE])
def test_a_range_that_is_none_is_corrupt(record: Snapshot | Update) -> None:
    key, value = ShareRecord(KEY, replace(record, batches=(Batch(5, 4, 0, 1),))).encoded()
    with pytest.raises(CorruptRecordError):
        decode_record(key, value)


@given(st.binary(max_size=80), st.sampled_from([0, 1]))
def test_any_bytes_are_read_or_refused(data: bytes, kind: int) -> None:
    key = kind.to_bytes(2, "big") + bytes.fromhex(KEY_TAIL)
    for value in (data, b"\0\0" + data):
        with suppress(CorruptRecordError):
            assert decode_record(key, value) is not None


@pytest.mark.parametrize(("at", "rotten"), [("0000000c", "0000000c82"), ("0000000c02", "0000000c02ff")])
def test_A1_a_range_in_a_state_or_of_a_count_that_is_none_is_refused(at: str, rotten: str) -> None:
    """It was read, and the next snapshot could not be written."""
    key, value = ShareRecord(KEY, SNAPSHOT).encoded()
    assert value is not None
    position = value.index(bytes.fromhex(at))
    data = bytearray(value)
    data[position : position + len(rotten) // 2] = bytes.fromhex(rotten)
    with pytest.raises(CorruptRecordError, match="in a delivery state"):
        decode_record(key, bytes(data))
