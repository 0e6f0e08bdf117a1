"""Batches that Apache Kafka wrote: read as its consumers read them, and written again byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
from tierfetch.protocol.records.control import ControlType, control_type
from tierfetch.protocol.records.record_body import decode_records, encode_records
from tierfetch.tests import samples

UNCOMPRESSED = ["s-none", "s-lat", "s-trim", "s-compact"]


def read_uncommitted(topic: str) -> Iterator[Record]:
    for data in samples.batches(topic):
        if not parse_header(data).is_control:
            yield from iter_records(data)


def read_committed(topic: str) -> list[Record]:
    """As a consumer would: a producer's records count once its COMMIT follows, and never if an ABORT does."""
    open_transactions: dict[int, list[Record]] = {}
    committed: list[Record] = []
    for data in samples.batches(topic):
        header = parse_header(data)
        records = list(iter_records(data))
        if header.is_control:
            transaction = open_transactions.pop(header.producer_id, [])
            if control_type(records[0]) is ControlType.COMMIT:
                committed += transaction
        elif header.is_transactional:
            open_transactions.setdefault(header.producer_id, []).extend(records)
        else:
            committed += records
    assert not open_transactions
    return sorted(committed)


@pytest.mark.parametrize("topic", samples.TOPICS)
def test_read_uncommitted(topic: str) -> None:
    assert samples.digest(read_uncommitted(topic)) == samples.expected()[topic]["read_uncommitted"]


@pytest.mark.parametrize("topic", samples.TOPICS)
def test_read_committed(topic: str) -> None:
    assert samples.digest(read_committed(topic)) == samples.expected()[topic]["read_committed"]


@pytest.mark.parametrize("directory", sorted(samples.segments()))
def test_every_segment_holds_what_an_independent_parser_saw(directory: str) -> None:
    for segment in samples.segments()[directory].get("segments", []):
        data = (samples.ROOT / segment["file"]).read_bytes()
        headers = [header for _, header in iter_batches(data)]
        assert sum(header.size_bytes for header in headers) == len(data) == segment["bytes"]
        assert len(headers) == segment["batches"]
        assert sum(header.record_count for header in headers) == segment["records"]
        assert sum(header.is_control for header in headers) == segment["control"]
        assert sorted({header.partition_leader_epoch for header in headers}) == segment["epochs"]
        assert sorted({header.producer_id for header in headers}) == segment["pids"]
        assert sorted({header.compression.name.lower() for header in headers}) == segment["codecs"]


@pytest.mark.parametrize("topic", UNCOMPRESSED)
def test_records_are_encoded_byte_for_byte(topic: str) -> None:
    """Also where the batch's own base timestamp is not the first record's: log append time, delete horizon."""
    for data in samples.batches(topic):
        header = parse_header(data)
        if header.compression is not Compression.NONE:
            continue
        payload = data[BATCH_HEADER_SIZE:]
        as_produced = header._replace(attributes=0)
        records = list(decode_records(payload, as_produced))
        assert encode_records(records, header.base_offset, header.base_timestamp) == payload


@pytest.mark.parametrize("topic", UNCOMPRESSED)
def test_batches_are_built_byte_for_byte(topic: str) -> None:
    rebuilt = 0
    for data in samples.batches(topic):
        header = parse_header(data)
        if header.has_delete_horizon or header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            continue
        again = build_batch(
            list(iter_records(data)),
            base_offset=header.base_offset,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        assert again == data
        rebuilt += 1
    assert rebuilt > 10 or topic == "s-lat"


def test_compacted_batches_carry_tombstones_and_a_delete_horizon() -> None:
    horizons = [header for header in map(parse_header, samples.batches("s-compact")) if header.has_delete_horizon]
    assert {header.base_timestamp for header in horizons} == {1795248396351}
    assert {header.max_timestamp for header in horizons} == {1795248388490}
    tombstones = [record for record in read_uncommitted("s-compact") if record.value is None]
    assert len(tombstones) == 14
    assert all(record.key and record.timestamp <= 1795248388743 for record in tombstones)


def test_log_append_time_records_share_one_timestamp_per_batch() -> None:
    for data in samples.batches("s-lat"):
        header = parse_header(data)
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert {record.timestamp for record in iter_records(data)} == {header.max_timestamp}


def test_headers_and_null_keys_of_an_idempotent_producer() -> None:
    records = list(iter_records(samples.batches("s-none")[0]))
    assert [record.offset for record in records] == list(range(37))
    assert any(record.headers for record in records)
    assert any(record.key is None for record in records)
    assert any(record.key is not None for record in records)


def test_batch_of_a_java_producer() -> None:
    data = samples.JAVA_LZ4_BATCH.read_bytes()
    ((_, header),) = iter_batches(data)
    records = list(iter_records(data))
    assert header.compression is Compression.LZ4
    assert header.record_count == len(records) == 18
    assert {len(record.value or b"") for record in records} == {200}
