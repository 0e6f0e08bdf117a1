from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.segment.batch_scan import end_transaction_marker
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import (
    BatchHeader,
    Record,
    build_batch,
    iter_batches,
    iter_records,
    parse_header,
    skim_records,
)
from tierfetch.protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_batch,
    control_key,
    control_type,
    parse_end_transaction_marker,
    usual_marker,
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


markers = st.builds(
    EndTransactionMarker, st.sampled_from([ControlType.COMMIT, ControlType.ABORT]), st.integers(0, 2**31 - 1)
)


@given(markers, st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**15 - 1))
def test_a_marker_is_a_batch_of_one_control_record(
    marker: EndTransactionMarker, offset: int, timestamp_ms: int, producer_epoch: int
) -> None:
    ids = {"base_offset": offset, "producer_id": 7, "producer_epoch": producer_epoch}
    value = b"\0\0" + marker.coordinator_epoch.to_bytes(4, "big")
    record = Record(offset, timestamp_ms, control_key(marker.type), value)
    batch = build_end_transaction_batch(marker, timestamp_ms=timestamp_ms, **ids)
    assert batch == build_batch([record], is_transactional=True, is_control=True, **ids)


def read_by_record(data: bytes, header: BatchHeader) -> EndTransactionMarker | None:
    (record,) = skim_records(data, 0, header)
    return parse_end_transaction_marker(record) if control_type(record) in (0, 1) else None


@given(markers, st.integers(12, 77), st.integers(0, 255))
def test_what_is_read_as_a_usual_marker_is_what_its_record_says(
    marker: EndTransactionMarker, place: int, byte: int
) -> None:
    data = bytearray(
        build_end_transaction_batch(marker, base_offset=0, timestamp_ms=5, producer_id=7, producer_epoch=1)
    )
    assert usual_marker(data, 0, parse_header(data, 0)) == marker
    assert usual_marker(data[:place], 0, parse_header(data, 0)) is None
    data[place] = byte
    try:
        header = parse_header(data, 0)
    except CorruptRecordError:
        return
    usual = usual_marker(data, 0, header)
    if usual is not None:
        assert usual == read_by_record(bytes(data), header)


def test_a_marker_of_a_later_version_is_no_usual_one() -> None:
    record = Record(0, 5, control_key(ControlType.COMMIT), b"\0\1\0\0\0\3\xff")
    data = build_batch([record], base_offset=0, producer_id=7, producer_epoch=1, is_transactional=True, is_control=True)
    header = parse_header(data, 0)
    assert usual_marker(data, 0, header) is None
    assert end_transaction_marker(data, 0, header) == EndTransactionMarker(ControlType.COMMIT, 3)


def test_real_markers_are_rebuilt_byte_for_byte() -> None:
    rebuilt = 0
    for data in samples.batches("s-none"):
        ((_, header),) = iter_batches(data)
        if not header.is_control:
            continue
        (record,) = iter_records(data)
        assert usual_marker(data, 0, header) == parse_end_transaction_marker(record)
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
