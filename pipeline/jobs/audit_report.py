"""What an audit says: the JSON document, and its rows for Parquet.

`segments` has a row for each segment that was looked at, `findings` one for everything that is wrong; a gap, an orphan
and a foreign object have no row among the segments.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

SEGMENTS_SCHEMA = (
    "topic STRING, partition INT, topic_id STRING, segment_id STRING, start_offset BIGINT, end_offset BIGINT, "
    "size_bytes BIGINT, max_timestamp_ms BIGINT, leader_epochs ARRAY<INT>, batches BIGINT, records BIGINT, "
    "is_sound BOOLEAN"
)
FINDINGS_SCHEMA = (
    "topic STRING, partition INT, topic_id STRING, kind STRING, subject STRING, message STRING, is_damage BOOLEAN"
)


class AuditedSegment(BaseModel):
    """One finished segment. Offsets are inclusive; batches and records are those that were read and found sound."""

    segment_id: str
    start_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    leader_epochs: list[int]
    batches: int
    records: int
    is_sound: bool


class AuditFinding(BaseModel):
    """See the tables of `tierfetch.remote.audit` and `tierfetch.remote.contents`."""

    kind: str
    subject: str
    message: str
    is_damage: bool


class AuditedPartition(BaseModel):
    """One partition of one topic id."""

    topic: str
    partition: int
    topic_id: str
    segments: list[AuditedSegment]
    findings: list[AuditFinding]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)


class TierAudit(BaseModel):
    """The document of `spark audit --json`."""

    tier: str = Field(description="Which one, without credentials.")
    layout: str = Field(description="How segments are laid out there: kafka or aiven.")
    finished_at_ms: int
    by_metadata: bool = Field(description="Compared with the remote log metadata; else by the objects alone.")
    partitions: list[AuditedPartition]

    @property
    def not_checked(self) -> list[str]:
        """What could not be, because there is nothing to compare with."""
        if self.by_metadata:
            return []
        wanting = ["whether segments lack at either end of a partition, and which copies and deletions are under way"]
        if self.layout == "kafka":
            wanting.append("the offsets, epochs and size that each segment was stated to have when it was copied")
        return wanting

    @property
    def findings(self) -> list[tuple[AuditedPartition, AuditFinding]]:
        """Damage first."""
        found = [(partition, finding) for partition in self.partitions for finding in partition.findings]
        return sorted(found, key=lambda pair: not pair[1].is_damage)

    @property
    def segments(self) -> int:
        return sum(len(partition.segments) for partition in self.partitions)

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def batches(self) -> int:
        return sum(segment.batches for partition in self.partitions for segment in partition.segments)

    @property
    def records(self) -> int:
        return sum(segment.records for partition in self.partitions for segment in partition.segments)

    @property
    def is_sound(self) -> bool:
        """Nothing that is needed is damaged; leftovers may be there."""
        return all(partition.is_sound for partition in self.partitions)

    def segment_rows(self) -> list[tuple[object, ...]]:
        """Return the segments as rows of `SEGMENTS_SCHEMA`."""
        return [
            (partition.topic, partition.partition, partition.topic_id, *segment.model_dump().values())
            for partition in self.partitions
            for segment in partition.segments
        ]

    def finding_rows(self) -> list[tuple[object, ...]]:
        """Return the findings as rows of `FINDINGS_SCHEMA`."""
        return [
            (partition.topic, partition.partition, partition.topic_id, *finding.model_dump().values())
            for partition, finding in self.findings
        ]
