"""A tier exported to Parquet, by topic and day: only what is new, and nothing twice, however often and however it ends.

    log + listing -> what a crash left is put right
    tier + positions -> pieces that are not exported yet -> waves of some GiB -> tasks of about one file
    wave: tasks write hidden files -> commit -> names           (export_log has the table of crashes)

A wave ends where a segment ends, for a commit names offsets. A task reads splits of one topic, of several partitions
where these are small, so that its rows fill a file. Only the tier is read: up to its end, or with read_committed to the
first transaction that is open there; what comes later is in a later run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pydantic import BaseModel, Field

from ...light_dataclass import dataclass
from ...protocol import TopicPartition, uuid_to_text
from ..access.options import TierOptions
from ..planning.catalog import TieredPartition
from ..planning.driver import planning
from ..planning.table import LostSplit, PartitionExtent, TablePlanner
from ..planning.tier_splits import PlannedSplit, TierError
from ..spark.executors import ask_remote_executors
from .export_files import FileLimits, write_files
from .export_log import (
    Commit,
    ExportedFile,
    ExportedRange,
    ExportError,
    ExportLog,
    ExportSettings,
    Position,
    foreign,
    is_commit,
    ranges_of,
    read_log,
    recover,
)
from .export_place import Place, absolute, open_place
from .work import bins, job_options, spread, there

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_BYTES: Final = 256 << 20
WAVE_BYTES: Final = 8 << 30
WAVE_FILES_PER_CORE: Final = 4
SPLIT_BYTES: Final = 32 << 20
"""The bytes of a segment that are in memory at a time."""


class ExportReport(BaseModel):
    """What one run did; the document of `spark compact-to --json`."""

    waves: int = 0
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    published: int = Field(0, description="Files of an earlier run that ended between its commit and their names.")
    discarded: int = Field(0, description="Files of an earlier run that ended before its commit.")
    ranges: list[ExportedRange] = Field(default_factory=list)
    passed_over: list[str] = Field(
        default_factory=list, description="What could not be read and was left out, as the options allow it."
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets that end where a segment of the tier ends, and how they are read."""

    offsets: ExportedRange
    splits: tuple[PlannedSplit | LostSplit, ...]

    @property
    def size_bytes(self) -> int:
        return sum(_bytes(split) for split in self.splits)


@dataclass(frozen=True, slots=True)
class ExportTask:
    """The work of one executor."""

    options: TierOptions
    location: str = field(repr=False)
    limits: FileLimits
    topic: str
    splits: tuple[PlannedSplit | LostSplit, ...]


@dataclass(frozen=True, slots=True)
class ExportedPart:
    """What one task did."""

    files: tuple[ExportedFile, ...]
    passed_over: tuple[str, ...] = ()


RunTasks = Callable[[Sequence[ExportTask]], Sequence[ExportedPart]]


def compact_to(
    session: SparkSession, options: Mapping[str, str], location: str, *, file_bytes: int = FILE_BYTES
) -> ExportReport:
    """Export the topics of `options`, which are those of the table, to a directory or URL; files of about `file_bytes`.
    ExportError, JobError, OptionError, TierError, RemoteStorageError, OSError.
    """
    tier = job_options({"splitBytes": str(min(file_bytes, SPLIT_BYTES)), **options})
    ask_remote_executors(session, tier)
    location = absolute(location)
    cores = int(session.sparkContext.defaultParallelism)
    export = Export(
        options=tier,
        location=location,
        limits=FileLimits(file_bytes),
        wave_bytes=max(WAVE_BYTES, WAVE_FILES_PER_CORE * cores * file_bytes),
        run=lambda tasks: spread(session, export_task, tasks),
    )
    return export_all(export, open_place(location))


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """How to export. `run` gives what each task did, in the order of the tasks."""

    options: TierOptions
    location: str = field(repr=False)
    limits: FileLimits
    wave_bytes: int
    run: RunTasks


def export_all(export: Export, place: Place) -> ExportReport:
    report = ExportReport()
    settings = ExportSettings(isolation=export.options.isolation, metadata=export.options.metadata)
    log = _put_right(place, report)
    log.check(settings)
    pieces = planning(export.options, partial(_plan, export.options, log.positions()))
    for wave in bins(pieces, lambda piece: piece.size_bytes, export.wave_bytes):
        tasks = list(_tasks(export, wave))
        parts = export.run(tasks)
        commit = Commit(
            settings=settings,
            ranges=ranges_of([piece.offsets for piece in wave]),
            files=tuple(file for part in parts for file in part.files),
            passed_over=tuple(message for part in parts for message in part.passed_over),
        )
        log = _commit(place, log, commit)
        _publish(place, commit.files)
        _count(report, commit)
    return report


def export_task(task: ExportTask) -> ExportedPart:
    """In an executor: the rows of the splits, one split in memory at a time."""
    passed_over: list[str] = []
    files = write_files(open_place(task.location), task.topic, _rows(task, passed_over), task.limits)
    return ExportedPart(tuple(files), tuple(passed_over))


def _rows(task: ExportTask, passed_over: list[str]) -> Iterator[pa.RecordBatch]:
    """Records; what stands in their place is added to `passed_over`."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from ..reading.splits import read_split
    from ..spark.columns import schema

    corrupt = task.options.corrupt_column
    asked = schema(task.options).add(corrupt, "string")
    arrow = to_arrow_schema(asked, timezone="UTC")
    for split in task.splits:
        for batch in read_split(task.options, split, arrow.remove(arrow.get_field_index("topic"))):
            messages = batch.column(corrupt)
            if messages.null_count:
                yield batch.drop_columns([corrupt])
            else:
                passed_over += messages.to_pylist()


def _put_right(place: Place, report: ExportReport) -> ExportLog:
    """The log, after what an earlier run left undone has been done."""
    paths = place.paths()
    log = read_log({path: place.read(path) for path in paths if is_commit(path)})
    if not log.commits and (others := foreign(paths)):
        raise ExportError(
            f"{others[0]} is in the directory of the export, where readers would take it"
            " for a part of it: export into a "
            "directory of its own"
        )
    recovery = recover(log, paths)
    _publish(place, recovery.publish)
    for path in recovery.discard:
        place.remove(path)
    report.published, report.discarded = len(recovery.publish), len(recovery.discard)
    return log


def _commit(place: Place, log: ExportLog, commit: Commit) -> ExportLog:
    for file in commit.files:
        if place.size(file.hidden_path) != file.size_bytes:
            raise ExportError(
                f"{file.hidden_path} was written with {file.size_bytes} bytes and no longer exists: does another "
                "export use the same directory? Nothing of this wave counts; run again"
            )
    if not place.create(log.next_path, commit.model_dump_json(indent=1).encode()):
        raise ExportError(
            f"{log.next_path} was written meanwhile: another export uses the same directory. Nothing of this wave "
            "counts; let the other one end, and run again"
        )
    return log.with_commit(commit)


def _publish(place: Place, files: Sequence[ExportedFile]) -> None:
    for file in files:
        place.rename(file.hidden_path, file.path)


def _count(report: ExportReport, commit: Commit) -> None:
    report.waves += 1
    report.files += len(commit.files)
    report.rows += sum(file.rows for file in commit.files)
    report.size_bytes += sum(file.size_bytes for file in commit.files)
    report.passed_over += commit.passed_over
    report.ranges = list(ranges_of([*report.ranges, *commit.ranges]))


def _tasks(export: Export, wave: Sequence[Piece]) -> Iterator[ExportTask]:
    by_topic: dict[str, list[PlannedSplit | LostSplit]] = {}
    for piece in wave:
        by_topic.setdefault(piece.offsets.topic, []).extend(piece.splits)
    for topic, splits in sorted(by_topic.items()):
        for some in bins(splits, _bytes, export.limits.file_bytes):
            yield ExportTask(export.options, export.location, export.limits, topic, some)


def _bytes(planned: PlannedSplit | LostSplit) -> int:
    return 0 if isinstance(planned, LostSplit) else planned.split.end - planned.split.start


async def _plan(
    options: TierOptions, positions: Mapping[TopicPartition, Position], planner: TablePlanner
) -> list[Piece]:
    return [
        piece
        for extent in await there(options, planner)
        for piece in await _pieces(options, planner, extent, positions.get(extent.name))
    ]


async def _pieces(
    options: TierOptions, planner: TablePlanner, extent: PartitionExtent, done: Position | None
) -> list[Piece]:
    """Every offset of the partition that is asked for and not exported yet."""
    if extent.tiered is None:
        return []
    topic_id = uuid_to_text(extent.tiered.partition.topic_id)
    first = None if done is None else _after(extent, topic_id, done, options)
    asked = await planner.bounds(extent, first)
    if asked.first_offset >= asked.end_offset:
        return []
    planned = await planner.splits(extent, asked)
    pieces = list(_by_segment(extent.tiered, topic_id, asked.first_offset, planned))
    if not pieces and (lost := _lost(planned, asked.first_offset, asked.end_offset)):
        return [Piece(_range(extent.tiered, topic_id, asked.first_offset, asked.end_offset), tuple(lost))]
    if pieces:
        # What follows the last record, such as a transaction's marker, is done as well.
        last = pieces[-1]
        behind = _lost(planned, last.offsets.end_offset, asked.end_offset)
        pieces[-1] = Piece(last.offsets.model_copy(update={"end_offset": asked.end_offset}), (*last.splits, *behind))
    return pieces


def _by_segment(tiered: TieredPartition, topic_id: str, first: int, planned: Sequence[object]) -> Iterator[Piece]:
    splits = [split for split in planned if isinstance(split, PlannedSplit)]
    starts = [
        index for index, split in enumerate(splits) if index == 0 or _segment(split) != _segment(splits[index - 1])
    ]
    for start, end in pairwise([*starts, len(splits)]):
        until = splits[end - 1].split.selection.end_offset
        offsets = _range(tiered, topic_id, first, until)
        yield Piece(offsets, (*splits[start:end], *_lost(planned, first, until)))
        first = until


def _range(tiered: TieredPartition, topic_id: str, first: int, end: int) -> ExportedRange:
    name = tiered.name
    return ExportedRange(
        topic=name.topic, topic_id=topic_id, partition=name.partition, first_offset=first, end_offset=end
    )


def _lost(planned: Sequence[object], first: int, end: int) -> list[LostSplit]:
    """Return what begins within these offsets, so that it is reported with their commit."""
    return [split for split in planned if isinstance(split, LostSplit) and first <= split.first_offset < end]


def _segment(planned: PlannedSplit) -> object:
    return planned.split.segment.segment_id


def _after(extent: PartitionExtent, topic_id: str, done: Position, options: TierOptions) -> int:
    """Return the offsets at which the export continues. ExportError, TierError."""
    if done.topic_id != topic_id:
        raise ExportError(
            f"{extent.name}: the topic was deleted and recreated since it was exported (its id was {done.topic_id} and "
            f"is {topic_id}): export the new one into another directory"
        )
    if done.end_offset < extent.start_offset and options.fail_on_data_loss:
        raise TierError(
            f"{extent.name}: offsets [{done.end_offset}, {extent.start_offset}) left the tier before they were "
            "exported; set failOnDataLoss to false to continue after them"
        )
    return max(done.end_offset, extent.start_offset)
