"""Records about topics and partitions, `RemovePartitionsRecord` among them, which is our own."""

from typing import Final
from uuid import UUID

from .schema import MetadataRecord, int8, int32, metadata_record, string, uuid

LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1


@metadata_record(api_key=2)
class TopicRecord(MetadataRecord):
    name: str = string()
    topic_id: UUID | None = uuid()


@metadata_record(api_key=3, newest_version=2)
class PartitionRecord(MetadataRecord):
    """Version 1 has the directories (KIP-858), version 2 the eligible leader replicas (KIP-966)."""

    partition_id: int = int32()
    topic_id: UUID | None = uuid()
    replicas: tuple[int, ...] = int32()
    isr: tuple[int, ...] = int32()
    removing_replicas: tuple[int, ...] = int32()
    adding_replicas: tuple[int, ...] = int32()
    leader: int = int32()
    leader_recovery_state: int = int8(tag=0, default=0)
    leader_epoch: int = int32()
    partition_epoch: int = int32()
    directories: tuple[UUID | None, ...] = uuid(since=1)
    eligible_leader_replicas: tuple[int, ...] | None = int32(since=2, tag=1, default=None)
    last_known_elr: tuple[int, ...] | None = int32(since=2, tag=2, default=None)


@metadata_record(api_key=5, newest_version=2)
class PartitionChangeRecord(MetadataRecord):
    """None, LEADER_UNCHANGED and RECOVERY_UNCHANGED leave a field as it was.

    A replay adds 1 to the partition epoch, and 1 to the leader epoch if `leader` is given, even if it is the
    same leader.
    """

    partition_id: int = int32()
    topic_id: UUID | None = uuid()
    isr: tuple[int, ...] | None = int32(tag=0, default=None)
    leader: int = int32(tag=1, default=LEADER_UNCHANGED)
    replicas: tuple[int, ...] | None = int32(tag=2, default=None)
    removing_replicas: tuple[int, ...] | None = int32(tag=3, default=None)
    adding_replicas: tuple[int, ...] | None = int32(tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=RECOVERY_UNCHANGED)
    directories: tuple[UUID | None, ...] | None = uuid(since=1, tag=8, default=None)
    eligible_leader_replicas: tuple[int, ...] | None = int32(since=2, tag=6, default=None)
    last_known_elr: tuple[int, ...] | None = int32(since=2, tag=7, default=None)


@metadata_record(api_key=9)
class RemoveTopicRecord(MetadataRecord):
    topic_id: UUID | None = uuid()


@metadata_record(api_key=28)
class ClearElrRecord(MetadataRecord):
    """An empty name means all topics."""

    topic_name: str = string()


@metadata_record(api_key=10001)
class RemovePartitionsRecord(MetadataRecord):
    """The topic keeps its first `count` partitions. Kafka has no such record: only written at `tierfetch.version` 1."""

    topic_id: UUID | None = uuid()
    count: int = int32()
