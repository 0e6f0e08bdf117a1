"""Executors are asked whether they can read the tier before a job begins"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tierfetch.pipeline.access.options import parse
from tierfetch.pipeline.layouts.kafka import KafkaLayout
from tierfetch.pipeline.planning.tier_splits import TierError
from tierfetch.pipeline.spark import executors
from tierfetch.remote import RemoteStorageError
from tierfetch.tests.fakes.random_tier import PARTITION, History, segments, write_kafka_tier


class OneExecutor:
    """A Spark session, its context and its data sets in one: runs everything here, between two steps of a test."""

    defaultParallelism = 2
    master = "local[2]"

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self.sparkContext = self
        self._items: list[Any] = []

    def parallelize(self, items: Iterable[Any], _: int) -> OneExecutor:
        self._items = list(items)
        return self

    def map(self, work: Callable[[Any], Any]) -> OneExecutor:
        self._before()
        self._items = [work(item) for item in self._items]
        return self

    def collect(self) -> list[Any]:
        return self._items


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    rng = random.Random(1)
    write_kafka_tier(tmp_path, segments(History().run([("plain", -1, 3)], rng), [], rng))
    return tmp_path


def options(tier: Path) -> dict[str, str]:
    return {"location": str(tier), "topics": PARTITION.topic}


def test_executors_that_can_read_it_say_nothing(tier: Path) -> None:
    executors.check_executors(OneExecutor(lambda: None), options(tier))


def test_an_executor_that_cannot_is_named_with_what_it_was_told(tier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> None:
        raise RemoteStorageError("NoCredentialsError: Unable to locate credentials")

    session = OneExecutor(lambda: monkeypatch.setattr(KafkaLayout, "partitions", refused))
    with pytest.raises(
        TierError, match=r"1 executors cannot read what the driver can\. \S+: NoCredentialsError: .*storage\.\*"
    ):
        executors.check_executors(session, options(tier))


def test_an_executor_with_another_directory_is_named(tier: Path) -> None:
    session = OneExecutor(lambda: shutil.rmtree(tier / "kafka-tiered-storage"))
    with pytest.raises(TierError, match=r": nothing of what the driver sees is there\. .*must be the same everywhere"):
        executors.check_executors(session, options(tier))


@pytest.mark.parametrize(
    ("master", "asked"), [("local", 0), ("local[2]", 0), ("local-cluster[1,1,1024]", 1), ("yarn", 1)]
)
def test_jobs_ask_executors_that_are_not_in_this_process(tier: Path, master: str, asked: int) -> None:
    calls: list[None] = []
    session = OneExecutor(lambda: calls.append(None))
    session.master = master
    executors.ask_remote_executors(session, parse(options(tier)))
    assert len(calls) == asked
