"""One segment: where batches are, what a slice holds, indexes in memory and in files, parking."""

from __future__ import annotations

import asyncio
import bisect
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import LogConfig, parse_directory, parse_offset_file
from tierfetch.log.core.file_names import DirectoryName, adopt_directory, is_adoption, marked_directory
from tierfetch.log.core.recent_batches import BATCHES_MAX, RecentBatches
from tierfetch.log.segment.batch_scan import BatchScan, HeaderScan
from tierfetch.log.segment.open_limit import OpenSegments
from tierfetch.log.segment.segment import LogSegment, SegmentExtent
from tierfetch.log.segment.slices import LogSlice
from tierfetch.protocol.errors import CorruptRecordError
from tierfetch.protocol.records import BatchHeader, iter_batches
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import MemoryDisk, MemoryFile
from tierfetch.tests.log.logs import DIRECTORY, NOW_MS, data_batch

CONFIG = LogConfig(index_interval_bytes=300)


async def segment_of(
    batches: list[bytes], *, base: int = 0, config: LogConfig = CONFIG, open_segments: OpenSegments | None = None
) -> LogSegment:
    """An active segment with these batches in its file."""
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY)
    segment = LogSegment(
        disk,
        DIRECTORY,
        SegmentExtent.empty(base),
        config=config,
        open_segments=OpenSegments() if open_segments is None else open_segments,
        now_ms=NOW_MS,
    )
    await segment.start()
    data = b"".join(batches)
    if data:
        await (await segment.file()).write(0, data)
        segment.account([header for _, header in iter_batches(data)], NOW_MS)
        segment.publish_all()
    return segment


async def reopened(segment: LogSegment, *, open_segments: OpenSegments | None = None) -> LogSegment:
    """The same segment closed, and opened from its files."""
    if segment.is_active:
        segment.finish()
    await segment.save_indexes()
    return LogSegment(
        segment._disk,
        DIRECTORY,
        SegmentExtent(
            base_offset=segment.base_offset,
            next_offset=segment.next_offset,
            size_bytes=segment.size_bytes,
            has_transaction_index=segment.has_transaction_index,
        ),
        config=CONFIG,
        open_segments=OpenSegments() if open_segments is None else open_segments,
        now_ms=NOW_MS,
    )


def headers_of(batches: list[bytes]) -> list[tuple[int, BatchHeader]]:
    return list(iter_batches(b"".join(batches)))


@st.composite
def some_batches(draw: st.DrawFn) -> list[bytes]:
    """Batches of any sizes, with gaps between their offsets and timestamps in any order."""
    batches, offset = [], 0
    for _ in range(draw(st.integers(1, 25))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 7]))
        count = draw(st.integers(1, 4))
        value = bytes(draw(st.sampled_from([0, 10, 100, 400, 20_000])))
        timestamp = NOW_MS + draw(st.integers(-20, 20))
        batches.append(bytes(data_batch(count, base_offset=offset, value=value, timestamp_ms=timestamp)))
        offset += count
    return batches


@settings(max_examples=60, deadline=None)
@given(batches=some_batches(), data=st.data())
def test_positions_and_slices_are_those_of_a_walk(batches: list[bytes], data: st.DataObject) -> None:
    headers = headers_of(batches)
    size = sum(map(len, batches))
    borders = [position for position, _ in headers] + [size]
    offset = data.draw(st.integers(0, headers[-1][1].next_offset + 3))
    start = data.draw(st.sampled_from(borders[:-1]))
    limit = data.draw(st.sampled_from([border for border in borders if border > start]))
    max_bytes = data.draw(st.integers(0, size + 10))

    async def check(segment: LogSegment) -> None:
        expected = next((position for position, header in headers if header.last_offset >= offset), size)
        assert await segment.position_of(offset) == expected
        for min_one in (False, True):
            end = await segment.slice_end(start, limit, max_bytes=max_bytes, min_one_batch=min_one)
            assert end in borders
            assert start <= end <= limit
            first_end = borders[bisect.bisect_right(borders, start)]
            if first_end - start <= max_bytes or min_one:
                assert end >= first_end
            if not min_one:
                assert end - start <= max_bytes
            best = max(border for border in borders if border <= min(limit, start + max_bytes))
            assert end >= min(best, max(start, best - max_bytes // 8)) or end == first_end

    async def run() -> None:
        segment = await segment_of(batches)
        await check(segment)
        await check(await reopened(segment))

    asyncio.run(run())


@settings(max_examples=40, deadline=None)
@given(batches=some_batches(), cut=st.integers(0, 60))
def test_a_segment_that_is_cut_or_reopened_goes_on_as_if_it_always_was_so(batches: list[bytes], cut: int) -> None:
    """Indexes and timestamps after a cut, and after a reopening, are those of a segment that got only these batches."""
    kept = [batch for batch, (_, header) in zip(batches, headers_of(batches), strict=True) if header.last_offset < cut]
    more = bytes(data_batch(2, base_offset=1000, value=bytes(200), timestamp_ms=NOW_MS + 99))

    async def run() -> None:
        segment = await segment_of(batches)
        await segment.truncate_to(cut)
        assert segment.size_bytes == segment.written_bytes == sum(map(len, kept))
        again = await reopened(await segment_of(batches))
        await again.truncate_to(cut)
        fresh = await segment_of(kept)
        for each in (segment, again):
            each.account([header for _, header in iter_batches(more)], NOW_MS)
        fresh.account([header for _, header in iter_batches(more)], NOW_MS)
        expected, found = await fresh.indexes(), await segment.indexes()
        assert found.offset.encode() == expected.offset.encode()
        assert (found.max_timestamp_ms, found.bytes_since_entry) == (
            expected.max_timestamp_ms,
            expected.bytes_since_entry,
        )
        assert (await again.indexes()).offset.encode() == expected.offset.encode()
        assert segment.first_timestamp_ms == again.first_timestamp_ms == fresh.first_timestamp_ms
        assert segment.next_offset == fresh.next_offset

    asyncio.run(run())


async def test_index_entries_lie_more_than_the_interval_apart() -> None:
    batches = [bytes(data_batch(base_offset=i, value=bytes(80), timestamp_ms=NOW_MS + i)) for i in range(10)]
    segment = await segment_of(batches)
    size = len(batches[0])
    indexes = await segment.indexes()
    entries = [indexes.offset._at(slot) for slot in range(len(indexes.offset))]
    every = 300 // size + 1
    assert [(entry.offset, entry.position) for entry in entries] == [(i, i * size) for i in range(every, 10, every)]
    assert indexes.time.last_entry.offset == entries[-1].offset
    segment.finish()
    assert (indexes.time.last_entry.timestamp, indexes.time.last_entry.offset) == (NOW_MS + 9, 9)


async def test_a_full_index_or_a_far_offset_ends_a_segment() -> None:
    config = LogConfig(segment_bytes=10_000, index_interval_bytes=0, segment_index_bytes=24)
    segment = await segment_of([bytes(data_batch(base_offset=0))], config=config)
    later = [header for _, header in headers_of([bytes(data_batch(base_offset=i)) for i in (1, 2, 2**31 - 1, 2**31)])]
    assert segment.fitting(later, NOW_MS, config) == 3
    assert segment.fitting(later[3:], NOW_MS, config) == 0
    segment.account(later[:2], NOW_MS)
    assert segment.fitting(later[2:], NOW_MS, config) == 0
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=36)
    full = await segment_of([bytes(data_batch(base_offset=i)) for i in range(5)], config=config)
    assert full.fitting(later[2:], NOW_MS, config) == 0
    await full.truncate_to(1)
    assert full.fitting(later, NOW_MS, config) == 3, "the entries of what was cut are free again"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("value_bytes", [50, 2_000, 20_000], ids=["small", "one entry each", "large"])
async def test_who_reads_on_has_one_read_to_find_the_batch(
    value_bytes: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [bytes(data_batch(count, base_offset=number * count, value=bytes(value_bytes))) for number in range(150)]
    segment = await reopened(await segment_of(batches, config=LogConfig()))
    assert await segment.position_of(0) == 0, "its indexes are loaded"
    read, reads = MemoryFile.read, list[int]()

    async def counted(file: MemoryFile, offset: int, count: int) -> bytes:
        reads.append(offset)
        return await read(file, offset, count)

    monkeypatch.setattr(MemoryFile, "read", counted)
    for number in (60, 100, 140):
        assert await segment.position_of(number * count) == number * len(batches[0])
    assert len(reads) == 3


async def test_closed_segments_are_parked_and_come_back() -> None:
    open_segments = OpenSegments(2)
    segments = []
    for base in (0, 10, 20):
        active = await segment_of([bytes(data_batch(base_offset=base))], base=base)
        segments.append(await reopened(active, open_segments=open_segments))
    for segment in segments:
        with segment.pinned():
            await segment.file()
        assert await segment.position_of(segment.base_offset) == 0
    assert len(open_segments) == 2
    assert [segment._file is None for segment in segments] == [True, False, False]
    with segments[1].pinned(), segments[2].pinned():
        assert await segments[0].position_of(0) == 0
        assert len(open_segments) <= 3
    log_slice = None
    with segments[0].pinned():
        await segments[0].file()
        log_slice = segments[0].hold(0, segments[0].size_bytes, first_offset=0, end_offset=1)
    for segment in segments[1:]:
        await segment.position_of(segment.base_offset)
    assert not segments[0].can_park
    assert len(await log_slice.read()) == segments[0].size_bytes
    log_slice.release()
    assert segments[0].can_park


async def test_a_slice_says_when_the_file_became_shorter() -> None:
    segment = await segment_of([bytes(data_batch())])
    log_slice = segment.hold(0, segment.size_bytes, first_offset=0, end_offset=1)
    await (await segment.file()).truncate(10)
    with pytest.raises(OSError, match="read 10"):
        await log_slice.read()
    log_slice.release()


def test_a_slice_gives_all_of_its_bytes_at_once_or_none() -> None:
    class InMemory(MemoryFile):
        def read_at_once(self, offset: int, count: int) -> bytes | None:
            return b"0123456789"[offset : offset + count]

    file = InMemory.__new__(InMemory)
    whole, short = (LogSlice(None, file, 4, size, first_offset=0, end_offset=1) for size in (6, 7))
    assert (whole.at_once(), short.at_once()) == (b"456789", None)
    whole.abort()
    assert whole.at_once() is None
    assert LogSlice.empty(0).at_once() == b""


async def test_an_empty_slice_needs_nothing() -> None:
    with LogSlice.empty(7) as nothing:
        assert (nothing.size, nothing.first_offset, nothing.end_offset, await nothing.read()) == (0, 7, 7, b"")


# The pieces.


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50)), min_size=1, max_size=60), st.integers(0, 200))
def test_recent_batches_answer_rightly_or_not_at_all(steps: list[tuple[int, int]], probe: int) -> None:
    recent = RecentBatches(5, 100)
    offset, position, batches = 4, 100, []
    for step, size in steps:
        offset += step
        recent.append(offset, size)
        batches.append((offset, position))
        position += size
    expected = next((where for last, where in batches if last >= probe), position)
    assert recent.position_of(probe) == (expected if probe >= 5 else None)
    begins = [where for last, where in batches if last >= probe]
    assert recent.span(probe, offset + 1) == ((begins[0], position) if probe >= 5 and begins else None)
    assert recent.span(probe, offset) == ((begins[0], begins[-1]) if probe >= 5 and len(begins) > 1 else None)
    border = recent.border_at_or_before(probe)
    inside = [where for _, where in [*batches, (0, position)] if where <= probe]
    assert border == (max(inside) if inside else None)


def test_recent_batches_are_bounded() -> None:
    recent = RecentBatches(0, 0)
    for i in range(3 * BATCHES_MAX):
        recent.append(i, 10)
    assert recent.position_of(0) is None
    assert recent.border_at_or_before(0) is None
    assert recent.position_of(3 * BATCHES_MAX - 1) == 10 * (3 * BATCHES_MAX - 1)
    known = next(offset for offset in range(3 * BATCHES_MAX) if recent.position_of(offset) is not None)
    assert 2 * BATCHES_MAX - 1 <= known <= 3 * BATCHES_MAX - BATCHES_MAX // 2
    assert recent.position_of(known) == 10 * known


@pytest.mark.parametrize("size", [0, 1000, 40_000, 1_500_000])
async def test_scans_give_whole_batches_and_then_the_fault(size: int) -> None:
    batches = [bytes(data_batch(base_offset=i, value=bytes(size))) for i in range(3)]
    whole = b"".join(batches)
    positions = [position for position, _ in iter_batches(whole)]
    disk = MemoryDisk()
    for tail, fault in [(b"", None), (batches[0][:-1], None), (batches[0][:60], None), (bytes(61), len(whole))]:
        disk.put(Path("/x.log"), whole + tail)
        file = await disk.open(Path("/x.log"))
        end = len(whole + tail)
        found: list[int] = []
        scanned: list[int] = []

        async def walk(file: MemoryFile = file, end: int = end, found: list[int] = found) -> None:
            async for position, _ in HeaderScan(file, 0, end):
                found.append(position)

        async def scan(file: MemoryFile = file, end: int = end, scanned: list[int] = scanned) -> None:
            async for chunk in BatchScan(file, 0, end, check_crc=True):
                scanned.extend(position for position, _ in chunk.batches)

        for read in (walk, scan):
            if fault is None:
                await read()
            else:
                with pytest.raises(CorruptRecordError, match="magic 0") as raised:
                    await read()
                assert raised.value.position == fault
        assert found == scanned == positions


async def test_a_scan_finds_a_wrong_crc_and_gives_what_lies_before_it() -> None:
    batches = [bytes(data_batch(base_offset=i)) for i in range(3)]
    disk = MemoryDisk()
    disk.put(Path("/x.log"), batches[0] + batches[1][:-1] + b"x" + batches[2])
    file = await disk.open(Path("/x.log"))
    scan = BatchScan(file, 0, 3 * len(batches[0]), check_crc=True)
    assert [header.base_offset for _, header in (await anext(scan)).batches] == [0]
    with pytest.raises(CorruptRecordError, match="CRC-32C") as raised:
        await anext(scan)
    assert raised.value.position == len(batches[0])


def test_names() -> None:
    assert parse_offset_file("00000000000000000042.timeindex") == (42, ".timeindex")
    for name in ("42.log", "00000000000000000042.log.deleted", "00000000000000000042.swap", "leader-epoch-checkpoint"):
        assert parse_offset_file(name) is None
    tp = TopicPartition("a-b.c", 7)
    assert parse_directory("a-b.c-7") == DirectoryName(tp)
    for marker in ("-delete", "-stray"):
        marked = marked_directory(Path("/d/a-b.c-7"), f"{5:032x}", marker)
        assert parse_directory(marked.name) == DirectoryName(tp, marker)
        long = marked_directory(Path(f"/d/{'x' * 249}-12"), f"{5:032x}", marker)
        assert len(long.name) == 255
        parsed = parse_directory(long.name)
        assert parsed is not None
        assert (parsed.topic_partition.partition, parsed.marker) == (12, marker)
    sibling = adopt_directory(Path("/d/a-b.c-7"))
    assert (sibling.name, sibling.parent.parent) == ("a-b.c-7", Path("/d"))
    assert is_adoption(sibling.parent.name)
    assert parse_directory(sibling.parent.name) is None
    for name in ("remote-log-index-cache", "a", "-1", "..-0", "a b-0"):
        assert parse_directory(name) is None
