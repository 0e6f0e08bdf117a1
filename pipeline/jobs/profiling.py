"""What is in a tier: sizes, rates over time, codecs, skew, and what compaction would leave.

    plan of the table -> [split] headers summed up          every offset once, nothing is decompressed
    table             -> Spark SQL by partition and key     exact; reads every record, so it may be left out

Keys leave the executors as 64-bit hashes: the report shows how records are spread over keys, never which there are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ...light_dataclass import dataclass
from ...protocol import TopicPartition
from ...remote import RemoteStorageCorruptError
from ..access.options import TierOptions, of_all_topics
from ..planning.driver import planning
from ..planning.table import PartitionExtent, TablePlanner
from ..planning.tier_splits import PlannedSplit
from ..reading.splits import read_windows
from ..spark.executors import ask_remote_executors
from ..spark.spark_faults import spark_faults
from .batch_sums import BatchSums, joined, sum_batches
from .profile_report import CodecShare, KeyFigures, PartitionProfile, RateBucket, TierProfile, TopicProfile, total
from .work import bins, display_name, job_options, spread, there

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

SPLIT_BYTES: Final = 32 << 20
BYTES_OF_TASK: Final = 256 << 20
BUCKETS_WANTED: Final = 120
_MINUTE_MS: Final = 60_000
_BUCKETS_MS: Final = tuple(
    minutes * _MINUTE_MS for minutes in (1, 5, 15, 60, 4 * 60, 24 * 60, 7 * 24 * 60, 28 * 24 * 60, 364 * 24 * 60)
)
_SECOND_MS: Final = 1000


def profile(session: SparkSession, options: Mapping[str, str], *, keys: bool = True) -> TierProfile:
    """Profile the topics of `options`, which are those of the table. Without `keys` only headers are read.
    JobError, OptionError, TierError, RemoteStorageError.
    """
    tier = job_options({"splitBytes": str(SPLIT_BYTES), **options})
    ask_remote_executors(session, tier)
    extents, splits = planning(tier, partial(_plan, tier))
    bucket_ms = bucket_for([_span(extent) for extent in extents])
    tasks = [_HeaderTask(tier, bucket_ms, some) for some in bins(splits, _bytes, BYTES_OF_TASK)]
    sums: dict[TopicPartition, BatchSums] = {}
    for found in spread(session, _sum_headers, tasks):
        for name, part in found.items():
            sums.setdefault(name, BatchSums()).add(part)
    figures = _key_figures(session, {**options, "location": tier.location}) if keys else {}
    return TierProfile(
        tier=display_name(tier.location),
        bucket_ms=bucket_ms,
        has_keys=keys,
        topics=_topics(extents, sums, figures),
    )


def bucket_for(spans: Sequence[tuple[int, int]]) -> int:
    """The length of a bucket (ms), so that the spans' whole takes about `BUCKETS_WANTED` of them."""
    whole = max((end for _, end in spans), default=0) - min((start for start, _ in spans), default=0)
    if whole <= BUCKETS_WANTED * _SECOND_MS:
        return _SECOND_MS
    return next((bucket for bucket in _BUCKETS_MS if whole <= bucket * BUCKETS_WANTED), _BUCKETS_MS[-1])


@dataclass(frozen=True, slots=True)
class _HeaderTask:
    options: TierOptions
    bucket_ms: int
    splits: tuple[PlannedSplit, ...]


def _sum_headers(task: _HeaderTask) -> dict[TopicPartition, BatchSums]:
    """In an executor."""
    found: dict[TopicPartition, BatchSums] = {}
    for planned in task.splits:
        of_partition = found.setdefault(planned.partition, BatchSums())
        on_fault = partial(_pass_over, planned) if task.options.mode == "permissive" else None
        try:
            for data in read_windows(task.options, planned):
                of_partition.add(sum_batches(data, planned.split.selection, task.bucket_ms, on_fault))
        except RemoteStorageCorruptError as error:
            if on_fault is None:
                raise
            on_fault(error)
    return found


def _pass_over(planned: PlannedSplit, error: Exception) -> None:
    segment_id = planned.split.segment.segment_id
    _log.warning("the profile of %s leaves out a part of segment %s: %s", planned.partition, segment_id, error)


async def _plan(options: TierOptions, planner: TablePlanner) -> tuple[list[PartitionExtent], list[PlannedSplit]]:
    extents = await there(options, planner)
    splits = [
        split
        for extent in extents
        for split in await planner.splits(extent, await planner.bounds(extent))
        if isinstance(split, PlannedSplit)
    ]
    return extents, splits


def _span(extent: PartitionExtent) -> tuple[int, int]:
    """Return the range of the segments' largest timestamps (ms): where the first segment begins is not known yet."""
    times = [] if extent.tiered is None else [one.max_timestamp_ms for one in extent.tiered.ledger.finished()]
    known = [time for time in times if time >= 0]
    return min(known, default=0), max(known, default=0)


def _bytes(planned: PlannedSplit) -> int:
    return planned.split.end - planned.split.start


def _key_figures(session: SparkSession, options: Mapping[str, str]) -> dict[TopicPartition, KeyFigures]:
    from pyspark.sql import functions as f

    columns = "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY"
    rows = session.read.schema(columns).format("tierfetch").options(**of_all_topics(options)).load()
    payload = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0))
    records = rows.select(
        "topic",
        "partition",
        f.when(f.col("key").isNotNull(), f.xxhash64("key")).alias("hash"),
        f.col("key").isNull().alias("is_null"),
        f.struct("offset", f.col("value").isNull().alias("gone"), payload.alias("payload")).alias("record"),
    )
    of_key = records.groupBy("topic", "partition", "hash", "is_null").agg(
        f.count("*").alias("records"),
        f.count_if(f.col("record.gone")).alias("tombstones"),
        f.sum("record.payload").alias("payload_bytes"),
        f.max("record").alias("last"),
    )
    has_key, is_live = ~f.col("is_null"), ~f.col("is_null") & ~f.col("last.gone")
    found = of_key.groupBy("topic", "partition").agg(
        f.sum("records").alias("records"),
        f.sum(f.when(f.col("is_null"), f.col("records")).otherwise(0)).alias("null_keys"),
        f.count_if(has_key).alias("distinct_keys"),
        f.sum(f.when(has_key, f.col("tombstones")).otherwise(0)).alias("tombstones"),
        f.count_if(has_key & f.col("last.gone")).alias("deleted_keys"),
        f.sum("payload_bytes").alias("payload_bytes"),
        f.sum(f.when(f.col("is_null"), f.col("payload_bytes")).when(is_live, f.col("last.payload")).otherwise(0)).alias(
            "kept_bytes"
        ),
        f.coalesce(f.max(f.when(has_key, f.col("records"))), f.lit(0)).alias("largest_key_records"),
    )
    with spark_faults():
        collected = found.collect()
    return {
        TopicPartition(row.topic, row.partition): KeyFigures(
            **{name: int(row[name]) for name in KeyFigures.model_fields}
        )
        for row in collected
    }


def _topics(
    extents: Sequence[PartitionExtent],
    sums: Mapping[TopicPartition, BatchSums],
    figures: Mapping[TopicPartition, KeyFigures],
) -> list[TopicProfile]:
    by_topic: dict[str, list[PartitionExtent]] = {}
    for extent in extents:
        by_topic.setdefault(extent.name.topic, []).append(extent)
    return [_topic(topic, some, sums, figures) for topic, some in sorted(by_topic.items())]


def _topic(
    topic: str,
    extents: Sequence[PartitionExtent],
    sums: Mapping[TopicPartition, BatchSums],
    figures: Mapping[TopicPartition, KeyFigures],
) -> TopicProfile:
    whole = joined(sums[extent.name] for extent in extents if extent.name in sums)
    found = [figures[extent.name] for extent in extents if extent.name in figures]
    return TopicProfile(
        topic=topic,
        partitions=[
            _partition(extent, sums.get(extent.name, BatchSums()), figures.get(extent.name)) for extent in extents
        ],
        codecs={
            name: CodecShare(batches=one.batches, records=one.records, size_bytes=one.size_bytes)
            for name, one in sorted(whole.codecs.items())
        },
        rates=[
            RateBucket(start_ms=start_ms, records=one.records, size_bytes=one.size_bytes)
            for start_ms, one in sorted(whole.buckets.items())
        ],
        keys=total(found) if found else None,
    )


def _partition(extent: PartitionExtent, sums: BatchSums, figures: KeyFigures | None) -> PartitionProfile:
    ledger = None if extent.tiered is None else extent.tiered.ledger
    return PartitionProfile(
        partition=extent.name.partition,
        segments=0 if ledger is None else len(ledger.finished()),
        size_bytes=0 if ledger is None else ledger.finished_size_bytes,
        start_offset=extent.start_offset,
        end_offset=extent.end_offset,
        batches=sums.total.batches,
        records=sums.total.records,
        first_timestamp_ms=sums.first_timestamp_ms,
        last_timestamp_ms=sums.last_timestamp_ms,
        keys=figures,
    )
