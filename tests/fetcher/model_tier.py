"""Remote segments and ledgers for tests."""

from __future__ import annotations

from uuid import UUID

from tierfetch.log.epochs import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.ledger import RemoteLogLedger
from tierfetch.remote.segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

PARTITION = TopicIdPartition(UUID(int=0x1023), "orders", 0)


def segment(
    start: int,
    end: int,
    *epochs: tuple[int, int],
    size: int = 1000,
    max_timestamp_ms: int = 0,
    number: int | None = None,
) -> RemoteLogSegmentMetadata:
    """The started copy of [start, end] (inclusive); one epoch 0 unless told otherwise."""
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(PARTITION, UUID(int=(start + 1) * 1000 if number is None else number)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_in_bytes=size,
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in epochs) or (EpochEntry(0, start),),
    )


def update(metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(metadata.segment_id, state, event_timestamp_ms=1, broker_id=1)


def ledger_of(*segments: RemoteLogSegmentMetadata) -> RemoteLogLedger:
    """A ledger in which all these copies have finished."""
    ledger = RemoteLogLedger(PARTITION)
    for metadata in segments:
        ledger.apply(metadata)
        ledger.apply(update(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    return ledger
