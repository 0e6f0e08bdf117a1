"""Filters that spare reading, in sessions that push them down and in sessions that do not"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tierfetch.pipeline.spark.session import PUSHDOWN_SETTING, register
from tierfetch.tests import samples
from tierfetch.tests.fakes.random_tier import START_MS

from .tiers import TOPIC, GrowingTier


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> GrowingTier:
    growing = GrowingTier(tmp_path_factory.mktemp("tier"))
    growing.grow(6)
    return growing


@pytest.fixture(params=["true", "false"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    spark.conf.set(PUSHDOWN_SETTING, request.param)
    register(spark, push_filters=request.param == "true")
    yield spark
    spark.conf.unset(PUSHDOWN_SETTING)
    register(spark)


def table(session: Any, tier: GrowingTier) -> Any:
    return session.read.format("tierfetch").options(location=tier.root, topics=TOPIC, splitBytes=1024).load()


@pytest.mark.parametrize(
    ("condition", "low", "high", "tasks"),
    [
        ("offset >= 90 AND offset < 110", 90, 110, 1),
        ("offset = 100", 100, 101, 1),
        ("offset > 79 AND offset <= 160 AND value IS NOT NULL OR offset BETWEEN 80 AND 160", 80, 161, 6),
        ("topic = 'random' AND partition IN (0, 7)", 0, 240, 6),
        ("partition = 7", 0, 0, 1),
        ("topic IN ('other')", 0, 0, 1),
        ("topic IS NOT NULL AND offset < 45", 0, 45, 2),
    ],
)
def test_rows_are_the_same_and_the_tasks_fewer(
    session: Any, tier: GrowingTier, condition: str, low: int, high: int, tasks: int
) -> None:
    frame = table(session, tier).where(condition).select("offset")
    wanted = [offset for offset in tier.offsets() if low <= offset < high]
    assert sorted(row.offset for row in frame.collect()) == wanted
    if session.conf.get(PUSHDOWN_SETTING) == "true" and "OR" not in condition:
        assert frame.rdd.getNumPartitions() == tasks


def sample(session: Any) -> Any:
    return (
        session.read.format("tierfetch").options(location=samples.TIER.parent, topics="s-none", splitBytes=30000).load()
    )


def test_segments_that_are_too_old_are_left_out(session: Any) -> None:
    whole = sample(session)
    rows = whole.select("offset", "timestamp").collect()
    ordered = sorted(row.timestamp for row in rows)
    middle = ordered[len(ordered) // 2].replace(tzinfo=None)
    late = sample(session)
    late = late.where(late.timestamp >= middle).select("offset")
    wanted = sorted(row.offset for row in rows if row.timestamp.replace(tzinfo=None) >= middle)
    assert sorted(row.offset for row in late.collect()) == wanted
    if session.conf.get(PUSHDOWN_SETTING) == "true":
        assert late.rdd.getNumPartitions() < whole.rdd.getNumPartitions()


def test_one_dataframe_with_several_filters(session: Any) -> None:
    """Right without pushing down. With it Spark keeps the plan of the last filters with the DataFrame; once this fails,
    filters can be pushed down always.
    """
    frame = sample(session)
    whole, few = frame.count(), frame.where("offset < 100").count()
    assert few < whole
    pushes = session.conf.get(PUSHDOWN_SETTING) == "true"
    assert frame.count() == (few if pushes else whole)


def test_a_time_without_records_is_nothing(session: Any, tier: GrowingTier) -> None:
    far = datetime.fromtimestamp(START_MS / 1000 + 86400, UTC)
    frame = table(session, tier)
    assert frame.where(frame.timestamp > far).count() == 0


def test_a_layout_that_no_option_names(session: Any) -> None:
    """A broker's log directory as the location."""
    frame = session.read.format("tierfetch").options(location=samples.BROKER, topics="s-compact").load()
    assert frame.count() == samples.expected()["s-compact"]["read_committed"]["records"]
