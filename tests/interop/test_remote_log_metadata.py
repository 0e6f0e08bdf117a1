"""Records of `__remote_log_metadata`: Kafka's own serde and ours, byte for byte."""

from __future__ import annotations

import uuid

import pytest

from tierfetch.log.core import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition, uuid_to_text
from tierfetch.remote.core import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    decode_event,
)
from tierfetch.remote.core.records import encode_event
from tierfetch.remote.core.segment import RemoteLogEvent
from tierfetch.tests.interop.java import run_jshell

PARTITION = TopicIdPartition(uuid.UUID("b0c5c0de-0001-4000-8000-00000000f00d"), "orders." + "x" * 200, 2_147_483_647)
SEGMENT = RemoteLogSegmentId(PARTITION, uuid.UUID("ffffffff-ffff-4fff-bfff-ffffffffffff"))

EVENTS: dict[str, RemoteLogEvent] = {
    "segment": RemoteLogSegmentMetadata(
        segment_id=SEGMENT,
        start_offset=2**40,
        end_offset=2**40 + 9,
        max_timestamp_ms=-1,
        broker_id=1,
        event_timestamp_ms=1_700_000_000_000,
        segment_size_in_bytes=2**31 - 1,
        segment_leader_epochs=(EpochEntry(0, 2**40), EpochEntry(200, 2**40 + 5)),
    ),
    "segment without transactions": RemoteLogSegmentMetadata(
        segment_id=SEGMENT,
        start_offset=0,
        end_offset=0,
        max_timestamp_ms=5,
        broker_id=1,
        event_timestamp_ms=2,
        segment_size_in_bytes=61,
        segment_leader_epochs=(EpochEntry(7, 0),),
        txn_index_empty=True,
    ),
    "finished": RemoteLogSegmentMetadataUpdate(
        SEGMENT, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, 1_700_000_000_001, 2, custom_metadata=bytes(range(128))
    ),
    "deleted": RemoteLogSegmentMetadataUpdate(SEGMENT, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED, 3, 2),
    "partition marked": RemotePartitionDeleteMetadata(
        PARTITION, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 4, 100
    ),
}

pytestmark = pytest.mark.usefixtures("jshell")


def test_java_reads_ours_and_writes_the_same() -> None:
    listed = ", ".join(f'"{encode_event(event).hex()}"' for event in EVENTS.values())
    printed = run_jshell(
        f"""
        var serde = new RemoteLogMetadataSerde();
        for (var hex : List.of({listed})) {{
            var read = serde.deserialize(HexFormat.of().parseHex(hex));
            System.out.println(read);
            System.out.println(HexFormat.of().formatHex(serde.serialize(read)));
        }}
        """
    )
    texts, written = printed[::2], printed[1::2]
    assert written == [encode_event(event).hex() for event in EVENTS.values()]
    for text, event in zip(texts, EVENTS.values(), strict=True):
        assert uuid_to_text(PARTITION.topic_id) in text
        assert event.state.name in text
        assert f"eventTimestampMs={event.event_timestamp_ms}" in text


def test_we_read_what_java_writes() -> None:
    """Its fields are given to Kafka's constructors one by one, so that none can change places unseen."""
    printed = run_jshell(
        f"""
        var partition = new TopicPartition("{PARTITION.topic}", {PARTITION.partition});
        var owner = new TopicIdPartition(Uuid.fromString("{uuid_to_text(PARTITION.topic_id)}"), partition);
        var id = new RemoteLogSegmentId(owner, Uuid.fromString("{uuid_to_text(SEGMENT.id)}"));
        var custom = new byte[128];
        for (int i = 0; i < 128; i++) custom[i] = (byte) i;
        var finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED;
        var events = List.of(
            new RemoteLogSegmentMetadata(id, {2**40}L, {2**40 + 9}L, -1L, 1, 1_700_000_000_000L, 2_147_483_647,
                Map.of(0, {2**40}L, 200, {2**40 + 5}L)),
            new RemoteLogSegmentMetadata(id, 0L, 0L, 5L, 1, 2L, 61, Map.of(7, 0L), true),
            new RemoteLogSegmentMetadataUpdate(id, 1_700_000_000_001L,
                Optional.of(new RemoteLogSegmentMetadata.CustomMetadata(custom)), finished, 2),
            new RemoteLogSegmentMetadataUpdate(id, 3L, Optional.empty(),
                RemoteLogSegmentState.DELETE_SEGMENT_FINISHED, 2),
            new RemotePartitionDeleteMetadata(owner, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 4L, 100));
        var serde = new RemoteLogMetadataSerde();
        for (var each : events) System.out.println(HexFormat.of().formatHex(serde.serialize(each)));
        """
    )
    assert [decode_event(bytes.fromhex(text)) for text in printed] == list(EVENTS.values())
