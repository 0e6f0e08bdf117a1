"""How a split is read: one ranged GET, or windows of its size where the index does not cut it"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.pipeline.core.batch_table import whole_batches
from tierfetch.pipeline.layouts.kafka import KafkaLayout
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import Record, build_batch, iter_batches, iter_records
from tierfetch.remote import IndexType
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.tests.fakes.random_tier import PARTITION, START_MS, History, Segment, segments, write_kafka_tier

from .tables import offsets, options_of, plan, read

TOPIC = PARTITION.topic
SPLIT_BYTES = 2048


@pytest.fixture
def segment() -> Segment:
    """Of batches of about a hundred bytes each, and one that is larger than a split."""
    rng = random.Random(9)
    history = History().run([("plain", -1, 3)] * 100, rng)
    large = build_batch([Record(300, START_MS, None, rng.randbytes(5 * SPLIT_BYTES))], base_offset=300)
    (whole,) = segments(history, [], rng)
    tail = b"".join(one.data for one in _shifted(rng))
    log = whole.log + large + tail
    metadata = replace(whole.metadata, end_offset=360, segment_size_in_bytes=len(log))
    return Segment(metadata, log, whole.indexes)


def _shifted(rng: random.Random) -> list[object]:
    """Twenty batches from offset 301 on."""
    history = History().run([("plain", -1, 301), *[("plain", -1, 3)] * 20], rng)
    return history.batches[1:]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the ranged GETs."""
    sizes: list[int] = []
    original = KafkaLayout.fetch_log_segment

    async def fetch(self: KafkaLayout, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        sizes.append(end - start)
        return await original(self, metadata, start, end)

    monkeypatch.setattr(KafkaLayout, "fetch_log_segment", fetch)
    return sizes


def there(segment: Segment) -> list[int]:
    found = iter_batches(segment.log)
    return [record.offset for position, header in found for record in iter_records(segment.log, position, header)]


def test_a_split_is_one_ranged_get(tmp_path: Path, segment: Segment, fetched: list[int]) -> None:
    write_kafka_tier(tmp_path, [segment])
    options = options_of(tmp_path, topics=TOPIC, splitBytes=SPLIT_BYTES)
    splits = plan(options)
    assert len(splits) > 5
    found = []
    for split in splits:
        fetched.clear()
        found += [row["offset"] for row in read(options, split, ("offset",))]
        if split.split.end - split.split.start <= 2 * SPLIT_BYTES:
            assert fetched == [split.split.end - split.split.start]
    assert found == there(segment)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_segment_without_index_entries_is_read_in_windows(
    tmp_path: Path, segment: Segment, fetched: list[int], isolation: str
) -> None:
    segment.indexes[IndexType.OFFSET] = b""
    write_kafka_tier(tmp_path, [segment])
    fetched.clear()
    assert offsets(tmp_path, topics=TOPIC, splitBytes=SPLIT_BYTES, isolation=isolation) == there(segment)
    large = 5 * SPLIT_BYTES + 200
    assert max(fetched[1:]) <= max(2 * large, SPLIT_BYTES)
    assert sum(fetched[1:]) < 3 * len(segment.log)


def test_damage_within_windows_is_told_with_its_place(tmp_path: Path, segment: Segment) -> None:
    segment.indexes[IndexType.OFFSET] = b""
    positions = [position for position, _ in iter_batches(segment.log)]
    at = positions[70]
    log = bytearray(segment.log)
    log[at + 65] ^= 1
    write_kafka_tier(tmp_path, [Segment(segment.metadata, bytes(log), segment.indexes)])
    with pytest.raises(CorruptRecordError, match=rf"has CRC .*\(batch at byte {at}\)"):
        offsets(tmp_path, topics=TOPIC, splitBytes=SPLIT_BYTES)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x03\x00"])
def test_what_follows_a_length_that_cannot_be_is_found_in_windows(
    tmp_path: Path, segment: Segment, length: bytes
) -> None:
    segment.indexes[IndexType.OFFSET] = b""
    positions = [position for position, _ in iter_batches(segment.log)]
    log = bytearray(segment.log)
    log[positions[20] + 8 : positions[20] + 12] = length
    write_kafka_tier(tmp_path, [segment])
    options = options_of(tmp_path, topics=TOPIC, splitBytes=SPLIT_BYTES, mode="permissive")
    (split,) = plan(options)
    write_kafka_tier(tmp_path, [Segment(segment.metadata, bytes(log), segment.indexes)])
    found = [row["offset"] for row in read(options, split, ("offset",))]
    lost = set(there(segment)) - set(found)
    assert set(range(60, 63)) & set(there(segment)) <= lost
    assert len(lost) <= 60, "about a window at most"
    assert sorted(found) == found


def test_whole_batches_ends_where_the_last_one_does() -> None:
    data = memoryview(b"".join(one.data for one in History().run([("plain", -1, 2)] * 3, random.Random(1)).batches))
    ends = [position + header.size_bytes for position, header in iter_batches(data)]
    for cut in range(len(data) + 1):
        assert whole_batches(data[:cut]) == max([0, *(end for end in ends if end <= cut)])


MEMORY_LIMIT_MB = 400


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "whole"])
@pytest.mark.timeout(300)
def test_P1_memory_is_bounded_whatever_the_size_of_a_segment(tmp_path: Path, how: str) -> None:
    """Half a gigabyte, in a process of its own; both cut into tasks and as one."""
    script = Path(__file__).parent / "read_large.py"
    done = subprocess.run([sys.executable, script, tmp_path, how], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = re.search(r"rows (\d+) of (\d+), peak (\d+) MB", done.stdout)
    assert told is not None, done.stdout
    assert told[1] == told[2]
    assert int(told[3]) < MEMORY_LIMIT_MB
