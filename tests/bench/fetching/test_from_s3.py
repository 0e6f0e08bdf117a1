"""Both ways read the same objects, shares are within rounds, and first bytes are of segments that were not read"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mypy_boto3_s3.client import S3Client

from tierfetch.bench.fetching.downloads import Range, download_all, ranges_by_partition
from tierfetch.bench.fetching.first_byte import KNOWN, MIDDLE, SPARE, START, Probe, Segment, arranged, segments_of
from tierfetch.bench.fetching.from_s3 import (
    BOTO3,
    Contestant,
    add_probe,
    add_reading,
    first_byte_row,
    row,
)
from tierfetch.bench.fetching.reader import Reading, ReadingFailedError
from tierfetch.bench.fetching.requests import dealt
from tierfetch.bench.measure import Results


class FakeStore:
    """A store with these objects, as far as a download asks for it."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects
        self.asked: list[Range] = []

    def get_object(self, *, Bucket: str, Key: str, Range: str) -> dict[str, Any]:
        first, _, last = Range.removeprefix("bytes=").partition("-")
        self.asked.append(of(Key, int(first), int(last) + 1 - int(first)))
        return {"Body": io.BytesIO(self._objects[Key][int(first) : int(last) + 1])}


def of(key: str, offset: int, count: int) -> Range:
    return Range(key, offset, count)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5_000), max_size=6), st.integers(1, 2_000))
def test_ranges_cover_every_object_once(sizes: dict[str, int], range_bytes: int) -> None:
    keys = {f"{'xy'[number % 2]}-0/{name}.log": size for number, (name, size) in enumerate(sizes.items())}
    by_partition = ranges_by_partition(keys, range_bytes)
    for ranges in by_partition:
        assert len({each.key.partition("/")[0] for each in ranges}) == 1
        assert [(each.key, each.offset) for each in ranges] == sorted((each.key, each.offset) for each in ranges)
    for key, size in keys.items():
        assert sum(each.count for ranges in by_partition for each in ranges if each.key == key) == size


def test_every_share_is_downloaded_whole() -> None:
    objects = {f"t-{number}/a.log": os.urandom(1_000 + number) for number in range(3)}
    store = FakeStore(objects)
    ranges = ranges_by_partition({key: len(data) for key, data in objects.items()}, 300)
    reading = download_all(cast("S3Client", store), "tier", dealt(ranges, 2))
    assert reading.received_bytes == sum(map(len, objects.values()))
    assert sorted(store.asked, key=repr) == sorted((each for some in ranges for each in some), key=repr)
    assert 0 < reading.first_answer_s <= reading.wall_s


def test_a_download_that_came_short_is_an_error() -> None:
    with pytest.raises(ReadingFailedError, match="10 of 11 bytes"):
        download_all(cast("S3Client", FakeStore({"a": bytes(10)})), "tier", [[Range("a", 0, 11)]])


def test_a_store_without_the_object_is_an_error() -> None:
    with pytest.raises(ReadingFailedError, match="KeyError"):
        download_all(cast("S3Client", FakeStore({})), "tier", [[Range("a", 0, 11)]])


def test_a_row_has_the_share_within_rounds() -> None:
    results = Results()
    store_bytes = iter([0.0, 90.0, 90.0, 190.0])

    def contestant(name: str, walls_s: Sequence[float], **more: Any) -> Contestant:
        walls = iter(walls_s)
        return Contestant(name, [os.getpid()], lambda _: Reading(100_000_000, next(walls), 0.0, 0.01, 0), **more)

    ours = contestant("tierfetch", [2.0, 1.0], from_store_bytes=lambda: next(store_bytes) * 1e6)
    bare = contestant(BOTO3, [1.0, 1.0])
    for _ in range(2):
        add_reading(results, 4, ours)
        add_reading(results, 4, bare)
    found = row(results, 4, "tierfetch")
    assert found[:3] == ["50, 100", "75", "0.75 (0.50 to 1.00), goal 0.8: missed"]
    assert found[-1] == "95"
    assert row(results, 4, BOTO3)[2] == ""
    assert row(results, 4, BOTO3)[-1] == "100"


def segments(count: int) -> list[Segment]:
    return segments_of([f"t-0-uuid/{number * 10:020d}-uuid.log" for number in reversed(range(count))], count * 10)


def test_segments_are_found_by_the_names_of_their_logs() -> None:
    found = segments(3)
    assert [(each.start_offset, each.end_offset) for each in found] == [(0, 10), (10, 20), (20, 30)]
    assert found[1].middle == 15
    assert int(found[2].key.partition("/")[2][:20]) == 20


@given(st.integers(1, 20), st.integers(0, 5))
def test_no_probe_is_of_a_segment_that_another_one_has_read(count: int, more: int) -> None:
    found = segments(2 * count + SPARE + more)
    places = arranged(found, count)
    probed = [*places[START], *places[MIDDLE]]
    assert len(probed) == 2 * count == len(set(probed))
    assert not set(probed) & set(found[:SPARE])
    assert places[KNOWN] == places[MIDDLE]
    for some in places.values():
        offsets = [each.start_offset for each in some]
        assert offsets == sorted(offsets, reverse=True), "one after the other would be fetched ahead"


def test_too_few_segments_are_an_error() -> None:
    with pytest.raises(ValueError, match="24 are needed"):
        arranged(segments(23), 10)


def test_a_first_byte_is_counted_in_round_trips() -> None:
    results = Results()
    for first_ms in (110.0, 120.0, 230.0):
        add_probe(results, Probe(START, first_ms, 100.0))
    assert first_byte_row(results, START) == ["120.0", "100.0", "1.20 (1.10 to 2.30): reached"]
