"""A tier at any URL that fsspec opens, by its scheme or by the plugin's name, in each layout"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from tierfetch.tests.fakes.aiven_tier import AivenWriter
from tierfetch.tests.fakes.random_tier import (
    PARTITION,
    History,
    Segment,
    consumed,
    segments,
    write_kafka_tier,
    write_log_directory,
)

from .tables import offsets

URL = "memory://places/tier"


def write_kafka(root: Path, _: History, some: list[Segment]) -> Path:
    write_kafka_tier(root, some)
    return root / "kafka-tiered-storage"


def write_aiven(root: Path, _: History, some: list[Segment]) -> Path:
    writer = AivenWriter(root, 2000, True, None)
    for segment in some:
        writer.write(segment.metadata, segment.log, segment.indexes)
    return root


def write_broker(root: Path, history: History, some: list[Segment]) -> Path:
    write_log_directory(root, history, some, history.end_offset)
    return root


@pytest.mark.parametrize("write", [write_kafka, write_aiven, write_broker])
@pytest.mark.parametrize(
    "asked", [{"location": URL}, {"location": "elsewhere", "plugin": "fsspec", "storage.url": URL}]
)
def test_P1_a_tier_behind_a_url(
    tmp_path: Path, write: Callable[[Path, History, list[Segment]], Path], asked: dict[str, str]
) -> None:
    rng = random.Random(5)
    history = History().run([("plain", -1, 10)] * 12, rng)
    memory = fsspec.filesystem("memory")
    memory.put(str(write(tmp_path, history, list(segments(history, [4, 8], rng)))), "/places/tier", recursive=True)
    try:
        options = {name: value for name, value in asked.items() if name != "location"}
        found = offsets(asked["location"], topics=PARTITION.topic, splitBytes=3000, **options)
    finally:
        memory.rm("/places", recursive=True)
    assert found == [record.offset for record in consumed(history, "read_committed")]
