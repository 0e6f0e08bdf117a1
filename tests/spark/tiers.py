"""Tiers for Spark tests that no broker has to fill."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tierfetch.tests.fakes.random_tier import PARTITION, History, Segment, consumed, segments, write_kafka_tier

TOPIC = PARTITION.topic
BATCHES_OF_SEGMENT = 4
TIMEOUT_S = 240
"""For what must happen, on a machine of two cores that has other work; nothing here waits for it to pass."""


@dataclass
class GrowingTier:
    """Of one partition; `grow` adds a segment of some batches."""

    root: Path
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    history: History = field(default_factory=History)
    segments: list[Segment] = field(default_factory=list)

    def grow(self, count: int = 1) -> None:
        for _ in range(count):
            self.history.run([("plain", -1, 10)] * BATCHES_OF_SEGMENT, self.rng)
            borders = range(0, len(self.history.batches), BATCHES_OF_SEGMENT)
            *_, latest = segments(self.history, list(borders), self.rng)
            write_kafka_tier(self.root, [latest])
            self.segments.append(latest)

    def offsets(self) -> list[int]:
        """What a consumer gets."""
        return [record.offset for record in consumed(self.history, "read_committed")]

    def log(self, number: int) -> Path:
        return sorted(self.root.glob("*/*/*.log"))[number]


def stream(spark: Any, root: Path, **options: object) -> Any:
    return spark.readStream.format("tierfetch").options(location=root, topics=TOPIC, **options).load()
