"""Reads of the tier beside an index that is not here yet: how many round trips and bytes, and never other records.

Each call of the store takes a second of virtual time, whatever it brings.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.records import iter_batches
from tierfetch.remote import IndexType
from tierfetch.remote.core import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState
from tierfetch.rlm.config import INT64_MAX
from tierfetch.rlm.core.guess import TRUST_MAX
from tierfetch.rlm.reader import RemoteRead
from tierfetch.sim.machine.loop import make_loop
from tierfetch.tests.fakes.remote_metadata import InMemoryRemoteLogMetadataManager, SharedMetadata
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import data_batch

from .reading import Readers, close_readers, make_readers, read
from .views import PARTITION, remote, segment_id

pytestmark = pytest.mark.virtual_time

ROUND_TRIP_S = 1.0
CHUNK = 640
FIND_BYTES = 160
LONG_MS = 60_000


@pytest.fixture(autouse=True, scope="module")
def _little_is_looked_at() -> Iterator[None]:
    """As little beside a chunk as in a broker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tierfetch.rlm.reader.FIND_BYTES", FIND_BYTES)
        yield


class FarStorage(MemoryRemoteStorage):
    """A store that is a second away, and knows what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []
        self.indexes = 0

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        self.ranges.append((start, end))
        await asyncio.sleep(ROUND_TRIP_S)
        return await super().fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        self.indexes += 1
        await asyncio.sleep(ROUND_TRIP_S)
        return await super().fetch_index(metadata, index_type)


@dataclass
class Far:
    """Segments in a far store, and a broker that has nothing of them."""

    storage: FarStorage
    readers: Readers
    log: PartitionLog
    segments: list[RemoteLogSegmentMetadata]

    async def read(self, offset: int, max_bytes: int = 100) -> list[int]:
        """Return the first offsets of the batches that are read."""
        end_offset = self.segments[-1].end_offset + 1
        request = RemoteRead(
            partition=PARTITION, log=self.log, offset=offset, max_bytes=max_bytes, max_offset=end_offset
        )
        found = await read(self.readers, request)
        return [header.base_offset for _, header in iter_batches(found.records)]

    async def took(self, offset: int, max_bytes: int = 100) -> float:
        """Return the seconds that a read takes."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await self.read(offset, max_bytes)
        return loop.time() - began_s

    @property
    def guessed(self) -> tuple[int, int]:
        """Return the bytes that were guessed, and those of them that were guessed wrongly."""
        counters = self.readers.chunks._counters
        return counters.guessed_bytes, counters.wrongly_guessed_bytes


async def far(
    *logs: Sequence[bytes],
    chunk_bytes: int = CHUNK,
    cache_bytes: int = 100 * CHUNK,
    max_wait_ms: int = LONG_MS,
    bytes_per_second: int = INT64_MAX,
) -> Far:
    """Each of `logs` is the batches of a segment."""
    storage, shared = FarStorage(), SharedMetadata()
    segments: list[RemoteLogSegmentMetadata] = []
    for number, batches in enumerate(logs, 1):
        headers = [header for _, header in iter_batches(b"".join(batches))]
        segment = replace(
            remote(number, headers[0].base_offset, headers[-1].next_offset),
            segment_size_in_bytes=sum(len(batch) for batch in batches),
            txn_index_empty=True,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        )
        if segments:  # offsets that compaction has left out belong to the segment all the same
            segment = replace(
                segment,
                start_offset=segments[-1].end_offset + 1,
                segment_leader_epochs=(EpochEntry(0, segments[-1].end_offset + 1),),
            )
        finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        shared.append(segment)
        shared.append(RemoteLogSegmentMetadataUpdate(segment.segment_id, finished, 1, 1))
        segments.append(segment)
        storage.put(segment, b"".join(batches), {IndexType.OFFSET: index_of(segment, batches)})
    metadata = InMemoryRemoteLogMetadataManager(shared)
    await metadata.start()
    await metadata.assign([PARTITION])
    readers = await make_readers(
        storage,
        metadata,
        chunk_bytes=chunk_bytes,
        cache_bytes=cache_bytes,
        max_wait_ms=max_wait_ms,
        bytes_per_second=bytes_per_second,
    )
    end_offset = segments[-1].end_offset + 1
    state = SimpleNamespace(
        log_start_offset=segments[0].start_offset,
        log_end_offset=end_offset,
        offsets=SimpleNamespace(local_log_start_offset=end_offset),
        epochs=LeaderEpochCache([EpochEntry(0, 0)]),
    )
    return Far(storage, readers, cast(PartitionLog, SimpleNamespace(state=state)), segments)


def index_of(segment: RemoteLogSegmentMetadata, batches: Sequence[bytes]) -> bytes:
    """Return an offset index with every second batch."""
    entries = []
    for number, (position, header) in enumerate(iter_batches(b"".join(batches))):
        if number % 2:
            entries.append(struct.pack(">ii", header.last_offset - segment.start_offset, position))
    return b"".join(entries)


def even(count: int, first_offset: int = 0) -> list[bytes]:
    """Return batches of two records and 86 bytes or so."""
    return [bytes(data_batch(2, base_offset=first_offset + 2 * i, epoch=0)) for i in range(count)]


def uneven(count: int, last: int) -> list[bytes]:
    """Return `count` small batches, and then `last` large ones: no offset is where its share says."""
    large = [bytes(data_batch(1, base_offset=2 * count + i, epoch=0, value=bytes(CHUNK * 4))) for i in range(last)]
    return even(count) + large


async def test_first_byte_in_the_middle_of_a_segment_takes_one_round_trip() -> None:
    tier = await far(even(100))
    assert await tier.took(101) == ROUND_TRIP_S
    assert tier.storage.indexes == 1
    assert tier.guessed == (CHUNK, 0)
    await close_readers(tier.readers)


async def test_the_border_of_two_chunks_takes_one_round_trip() -> None:
    tier = await far(even(100), chunk_bytes=6_400)
    size = tier.segments[0].segment_size_in_bytes
    offset = next(header.base_offset for position, header in iter_batches(b"".join(even(100))) if position + 86 > 6_300)
    assert size > 6_400
    assert await tier.took(offset, max_bytes=1_000) == ROUND_TRIP_S
    assert sorted(tier.storage.ranges) == [(0, 6_400), (6_400, size)]
    assert tier.guessed == (size, 0)
    await close_readers(tier.readers)


async def test_nothing_is_guessed_where_the_index_is_on_the_brokers_disk_or_in_its_memory() -> None:
    tier = await far(even(100))
    await tier.readers.indexes.offset_index(tier.segments[0])
    for offset in (101, 51):
        assert await tier.took(offset) == ROUND_TRIP_S
    tier.readers.indexes._decoded.pop((tier.segments[0].segment_id.id, IndexType.OFFSET))
    assert await tier.took(151) == ROUND_TRIP_S
    assert tier.storage.indexes == 1
    assert tier.guessed == (0, 0)
    await close_readers(tier.readers)


async def test_a_wrong_guess_costs_its_bytes_and_is_counted() -> None:
    tier = await far(uneven(40, 4))
    assert await tier.took(60) == 2 * ROUND_TRIP_S
    guessed, wrongly = tier.guessed
    assert 0 < guessed == wrongly <= 2 * CHUNK
    await close_readers(tier.readers)


async def test_a_partition_whose_offsets_are_not_where_their_share_says_is_guessed_for_no_longer() -> None:
    tier = await far(*([bytes(each) for each in shifted(uneven(40, 4), 84 * i)] for i in range(4)))
    guessed = []
    for segment in tier.segments:
        assert await tier.read(segment.start_offset + 60)
        guessed.append(tier.guessed)
    wasted, wrongly = guessed[TRUST_MAX - 1]
    assert 0 < wasted == wrongly <= 2 * TRUST_MAX * CHUNK
    assert guessed[TRUST_MAX:] == [(wasted, wrongly)] * (4 - TRUST_MAX)
    assert tier.storage.indexes == 4
    await close_readers(tier.readers)


async def test_guesses_of_reads_that_time_out_before_the_index_comes_are_judged_when_they_come_again() -> None:
    logs = [[bytes(each) for each in shifted(uneven(40, 4), 84 * i)] for i in range(9)]
    tier = await far(*logs, max_wait_ms=int(ROUND_TRIP_S * 1000) - 100)
    for segment in tier.segments:
        while not await tier.read(segment.start_offset + 60):
            pass
    guessed, _ = tier.guessed
    assert 0 < guessed <= 2 * TRUST_MAX * CHUNK
    assert tier.storage.indexes == 9
    await close_readers(tier.readers)


def shifted(batches: Sequence[bytes], offset: int) -> list[bytes]:
    """Return the batches with their offsets so much higher, which their CRC does not cover."""
    return [(int.from_bytes(batch[:8], "big") + offset).to_bytes(8, "big") + batch[8:] for batch in batches]


async def test_a_guess_takes_no_place_from_what_was_asked_for() -> None:
    tier = await far(even(100), even(100, 200), chunk_bytes=CHUNK, cache_bytes=8 * CHUNK)
    first = asyncio.create_task(tier.read(0, 4 * CHUNK - 200))
    await asyncio.sleep(ROUND_TRIP_S / 2)
    assert len(tier.storage.ranges) == 4
    assert await tier.read(301)
    assert tier.guessed == (0, 0)
    assert await first
    await close_readers(tier.readers)


async def test_a_guess_waits_for_no_fetch_of_a_chunk_that_was_dropped() -> None:
    tier = await far(even(100), even(100, 200), cache_bytes=8 * CHUNK)
    first = asyncio.create_task(tier.read(0, 4 * CHUNK - 200))
    await asyncio.sleep(ROUND_TRIP_S / 2)
    tier.readers.chunks.drop(tier.segments[0])
    assert await tier.read(301)
    assert tier.guessed == (0, 0)
    assert await first
    await close_readers(tier.readers)


async def test_a_guess_leaves_no_debt_at_the_rate_limit() -> None:
    tier = await far(even(100), bytes_per_second=CHUNK)
    assert await tier.took(101) == ROUND_TRIP_S
    assert tier.guessed == (CHUNK, 0)
    await close_readers(tier.readers)
    tier = await far(even(100), bytes_per_second=CHUNK - 1)
    assert await tier.read(101)
    assert tier.guessed == (0, 0)
    await close_readers(tier.readers)


async def test_a_consumer_that_asks_for_more_than_is_kept_gets_half_of_that_and_each_chunk_is_fetched_once() -> None:
    batches = even(100)
    tier = await far(batches, cache_bytes=8 * CHUNK)
    seen = await tier.read(0, 100_000)
    assert 3 * CHUNK < len(b"".join(batches[: len(seen)])) <= 4 * CHUNK
    while len(seen) < 100:
        seen += await tier.read(2 * len(seen), 100_000)
    assert len(tier.storage.ranges) == len(set(tier.storage.ranges)) == -(-len(b"".join(batches)) // CHUNK)
    await close_readers(tier.readers)


async def test_a_guess_that_fails_is_no_failure_of_the_read() -> None:
    tier = await far(uneven(40, 4))

    def fail(operation: str, data: bytes) -> bytes:
        is_guess = operation == "fetch_log_segment" and len(tier.storage.ranges) == 1
        return data[:-1] if is_guess else data

    tier.storage.tamper = fail
    assert await tier.read(60) == [60]
    await close_readers(tier.readers)


async def test_who_reads_on_needs_no_index() -> None:
    tier = await far(even(100), even(100, 200))
    offset, seen = 0, []
    while offset < 400:
        seen += await tier.read(offset, 300)
        offset = seen[-1] + 2
    assert seen == list(range(0, 400, 2))
    assert tier.storage.indexes == 0
    await close_readers(tier.readers)


async def test_R4_where_the_next_offset_was_compacted_away_the_index_decides() -> None:
    batches = [batch for number, batch in enumerate(even(100)) if number % 5]
    tier = await far(batches)
    seen = await tier.read(2, 300)
    following = seen[-1] + 2
    rest = await tier.read(following, 300)
    while following % 10:
        seen, following = rest, rest[-1] + 2
        rest = await tier.read(following, 300)
    assert rest[0] == following + 2, "the batch that begins with it was left out"
    assert tier.storage.indexes == 1
    await close_readers(tier.readers)


async def test_R4_an_end_of_a_read_that_the_log_no_longer_has_is_left_to_the_index() -> None:
    tier = await far(even(100))
    await tier.read(0, 300)
    tier.readers.chunks.drop(tier.segments[0])
    ((key, end),) = tier.readers.reader._ends.items()
    tier.readers.reader._ends[key] = replace(end, position=end.position + 7)
    assert await tier.read(key[1], 100) == [key[1]]
    assert tier.storage.indexes == 1
    await close_readers(tier.readers)


async def test_R4_who_reads_on_is_served_nothing_that_a_new_leader_epoch_has_cut_off() -> None:
    tier = await far(even(100))
    following = (await tier.read(0, 300))[-1] + 2
    epochs = LeaderEpochCache([EpochEntry(0, 0), EpochEntry(1, following + 4)])
    tier.log.state.epochs = epochs  # type: ignore[misc]
    assert await tier.read(following, 1000) == [following, following + 2]
    assert tier.storage.indexes == 0
    await close_readers(tier.readers)


async def test_the_end_of_a_read_says_nothing_of_another_copy_of_the_segment() -> None:
    tier = await far(even(100))
    await tier.readers.indexes.offset_index(tier.segments[0])
    await tier.read(0, 300)
    ((key, end),) = tier.readers.reader._ends.items()
    tier.readers.reader._ends[key] = replace(end, segment_id=segment_id(2), position=6 * CHUNK)
    assert await tier.read(key[1], 100) == [key[1]]
    assert tier.storage.ranges == [(0, CHUNK)]
    await close_readers(tier.readers)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 900)), min_size=1, max_size=25),
    st.lists(st.tuples(st.integers(0, 200), st.sampled_from([1, 100, 700, 3000])), min_size=1, max_size=12),
    st.sampled_from([100, 640, 5000]),
)
def test_R4_any_read_of_any_batches_is_what_the_log_has(
    batches: list[tuple[int, int, int]], reads: list[tuple[int, int]], chunk_bytes: int
) -> None:
    """Batches of any size, with any offsets compacted away before them; reads at any place, some of which read on."""
    logged: list[bytes] = []
    offset = 0
    for left_out, count, size in batches:
        offset += left_out if logged else 0
        logged.append(bytes(data_batch(count, base_offset=offset, epoch=0, value=bytes(size))))
        offset += count
    headers = [header for _, header in iter_batches(b"".join(logged))]

    async def check() -> None:
        tier = await far(logged, chunk_bytes=chunk_bytes, cache_bytes=60 * chunk_bytes)
        for place, max_bytes in reads:
            wanted = place % offset
            for _ in range(3):
                seen = await tier.read(wanted, max_bytes)
                after = [header for header in headers if header.last_offset >= wanted]
                assert seen == [header.base_offset for header in after[: len(seen)]]
                assert len(seen) == len(after) or len(seen) == fitting(after, max_bytes)
                wanted = after[len(seen) - 1].next_offset
                if wanted >= offset:
                    break
        guessed, wrongly = tier.guessed
        assert wrongly <= guessed <= tier.segments[0].segment_size_in_bytes
        await close_readers(tier.readers)

    loop = make_loop(Random(0))
    try:
        loop.run_until_complete(check())
    finally:
        loop.close()


def fitting(headers: Sequence[object], max_bytes: int) -> int:
    """Return how many whole batches there are in so many bytes, at least one."""
    count = size = 0
    for header in headers:
        size += header.size_bytes  # type: ignore[attr-defined]
        if size > max_bytes and count:
            break
        count += 1
    return count
