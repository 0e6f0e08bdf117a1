"""What a profile says: the JSON document, and the sums that tasks bring and the driver adds up.

Sizes are as stored (compressed) where nothing else is said; `payload_bytes` are keys and values as clients see them.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, Field


class CodecShare(BaseModel):
    """The figures of all batches with one codec."""

    batches: int = 0
    records: int = 0
    size_bytes: int = 0


class RateBucket(BaseModel):
    """Batches whose largest timestamp is in [start_ms, start_ms + the report's `bucket_ms`)."""

    start_ms: int
    records: int
    size_bytes: int


class KeyFigures(BaseModel):
    """What compaction would keep of a partition, or of all of a topic's: the last record of each key, tombstones apart.

    Kafka compacts a partition by itself, so that a key counts once in each partition it is in.
    """

    records: int = 0
    null_keys: int = Field(0, description="Records that a compacted topic would refuse.")
    distinct_keys: int = 0
    tombstones: int = Field(0, description="Records with a key and without a value.")
    deleted_keys: int = Field(0, description="Keys whose last record is a tombstone.")
    payload_bytes: int = 0
    kept_bytes: int = Field(0, description="Payload of the last records of all keys that are not deleted.")
    largest_key_records: int = Field(0, description="Of the key that has most.")

    @property
    def removable_share(self) -> float:
        """The share of the payload that compaction would remove."""
        return 1 - self.kept_bytes / self.payload_bytes if self.payload_bytes else 0.0


class PartitionProfile(BaseModel):
    """One partition of the tier. `end_offset` is exclusive; -1 for a time that is not known."""

    partition: int
    segments: int
    size_bytes: int
    start_offset: int
    end_offset: int
    batches: int
    records: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    keys: KeyFigures | None = None


class TopicProfile(BaseModel):
    """One topic."""

    topic: str
    partitions: list[PartitionProfile]
    codecs: dict[str, CodecShare]
    rates: list[RateBucket]
    keys: KeyFigures | None = None

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def batches(self) -> int:
        return sum(partition.batches for partition in self.partitions)

    @property
    def segments(self) -> int:
        return sum(partition.segments for partition in self.partitions)

    @property
    def partition_skew(self) -> float:
        """The largest partition's bytes by the mean of all: 1 where all are alike."""
        sizes = [partition.size_bytes for partition in self.partitions]
        return max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else 1.0

    @property
    def seconds(self) -> float:
        """From the first timestamp to the last."""
        known = [one for one in self.partitions if one.first_timestamp_ms >= 0]
        if not known:
            return 0.0
        first = min(one.first_timestamp_ms for one in known)
        return (max(one.last_timestamp_ms for one in known) - first) / 1000


class TierProfile(BaseModel):
    """The document of `spark profile --json`."""

    tier: str = Field(description="Which one, without credentials.")
    bucket_ms: int
    has_keys: bool
    topics: list[TopicProfile]

    @property
    def size_bytes(self) -> int:
        return sum(topic.size_bytes for topic in self.topics)

    @property
    def records(self) -> int:
        return sum(topic.records for topic in self.topics)


def total(figures: Iterable[KeyFigures]) -> KeyFigures:
    """Return the figures of several partitions as one."""
    listed = list(figures)
    sums = {
        name: sum(getattr(one, name) for one in listed)
        for name in KeyFigures.model_fields
        if name != "largest_key_records"
    }
    return KeyFigures(**sums, largest_key_records=max((one.largest_key_records for one in listed), default=0))
