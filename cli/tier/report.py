"""What `tierfetch tier` shows: the JSON documents and the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, Field
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ... import byte_text
from ...protocol import TopicIdPartition, uuid_to_text
from ...remote import AuditReport
from ...remote.core import RemoteLogLedger, RemoteLogSegmentMetadata
from ..model.quantities import count

_AGES = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class SegmentRow(BaseModel):
    """One remote segment. Offsets are inclusive at both ends; -1: not known."""

    id: str
    start_offset: int
    end_offset: int
    size_bytes: int
    leader_epochs: list[int]
    state: str
    event_timestamp_ms: int = Field(description="When it got this state.")
    max_timestamp_ms: int
    broker_id: int


class PartitionRow(BaseModel):
    """One partition. `size_bytes` and `finished_segments` are of the segments that can be read."""

    topic: str
    partition: int
    topic_id: str
    finished_segments: int
    size_bytes: int
    segments: list[SegmentRow]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Listing(BaseModel):
    """The document of `tier ls --json`."""

    partitions: list[PartitionRow]
    finished_segments: int
    size_bytes: int


class FindingRow(BaseModel):
    """See the table of kinds in `tierfetch tier verify --help`."""

    kind: str
    subject: str
    message: str
    is_damage: bool


class PartitionFindings(BaseModel):
    """What is wrong with one partition."""

    topic: str
    partition: int
    topic_id: str
    segments: int
    bytes: int
    findings: list[FindingRow]


class Verification(BaseModel):
    """The document of `tier verify --json`."""

    partitions: list[PartitionFindings]
    segments: int
    bytes: int
    findings: int

    @property
    def passed(self) -> bool:
        return self.findings == 0


def listing(ledgers: Iterable[RemoteLogLedger]) -> Listing:
    """Without the partitions of which nothing is left."""
    rows = [_partition(ledger) for ledger in ledgers if len(ledger)]
    return Listing(
        partitions=sorted(rows, key=lambda row: (row.topic, row.partition, row.topic_id)),
        finished_segments=sum(row.finished_segments for row in rows),
        size_bytes=sum(row.size_bytes for row in rows),
    )


def _partition(ledger: RemoteLogLedger) -> PartitionRow:
    return PartitionRow(
        topic=ledger.partition.topic,
        partition=ledger.partition.partition,
        topic_id=uuid_to_text(ledger.partition.topic_id),
        finished_segments=len(ledger.finished()),
        size_bytes=ledger.finished_size_bytes,
        segments=[_segment(metadata) for metadata in ledger.segments()],
    )


def _segment(metadata: RemoteLogSegmentMetadata) -> SegmentRow:
    return SegmentRow(
        id=uuid_to_text(metadata.segment_id.id),
        start_offset=metadata.start_offset,
        end_offset=metadata.end_offset,
        size_bytes=metadata.segment_size_in_bytes,
        leader_epochs=[entry.epoch for entry in metadata.segment_leader_epochs],
        state=metadata.state.name,
        event_timestamp_ms=metadata.event_timestamp_ms,
        max_timestamp_ms=metadata.max_timestamp_ms,
        broker_id=metadata.broker_id,
    )


def verification(reports: Mapping[TopicIdPartition, AuditReport]) -> Verification:
    return Verification(
        partitions=[
            PartitionFindings(
                topic=partition.topic,
                partition=partition.partition,
                topic_id=uuid_to_text(partition.topic_id),
                segments=report.segments,
                bytes=report.bytes,
                findings=[
                    FindingRow(
                        kind=finding.kind.value,
                        subject=finding.subject,
                        message=finding.message,
                        is_damage=finding.kind.is_damage,
                    )
                    for finding in report.findings
                ],
            )
            for partition, report in sorted(reports.items(), key=lambda item: (item[0].topic, item[0].partition))
        ],
        segments=sum(report.segments for report in reports.values()),
        bytes=sum(report.bytes for report in reports.values()),
        findings=sum(len(report.findings) for report in reports.values()),
    )


def print_listing(found: Listing, console: Console, now_ms: int) -> None:
    for partition in found.partitions:
        table = Table(title=f"{escape(partition.name)}  (topic id {partition.topic_id})", title_justify="left")
        for heading in ("start", "end", "size", "epochs"):
            table.add_column(heading, justify="right", no_wrap=True)
        for heading in ("state", "age", "segment id"):
            table.add_column(heading, no_wrap=True)
        for segment in partition.segments:
            table.add_row(*_cells(segment, now_ms))
        table.add_section()
        finished = f"{partition.finished_segments} finished"
        table.add_row("", "", byte_text.size(partition.size_bytes), "", finished, "", "")
        console.print(table)
    console.print(_sum(len(found.partitions), found.finished_segments, found.size_bytes))


def _sum(partitions: int, segments: int, size_bytes: int) -> str:
    return f"{count(partitions, 'partition')}, {count(segments, 'finished segment')}, {byte_text.size(size_bytes)}"


def _cells(segment: SegmentRow, now_ms: int) -> Iterable[str]:
    epochs = sorted({segment.leader_epochs[0], segment.leader_epochs[-1]})
    yield str(segment.start_offset)
    yield str(segment.end_offset)
    yield byte_text.size(segment.size_bytes)
    yield "-".join(map(str, epochs))
    yield segment.state
    yield age(now_ms - segment.event_timestamp_ms) if segment.event_timestamp_ms >= 0 else ""
    yield segment.id


def age(duration_ms: int) -> str:
    """In the largest unit of which there are at least two."""
    for unit_ms, unit in _AGES:
        if duration_ms >= 2 * unit_ms:
            return f"{duration_ms // unit_ms} {unit}"
    return f"{max(0, duration_ms // 1000)} s"


def print_verification(found: Verification, console: Console) -> None:
    if not found.passed:
        table = Table(title="Findings", title_justify="left")
        for heading in ("partition", "finding", "subject", "what it is"):
            table.add_column(heading, overflow="fold")
        for partition in found.partitions:
            for finding in partition.findings:
                style = "red" if finding.is_damage else "yellow"
                name = f"{partition.topic}-{partition.partition}"
                table.add_row(*map(escape, (name, finding.kind, finding.subject, finding.message)), style=style)
        console.print(table)
    verdict = "[green]all as it should be[/]" if found.passed else f"[red]{count(found.findings, 'finding')}[/]"
    console.print(f"{_sum(len(found.partitions), found.segments, found.bytes)}: {verdict}")
