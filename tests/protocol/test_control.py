from __future__ import annotations

import pytest

from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import Record, iter_batches, iter_records
from tierfetch.protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_batch,
    control_type,
    parse_end_transaction_marker,
)
from tierfetch.tests import samples


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_marker_round_trip(kind: ControlType) -> None:
    marker = EndTransactionMarker(kind, coordinator_epoch=6)
    data = build_end_transaction_batch(
        marker, base_offset=9, timestamp_ms=5, producer_id=3, producer_epoch=1, partition_leader_epoch=2
    )
    ((_, header),) = iter_batches(data)
    (record,) = iter_records(data)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 1, -1)
    assert control_type(record) is kind
    assert parse_end_transaction_marker(record) == marker


def test_real_markers_are_rebuilt_byte_for_byte() -> None:
    rebuilt = 0
    for data in samples.batches("s-none"):
        ((_, header),) = iter_batches(data)
        if not header.is_control:
            continue
        (record,) = iter_records(data)
        again = build_end_transaction_batch(
            parse_end_transaction_marker(record),
            base_offset=header.base_offset,
            timestamp_ms=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partition_leader_epoch=header.partition_leader_epoch,
        )
        assert again == data
        rebuilt += 1
    assert rebuilt == 17


def test_quorum_control_records_are_recognised() -> None:
    data = (samples.CONTROLLER / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    kinds = [
        control_type(record)
        for position, header in iter_batches(data)
        if header.is_control
        for record in iter_records(data, position, header)
    ]
    assert kinds == [ControlType.LEADER_CHANGE]


def test_type_of_a_later_kafka_is_unknown() -> None:
    assert control_type(Record(0, 0, key=b"\0\0\0\x63")) is ControlType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_malformed_key(key: bytes | None) -> None:
    with pytest.raises(CorruptRecordError, match="control record at offset 8"):
        control_type(Record(8, 0, key=key))


@pytest.mark.parametrize("value", [None, b"", bytes(5), b"\xff\xff\0\0\0\0"])
def test_malformed_marker(value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError, match="control record at offset 8"):
        parse_end_transaction_marker(Record(8, 0, key=bytes(4), value=value))


def test_only_commit_and_abort_are_markers() -> None:
    with pytest.raises(AssertionError, match="ends no transaction"):
        EndTransactionMarker(ControlType.LEADER_CHANGE, 0)
