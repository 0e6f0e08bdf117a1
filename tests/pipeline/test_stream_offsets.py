"""How far a micro-batch goes"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.pipeline.access.options import OptionError, parse
from tierfetch.pipeline.planning.stream_offsets import Positions, advance, from_json, to_json, topic_ids_of
from tierfetch.pipeline.planning.tier_splits import Bounds
from tierfetch.protocol.topics import TopicPartition

NAMES = [TopicPartition(topic, partition) for topic in ("a", "b") for partition in (0, 1, 10)]
positions = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1000))


@given(positions)
def test_positions_survive_their_checkpoint(at: Positions) -> None:
    ids = {"a": "one", "b": "two"}
    noted = to_json(at, ids)
    assert from_json(json.loads(json.dumps(noted))) == at
    assert topic_ids_of(noted) == {name.topic: ids[name.topic] for name in at}


def test_a_checkpoint_from_before_topic_ids_were_noted() -> None:
    assert from_json({"a": {"0": 17}}) == {NAMES[0]: 17}
    assert topic_ids_of({"a": {"0": 17}}) == {}


def test_without_a_limit_everything_that_is_there() -> None:
    a, b, c = NAMES[:3]
    extents = {a: Bounds(0, 50), b: Bounds(5, 20), c: Bounds(7, 9)}
    assert advance({a: 10, b: 20, c: 7}, extents, None) == {a: 50, b: 20, c: 9}


def test_a_new_partition_is_noted_before_it_is_read() -> None:
    a, b = NAMES[:2]
    extents = {a: Bounds(0, 50), b: Bounds(5, 20)}
    noted = advance({a: 10}, extents, 10)
    assert noted == {a: 20, b: 5}
    assert advance(noted, extents, None) == {a: 50, b: 20}


def test_a_partition_that_is_gone_or_behind_stays_where_it_was() -> None:
    a, b = NAMES[:2]
    assert advance({a: 10, b: 20}, {b: Bounds(0, 15)}, None) == {a: 10, b: 20}


@pytest.mark.spark
@pytest.mark.parametrize(
    "end", [{"endingOffsets": "earliest"}, {"endingTimestamp": "1"}, {"endingOffsetsByTimestamp": '{"t":{"0":1}}'}]
)
def test_a_stream_has_no_end(end: dict[str, str]) -> None:
    pytest.importorskip("pyspark")
    from tierfetch.pipeline.spark.columns import KAFKA_COLUMNS
    from tierfetch.pipeline.spark.stream import TierStreamReader

    with pytest.raises(OptionError, match="a stream has no end: remove endingOffsets, "):
        TierStreamReader(parse({"location": "/t", "topics": "t", **end}), KAFKA_COLUMNS)


@given(
    positions,
    st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(0, 500), st.integers(0, 500))),
    st.integers(1, 300),
)
def test_a_limited_batch_gets_on_and_never_takes_more(
    start: Positions, sizes: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    extents = {name: Bounds(first, first + size) for name, (first, size) in sizes.items()}
    before = {name: start.get(name, bounds.first_offset) for name, bounds in extents.items()}
    after = advance(start, extents, limit)
    taken = {name: after[name] - before[name] for name in extents}
    left = sum(max(0, extents[name].end_offset - before[name]) for name in extents if name in start)
    assert all(count >= 0 for count in taken.values())
    assert sum(taken.values()) == min(limit, left)
    assert all(after[name] <= max(before[name], extents[name].end_offset) for name in extents)
