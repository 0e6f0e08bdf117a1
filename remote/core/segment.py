"""Remote log segments as values (KIP-405): identity, metadata events, states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...log.core import EpochEntry
from ...protocol import TopicIdPartition, uuid_to_text

_OUR_VERSION: Final = 8
_LEADER_EPOCH_MAX: Final = 2**31 - 1


class RemoteLogSegmentState(IntEnum):
    """Ids as in `__remote_log_metadata` records."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    """Ids as in `__remote_log_metadata` records."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


@dataclass(frozen=True, slots=True, order=True)
class RemoteLogSegmentId:
    """One attempt to copy a segment: a retry gets a new `id`.

    The events of Kafka's format do not say under which leader epoch an attempt was begun, so our ids do. They are of
    version 8 (RFC 9562), which leaves the bits to the maker: the leader epoch comes first, in 32 bits, and 90 bits are
    random. An id of another version, as of Kafka's leaders, says nothing.
    """

    topic_id_partition: TopicIdPartition
    id: UUID

    @classmethod
    def of_attempt(cls, partition: TopicIdPartition, leader_epoch: int, random_bits: int) -> RemoteLogSegmentId:
        """Return the id of an attempt of the leader of `leader_epoch`, from 128 random bits."""
        assert 0 <= leader_epoch <= _LEADER_EPOCH_MAX, leader_epoch
        bits = leader_epoch << 96 | random_bits & ~(0xFFFFFFFF << 96)
        bits = bits & ~(0xF << 76 | 0b11 << 62) | _OUR_VERSION << 76 | 0b10 << 62
        return cls(partition, UUID(int=bits))

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch under which the attempt was begun; None if the id does not say."""
        leader_epoch = self.id.int >> 96
        return leader_epoch if self.id.version == _OUR_VERSION and leader_epoch <= _LEADER_EPOCH_MAX else None

    def __hash__(self) -> int:
        """Hash the id alone: it is unique."""
        return hash(self.id.int)

    def __str__(self) -> str:
        return f"{self.topic_id_partition}:{uuid_to_text(self.id)}"


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """The event that starts a copy, and later the current view of the segment.

    `start_offset` and `end_offset` are both inclusive (Kafka's record says so). `segment_leader_epochs` are the
    epochs whose batches lie in the segment, the first with `start_offset` as its start, or the log start where that lay
    within the segment when it was copied; never empty. Sizes in bytes, times in ms.
    """

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    segment_size_in_bytes: int
    segment_leader_epochs: tuple[EpochEntry, ...]
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    custom_metadata: bytes | None = None
    txn_index_empty: bool = False

    def epoch_ranges(self) -> Iterator[tuple[int, int, int]]:
        """(epoch, first offset, last offset), inclusive, of each epoch that has offsets here, in their order.

        An epoch whose successor begins at the same offset has none: Kafka lists leaders that wrote nothing too.
        """
        entries = self.segment_leader_epochs
        for index, entry in enumerate(entries):
            first = max(entry.start_offset, self.start_offset)
            end = self.end_offset + 1 if index + 1 == len(entries) else entries[index + 1].start_offset
            last = min(self.end_offset, end - 1)
            if first <= last:
                yield entry.epoch, first, last

    def with_update(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        return replace(
            self,
            state=update.state,
            event_timestamp_ms=update.event_timestamp_ms,
            broker_id=update.broker_id,
            custom_metadata=update.custom_metadata if update.custom_metadata is not None else self.custom_metadata,
        )


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate:
    """A later event of the same segment."""

    segment_id: RemoteLogSegmentId
    state: RemoteLogSegmentState
    event_timestamp_ms: int
    broker_id: int
    custom_metadata: bytes | None = None


@dataclass(frozen=True, slots=True)
class RemotePartitionDeleteMetadata:
    """Progress of the deletion of a whole partition from the tier."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


RemoteLogEvent = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
