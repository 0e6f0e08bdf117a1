"""What was aborted is told by the history that survived, wherever the markers lie"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

from tierfetch.pipeline.pruning import Pruning
from tierfetch.remote.storage import IndexType
from tierfetch.tests.fakes.random_tier import PARTITION, START_MS, History, consumed, segments, write_kafka_tier

from .tables import offsets, options_of, plan, read

TOPIC = PARTITION.topic


def seen(history: History) -> list[int]:
    return [record.offset for record in consumed(history, "read_committed")]


def test_P1_what_a_lost_history_aborted_is_not_aborted(tmp_path: Path) -> None:
    """A segment straddles an unclean election: its end, with the marker, was lost, and the transaction committed."""
    rng = random.Random(1)
    shared = History().run([("transactional", 0, 3)], rng)
    lost, kept = shared.diverged_at(1), shared.diverged_at(1)
    lost.lead(1)
    lost.run([("plain", -1, 2), ("abort", 0, 1)], rng)
    kept.lead(2)
    kept.run([("commit", 0, 1), ("transactional", 0, 2), ("commit", 0, 1), ("plain", -1, 3)], rng)
    _, *rest = segments(kept, [1], rng)
    write_kafka_tier(tmp_path, [*segments(lost, [], rng), *rest])
    assert {2, 5} <= set(seen(kept))
    assert offsets(tmp_path, topics=TOPIC) == seen(kept)


def test_P1_a_marker_in_a_segment_that_is_too_old_to_be_read_counts(tmp_path: Path) -> None:
    """Producers write any time, markers have that of a coordinator."""
    rng = random.Random(1)
    history = History().run([("transactional", 0, 3), ("abort", 0, 1), ("plain", -1, 3)], rng)
    first, marker, last = segments(history, [1, 2], rng)
    old = replace(marker, indexes={**marker.indexes, IndexType.TIMESTAMP: struct.pack(">qi", 1, 0)})
    write_kafka_tier(tmp_path, [first, old, last])
    options = options_of(tmp_path, topics=TOPIC)
    splits = plan(options, Pruning(min_timestamp_ms=START_MS))
    assert len(splits) == 2
    assert [row["offset"] for split in splits for row in read(options, split, ("offset",))] == seen(history)
