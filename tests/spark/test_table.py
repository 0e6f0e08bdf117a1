"""The tier as a DataFrame: the rows of a consumer"""

from __future__ import annotations

import gc
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.records import Record, iter_batches, iter_records
from tierfetch.tests import samples
from tierfetch.tests.process.clients import Librdkafka, create_topic

from .tiers import TIMEOUT_S

TIERED = sorted({path.parent.name.rsplit("-0-", 1)[0] for path in samples.TIER.glob("*/*.log")})


def table(spark: Any, location: Path, **options: str) -> Any:
    return spark.read.format("tierfetch").option("location", str(location)).options(**options).load()


def offsets(frame: Any) -> list[int]:
    return [row.offset for row in frame.select("offset").orderBy("offset").collect()]


@pytest.mark.parametrize("topic", TIERED)
def test_P1_rows_of_a_tier_that_kafka_wrote(spark: Any, topic: str) -> None:
    expected = [
        (record.offset, record.key, record.value, record.timestamp * 1000, list(record.headers))
        for path in sorted(samples.tier_directory(topic).glob("*.log"))
        for position, header in iter_batches(path.read_bytes())
        if not header.is_control
        for record in iter_records(path.read_bytes(), position, header)
    ]
    frame = table(spark, samples.TIER.parent, topics=topic, isolation="read_uncommitted", splitBytes="30000")
    found = frame.selectExpr("offset", "key", "value", "unix_micros(timestamp) AS at", "headers").orderBy("offset")
    rows = [
        (
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            row["at"],
            [(name, None if value is None else bytes(value)) for name, value in row.headers or []],
        )
        for row in found.collect()
    ]
    assert rows == expected


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_P1_every_topic_of_the_samples_is_what_a_consumer_saw(spark: Any, isolation: str) -> None:
    """Count, offsets and checksum, of what is in the tier and of what only the broker has, all in one query."""
    options = {"topicsPattern": "s-.*", "isolation": isolation, "logDirs": str(samples.BROKER)}
    rows = table(spark, samples.TIER.parent, **options).select("topic", "offset", "value").collect()
    found: dict[str, list[Record]] = {}
    for row in sorted(rows, key=lambda row: row.offset):
        found.setdefault(row.topic, []).append(
            Record(row.offset, 0, None, None if row.value is None else bytes(row.value))
        )
    assert {topic: samples.digest(records) for topic, records in found.items()} == {
        topic: samples.expected()[topic][isolation] for topic in samples.TOPICS
    }


def test_P1_read_committed_is_what_a_consumer_saw(spark: Any) -> None:
    """Up to where the tier can tell: its oldest open transaction begins at 3296."""
    frame = table(spark, samples.TIER.parent, topics="s-none")
    seen = offsets(frame)
    everything = [
        offset for offset in offsets(table(spark, samples.TIER.parent, topics="s-none", isolation="read_uncommitted"))
    ]
    aborted = {offset for path in samples.log_files("s-none") for offset in aborted_offsets(path)}
    assert seen == [offset for offset in everything if offset < 3296 and offset not in aborted]


def aborted_offsets(path: Path) -> list[int]:
    """Of one of Kafka's own segments, by its transaction indexes and those behind it."""
    from tierfetch.log.core import TransactionIndex

    transactions = [
        transaction
        for index in path.parent.glob("*.txnindex")
        for transaction in TransactionIndex.decode(index.read_bytes())
    ]
    data = path.read_bytes()
    return [
        record.offset
        for position, header in iter_batches(data)
        if header.is_transactional and not header.is_control
        for record in iter_records(data, position, header)
        if any(
            header.producer_id == transaction.producer_id
            and transaction.first_offset <= record.offset <= transaction.last_offset
            for transaction in transactions
        )
    ]


def test_only_the_asked_columns_offsets_and_times(spark: Any) -> None:
    start, end = '{"s-none":{"0":100}}', '{"s-none":{"0":120}}'
    options = {"topics": "s-none", "isolation": "read_uncommitted", "startingOffsets": start, "endingOffsets": end}
    frame = table(spark, samples.TIER.parent, **options)
    assert offsets(frame) == list(range(100, 120))
    at = frame.selectExpr("unix_millis(min(timestamp))").first()[0]
    later = table(spark, samples.TIER.parent, topics="s-none", isolation="read_uncommitted", startingTimestamp=str(at))
    assert offsets(later)[0] <= 100
    narrow = spark.read.schema("offset LONG, partition INT").format("tierfetch").options(**options)
    assert narrow.option("location", str(samples.TIER.parent)).load().columns == ["offset", "partition"]


def test_a_misspelt_option_is_named(spark: Any) -> None:
    with pytest.raises(Exception, match="unknown option topic; did you mean topics"):
        table(spark, samples.TIER.parent, topic="s-none")


def test_a_view_of_sql_is_the_table(spark: Any) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW samples USING tierfetch "
        f"OPTIONS (location '{samples.TIER.parent}', topics 's-none,s-trim')"
    )
    found = spark.sql("SELECT topic, count(*) AS records FROM samples GROUP BY topic ORDER BY topic").collect()
    assert [tuple(row) for row in found] == [("s-none", 2460), ("s-trim", 1634)]


def test_the_table_cannot_be_written(spark: Any, tmp_path: Path) -> None:
    rows = table(spark, samples.TIER.parent, topics="s-trim").limit(1)
    said = "format tierfetch cannot be written: a tier is written by the brokers"
    with pytest.raises(Exception, match=said):
        rows.write.format("tierfetch").mode("append").save(str(samples.TIER.parent))
    counting = spark.readStream.format("rate").load().writeStream.format("tierfetch").options(location="/tier")
    query = counting.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=said):
        query.awaitTermination(TIMEOUT_S)


def test_damage_is_named_or_passed_over(spark: Any, tmp_path: Path) -> None:
    shutil.copytree(samples.TIER, tmp_path / samples.TIER.name)
    log = sorted((tmp_path / samples.TIER.name).glob("s-none-0-*/*.log"))[3]
    content = bytearray(log.read_bytes())
    positions = [position for position, _ in iter_batches(bytes(content))]
    content[positions[2] + 100] ^= 1
    log.write_bytes(content)
    options = {"topics": "s-none", "isolation": "read_uncommitted"}
    with pytest.raises(Exception, match=rf"has CRC .* \(batch at byte {positions[2]}\)"):
        table(spark, tmp_path, **options).count()
    whole = offsets(table(spark, samples.TIER.parent, **options))
    left = offsets(table(spark, tmp_path, mode="permissive", **options))
    lost = set(whole) - set(left)
    assert 0 < len(lost) < 200
    assert max(lost) - min(lost) + 1 == len(lost), "one batch"
    log.write_bytes(content[:-10])
    with pytest.raises(Exception, match=r"ends within a batch|shorter than its metadata|the data ends|offsets \["):
        table(spark, tmp_path, **options).count()
    log.unlink()
    with pytest.raises(Exception, match="are in no segment of the tier; set failOnDataLoss"):
        table(spark, tmp_path, **options).count()
    assert table(spark, tmp_path, failOnDataLoss="false", **options).count() < len(whole)


def test_what_is_passed_over_is_a_row_of_the_column_that_spark_has_for_it(spark: Any, tmp_path: Path) -> None:
    shutil.copytree(samples.TIER, tmp_path / samples.TIER.name)
    log = sorted((tmp_path / samples.TIER.name).glob("s-none-0-*/*.log"))[3]
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    options = {"topics": "s-none", "isolation": "read_uncommitted", "mode": "permissive"}
    records = table(spark, tmp_path, **options)
    with_reports = table(spark, tmp_path, columnNameOfCorruptRecord="wrong", **options)
    assert with_reports.columns == [*records.columns, "wrong"]
    (row,) = with_reports.where("wrong IS NOT NULL").collect()
    assert (row.topic, row.partition, row.offset) == ("s-none", 0, int(log.name[:20]))
    assert row.wrong.endswith("(batch at byte 0)")
    assert with_reports.where("wrong IS NULL").count() == records.count()
    few = spark.read.schema("offset LONG, _corrupt_record STRING").format("tierfetch").options(**options)
    (row,) = few.load(str(tmp_path)).where("_corrupt_record IS NOT NULL").collect()
    assert row.offset == int(log.name[:20])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("offfset LONG", "the schema names the column offfset, which is unknown; did you mean offset?"),
        (
            "TimestampTYPE INT",
            "the schema names the column TimestampTYPE, which is unknown; did you mean timestampType?",
        ),
        ("offset INT", "column offset is bigint, the schema says int: read it as it is, and cast it"),
        ("value STRING", "column value is binary, the schema says string"),
    ],
)
def test_a_schema_that_cannot_be(spark: Any, schema: str, said: str) -> None:
    frame = spark.read.schema(schema).format("tierfetch").option("topics", "s-none").load(str(samples.TIER.parent))
    with pytest.raises(Exception, match=re.escape(said)):
        frame.count()


def test_garbage_is_not_looked_for_among_what_a_worker_has_imported() -> None:
    """Spark collects after each task; this is what a task of a worker does, in this process."""
    from tierfetch.pipeline.access.options import parse
    from tierfetch.pipeline.planning.driver import planning
    from tierfetch.pipeline.spark.columns import KAFKA_COLUMNS
    from tierfetch.pipeline.spark.partition import SplitPartition
    from tierfetch.pipeline.spark.source import _all_splits

    options = parse({"location": str(samples.TIER.parent), "topics": "s-none"})
    first, *_ = planning(options, _all_splits)
    try:
        assert sum(batch.num_rows for batch in SplitPartition([first]).read(options, KAFKA_COLUMNS)) > 0
        assert gc.get_freeze_count() > 0
        assert list(SplitPartition().read(options, KAFKA_COLUMNS)) == []
    finally:
        gc.unfreeze()


# With a tail on live brokers.


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> str:
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "60000", "local.retention.bytes": "1"}
    create_topic(cluster.bootstrap_servers, "live", configs=configs)
    for _ in range(6):
        produce(cluster)
    tier = cluster.base / "tier"
    for _ in poll(TIMEOUT_S, "segments to be tiered", 0.2):
        if len(list(tier.glob("kafka-tiered-storage/live-0-*/*.log"))) >= 5:
            return "live"
    raise AssertionError("unreachable: poll raises")


def produce(cluster: LocalCluster, topic: str = "live") -> None:
    Librdkafka().produce(cluster.bootstrap_servers, topic, [b"%d" % n + b"x" * 1000 for n in range(40)], "none")


def test_P1_tier_and_tail_are_the_whole_topic(spark: Any, cluster: LocalCluster, topic: str) -> None:
    location = cluster.base / "tier"
    tiered = table(spark, location, topics=topic).count()
    whole = table(spark, location, topics=topic, brokers=cluster.bootstrap_servers, metadata="true")
    rows = whole.select("offset", "value", "segment_id").orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(240))
    assert [bytes(row.value) for row in rows] == Librdkafka().consume(cluster.bootstrap_servers, topic, 240)
    assert sum(row.segment_id is not None for row in rows) == tiered < 240


def test_P1_a_stream_reads_everything_once_across_restarts(
    spark: Any, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    def run() -> None:
        stream = spark.readStream.format("tierfetch").option("location", str(cluster.base / "tier"))
        stream = stream.options(topics=topic, brokers=cluster.bootstrap_servers, maxOffsetsPerTrigger="70").load()
        query = (
            stream.select("offset")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(TIMEOUT_S)
        assert len(query.recentProgress) > 1

    run()
    before = offsets(spark.read.parquet(str(tmp_path / "out")))
    assert before == list(range(len(before)))
    assert len(before) >= 240
    produce(cluster)
    produce(cluster)
    run()
    assert offsets(spark.read.parquet(str(tmp_path / "out"))) == list(range(len(before) + 80))


def test_P1_what_leaves_the_brokers_between_plan_and_read_is_still_read_once(cluster: LocalCluster) -> None:
    """The plan takes from the brokers what was not tiered yet; by the time of the read it lies in the tier alone."""
    from tierfetch.pipeline.access.options import parse
    from tierfetch.pipeline.planning.driver import planning
    from tierfetch.pipeline.planning.table import TailSplit
    from tierfetch.pipeline.reading.splits import read_split
    from tierfetch.pipeline.spark.source import _all_splits

    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "60000", "local.retention.bytes": "1"}
    create_topic(cluster.bootstrap_servers, "moved", configs=configs)
    produce(cluster, "moved")
    location = {"location": str(cluster.base / "tier"), "brokers": cluster.bootstrap_servers}
    options = parse({**location, "topics": "moved"})
    splits = planning(options, _all_splits)
    (tail,) = [split for split in splits if isinstance(split, TailSplit)]
    for _ in range(3):
        produce(cluster, "moved")
    for _ in poll(TIMEOUT_S, "local segments to be deleted", 0.2):
        logs = [cluster.data_directory(broker).glob("moved-0/*.log") for broker in cluster.broker_ids]
        if all(min(int(path.stem) for path in paths) >= tail.end_offset for paths in logs):
            break
    schema = pa.schema([("offset", pa.int64())])
    read = [offset for split in splits for batch in read_split(options, split, schema) for offset in batch["offset"]]
    assert [offset.as_py() for offset in read] == list(range(40))
