"""The streaming source without a query: where it begins, and what it does about what is there no more"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tierfetch.pipeline.access.options import CORRUPT_COLUMN
from tierfetch.pipeline.planning.tier_splits import TierError
from tierfetch.tests.fakes.random_tier import PARTITION, History, Step, segments, write_kafka_tier

from .tables import options_of

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

TOPIC = PARTITION.topic
FAR_FUTURE_MS = 4_000_000_000_000
SOME: Step = ("plain", -1, 10)


def write(root: Path, steps: list[Step], cuts: list[int]) -> None:
    rng = random.Random(3)
    write_kafka_tier(root, segments(History().run(steps, rng), cuts, rng))


def reader(root: Path, *columns: str, **options: object) -> Any:
    from pyspark.sql.types import StructType

    from tierfetch.pipeline.spark.columns import KAFKA_COLUMNS
    from tierfetch.pipeline.spark.stream import TierStreamReader

    known = StructType([*KAFKA_COLUMNS]).add(CORRUPT_COLUMN, "string")
    schema = StructType([known[name] for name in columns or ("offset",)])
    return TierStreamReader(options_of(root, **{"topics": TOPIC, **options}), schema)


def end_of(stream: Any, start: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stream.latestOffset(start, stream.getDefaultReadLimit())
    return found


def rows(stream: Any, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for task in stream.partitions(start, end) for batch in stream.read(task) for row in batch.to_pylist()]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_stream_that_begins_later_than_what_is_committed_waits(tmp_path: Path, isolation: str) -> None:
    """A transaction is open at the end: where the time is found, and where the tier ends, nothing can be read yet."""
    write(tmp_path, [("plain", -1, 5), ("transactional", 0, 5), ("plain", -1, 5)], [])
    stream = reader(tmp_path, startingTimestamp=FAR_FUTURE_MS, isolation=isolation)
    start = stream.initialOffset()
    assert start[TOPIC]["0"] == 15
    end = end_of(stream, start)
    assert rows(stream, start, end) == []
    write(tmp_path, [("plain", -1, 5), ("transactional", 0, 5), ("plain", -1, 5), ("commit", 0, 1)] + [SOME] * 3, [3])
    after = end_of(stream, end)
    assert {row["offset"] for row in rows(stream, end, after)} >= {16, 25}


def delete_below(root: Path, offset: int) -> None:
    for path in root.glob("*/*/*"):
        if int(path.name[:20]) < offset:
            path.unlink()


def test_what_was_deleted_before_it_was_read_is_an_error_or_told_and_read_behind(tmp_path: Path) -> None:
    write(tmp_path, [SOME] * 9, [3, 6])
    first = reader(tmp_path, maxOffsetsPerTrigger=20)
    start = first.initialOffset()
    end = end_of(first, start)
    assert end[TOPIC]["0"] == 20
    delete_below(tmp_path, 60)
    with pytest.raises(TierError, match=r"offsets \[0, 20\) must be read and \[60, 90\) are there.* set failOnData"):
        reader(tmp_path).partitions(start, end)
    lenient = reader(tmp_path, "offset", CORRUPT_COLUMN, failOnDataLoss=False)
    (told,) = rows(lenient, start, end)
    assert (told["offset"], "what the stream has not read yet was deleted" in told[CORRUPT_COLUMN]) == (0, True)
    late = end_of(lenient, end)
    told, *records = rows(lenient, end, late)
    assert told["offset"] == 20
    assert {row["offset"] for row in records} <= set(range(60, 90))
    assert records


def test_a_topic_that_a_stream_is_not_asked_for_any_more_is_told(tmp_path: Path) -> None:
    write(tmp_path, [SOME] * 3, [])
    (directory,) = (tmp_path / "kafka-tiered-storage").iterdir()
    other = directory.with_name(directory.name.replace("random", "other"))
    other.mkdir()
    for path in directory.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    both = reader(tmp_path, topics="random,other")
    start = both.initialOffset()
    end = end_of(both, start)
    said = r"other-0, read up to offset 30, does not exist: it was deleted, or the stream is asked for other topics now"
    one = reader(tmp_path)
    after = end_of(one, end)
    with pytest.raises(TierError, match=said):
        one.partitions(end, after)
    one = reader(tmp_path, failOnDataLoss=False)
    assert rows(one, end, end_of(one, end)) == []


def test_a_topic_that_was_deleted_ends_no_stream_that_may_lose_data(tmp_path: Path) -> None:
    write(tmp_path, [SOME] * 3, [])
    (directory,) = (tmp_path / "kafka-tiered-storage").iterdir()
    other = directory.with_name(directory.name.replace("random", "other"))
    shutil.copytree(directory, other)
    both = reader(tmp_path, topics="random,other")
    start = both.initialOffset()
    end = end_of(both, start)
    shutil.rmtree(other)
    lenient = reader(tmp_path, topics="random,other", failOnDataLoss=False)
    alone = reader(tmp_path)
    began = alone.initialOffset()
    assert rows(lenient, start, end_of(lenient, start)) == rows(alone, began, end_of(alone, began)) != []
    with pytest.raises(TierError, match="nothing of topic other is in the tier"):
        end_of(reader(tmp_path, topics="random,other"), end)


def test_a_stream_begins_where_a_time_of_its_partition_says(tmp_path: Path) -> None:
    write(tmp_path, [SOME] * 3, [])
    asked = json.dumps({TOPIC: {"0": FAR_FUTURE_MS}})
    assert reader(tmp_path, startingOffsetsByTimestamp=asked).initialOffset()[TOPIC]["0"] == 30
