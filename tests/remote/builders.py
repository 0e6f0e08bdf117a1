"""Remote segments and their events for tests: `segment(1, 0, 99, (0, 0), (1, 60))` is number 1, offsets 0 to 99."""

from __future__ import annotations

from uuid import UUID

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

PARTITION = TopicIdPartition(UUID(int=0x70), "topic", 0)
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETE_STARTED = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETE_FINISHED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


def segment_id(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(partition, UUID(int=number))


def segment(
    number: int,
    start_offset: int,
    end_offset: int,
    *epochs: tuple[int, int],
    max_timestamp_ms: int = 0,
    txn_index_empty: bool = True,
    partition: TopicIdPartition = PARTITION,
) -> RemoteLogSegmentMetadata:
    """Ends are inclusive; without `epochs` all is of epoch 0."""
    return RemoteLogSegmentMetadata(
        segment_id=segment_id(number, partition),
        start_offset=start_offset,
        end_offset=end_offset,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=1,
        event_timestamp_ms=1_000 + number,
        segment_size_in_bytes=10 * (end_offset - start_offset + 1),
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in epochs or ((0, start_offset),)),
        txn_index_empty=txn_index_empty,
    )


def update(
    number: int,
    state: RemoteLogSegmentState,
    *,
    event_timestamp_ms: int = 2_000,
    broker_id: int = 1,
    custom_metadata: bytes | None = None,
    partition: TopicIdPartition = PARTITION,
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(
        segment_id(number, partition), state, event_timestamp_ms, broker_id, custom_metadata
    )


def ledger_of(*segments: RemoteLogSegmentMetadata) -> RemoteLogLedger:
    """All of them finished, in this order."""
    ledger = RemoteLogLedger(PARTITION)
    for metadata in segments:
        ledger.apply(metadata)
        ledger.apply(update(metadata.segment_id.id.int, FINISHED))
    return ledger


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)
