"""Tiers of random histories, in every layout, against a consumer of the log itself"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tierfetch.protocol.records import Record
from tierfetch.tests.fakes.aiven_tier import AivenWriter, private_pem
from tierfetch.tests.fakes.random_tier import (
    PARTITION,
    History,
    Step,
    consumed,
    segments,
    steps,
    write_kafka_tier,
    write_log_directory,
)

from .tables import Row, rows

pytestmark = pytest.mark.slow
ISOLATIONS = ("read_committed", "read_uncommitted")
cuts = st.lists(st.integers(0, 60), max_size=8)
seeds = st.integers(0, 2**32)
split_bytes = st.sampled_from([1024, 3000, 1 << 20])
EXAMPLES = settings(max_examples=25, deadline=None)


def expected_rows(records: Sequence[Record]) -> list[Row]:
    return [
        {
            "offset": record.offset,
            "key": record.key,
            "value": record.value,
            "timestamp": record.timestamp,
            "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
        }
        for record in records
    ]


def found_rows(location: Path, **options: object) -> list[Row]:
    """In the order in which the splits are planned, which is that of the offsets."""
    columns = ("offset", "key", "value", "timestamp", "headers")
    found = rows(location, columns, topics=PARTITION.topic, **options)
    for row in found:
        row["timestamp"] = int(row["timestamp"].timestamp() * 1000 + 0.5)
    return found


def history(first: Sequence[Step], rng: random.Random) -> History:
    return History().run([*first, ("plain", -1, 3)], rng)


@EXAMPLES
@given(steps, cuts, cuts, seeds, split_bytes)
@example([("transactional", 0, 3), ("plain", -1, 2), ("abort", 0, 1)], [1, 2], [], 0, 1024)
def test_P1_overlapping_uploads_of_one_history(
    some: list[Step], some_cuts: list[int], other_cuts: list[int], seed: int, size: int
) -> None:
    rng = random.Random(seed)
    true = history(some, rng)
    uploads = [*segments(true, some_cuts, rng)]
    uploads += [one for one in segments(true, other_cuts, rng) if rng.random() < 0.5]
    with tempfile.TemporaryDirectory() as directory:
        write_kafka_tier(Path(directory), uploads)
        for isolation in ISOLATIONS:
            found = found_rows(Path(directory), isolation=isolation, splitBytes=size)
            assert found == expected_rows(consumed(true, isolation))


@EXAMPLES
@given(steps, steps, steps, st.integers(0, 30), cuts, cuts, seeds)
def test_P1_a_history_that_an_unclean_election_lost_is_not_read(
    shared: list[Step], lost: list[Step], kept: list[Step], at: int, some_cuts: list[int], other: list[int], seed: int
) -> None:
    rng = random.Random(seed)
    before = history(shared, rng)
    index, epoch = min(at, len(before.batches)), before.epochs[-1].epoch
    loser, winner = before.diverged_at(index), before.diverged_at(index)
    loser.lead(epoch + 1)
    loser.run([("plain", -1, 1), *[step for step in lost if step[0] != "epoch"]], rng)
    winner.lead(epoch + 2)
    winner.run([("plain", -1, 1), *kept], rng)
    uploads = [*segments(winner, some_cuts, rng), *segments(loser, other, rng)]
    with tempfile.TemporaryDirectory() as directory:
        write_kafka_tier(Path(directory), uploads)
        for isolation in ISOLATIONS:
            assert found_rows(Path(directory), isolation=isolation) == expected_rows(consumed(winner, isolation))


@EXAMPLES
@given(steps, cuts, seeds, st.sampled_from([64, 1000, 100_000]), st.booleans(), st.booleans(), split_bytes)
def test_P1_the_layout_of_aivens_plugin(
    some: list[Step], some_cuts: list[int], seed: int, chunk: int, compresses: bool, encrypts: bool, size: int
) -> None:
    rng = random.Random(seed)
    true = history(some, rng)
    with tempfile.TemporaryDirectory() as directory:
        writer = AivenWriter(Path(directory), chunk, compresses, "key1" if encrypts else None)
        for segment in segments(true, some_cuts, rng):
            writer.write(segment.metadata, segment.log, segment.indexes)
        keys = {"encryption.key1": private_pem("key1")} if encrypts else {}
        for isolation in ISOLATIONS:
            found = found_rows(Path(directory), isolation=isolation, splitBytes=size, **keys)
            assert found == expected_rows(consumed(true, isolation))


@EXAMPLES
@given(steps, cuts, cuts, st.integers(0, 8), st.integers(0, 8), st.integers(0, 60), seeds, st.booleans())
@example([("transactional", 0, 1)], [1], [1], 0, 1, 2, 0, True)
def test_P1_a_tier_and_a_brokers_log_directory_are_one_table(
    some: list[Step],
    some_cuts: list[int],
    local_cuts: list[int],
    tiered: int,
    trimmed: int,
    committed: int,
    seed: int,
    has_tier: bool,
) -> None:
    """The tier has the first segments, the broker the last ones, and they meet or overlap."""
    rng = random.Random(seed)
    true = history(some, rng)
    remote = [*segments(true, some_cuts, rng)][: tiered + 1] if has_tier else []
    tier_end = remote[-1].metadata.end_offset + 1 if remote else 0
    local = [*segments(true, local_cuts, rng)]
    kept = [one for one in local[trimmed:] if has_tier] or local
    while kept[0].metadata.start_offset > tier_end:
        kept.insert(0, local[len(local) - len(kept) - 1])
    ends = [0, *(batch.next_offset for batch in true.batches)]
    high_watermark = max(ends[min(committed, len(ends) - 1)], kept[0].metadata.start_offset)
    with tempfile.TemporaryDirectory() as directory:
        tier, broker = Path(directory) / "tier", Path(directory) / "broker"
        write_kafka_tier(tier, remote)
        write_log_directory(broker, true, kept, high_watermark)
        end_offset = max(tier_end, high_watermark)
        for isolation in ISOLATIONS if end_offset else ():
            wanted = expected_rows(consumed(true, isolation, end_offset))
            if has_tier:
                assert found_rows(tier, logDirs=broker, isolation=isolation) == wanted
            else:
                assert found_rows(broker, isolation=isolation) == wanted
