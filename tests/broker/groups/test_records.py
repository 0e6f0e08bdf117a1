"""Kafka's record formats of `__consumer_offsets`, byte for byte."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.broker.groups.core.records import (
    GroupKey,
    GroupRecord,
    GroupValue,
    MemberValue,
    OffsetKey,
    OffsetValue,
    decode_record,
    encode_key,
    encode_value,
)
from tierfetch.protocol.errors import CorruptRecordError

TEXT = st.text(max_size=8)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**62)
KEYS = st.one_of(st.builds(OffsetKey, TEXT, TEXT, INT32), st.builds(GroupKey, TEXT))
OFFSETS = st.builds(
    OffsetValue,
    offset=INT64,
    leader_epoch=st.integers(-1, 100),
    metadata=TEXT,
    commit_timestamp_ms=INT64,
    topic_id=st.none() | st.uuids(),
)
MEMBERS = st.builds(
    MemberValue,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT32,
    session_timeout_ms=INT32,
    subscription=st.binary(max_size=8),
    assignment=st.binary(max_size=8),
)
GROUPS = st.builds(
    GroupValue,
    protocol_type=TEXT,
    generation_id=INT32,
    protocol_name=st.none() | TEXT,
    leader=st.none() | TEXT,
    current_state_timestamp_ms=st.integers(-1, 2**62),
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)
RECORDS = st.one_of(
    st.builds(GroupRecord, KEYS, st.none()),
    st.builds(GroupRecord, st.builds(OffsetKey, TEXT, TEXT, INT32), OFFSETS),
    st.builds(GroupRecord, st.builds(GroupKey, TEXT), GROUPS),
)


@given(RECORDS)
def test_records_come_back_as_they_went(record: GroupRecord) -> None:
    key, value = record.encoded()
    assert decode_record(key, value) == record


def test_an_offset_as_kafka_writes_it() -> None:
    assert encode_key(OffsetKey("g", "t", 7)) == bytes.fromhex("000100016700017400000007")
    value = OffsetValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=9)
    assert encode_value(value) == bytes.fromhex("000300000000000000050000000200016d0000000000000009")


def test_an_offset_with_a_topic_id_is_flexible() -> None:
    value = OffsetValue(offset=5, metadata="m", commit_timestamp_ms=9, topic_id=UUID(int=1))
    assert encode_value(value) == bytes.fromhex(
        "00040000000000000005ffffffff026d0000000000000009010010" + "00" * 15 + "01"
    )


def test_an_offset_with_an_expiry_of_its_own_is_version_1_without_an_epoch() -> None:
    value = OffsetValue(offset=5, metadata="m", commit_timestamp_ms=9, expire_timestamp_ms=10)
    written = encode_value(value)
    assert written == bytes.fromhex("0001000000000000000500016d0000000000000009000000000000000a")
    assert decode_record(encode_key(OffsetKey("g", "t", 0)), written) == GroupRecord(OffsetKey("g", "t", 0), value)


def test_a_group_as_kafka_writes_it() -> None:
    assert encode_key(GroupKey("g")) == bytes.fromhex("0002000167")
    member = MemberValue(
        member_id="a",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=3,
        session_timeout_ms=4,
        subscription=b"s",
        assignment=b"",
    )
    value = GroupValue(
        protocol_type="consumer",
        generation_id=2,
        protocol_name="range",
        leader="a",
        current_state_timestamp_ms=9,
        members=(member,),
    )
    assert encode_value(value) == bytes.fromhex(
        "0003"
        "0008" + b"consumer".hex() + "00000002"
        "0005" + b"range".hex() + "000161"
        "0000000000000009"
        "00000001"
        "000161"
        "ffff"
        "000163"
        "00022f68"
        "00000003"
        "00000004"
        "00000001"
        "73"
        "00000000"
    )


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_groups_are_read(version: int) -> None:
    timestamp = "0000000000000009" if version >= 2 else ""
    instance = "000169" if version >= 3 else ""
    rebalance = "00000003" if version >= 1 else ""
    written = bytes.fromhex(
        f"000{version}"
        "000170"
        "00000002"
        "ffff"
        "ffff" + timestamp + "00000001"
        "000161" + instance + "000163"
        "000168" + rebalance + "00000004"
        "00000000"
        "00000000"
    )
    record = decode_record(encode_key(GroupKey("g")), written)
    assert record is not None
    assert isinstance(record.value, GroupValue)
    (member,) = record.value.members
    assert member.rebalance_timeout_ms == (3 if version else 4), "the session's, where there is none of its own"
    assert member.group_instance_id == ("i" if version == 3 else None)


def test_a_flexible_group_of_a_later_kafka_is_read() -> None:
    written = bytes.fromhex("000402700000000200000000000000000009020261000263026800000003000000040173010000").replace(
        b"\x01\x73", b"\x02\x73"
    )
    record = decode_record(encode_key(GroupKey("g")), written)
    assert record is not None
    assert isinstance(record.value, GroupValue)
    assert record.value.members[0].subscription == b"s"


def test_records_of_other_kinds_of_groups_are_passed_over() -> None:
    for version in (9, 17, 22):
        assert decode_record(version.to_bytes(2, "big") + b"\x00\x01g", b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00\x02\x00\x09g", None),
        (b"\x00\x02\x00\x01g", b"\x00\x05"),
        (b"\x00\x02\x00\x01g", b"\x00\x03"),
    ],
)
def test_what_cannot_be_read_is_said(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        decode_record(key, value)


@given(st.binary(max_size=20), st.none() | st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes | None) -> None:
    for version in (b"", b"\x00\x01", b"\x00\x02"):
        try:
            decode_record(version + key, value)
        except CorruptRecordError:
            continue


@pytest.mark.parametrize("topic_id", [None, UUID(int=7)])
def test_an_offset_without_metadata_is_read_as_others_are(topic_id: UUID | None) -> None:
    """It has a way of its own, by its size; with a byte more, which means nothing, it has not."""
    key = encode_key(OffsetKey("group", "topic", 3))
    whole = encode_value(OffsetValue(offset=5, leader_epoch=2, commit_timestamp_ms=9, topic_id=topic_id))

    def read(data: bytes) -> GroupRecord | None:
        try:
            return decode_record(key, data)
        except CorruptRecordError:
            return None

    assert read(whole) is not None
    for at in range(len(whole)):
        for byte in range(256):
            changed = whole[:at] + bytes([byte]) + whole[at + 1 :]
            # With another version or length it may need the byte that was added.
            assert read(changed) in (read(changed + b"\0"), None)
