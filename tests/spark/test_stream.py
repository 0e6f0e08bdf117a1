"""Micro-batches over a tier that grows: every record once, whatever happens in between"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tierfetch.cli.local.processes import poll
from tierfetch.protocol.topics import uuid_to_text

from .tiers import TIMEOUT_S, GrowingTier, stream


@pytest.fixture
def tier(tmp_path: Path) -> GrowingTier:
    growing = GrowingTier(tmp_path / "tier")
    growing.grow(5)
    return growing


def started(frame: Any, base: Path, **trigger: object) -> Any:
    writer = frame.select("offset").writeStream.format("parquet").option("path", str(base / "out"))
    return writer.option("checkpointLocation", str(base / "checkpoint")).trigger(**trigger).start()


def run(spark: Any, tier: GrowingTier, base: Path, **options: object) -> Any:
    query = started(stream(spark, tier.root, **options), base, availableNow=True)
    assert query.awaitTermination(TIMEOUT_S)
    return query


def written(spark: Any, base: Path) -> list[int]:
    return sorted(row.offset for row in spark.read.schema("offset LONG").parquet(str(base / "out")).collect())


def test_P1_a_stream_that_fails_in_the_middle_of_a_batch_goes_on_with_it(
    spark: Any, tier: GrowingTier, tmp_path: Path
) -> None:
    """The batch that failed was planned already: it is planned anew over the same offsets."""
    content = tier.log(3).read_bytes()
    log = tier.log(3)
    damaged = bytearray(content)
    damaged[-1] ^= 1
    log.write_bytes(damaged)
    with pytest.raises(Exception, match="has CRC"):
        run(spark, tier, tmp_path, maxOffsetsPerTrigger=30)
    before = written(spark, tmp_path)
    assert 0 < len(before) < len(tier.offsets())
    log.write_bytes(content)
    tier.grow()
    run(spark, tier, tmp_path, maxOffsetsPerTrigger=30)
    assert written(spark, tmp_path) == tier.offsets()
    tier.grow(2)
    query = run(spark, tier, tmp_path, maxOffsetsPerTrigger=30)
    assert written(spark, tmp_path) == tier.offsets()
    assert len(query.recentProgress) >= 3, "80 offsets, 30 at a time"
    assert all(progress.numInputRows <= 30 for progress in query.recentProgress)


def test_P1_new_segments_are_picked_up_while_a_stream_runs(spark: Any, tier: GrowingTier, tmp_path: Path) -> None:
    query = started(stream(spark, tier.root), tmp_path, processingTime="200 milliseconds")
    try:
        for _ in range(3):
            wanted = len(tier.offsets())
            for _ in poll(TIMEOUT_S, f"{wanted} rows", 0.3):
                assert query.exception() is None
                if (tmp_path / "out" / "_spark_metadata").exists() and len(written(spark, tmp_path)) >= wanted:
                    break
            tier.grow()
    finally:
        query.stop()
    rest = run(spark, tier, tmp_path)
    assert rest.exception() is None
    assert written(spark, tmp_path) == tier.offsets()


def test_what_was_deleted_before_it_was_read_is_said(spark: Any, tier: GrowingTier, tmp_path: Path) -> None:
    run(spark, tier, tmp_path)
    for segment in sorted(tier.root.glob("*/*/*")):
        segment.unlink()
    tier.grow(1)
    tier.grow(1)
    for segment in sorted(tier.root.glob("*/*/*"))[:5]:
        segment.unlink()
    with pytest.raises(Exception, match="what the stream has not read yet was deleted"):
        run(spark, tier, tmp_path)


def test_a_topic_that_was_made_anew_is_said(spark: Any, tier: GrowingTier, tmp_path: Path) -> None:
    """However much of it there is by then."""
    run(spark, tier, tmp_path)
    (directory,) = tier.root.glob("*/random-0-*")
    directory.rename(directory.with_name(f"random-0-{uuid_to_text(UUID(int=7))}"))
    for stream_of in (lambda: run(spark, tier, tmp_path), lambda: run(spark, tier, tmp_path, failOnDataLoss="false")):
        with pytest.raises(Exception, match="the topic was deleted and recreated since the stream began"):
            stream_of()


def test_an_end_that_was_lost_is_said(spark: Any, tier: GrowingTier, tmp_path: Path) -> None:
    run(spark, tier, tmp_path)
    for path in tier.root.glob(f"*/*/{tier.log(-1).stem}*"):
        path.unlink()
    with pytest.raises(Exception, match="ends at offset 160, and the stream has read up to 200: its end is lost"):
        run(spark, tier, tmp_path)
    run(spark, tier, tmp_path, failOnDataLoss="false")
