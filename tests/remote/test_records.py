"""Kafka's remote log metadata records, byte for byte."""

from __future__ import annotations

import re
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import EpochEntry
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.topics import TopicIdPartition, uuid_to_text
from tierfetch.remote.core import (
    MetadataRecordError,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    decode_event,
    is_within_lineage,
)
from tierfetch.remote.core.records import decode_partition, encode_event
from tierfetch.remote.core.segment import RemoteLogEvent
from tierfetch.remote.ledger_book import partition_of
from tierfetch.tests.samples import BROKER, DUMPS

from .builders import FINISHED, PARTITION, epochs_of, segment, update


def sample_values(metadata_partition: int) -> list[bytes]:
    path = BROKER / f"__remote_log_metadata-{metadata_partition}" / "00000000000000000000.log"
    log = path.read_bytes()
    return [
        record.value
        for position, header in iter_batches(log)
        for record in iter_records(log, position, header)
        if record.value is not None
    ]


@pytest.mark.parametrize("metadata_partition", range(5))
def test_real_records_decode_and_encode_to_the_same_bytes(metadata_partition: int) -> None:
    values = sample_values(metadata_partition)
    assert values
    for value in values:
        assert encode_event(decode_event(value)) == value


@pytest.mark.parametrize("metadata_partition", range(5))
def test_R3_real_records_make_ledgers(metadata_partition: int) -> None:
    ledgers: dict[TopicIdPartition, RemoteLogLedger] = {}
    for value in sample_values(metadata_partition):
        event = decode_event(value)
        assert not isinstance(event, RemotePartitionDeleteMetadata)
        partition = event.segment_id.topic_id_partition
        assert ledgers.setdefault(partition, RemoteLogLedger(partition)).apply(event)
    for ledger in ledgers.values():
        finished = ledger.finished()
        assert finished[0].start_offset == 0
        assert all(a.end_offset + 1 == b.start_offset for a, b in pairwise(finished))


def java_text(event: RemoteLogEvent) -> str:
    """As `kafka-dump-log --remote-log-metadata-decoder` prints it."""
    assert not isinstance(event, RemotePartitionDeleteMetadata)
    partition = event.segment_id.topic_id_partition
    identity = (
        f"remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={uuid_to_text(partition.topic_id)}:"
        f"{partition.topic}-{partition.partition}, id={uuid_to_text(event.segment_id.id)}}}"
    )
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return (
            f"RemoteLogSegmentMetadataUpdate{{{identity}, customMetadata=Optional.empty, state={event.state.name}, "
            f"eventTimestampMs={event.event_timestamp_ms}, brokerId={event.broker_id}}}"
        )
    epochs = ", ".join(f"{entry.epoch}={entry.start_offset}" for entry in event.segment_leader_epochs)
    return (
        f"RemoteLogSegmentMetadata{{{identity}, startOffset={event.start_offset}, endOffset={event.end_offset}, "
        f"brokerId={event.broker_id}, maxTimestampMs={event.max_timestamp_ms}, "
        f"eventTimestampMs={event.event_timestamp_ms}, segmentLeaderEpochs={{{epochs}}}, "
        f"segmentSizeInBytes={event.segment_size_in_bytes}, customMetadata=Optional.empty, state={event.state.name}, "
        f"txnIdxEmpty={str(event.txn_index_empty).lower()}}}"
    )


def test_real_records_say_what_kafkas_own_decoder_says() -> None:
    dump = (DUMPS / "remote_log_metadata-4.txt").read_text()
    expected = re.findall(r"payload: (.*)", dump)
    assert [java_text(decode_event(value)) for value in sample_values(4)] == expected


int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
names = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in {".", ".."})
partitions = st.builds(TopicIdPartition, st.uuids(), names, st.integers(0, 2**31 - 1))
segment_ids = st.builds(RemoteLogSegmentId, partitions, st.uuids())
custom = st.none() | st.binary(max_size=200)


@st.composite
def segments(draw: st.DrawFn) -> RemoteLogSegmentMetadata:
    start = draw(st.integers(0, 2**62))
    numbers = sorted(draw(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=5)))
    starts = [start, *sorted(draw(st.integers(start, start + 1_000)) for _ in numbers[1:])]
    return RemoteLogSegmentMetadata(
        segment_id=draw(segment_ids),
        start_offset=start,
        end_offset=start + draw(st.integers(0, 2**62 - 1)),
        max_timestamp_ms=draw(int64s),
        broker_id=draw(int32s),
        event_timestamp_ms=draw(int64s),
        segment_size_in_bytes=draw(st.integers(0, 2**31 - 1)),
        segment_leader_epochs=tuple(map(EpochEntry, numbers, starts)),
        state=draw(st.sampled_from(RemoteLogSegmentState)),
        custom_metadata=draw(custom),
        txn_index_empty=draw(st.booleans()),
    )


updates = st.builds(
    RemoteLogSegmentMetadataUpdate, segment_ids, st.sampled_from(RemoteLogSegmentState), int64s, int32s, custom
)
deletes = st.builds(
    RemotePartitionDeleteMetadata, partitions, st.sampled_from(RemotePartitionDeleteState), int64s, int32s
)


@given(segments() | updates | deletes)
@settings(max_examples=60, deadline=None)
def test_round_trip(event: RemoteLogEvent) -> None:
    assert decode_event(encode_event(event)) == event
    assert decode_partition(encode_event(event)) == partition_of(event)


@given(st.data(), segments() | updates | deletes)
@settings(max_examples=60, deadline=None)
def test_damaged_records_are_refused_or_decode_to_legal_values(data: st.DataObject, event: RemoteLogEvent) -> None:
    value = bytearray(encode_event(event))
    position = data.draw(st.integers(0, len(value) - 1))
    value[position] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode_event(bytes(value))
    except MetadataRecordError:
        return
    decode_event(encode_event(decoded))


@given(st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_foreign_bytes_are_refused(value: bytes) -> None:
    with pytest.raises(MetadataRecordError):
        decode_event(value)


def test_truncated_and_padded_records_are_refused() -> None:
    value = encode_event(segment(1, 0, 9))
    for end in range(len(value)):
        with pytest.raises(MetadataRecordError):
            decode_event(value[:end])
    with pytest.raises(MetadataRecordError, match="is truncated"):
        decode_partition(value[:20])
    with pytest.raises(MetadataRecordError, match="2 trailing bytes"):
        decode_event(value + b"\0\0")


def test_unknown_frames_keys_and_versions_are_named() -> None:
    body = encode_event(segment(1, 0, 9))[3:]
    with pytest.raises(MetadataRecordError, match="frame version 2, expected 1"):
        decode_event(b"\2\0\0" + body)
    with pytest.raises(MetadataRecordError, match="api key 3, version 0"):
        decode_event(b"\1\3\0" + body)
    with pytest.raises(MetadataRecordError, match="api key 0, version 2"):
        decode_event(b"\1\0\2" + body)


def test_tags_of_version_1_are_skipped() -> None:
    value = encode_event(update(1, FINISHED))
    assert value[-1] == 0
    tagged = b"\1\1\1" + value[3:-1] + b"\2" + b"\0\4\0\0\0\7" + b"\1\x08" + bytes(8)
    assert decode_event(tagged) == update(1, FINISHED)


def test_the_epochs_of_a_segment_in_which_the_log_start_lies_begin_there() -> None:
    """DeleteRecords into a segment that was not copied yet; Kafka's leaders write the same."""
    event = segment(1, 50, 99, (3, 55))
    assert decode_event(encode_event(event)) == event
    assert list(event.epoch_ranges()) == [(3, 55, 99)]
    assert is_within_lineage(event, epochs_of((3, 55)), 120)
    assert is_within_lineage(event, epochs_of((3, 70)), 120)
    assert not is_within_lineage(event, epochs_of((3, 0)), 120), "who has an earlier log start would not find [50, 55)"
    two = segment(1, 50, 99, (3, 55), (4, 80))
    assert is_within_lineage(two, epochs_of((3, 55), (4, 80)), 120)
    assert not is_within_lineage(two, epochs_of((3, 0), (4, 80)), 120)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (segment(1, 9, 0), "offsets 9 to 0 are not a range"),
        (segment(1, 5, 9, (0, 10)), r"leader epochs \(0@10\) begin only after offset 9"),
        (segment(1, 0, 9, (3, 0), (2, 5)), r"leader epochs \(3@0 2@5\) do not increase"),
        (segment(1, 0, 9, (2, 0), (3, 5), (4, 4)), "do not increase"),
        (segment(1, 0, 9, (-1, 0)), "begin only after"),
        (segment(1, 0, 9, partition=TopicIdPartition(UUID(int=1), "../up", 0)), "is illegal"),
        (segment(1, 0, 9, partition=TopicIdPartition(UUID(int=1), "t", -1)), "partition -1 of topic t is negative"),
    ],
)
def test_impossible_segments_are_refused(event: RemoteLogSegmentMetadata, message: str) -> None:
    with pytest.raises(MetadataRecordError, match=message):
        decode_event(encode_event(event))


def test_states_without_a_meaning_are_refused() -> None:
    value = bytearray(encode_event(update(1, FINISHED)))
    value[-2] = 9
    with pytest.raises(MetadataRecordError, match="9 is not a valid RemoteLogSegmentState"):
        decode_event(bytes(value))


def test_partitions_are_shared_between_the_segments_of_a_partition() -> None:
    first, second = (decode_event(encode_event(segment(number, 0, 9))) for number in (1, 2))
    assert isinstance(first, RemoteLogSegmentMetadata)
    assert isinstance(second, RemoteLogSegmentMetadata)
    assert first.segment_id.topic_id_partition is second.segment_id.topic_id_partition
    assert first.segment_id.topic_id_partition == PARTITION
