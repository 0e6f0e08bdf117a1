"""The deep audit of a tier, in parallel: `tier verify --deep` for tiers that one machine does not read in a night.

    partitions (listed) -> [partition] list, compare, lineage      one task for some partitions
                        -> [segment]   every byte of every object  one task for about 256 MiB
                        -> what was found is looked at once more   only where the remote log metadata is known

The rules are `remote.audit` and `remote.contents`; here is only who does what, where. Ledgers come from the remote log
metadata where the caller can read it, else from the objects (`remote.survey`), and then a copy that is under way is an
orphan. Segments that describe themselves are judged by what they say (`audit_described`). What a task cannot read at
all, because the store does not answer, ends the job: that is no finding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition, uuid_to_text
from ...protocol.net import closing
from ...protocol.records import BatchHeader
from ...remote import (
    AuditReport,
    ReadsSegments,
    RemoteStorageManager,
    audit_ledger,
    audit_survey,
    check_contents,
    confirmed_report,
    survey_partition,
)
from ...remote.core import Finding, FindingKind, RemoteLogLedger, RemoteLogSegmentMetadata
from ..access.options import TierOptions
from ..access.stores import StoreRef, find_stores, open_store
from ..spark.executors import ask_remote_executors
from ..spark.spark_faults import JobError, spark_faults
from .audit_described import audit_described
from .audit_report import FINDINGS_SCHEMA, SEGMENTS_SCHEMA, AuditedPartition, AuditedSegment, AuditFinding, TierAudit
from .work import bins, display_name, job_options, nothing_there, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS_OF_TASK: Final = 8
BYTES_OF_TASK: Final = 256 << 20
SEGMENT_OVERHEAD_BYTES: Final = 1 << 20
"""What a segment counts at least: its requests cost something even where it is small."""

Ledgers = Mapping[TopicIdPartition, RemoteLogLedger]
ReadLedgers = Callable[[], Ledgers]


def audit(session: SparkSession, options: Mapping[str, str], *, read_ledgers: ReadLedgers | None = None) -> TierAudit:
    """Audit the topics of `options`, which are those of the table. `read_ledgers` reads the remote log metadata as it
    is when called. JobError, OptionError, RemoteStorageError.
    """
    tier = job_options(options)
    ask_remote_executors(session, tier)
    known = None if read_ledgers is None else _wanted(read_ledgers(), tier)
    place = asyncio.run(_place(tier))
    partitions = sorted({*asyncio.run(_partitions(place)), *(known or {})})
    if not partitions:
        raise nothing_there(tier)
    listed = _look_at(session, place, partitions, known)
    unseen = [partition for partition, found in listed.items() if known is None and found.is_empty]
    if unseen:
        raise JobError(
            f"{unseen[0]}: the driver sees objects that the executors do not; check that the"
            " location is the same on every host"
        )
    contents = _read(session, place, listed)
    reports = {partition: _joined(found, contents) for partition, found in listed.items()}
    suspects = [partition for partition in partitions if reports[partition].findings]
    if read_ledgers is not None and suspects:
        known = _wanted(read_ledgers(), tier)
        for partition, again in _look_at(session, place, suspects, known).items():
            ledger = known.get(partition, RemoteLogLedger(partition))
            reports[partition] = confirmed_report(reports[partition], again.report, ledger)
    return TierAudit(
        tier=display_name(tier.location),
        layout=place.store.layout,
        finished_at_ms=time.time_ns() // 1_000_000,
        by_metadata=read_ledgers is not None,
        partitions=[_partition(listed[partition], reports[partition], contents) for partition in partitions],
    )


def save_parquet(session: SparkSession, found: TierAudit, directory: str) -> None:
    """`directory`/segments and `directory`/findings, in place of what an earlier audit left there."""
    tables = (("segments", found.segment_rows(), SEGMENTS_SCHEMA), ("findings", found.finding_rows(), FINDINGS_SCHEMA))
    with spark_faults():
        for name, rows, schema in tables:
            frame = session.createDataFrame(rows, schema)
            frame.coalesce(1).write.mode("overwrite").parquet(f"{directory.rstrip('/')}/{name}")


@dataclass(frozen=True, slots=True)
class _Place:
    """What is audited, and how it is laid out."""

    options: TierOptions
    store: StoreRef


@dataclass(frozen=True, slots=True)
class _PartitionTask:
    place: _Place
    partitions: tuple[tuple[TopicIdPartition, RemoteLogLedger | None], ...]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A partition without a look into its objects."""

    partition: TopicIdPartition
    report: AuditReport
    segments: tuple[RemoteLogSegmentMetadata, ...]

    @property
    def is_empty(self) -> bool:
        return not self.segments and not self.report.findings


@dataclass(frozen=True, slots=True)
class _SegmentTask:
    place: _Place
    segments: tuple[RemoteLogSegmentMetadata, ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    """What was read of one segment: the sound part, and the damage."""

    batches: int
    records: int
    findings: tuple[Finding, ...]


_UNREAD: Final = _Contents(0, 0, ())
_AllContents = Mapping[str, _Contents]


async def _place(options: TierOptions) -> _Place:
    (store, *_) = await find_stores(options)
    if not store.is_remote:
        raise JobError(
            f"{display_name(options.location)} is the log directory of a broker: an audit reads a tier; use `tierfetch "
            "dump-log` for logs"
        )
    return _Place(options, store)


async def _partitions(place: _Place) -> list[TopicIdPartition]:
    async with closing(open_store(place.options, place.store)) as store:
        return await store.partitions(place.options.wants)


def _look_at(
    session: SparkSession, place: _Place, partitions: list[TopicIdPartition], known: Ledgers | None
) -> dict[TopicIdPartition, _Listed]:
    pairs = [
        (partition, None if known is None else known.get(partition, RemoteLogLedger(partition)))
        for partition in partitions
    ]
    tasks = [_PartitionTask(place, some) for some in bins(pairs, lambda _: 1, PARTITIONS_OF_TASK)]
    return {found.partition: found for some in spread(session, _audit_partitions, tasks) for found in some}


def _audit_partitions(task: _PartitionTask) -> list[_Listed]:
    """In an executor."""
    return asyncio.run(_audit_all(task))


async def _audit_all(task: _PartitionTask) -> list[_Listed]:
    if task.place.store.layout != "kafka":
        async with closing(open_store(task.place.options, task.place.store)) as store:
            return [
                _Listed(partition, *await audit_described(store, partition, known))
                for partition, known in task.partitions
            ]
    async with closing(task.place.options.open_storage()) as storage:
        return [await _audit_one(storage, *pair) for pair in task.partitions]


async def _audit_one(
    storage: RemoteStorageManager, partition: TopicIdPartition, ledger: RemoteLogLedger | None
) -> _Listed:
    now_ms = time.time_ns() // 1_000_000
    if ledger is not None:
        report = await audit_ledger(ledger, storage, now_ms=now_ms)
        return _Listed(partition, report, tuple(ledger.finished()))
    found = await survey_partition(storage, partition)
    report = await audit_survey(found, storage, now_ms=now_ms)
    return _Listed(partition, report, tuple(found.ledger.finished()))


def _read(session: SparkSession, place: _Place, listed: Mapping[TopicIdPartition, _Listed]) -> dict[str, _Contents]:
    """Return the contents by segment id, without the segments that lack an object."""
    wanted = [
        segment
        for found in listed.values()
        for segment in found.segments
        if not any(
            finding.kind is FindingKind.MISSING and finding.subject == str(segment.segment_id)
            for finding in found.report.findings
        )
    ]
    tasks = [
        _SegmentTask(place, some)
        for some in bins(wanted, lambda one: one.segment_size_in_bytes + SEGMENT_OVERHEAD_BYTES, BYTES_OF_TASK)
    ]
    return {key: found for some in spread(session, _read_segments, tasks) for key, found in some.items()}


def _read_segments(task: _SegmentTask) -> dict[str, _Contents]:
    """In an executor."""
    return asyncio.run(_read_all(task))


async def _read_all(task: _SegmentTask) -> dict[str, _Contents]:
    async with closing(open_store(task.place.options, task.place.store)) as store:
        return {str(segment.segment_id): await _read_one(store, segment) for segment in task.segments}


async def _read_one(store: ReadsSegments, segment: RemoteLogSegmentMetadata) -> _Contents:
    batches = records = 0

    def count(header: BatchHeader) -> None:
        nonlocal batches, records
        batches += 1
        records += header.record_count

    findings = await check_contents(segment, store, count)
    return _Contents(batches, records, tuple(findings))


def _joined(found: _Listed, contents: _AllContents) -> AuditReport:
    corrupt = [
        finding for segment in found.segments for finding in contents.get(str(segment.segment_id), _UNREAD).findings
    ]
    return replace(found.report, findings=(*found.report.findings, *corrupt))


def _wanted(ledgers: Ledgers, options: TierOptions) -> dict[TopicIdPartition, RemoteLogLedger]:
    return {partition: ledger for partition, ledger in ledgers.items() if options.wants(partition.topic)}


def _partition(found: _Listed, report: AuditReport, contents: _AllContents) -> AuditedPartition:
    damaged = {finding.subject for finding in report.findings if finding.kind.is_damage}
    return AuditedPartition(
        topic=found.partition.topic,
        partition=found.partition.partition,
        topic_id=uuid_to_text(found.partition.topic_id),
        segments=[_segment(segment, contents, damaged) for segment in found.segments],
        findings=[
            AuditFinding(
                kind=finding.kind.value,
                subject=finding.subject,
                message=finding.message,
                is_damage=finding.kind.is_damage,
            )
            for finding in report.findings
        ],
    )


def _segment(segment: RemoteLogSegmentMetadata, contents: _AllContents, damaged: set[str]) -> AuditedSegment:
    key = str(segment.segment_id)
    read = contents.get(key, _UNREAD)
    return AuditedSegment(
        segment_id=uuid_to_text(segment.segment_id.id),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        size_bytes=segment.segment_size_in_bytes,
        max_timestamp_ms=segment.max_timestamp_ms,
        leader_epochs=[entry.epoch for entry in segment.segment_leader_epochs],
        batches=read.batches,
        records=read.records,
        is_sound=key not in damaged,
    )
