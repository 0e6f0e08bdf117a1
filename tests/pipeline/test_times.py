"""A time is found wherever in its batch the record lies that the time index names"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

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
