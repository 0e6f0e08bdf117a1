"""Every topic of the files that Apache Kafka wrote, in both isolation levels, as a consumer saw it"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tierfetch.protocol.records import Record
from tierfetch.tests import samples

from .tables import rows

ISOLATIONS = ("read_committed", "read_uncommitted")
COLUMNS = ("offset", "value")


def digest(location: Path, **options: object) -> dict[str, object]:
    found = rows(location, COLUMNS, **options)
    return samples.digest(Record(row["offset"], 0, None, row["value"]) for row in found)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", samples.TOPICS)
def test_P1_tier_and_log_directory_together(topic: str, isolation: str) -> None:
    """s-trim lacks its first offsets on the broker; s-compact is not tiered, and its first segments are empty."""
    found = digest(samples.TIER.parent, topics=topic, isolation=isolation, logDirs=samples.BROKER)
    assert found == samples.expected()[topic][isolation]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", [topic for topic in samples.TOPICS if topic != "s-trim"])
def test_P1_a_log_directory_alone(topic: str, isolation: str) -> None:
    found = digest(samples.BROKER, topics=topic, isolation=isolation, splitBytes=5000)
    assert found == samples.expected()[topic][isolation]


def test_P1_the_directories_of_two_brokers_hold_each_offset_once(tmp_path: Path) -> None:
    shutil.copytree(samples.BROKER, tmp_path / "another")
    found = digest(samples.TIER.parent, topics="s-trim", logDirs=f"{tmp_path / 'another'},{samples.BROKER}")
    assert found == samples.expected()["s-trim"]["read_committed"]


def test_records_that_are_in_no_remote_segment_have_no_segment_id() -> None:
    found = rows(
        samples.TIER.parent,
        ("offset", "segment_id"),
        topics="s-trim",
        isolation="read_uncommitted",
        logDirs=samples.BROKER,
    )
    assert {row["offset"] for row in found if row["segment_id"] is None} == {*range(1634, 1680)}
