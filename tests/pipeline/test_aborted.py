"""What was aborted is told by the history that survived, wherever the markers lie"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.pipeline.access.options import CORRUPT_COLUMN
from tierfetch.pipeline.core.pruning import Pruning
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records.control import ControlType
from tierfetch.remote import IndexType
from tierfetch.tests.fakes.random_tier import PARTITION, START_MS, History, consumed, segments, write_kafka_tier

from .tables import offsets, options_of, plan, read, rows

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


def a_tier_without_its_index(root: Path) -> History:
    """Of one segment, in which a transaction was aborted, one was committed, and one ended that wrote nothing."""
    rng = random.Random(1)
    steps = [("plain", -1, 3), ("transactional", 0, 3), ("transactional", 1, 2), ("abort", 0, 1), ("plain", -1, 3)]
    history = History().run([*steps, ("commit", 1, 1), ("transactional", 2, 2), ("commit", 2, 1)], rng)
    write_kafka_tier(root, segments(history, [], rng))
    (lost,) = root.glob("**/*.txnindex")
    lost.unlink()
    return history


def test_P1_aborted_data_of_a_lost_index_are_an_error_that_says_where(tmp_path: Path) -> None:
    a_tier_without_its_index(tmp_path)
    with pytest.raises(
        CorruptRecordError, match=r"random-0, segment .*producer 0 aborted .* from offset 3 to 8, and no"
    ):
        offsets(tmp_path, topics=TOPIC)


def test_P1_aborted_data_of_a_lost_index_are_told_and_left_out_in_permissive_mode(tmp_path: Path) -> None:
    history = a_tier_without_its_index(tmp_path)
    found = rows(tmp_path, ("offset", CORRUPT_COLUMN), topics=TOPIC, mode="permissive")
    told = [row for row in found if row[CORRUPT_COLUMN] is not None]
    assert [row["offset"] for row in found if row[CORRUPT_COLUMN] is None] == seen(history)
    assert [row["offset"] for row in told] == [3]


def test_P1_read_uncommitted_needs_no_index(tmp_path: Path) -> None:
    history = a_tier_without_its_index(tmp_path)
    everything = [record.offset for record in consumed(history, "read_uncommitted")]
    assert offsets(tmp_path, topics=TOPIC, isolation="read_uncommitted") == everything


def test_P1_a_marker_that_ends_nothing_needs_no_index(tmp_path: Path) -> None:
    rng = random.Random(1)
    history = History().run([("transactional", 0, 2), ("commit", 0, 1), ("plain", -1, 2)], rng)
    history._add_marker(ControlType.ABORT, 0)
    whole = segments(history, [], rng)
    write_kafka_tier(tmp_path, whole)
    for index in tmp_path.glob("**/*.txnindex"):
        index.unlink()
    assert offsets(tmp_path, topics=TOPIC) == seen(history)
