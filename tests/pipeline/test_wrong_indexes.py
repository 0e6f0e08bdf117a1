"""Indexes of the tier that are well-formed and wrong, or not even in order, hide no record and repeat none"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tierfetch.protocol.records import Record, iter_batches
from tierfetch.remote import IndexType
from tierfetch.tests.fakes.random_tier import PARTITION, History, consumed, segments, write_kafka_tier

from .tables import offsets

_OFFSET, _TIME = struct.Struct(">ii"), struct.Struct(">qi")
Entries = list[tuple[int, int]]


def too_far(entries: Entries) -> Entries:
    """Each leads to where the next one should."""
    return [*((first, second) for (first, _), (_, second) in pairwise(entries)), entries[-1]]


def unsorted(entries: Entries) -> Entries:
    return [*reversed(entries[:-1]), entries[-1]]


def in_circles(entries: Entries) -> Entries:
    """From the middle on it leads back to the begin."""
    half = len(entries) // 2
    return [*entries[:half], *((offset, 1) for offset, _ in entries[half:-1]), entries[-1]]


def into_a_batch(entries: Entries) -> Entries:
    return [*((offset, position + 7) for offset, position in entries[:-1]), entries[-1]]


@pytest.fixture
def written(tmp_path: Path) -> list[Record]:
    rng = random.Random(5)
    history = History().run([("plain", -1, 3)] * 30, rng)
    (segment,) = segments(history, [], rng)
    entries = [(header.last_offset, position) for position, header in iter_batches(segment.log) if position]
    segment.indexes[IndexType.OFFSET] = b"".join(_OFFSET.pack(*entry) for entry in entries)
    write_kafka_tier(tmp_path, [segment])
    return consumed(history, "read_uncommitted")


def tamper(root: Path, kind: IndexType, entry: struct.Struct, wrong: Callable[[Entries], Entries]) -> None:
    (path,) = root.glob(f"**/*.{kind.value}")
    entries = wrong(list(entry.iter_unpack(path.read_bytes())))
    path.write_bytes(b"".join(entry.pack(*each) for each in entries))


def of_partition(offset: int) -> str:
    return json.dumps({PARTITION.topic: {"0": offset}})


@pytest.mark.parametrize("wrong", [too_far, unsorted, in_circles])
@pytest.mark.parametrize("split_bytes", [1024, 2000])
def test_P1_a_wrong_offset_index_hides_no_record_of_a_part(
    tmp_path: Path, written: list[Record], wrong: Callable[[Entries], Entries], split_bytes: int
) -> None:
    tamper(tmp_path, IndexType.OFFSET, _OFFSET, wrong)
    known = [record.offset for record in written]
    for begin in range(0, len(known), 7):
        for end in range(begin + 1, len(known) + 1, 11):
            asked = {"startingOffsets": of_partition(known[begin]), "endingOffsets": of_partition(known[end - 1] + 1)}
            found = offsets(tmp_path, topics=PARTITION.topic, splitBytes=split_bytes, **asked)
            assert found == known[begin:end], (begin, end)


@pytest.mark.parametrize("wrong", [too_far, unsorted, in_circles, into_a_batch])
@pytest.mark.parametrize("kind", [IndexType.OFFSET, IndexType.TIMESTAMP])
def test_P1_a_wrong_index_hides_no_record_from_a_starting_time(
    tmp_path: Path, written: list[Record], wrong: Callable[[Entries], Entries], kind: IndexType
) -> None:
    tamper(tmp_path, kind, _OFFSET if kind is IndexType.OFFSET else _TIME, wrong)
    for at in sorted({record.timestamp for record in written}):
        first = next(record.offset for record in written if record.timestamp >= at)
        assert offsets(tmp_path, topics=PARTITION.topic, startingTimestamp=at)[0] == first
