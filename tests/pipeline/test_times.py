"""A time is found wherever in its batch the record lies that the time index names"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tierfetch.pipeline.planning.tier_splits import TierError
from tierfetch.protocol.records import Record
from tierfetch.tests.fakes.random_tier import PARTITION, History, consumed, segments, write_kafka_tier

from .tables import offsets


@pytest.mark.parametrize("kind", ["plain", "appended"])
def test_P1_a_starting_time_is_that_of_the_first_record_that_is_not_older(tmp_path: Path, kind: str) -> None:
    rng = random.Random(3)
    history = History().run([(kind, -1, 3)] * 3, rng)
    write_kafka_tier(tmp_path, segments(history, [2], rng))
    records = consumed(history, "read_uncommitted")
    for at in sorted({record.timestamp for record in records}):
        first = next(record.offset for record in records if record.timestamp >= at)
        assert offsets(tmp_path, topics=PARTITION.topic, startingTimestamp=at)[0] == first


def times(**of_partitions: int) -> str:
    return json.dumps({PARTITION.topic: {number.removeprefix("p"): at for number, at in of_partitions.items()}})


@pytest.fixture
def written(tmp_path: Path) -> list[Record]:
    rng = random.Random(3)
    history = History().run([("plain", -1, 5)] * 4, rng)
    write_kafka_tier(tmp_path, segments(history, [2], rng))
    return consumed(history, "read_uncommitted")


def test_P1_times_of_partitions_as_in_sparks_kafka_source(tmp_path: Path, written: list[Record]) -> None:
    middle = written[len(written) // 2].timestamp
    first = next(record.offset for record in written if record.timestamp >= middle)
    after = offsets(tmp_path, topics=PARTITION.topic, startingOffsetsByTimestamp=times(p0=middle))
    before = offsets(tmp_path, topics=PARTITION.topic, endingOffsetsByTimestamp=times(p0=middle))
    assert after[0] == first
    assert [*before, *after] == [record.offset for record in written]
    whole = offsets(tmp_path, topics=PARTITION.topic, startingOffsetsByTimestamp=times(p0=middle), startingTimestamp=0)
    assert whole == [record.offset for record in written], "a time of all partitions comes before"


@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_time_that_nothing_is_as_late_as(tmp_path: Path, written: list[Record], option: str) -> None:
    assert written
    far = 4_000_000_000_000
    asked = {option: far if option == "startingTimestamp" else times(p0=far)}
    assert offsets(tmp_path, topics=PARTITION.topic, **asked) == []
    with pytest.raises(TierError, match=r"random-0 has nothing of 4000000000000 ms or later.* set startingOffsetsByTi"):
        offsets(tmp_path, topics=PARTITION.topic, startingOffsetsByTimestampStrategy="error", **asked)
    assert offsets(tmp_path, topics=PARTITION.topic, startingTimestamp=0) == [record.offset for record in written]


def test_a_time_of_a_partition_that_is_none(tmp_path: Path, written: list[Record]) -> None:
    assert written
    with pytest.raises(TierError, match="endingOffsetsByTimestamp names random-7, which is not in the table: random-0"):
        offsets(tmp_path, topics=PARTITION.topic, endingOffsetsByTimestamp=times(p7=1))
