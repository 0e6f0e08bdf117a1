"""The `MetadataTopic` port: what the topic-based metadata manager needs of `__remote_log_metadata`.

Also Kafka's rule for which of its partitions holds the events of a user partition.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Final, Protocol
from uuid import UUID

from ..light_dataclass import dataclass
from ..protocol import TopicIdPartition
from .snapshot_files import SnapshotFiles

NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class MetadataTopicSettings:
    """How to create the topic; `retention_ms` -1 keeps everything. It is not created while fewer than `brokers_min`
    brokers are alive: it would be placed on those alone.
    """

    num_partitions: int
    replication_factor: int
    min_insync_replicas: int
    retention_ms: int
    brokers_min: int = 1


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    """Records as (offset, value) by offset. `next_offset` is where to read on: beyond the last record, further where
    the log has control records there; `last_epoch` the leader epoch of what lies before it, -1 where nothing was read.
    """

    records: Sequence[tuple[int, bytes]]
    next_offset: int
    last_epoch: int = NO_EPOCH


class MetadataTopic(Protocol):
    """The topic, always through the leaders of its partitions: a local replica may hold what is not committed, or lack
    what is.

    Every call may be cancelled. Those that ask a leader raise RemoteLogMetadataError, OSError or KafkaError where they
    fail; all but OFFSET_OUT_OF_RANGE from `read` count as retriable.
    """

    def leader(self, partition: int) -> Hashable:
        """Who is asked about a partition now, another value for each leader and each of its epochs; None for nobody."""

    async def another_leader(self, partition: int, than: Hashable) -> None:
        """Returns once somebody leads the partition who is another than that, which may be never. Does not fail."""

    def topic_id(self) -> UUID | None:
        """Return the id of the topic as it is known now; None while there is none."""

    async def ensure(self, settings: MetadataTopicSettings) -> int:
        """The number of the topic's partitions; creates the topic where it is absent."""

    async def bounds(self, partition: int) -> tuple[int, int]:
        """Log start offset and high watermark."""

    async def append(self, partition: int, value: bytes) -> int:
        """The offset of a record with this value and no key, once all in-sync replicas have it. If it fails, the record
        may be there all the same, now or later.
        """

    async def read(self, partition: int, offset: int, last_epoch: int = NO_EPOCH) -> MetadataBatch:
        """Records from `offset` on and below the high watermark, at least one if there is any; waits for a while (half
        a second, say) if there is none. OFFSET_OUT_OF_RANGE if the log does not have `offset` (nor ends there), or what
        lies before it is not of `last_epoch`, which is that of the read before.

        Two reads of one partition may be under way; one that waits must not hold up the other.
        """


@dataclass(frozen=True, slots=True)
class RemoteLogMetadataContext:
    """What a broker gives to a metadata plugin besides its configuration. `give_up(reason)` ends the broker: for what
    an operator has to decide, such as a configuration that contradicts what the cluster has. `files` keeps ledger
    snapshots; without it the topic is read from its start.
    """

    topic: MetadataTopic
    random: Random
    give_up: Callable[[str], None] = lambda _: None
    files: SnapshotFiles | None = None


def metadata_partition(partition: TopicIdPartition, partition_count: int) -> int:
    """As Kafka's RemoteLogMetadataTopicPartitioner: murmur2 of a Java hash of topic id and partition number."""
    topic_id = partition.topic_id.int
    java_hash = 1
    for item in (_java_long_hash(topic_id), _java_long_hash(topic_id >> 64), partition.partition):
        java_hash = (31 * java_hash + item) & 0xFFFFFFFF
    return (murmur2(java_hash.to_bytes(4, "big")) & 0x7FFFFFFF) % partition_count


def _java_long_hash(value: int) -> int:
    """`Long.hashCode` of the low 64 bits."""
    return (value ^ value >> 32) & 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash that Kafka partitions by, unsigned."""
    multiplier = 0x5BD1E995
    result = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * multiplier & 0xFFFFFFFF
        word = (word ^ word >> 24) * multiplier & 0xFFFFFFFF
        result = result * multiplier & 0xFFFFFFFF ^ word
    if tail := data[whole:]:
        result = (result ^ int.from_bytes(tail, "little")) * multiplier & 0xFFFFFFFF
    result = (result ^ result >> 13) * multiplier & 0xFFFFFFFF
    return result ^ result >> 15
