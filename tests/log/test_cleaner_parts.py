"""The pure parts of the cleaner: what may be cleaned, what is worth it, what a map and a batch become."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.cleaner.core.offset_map import ENTRY_BYTES, OffsetMap
from tierfetch.log.cleaner.core.plan import DirtyRange, find_dirty_range, grouped, is_worth_cleaning
from tierfetch.log.core import LogConfig
from tierfetch.protocol.records import (
    Record,
    TimestampType,
    build_batch,
    check_batch,
    iter_records,
    parse_header,
    skim_records,
)
from tierfetch.protocol.records.compacted import compacted_batch, delete_horizon_of, empty_batch
from tierfetch.protocol.records.compression import Compression
from tierfetch.protocol.records.record_body import encode_skimmed

NOW_MS = 10_000
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=100)


@dataclass(frozen=True, slots=True)
class Segment:
    base_offset: int
    next_offset: int
    size_bytes: int = 40
    largest_timestamp_ms: int = 0


SEGMENTS = [Segment(0, 10), Segment(10, 20), Segment(20, 30), Segment(30, 30, 0)]


def dirty_range(
    config: LogConfig = CONFIG, *, clean: int = 0, stable: int = 30, segments: list[Segment] = SEGMENTS
) -> DirtyRange:
    return find_dirty_range(segments, config, clean_end_offset=clean, stable_end_offset=stable, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("clean", "stable", "expected"),
    [
        (0, 30, DirtyRange(0, 120, 30, 0)),
        (10, 30, DirtyRange(40, 80, 30, 10)),
        (15, 30, DirtyRange(40, 80, 30, 10)),
        (30, 30, DirtyRange(120, 0, 30, None)),
        (0, 29, DirtyRange(0, 80, 20, 0)),
        (0, 9, DirtyRange(0, 0, 0, None)),
    ],
)
def test_what_may_be_cleaned(clean: int, stable: int, expected: DirtyRange) -> None:
    assert dirty_range(clean=clean, stable=stable) == expected


def test_min_compaction_lag_keeps_what_is_young_and_all_behind_it() -> None:
    young = [Segment(0, 10), Segment(10, 20, largest_timestamp_ms=NOW_MS - 50), Segment(20, 30), Segment(30, 30, 0)]
    config = replace(CONFIG, min_compaction_lag_ms=100)
    assert dirty_range(config, segments=young) == DirtyRange(0, 40, 10, 0)
    assert dirty_range(config, segments=young, clean=20).end_offset == 30, "what was cleaned once is not young"


def test_a_log_is_worth_it_above_the_ratio_or_when_it_is_overdue() -> None:
    def worth(dirty: int, oldest_ms: int | None = None, **config: object) -> bool:
        return is_worth_cleaning(
            DirtyRange(100, dirty, 0, 0), replace(CONFIG, **config), oldest_ms=oldest_ms, now_ms=NOW_MS
        )

    assert [worth(99), worth(100), worth(101)] == [False, False, True]
    assert worth(1, min_cleanable_dirty_ratio=0.0)
    assert not worth(0, min_cleanable_dirty_ratio=0.0)
    assert worth(1, oldest_ms=NOW_MS - 11, max_compaction_lag_ms=10)
    assert not worth(1, oldest_ms=NOW_MS - 10, max_compaction_lag_ms=10)


def test_neighbours_become_one_within_the_limits() -> None:
    def bases(segments: list[Segment], config: LogConfig = CONFIG) -> list[list[int]]:
        return [[segment.base_offset for segment in group] for group in grouped(segments, config)]

    assert bases(SEGMENTS) == [[0, 10], [20, 30]]
    assert bases([Segment(0, 10, 500), Segment(10, 20, 0)]) == [[0], [10]]
    assert bases([Segment(0, 10), Segment(10, 2**31 + 1)]) == [[0], [10]]
    assert bases([Segment(0, 10), Segment(10, 2**31)]) == [[0, 10]]
    assert bases(SEGMENTS, replace(CONFIG, index_interval_bytes=1, segment_index_bytes=12 * 41)) == [
        [0],
        [10],
        [20, 30],
    ]


def test_a_map_remembers_the_last_offset_of_each_key_until_it_is_full() -> None:
    offsets = OffsetMap(2 * ENTRY_BYTES, 5)
    assert [offsets.put(b"a", 5), offsets.put(b"b", 6), offsets.put(b"a", 7), offsets.put(b"c", 8)] == [
        True,
        True,
        True,
        False,
    ]
    assert (offsets.last_offset_of(b"a"), offsets.last_offset_of(b"b"), offsets.last_offset_of(b"c")) == (7, 6, -1)
    assert (len(offsets), offsets.end_offset) == (2, 8)
    offsets.advance_to(20)
    offsets.advance_to(10)
    assert offsets.end_offset == 20


def test_a_map_has_room_for_one_key_at_least() -> None:
    offsets = OffsetMap(1, 0)
    assert offsets.put(b"a", 0)
    assert not offsets.put(b"b", 1)


RECORDS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 2**40), st.binary(max_size=8), st.none() | st.binary(max_size=8)),
    min_size=1,
    max_size=6,
)


@given(
    RECORDS,
    st.data(),
    st.sampled_from([Compression.NONE, Compression.GZIP, Compression.ZSTD]),
    st.sampled_from(TimestampType),
    st.none() | st.integers(0, 2**40),
)
def test_a_compacted_batch_says_of_what_is_left_what_it_said_before(
    drawn: list, data: st.DataObject, codec: Compression, kind: TimestampType, horizon_ms: int | None
) -> None:
    records, offset = [], 100
    for gap, timestamp, key, value in drawn:
        offset += gap
        time = drawn[0][1] if kind is TimestampType.LOG_APPEND_TIME else timestamp
        records.append(Record(offset, time, key, value, (("h", b"x"),)))
    batch = build_batch(
        records,
        base_offset=100,
        compression=codec,
        timestamp_type=kind,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        is_transactional=True,
        partition_leader_epoch=3,
    )
    before = parse_header(batch)
    kept = data.draw(st.lists(st.sampled_from(records), min_size=1, unique=True).map(sorted))
    skimmed = [record for record in skim_records(batch, 0, before) if record.offset in {each.offset for each in kept}]
    base_timestamp = kept[0].timestamp if horizon_ms is None else horizon_ms
    after_bytes = compacted_batch(
        before,
        encode_skimmed(skimmed, before.base_offset, base_timestamp),
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in kept),
        record_count=len(kept),
        delete_horizon_ms=horizon_ms,
    )
    after = parse_header(after_bytes)
    check_batch(after_bytes, 0, after)
    assert list(iter_records(after_bytes)) == kept
    assert delete_horizon_of(after) == horizon_ms
    for same in (
        "base_offset",
        "last_offset_delta",
        "partition_leader_epoch",
        "producer_id",
        "producer_epoch",
        "base_sequence",
    ):
        assert getattr(after, same) == getattr(before, same)
    assert (after.compression, after.timestamp_type, after.is_transactional) == (codec, kind, True)
    assert (after.last_sequence, after.size_bytes) == (before.last_sequence, len(after_bytes))


def test_an_empty_batch_keeps_its_producers_state() -> None:
    batch = build_batch(
        [Record(10, 50, b"k", b"v"), Record(12, 60, b"l", b"v")],
        base_offset=10,
        compression=Compression.ZSTD,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
    )
    emptied = empty_batch(parse_header(batch))
    header = parse_header(emptied)
    check_batch(emptied, 0, header)
    assert list(iter_records(emptied)) == []
    assert (header.base_offset, header.last_offset, header.last_sequence, header.max_timestamp) == (10, 12, 7, 60)
    assert header.compression is Compression.NONE
    assert header.size_bytes == len(emptied) == 61
