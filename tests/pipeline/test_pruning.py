"""What filters spare: never a row that is wanted"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.pipeline.core.batch_table import OFFSET_END
from tierfetch.pipeline.core.pruning import EVERYTHING
from tierfetch.tests.fakes.random_tier import PARTITION, START_MS, History, segments, write_kafka_tier

from .tables import options_of, plan, read

comparisons = st.sampled_from(["=", "<", "<=", ">", ">="])
HOLDS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@given(st.lists(st.tuples(comparisons, st.integers(-5, 30)), max_size=4), st.integers(0, 25))
def test_offsets_are_exactly_those_that_all_comparisons_allow(some: list[tuple[str, int]], offset: int) -> None:
    pruning = EVERYTHING
    for comparison, value in some:
        pruning = pruning.with_offset(comparison, value)
    expected = all(HOLDS[comparison](offset, value) for comparison, value in some)
    assert (pruning.first_offset <= offset < pruning.end_offset) is expected


def test_values_of_several_filters_must_all_hold() -> None:
    pruning = EVERYTHING.with_topics(frozenset("ab")).with_topics(frozenset("bc"))
    assert pruning.topics == frozenset("b")
    of_none = pruning.with_partitions(frozenset({1})).with_partitions(frozenset({2}))
    assert of_none.partitions == frozenset()


@pytest.mark.parametrize(("comparison", "at_us", "expected"), [(">", 1_999, 1), (">=", 2_000, 2), ("=", 2_000, 2)])
def test_a_lower_bound_of_time_is_rounded_down(comparison: str, at_us: int, expected: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    assert EVERYTHING.with_timestamp(comparison, at).min_timestamp_ms == expected
    assert EVERYTHING.with_timestamp(comparison, at.replace(tzinfo=None)).min_timestamp_ms == expected
    elsewhere = at.astimezone(timezone(timedelta(hours=5)))
    assert EVERYTHING.with_timestamp(comparison, elsewhere).min_timestamp_ms == expected


def test_an_upper_bound_of_time_spares_nothing() -> None:
    assert EVERYTHING.with_timestamp("<", datetime(2020, 1, 1, tzinfo=UTC)) == EVERYTHING


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    rng = random.Random(3)
    history = History().run([("plain", -1, 10)] * 30, rng)
    write_kafka_tier(tmp_path, segments(history, [10, 20], rng))
    return tmp_path


def test_only_segments_with_wanted_offsets_are_read(tier: Path) -> None:
    splits = plan(options_of(tier, topics=PARTITION.topic), EVERYTHING.with_offset(">=", 120).with_offset("<", 180))
    assert [(split.split.selection.first_offset, split.split.selection.end_offset) for split in splits] == [(120, 180)]
    nothing = EVERYTHING.with_partitions(frozenset({9}))
    assert plan(options_of(tier, topics=PARTITION.topic), nothing) == []
    assert plan(options_of(tier, topics=PARTITION.topic), EVERYTHING.with_offset(">", OFFSET_END - 2)) == []


def test_batches_that_are_too_old_are_not_looked_at(tier: Path) -> None:
    """Records of the batches that are left may be older: Spark filters them."""
    options = options_of(tier, topics=PARTITION.topic)
    everything = [row for split in plan(options) for row in read(options, split)]
    at = datetime.fromtimestamp((START_MS + 995) / 1000, UTC)
    pruning = EVERYTHING.with_timestamp(">=", at)
    kept = [row for split in plan(options, pruning) for row in read(options, split)]
    assert len(kept) < len(everything)
    assert [row for row in kept if row["timestamp"] >= at] == [row for row in everything if row["timestamp"] >= at]
