"""Control records of the quorum: against Kafka's bytes, and there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import Record, iter_batches, iter_records
from tierfetch.protocol.records.control import ControlType, control_key
from tierfetch.protocol.records.quorum_records import (
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
    Voters,
    build_quorum_batch,
    parse_quorum_record,
    quorum_record,
)
from tierfetch.protocol.topics import uuid_from_text
from tierfetch.tests import samples

FORMATTED = (samples.TESTDATA / "quorum" / "standalone.checkpoint").read_bytes()
"""The checkpoint that `kafka-storage format --standalone` of Apache Kafka 4.3.0 wrote."""


def parsed(data: bytes) -> list[list[object]]:
    return [
        [parse_quorum_record(record) for record in iter_records(data, position, header)]
        for position, header in iter_batches(data)
    ]


def test_a_formatted_quorum_as_kafka_writes_it() -> None:
    voter = Voter(1, uuid_from_text("8fF03T8mTdKrJ8jUAsW8zA"), (VoterEndpoint("CONTROLLER", "127.0.0.1", 19391),))
    assert parsed(FORMATTED) == [
        [SnapshotHeader(0x1A1FE29FC3A), KRaftVersion(1), Voters((voter,))],
        [SnapshotFooter()],
    ]


def test_every_record_is_written_as_kafka_writes_it() -> None:
    for position, header in iter_batches(FORMATTED):
        for record in iter_records(FORMATTED, position, header):
            value = parse_quorum_record(record)
            assert quorum_record(value, offset=record.offset, timestamp_ms=record.timestamp) == record


def test_the_leader_change_of_a_real_log() -> None:
    data = (samples.CONTROLLER / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    position, header = next(iter_batches(data))
    (record,) = iter_records(data, position, header)
    change = LeaderChange(100, (100,), (100,))
    assert parse_quorum_record(record) == change
    built = build_quorum_batch(
        [change], base_offset=0, timestamp_ms=record.timestamp, partition_leader_epoch=header.partition_leader_epoch
    )
    assert built == data[: header.size_bytes]


ids = st.integers(0, 2**31 - 1)
voters = st.builds(
    Voter,
    st.integers(0, 2**31 - 1),
    st.uuids(),
    st.lists(
        st.builds(VoterEndpoint, st.text(max_size=5), st.text(max_size=20), st.integers(0, 65535)), max_size=2
    ).map(tuple),
)
values = st.one_of(
    st.builds(LeaderChange, st.integers(0, 9), st.lists(ids, min_size=1).map(tuple), st.lists(ids).map(tuple)),
    st.builds(SnapshotHeader, st.integers(-1, 2**62)),
    st.builds(KRaftVersion, st.integers(0, 9)),
    st.builds(Voters, st.lists(voters, max_size=3).map(tuple)),
)


@given(values)
def test_there_and_back(value: object) -> None:
    assert parse_quorum_record(quorum_record(value, offset=3, timestamp_ms=4)) == value


def test_a_transaction_marker_is_not_the_quorums() -> None:
    assert parse_quorum_record(Record(0, 0, control_key(ControlType.COMMIT), b"\0" * 6)) is None


@pytest.mark.parametrize("value", [None, b"", b"\0", b"\xff\xff", b"\0\0", b"\0\1\0"])
def test_a_value_that_is_none_of_them(value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError, match="LEADER_CHANGE at offset 7"):
        parse_quorum_record(Record(7, 0, control_key(ControlType.LEADER_CHANGE), value))


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    record = quorum_record(KRaftVersion(1), offset=0, timestamp_ms=0)
    later = record._replace(value=b"\0\7" + record.value[2:])
    assert parse_quorum_record(later) == KRaftVersion(1)
