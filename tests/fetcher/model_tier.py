"""Remote segments, ledgers and a whole tier for tests."""

from __future__ import annotations

from uuid import UUID

from tierfetch.log.core import EpochEntry, ProducerStateManager
from tierfetch.log.core.checkpoints import encode_leader_epochs
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import IndexType
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.fetcher.model_log import ModelLog

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


class ModelTier:
    """A tier with its metadata, filled from a leader's `ModelLog`. `metadata` is the follower's view of the latter."""

    def __init__(self) -> None:
        self.storage = MemoryRemoteStorage()
        self.shared = SharedMetadata()
        self.metadata = InMemoryRemoteLogMetadataManager(self.shared)

    async def start(self) -> None:
        await self.metadata.start()
        await self.metadata.assign([PARTITION])

    def ledger(self) -> RemoteLogLedger:
        """As the leader has it: every event applied."""
        ledger = RemoteLogLedger(PARTITION)
        for event in self.shared.events(PARTITION):
            ledger.apply(event)
        return ledger

    def upload(
        self,
        log: ModelLog,
        start: int,
        end: int,
        *,
        producers: ProducerStateManager | None = None,
        number: int | None = None,
    ) -> RemoteLogSegmentMetadata:
        """Copy [start, end] (inclusive) with its indexes as a leader does."""
        epochs = [(entry.epoch, entry.start_offset) for entry in log.epochs.range(start, end + 1)]
        data = log.batches(start, end + 1)
        metadata = segment(start, end, *epochs, size=len(data), number=number)
        snapshot = (producers or ProducerStateManager(end + 1)).snapshot()
        index = encode_leader_epochs(log.epochs.range(-1, end + 1))
        self.storage.put(metadata, data, {IndexType.LEADER_EPOCH: index, IndexType.PRODUCER_SNAPSHOT: snapshot})
        self.finish(metadata)
        return metadata

    def finish(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Tell that the segment was copied."""
        self.shared.append(metadata)
        self.shared.append(update(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))

    def delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Begin the deletion: the event first, then the objects."""
        self.shared.append(update(metadata, RemoteLogSegmentState.DELETE_SEGMENT_STARTED))
        self.drop_objects(metadata)

    def drop_objects(self, metadata: RemoteLogSegmentMetadata, *kinds: IndexType | None) -> None:
        """Lose these objects (all of them by default) without a word in the metadata."""
        for key in list(self.storage.objects):
            if key[0] == metadata.segment_id and (not kinds or key[1] in kinds):
                del self.storage.objects[key]
