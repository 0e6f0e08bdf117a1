"""Several chunks by one request: for those who read on, as they come, whatever the store does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.remote import RemoteStorageCorruptError, RemoteStorageError
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.rlm.chunks import RemoteChunks
from tierfetch.rlm.core.read_ahead import GOOD_RUNS
from tierfetch.rlm.metrics import RemoteLogCounters
from tierfetch.rlm.rate_limit import RateLimit
from tierfetch.sim.machine.loop import make_loop
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage, MemoryStreams

from .brokers import until
from .views import remote

pytestmark = pytest.mark.virtual_time

CHUNK: Final = 100
SEGMENT = remote(1, 0, 205)
"""2050 bytes: twenty chunks and a half."""
OTHER = remote(2, 205, 410)
LOGS = {
    segment.segment_id: bytes((i * step) % 251 for i in range(segment.segment_size_in_bytes))
    for segment, step in ((SEGMENT, 1), (OTHER, 7))
}
LOG = LOGS[SEGMENT.segment_id]
MANY: Final = 10_000
"""Bytes read in sequence that allow the longest runs."""
PIECE_S: Final = 1.0


class Streams(MemoryStreams):
    """Each piece takes a second. Knows the ranges that were asked for, and how many requests run."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []
        self.running = self.running_max = 0
        self.left = 0
        """Requests that were not read to their end."""
        self.before_piece = lambda _: asyncio.sleep(PIECE_S)
        for segment in (SEGMENT, OTHER):
            self.put(segment, LOGS[segment.segment_id], {})

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        self._begin(start, end)
        try:
            await self.before_piece(start)
            return await super().fetch_log_segment(metadata, start, end)
        finally:
            self.running -= 1

    async def stream_log_segment(self, metadata, start: int, end: int, piece_bytes: int):
        self._begin(start, end)
        self.left += 1
        try:
            async for piece in super().stream_log_segment(metadata, start, end, piece_bytes):
                yield piece
            self.left -= 1
        finally:
            self.running -= 1

    def _begin(self, start: int, end: int) -> None:
        self.ranges.append((start, end))
        self.running += 1
        self.running_max = max(self.running_max, self.running)


@pytest.fixture
def storage() -> Streams:
    return Streams()


@pytest.fixture
async def chunks(storage: Streams) -> AsyncIterator[RemoteChunks]:
    made = make(storage)
    yield made
    await made.close()


def make(
    storage: MemoryRemoteStorage, *, cache_chunks: int = 16, fetches_max: int = 8, rate: int = 2**63 - 1
) -> RemoteChunks:
    return RemoteChunks(
        storage,
        RemoteLogCounters(),
        RateLimit(rate),
        chunk_bytes=CHUNK,
        cache_bytes=cache_chunks * CHUNK,
        fetches_max=fetches_max,
        ahead_chunks=2,
    )


def ahead(chunks: RemoteChunks, position: int, read_bytes: int = MANY, following=None) -> None:
    """A consumer has read the byte at `position`, and as much before it as a chunk has."""
    chunks.fetch_ahead(SEGMENT, position + 1 - CHUNK, position + 1, read_bytes, lambda: following)


async def at_rest(chunks: RemoteChunks) -> None:
    await until(lambda: not chunks._runs._tasks)


async def took(chunks: RemoteChunks, start: int, end: int) -> float:
    """Return how long a read takes, which is right."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert bytes(await chunks.read(SEGMENT, start, end)) == LOG[start:end]
    return loop.time() - began_s


async def test_runs_grow_with_what_was_read_in_sequence(chunks: RemoteChunks, storage: Streams) -> None:
    position = 0
    while position < 2050:
        await chunks.read(SEGMENT, position, position + 50)
        position += 50
        if position > 50:
            ahead(chunks, position - 1, position)
    await at_rest(chunks)
    assert sorted(storage.ranges) == [
        (0, 100),
        (100, 200),
        (200, 300),
        (300, 400),
        (400, 600),
        (600, 800),
        (800, 1200),
        (1200, 1600),
        (1600, 2000),
        (2000, 2050),
    ]
    assert chunks._counters.fetched_bytes == 2050
    assert chunks._counters.fetch_requests == 10


async def test_within_a_chunk_there_is_nothing_to_look_at_again(chunks: RemoteChunks, storage: Streams) -> None:
    chunks.fetch_ahead(SEGMENT, 10, 90, MANY, lambda: None)
    await at_rest(chunks)
    assert storage.ranges == []
    chunks.fetch_ahead(SEGMENT, 10, 90, 2 * CHUNK, lambda: None)
    await at_rest(chunks)
    assert storage.ranges == [(100, 300), (300, 500)]


async def test_what_was_read_to_the_end_of_its_segment_takes_no_room_from_what_follows(
    chunks: RemoteChunks, storage: Streams
) -> None:
    """The last chunk of a segment is smaller than the others."""
    storage.before_piece = lambda _: asyncio.sleep(0)
    read_bytes = 0
    for number in range(3, 33):
        segment, following = remote(number, 0, 78), remote(number + 1, 0, 78)
        for each in (segment, following):
            storage.put(each, LOG[:780], {})
        for start in range(0, 780, 30):
            assert bytes(await chunks.read(segment, start, start + 30)) == LOG[start : start + 30]
            read_bytes += 30
            chunks.fetch_ahead(segment, start, start + 30, read_bytes, lambda: following)  # noqa: B023
    await at_rest(chunks)
    assert chunks._counters.fetched_bytes <= 31 * 780, "each once"
    assert len(storage.ranges) <= 8 + 2 * 30, "two a segment once runs are long"


async def test_each_chunk_of_a_run_is_there_as_soon_as_it_has_come(chunks: RemoteChunks, storage: Streams) -> None:
    ahead(chunks, 0)
    assert await took(chunks, 100, 110) == PIECE_S
    assert await took(chunks, 150, 250) == PIECE_S
    assert await took(chunks, 300, 410) == 2 * PIECE_S
    assert storage.ranges == [(100, 500), (500, 900)]


async def test_a_read_that_needs_several_chunks_now_asks_for_each_at_once(
    chunks: RemoteChunks, storage: Streams
) -> None:
    assert await took(chunks, 50, 350) == PIECE_S
    assert len(storage.ranges) == 4


async def test_a_run_ends_where_the_segment_does_and_goes_on_in_the_next(
    chunks: RemoteChunks, storage: Streams
) -> None:
    ahead(chunks, 1750, following=OTHER)
    await at_rest(chunks)
    assert storage.ranges == [(1800, 2050), (0, 400)]
    assert bytes(await chunks.read(OTHER, 0, 400)) == LOGS[OTHER.segment_id][:400]
    assert len(storage.ranges) == 2


async def test_a_run_asks_for_nothing_that_is_there_or_on_its_way(chunks: RemoteChunks, storage: Streams) -> None:
    reading = asyncio.create_task(chunks.read(SEGMENT, 300, 310))
    await until(lambda: storage.ranges)
    ahead(chunks, 0)
    await reading
    await at_rest(chunks)
    assert storage.ranges == [(300, 400), (100, 300), (400, 800)]


async def test_a_storage_that_cannot_stream_is_asked_for_single_chunks() -> None:
    storage = MemoryRemoteStorage()
    storage.put(SEGMENT, LOG, {})
    chunks = make(storage)
    ahead(chunks, 0)
    await at_rest(chunks)
    assert [operation for operation, _ in storage.calls] == ["fetch_log_segment"] * 2
    await chunks.close()


async def test_runs_leave_a_place_and_memory_for_every_other_fetch(storage: Streams) -> None:
    chunks = make(storage, cache_chunks=10, fetches_max=8)
    ahead(chunks, 0)
    assert chunks._runs._spare_chunks == 0, "10 chunks, of which 8 are for 8 places"
    ahead(chunks, 1000)
    positions = range(1400, 2000, 100)
    await asyncio.gather(*(took(chunks, position, position + 10) for position in positions))
    assert storage.ranges[:4] == [(100, 300), (300, 500), (1100, 1200), (1200, 1300)]
    await at_rest(chunks)
    assert chunks._runs._spare_chunks == 2
    assert chunks.size_bytes <= 1000
    await chunks.close()


async def test_a_run_that_the_rate_limit_would_make_others_wait_for_is_one_chunk(storage: Streams) -> None:
    chunks = make(storage, rate=350)
    ahead(chunks, 0)
    await asyncio.sleep(0.1)
    assert storage.ranges == [(100, 200), (200, 300)]
    await chunks.close()


async def test_runs_take_from_the_rate_limit_what_they_fetch(storage: Streams) -> None:
    chunks = make(storage, rate=800)
    ahead(chunks, 0)
    assert storage.ranges == []
    await asyncio.sleep(0)
    assert not chunks._rate_limit.has(1), "two runs of 400"
    await at_rest(chunks)
    assert storage.ranges == [(100, 500), (500, 900)]
    await chunks.close()


async def test_what_breaks_off_is_whole_up_to_there_and_asked_for_again_alone(
    chunks: RemoteChunks, storage: Streams
) -> None:
    async def breaks_at_300(position: int) -> None:
        await asyncio.sleep(PIECE_S)
        if position == 300:
            raise RemoteStorageError("the connection was reset")

    storage.before_piece = breaks_at_300
    ahead(chunks, 0)
    waiting = [asyncio.create_task(chunks.read(SEGMENT, at, at + 10)) for at in (100, 200, 300, 400, 300)]
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [bytes(each) for each in found[:2] if not isinstance(each, BaseException)] == [LOG[100:110], LOG[200:210]]
    assert [str(each) for each in found[2:]] == ["the connection was reset"] * 3
    await at_rest(chunks)
    storage.before_piece = lambda _: asyncio.sleep(0)
    storage.ranges.clear()
    assert await took(chunks, 100, 410) == 0
    assert storage.ranges == [(300, 400), (400, 500)]


async def test_after_a_run_broke_off_come_single_chunks_and_then_runs_again(
    chunks: RemoteChunks, storage: Streams
) -> None:
    async def breaks(position: int) -> None:
        raise RemoteStorageError("no")

    healthy, storage.before_piece = storage.before_piece, breaks
    ahead(chunks, 0)
    await at_rest(chunks)
    storage.before_piece = healthy
    storage.ranges.clear()
    ahead(chunks, 0)
    await at_rest(chunks)
    assert storage.ranges == [(100, 200), (200, 300)]
    for index in range(GOOD_RUNS):
        await chunks.read(SEGMENT, index * 100, index * 100 + 1)
    storage.ranges.clear()
    ahead(chunks, 1000)
    assert chunks._runs._fetching
    await at_rest(chunks)
    assert storage.ranges == [(1100, 1300), (1300, 1500)]


@pytest.mark.parametrize(
    "tamper",
    [lambda piece: piece[:-1], lambda piece: piece + b"x", lambda piece: b""],
    ids=["short", "long", "empty"],
)
async def test_a_piece_of_another_size_is_corruption_for_what_has_not_come(
    chunks: RemoteChunks, storage: Streams, tamper
) -> None:
    third = LOG[300:400]
    storage.tamper = lambda operation, data: tamper(data) if data == third else data
    ahead(chunks, 0)
    waiting = [asyncio.create_task(chunks.read(SEGMENT, start, start + 50)) for start in (300, 400)]
    assert bytes(await chunks.read(SEGMENT, 100, 300)) == LOG[100:300]
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in found] == [RemoteStorageCorruptError] * 2
    await at_rest(chunks)
    assert chunks._runs._spare_chunks == 8


async def test_an_answer_that_ends_early_or_does_not_end_is_corruption(storage: Streams) -> None:
    """A storage of somebody's own, which does not look at what it passes on."""

    class Careless(Streams):
        pieces = 2

        async def stream_log_segment(self, metadata, start: int, end: int, piece_bytes: int):
            for number in range(self.pieces):
                yield LOG[start + number * CHUNK : start + (number + 1) * CHUNK]

    careless = Careless()
    chunks = make(careless)
    ahead(chunks, 0)
    assert bytes(await chunks.read(SEGMENT, 100, 300)) == LOG[100:300]
    await at_rest(chunks)
    assert chunks._counters.fetch_errors == 2, "both runs"
    assert bytes(await chunks.read(SEGMENT, 300, 310)) == LOG[300:310]
    await chunks.close()
    careless.pieces = 9
    chunks = make(careless)
    ahead(chunks, 0)
    assert bytes(await chunks.read(SEGMENT, 100, 500)) == LOG[100:500], "those that were asked for are right"
    await at_rest(chunks)
    assert chunks._counters.fetch_errors == 2
    assert chunks._runs._limit.chunks == 1
    await chunks.close()


async def test_close_and_cancellation_end_the_request_and_give_everything_back(storage: Streams) -> None:
    chunks = make(storage)
    ahead(chunks, 0)
    waiting = asyncio.create_task(chunks.read(SEGMENT, 400, 410))
    await asyncio.sleep(1.5 * PIECE_S)
    waiting.cancel()
    await asyncio.sleep(0)
    assert storage.running == 2, "a reader that leaves ends no fetch"
    waiting = asyncio.create_task(chunks.read(SEGMENT, 400, 410))
    await asyncio.sleep(0)
    await chunks.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert storage.running == 0
    assert chunks._runs._spare_chunks == 8
    assert chunks._runs.size_bytes == 0
    assert not chunks._runs._fetching


async def test_chunks_of_a_run_that_are_dropped_reach_those_who_wait_and_are_not_kept(
    chunks: RemoteChunks, storage: Streams
) -> None:
    ahead(chunks, 0)
    waiting = asyncio.create_task(chunks.read(SEGMENT, 250, 410))
    await asyncio.sleep(1.5 * PIECE_S)
    chunks.drop(SEGMENT)
    assert bytes(await waiting) == LOG[250:410]
    await at_rest(chunks)
    assert chunks.size_bytes == 0
    assert chunks._runs._spare_chunks == 8
    assert chunks._room == 16


# Whatever happens, beside a plain model: a read returns the log's bytes, or a RemoteStorageError.


@dataclass(frozen=True)
class Fate:
    """What becomes of a piece: it takes so long, and comes whole, cut, grown, or not at all."""

    wait_s: float
    kind: str


FATES = st.builds(Fate, st.sampled_from([0.0, 0.5, 1.0, 30.0]), st.sampled_from(["whole"] * 8 + ["cut", "grown", "no"]))
SEGMENTS = st.sampled_from([SEGMENT, OTHER])
STEPS = st.one_of(
    st.tuples(st.just("read"), SEGMENTS, st.integers(0, 2060), st.integers(1, 450)),
    st.tuples(st.just("impatient"), SEGMENTS, st.integers(0, 2060), st.integers(1, 450)),
    st.tuples(st.just("ahead"), SEGMENTS, st.integers(0, 2049), st.sampled_from([0, 200, MANY])),
    st.tuples(st.just("begin"), SEGMENTS, st.integers(0, 2060), st.integers(1, 450)),
    st.tuples(st.just("drop"), SEGMENTS, st.just(0), st.just(0)),
    st.tuples(st.just("wait"), SEGMENTS, st.integers(0, 4), st.just(0)),
)


class Unreliable(Streams):
    """Gives each piece the next of the fates; all is well after the last."""

    def __init__(self, fates: list[Fate]) -> None:
        super().__init__()
        self._fates = fates
        self.before_piece = self._wait
        self.tamper = lambda operation, data: self._shaped(data)
        self._kind = "whole"

    async def _wait(self, position: int) -> None:
        fate = self._fates.pop() if self._fates else Fate(0.0, "whole")
        await asyncio.sleep(fate.wait_s)
        if fate.kind == "no":
            raise RemoteStorageError("no answer")
        self._kind = fate.kind

    def _shaped(self, data: bytes) -> bytes:
        kind, self._kind = self._kind, "whole"
        return {"cut": data[:-1], "grown": data + b"x"}.get(kind, data)


@given(st.lists(STEPS, max_size=40), st.lists(FATES, max_size=40), st.integers(4, 20), st.integers(1, 8))
def test_whatever_happens_what_is_read_is_the_log_within_the_limits(
    steps: list[tuple[str, RemoteLogSegmentMetadata, int, int]],
    fates: list[Fate],
    cache_chunks: int,
    fetches_max: int,
) -> None:
    async def follow() -> None:
        run = _Script(Unreliable(fates), cache_chunks, fetches_max)
        for step in steps:
            await run.take(*step)
        await run.end()
        fates.clear()
        await run.read_all()

    loop = make_loop(Random(0))
    try:
        loop.run_until_complete(follow())
    finally:
        loop.close()


class _Script:
    """The steps of an example, and what must hold after each."""

    def __init__(self, storage: Unreliable, cache_chunks: int, fetches_max: int) -> None:
        self.storage = storage
        self.cache_chunks = cache_chunks
        self.places = min(fetches_max, cache_chunks)
        self.chunks = make(storage, cache_chunks=cache_chunks, fetches_max=fetches_max)
        self.readers: list[asyncio.Task[None]] = []

    async def take(self, kind: str, segment: RemoteLogSegmentMetadata, first: int, second: int) -> None:
        if kind == "read":
            self.readers.append(asyncio.create_task(self.read(segment, first, second)))
        elif kind == "impatient":
            self.readers.append(asyncio.create_task(self.read(segment, first, second)))
            asyncio.get_running_loop().call_later(0.7, self.readers[-1].cancel)
        elif kind == "ahead":
            self.chunks.fetch_ahead(
                segment, max(0, first - CHUNK), first + 1, second, lambda: OTHER if segment is SEGMENT else None
            )
        elif kind == "begin":
            self.chunks.begin(segment, first, first + second)
        elif kind == "drop":
            self.chunks.drop(segment)
        else:
            await asyncio.sleep(first / 2)
        self.check_limits()

    async def read(self, segment: RemoteLogSegmentMetadata, start: int, count: int) -> None:
        try:
            found = await self.chunks.read(segment, start, start + count)
        except RemoteStorageError:
            return
        assert bytes(found) == LOGS[segment.segment_id][start : start + count]
        self.check_limits()

    def check_limits(self) -> None:
        assert self.chunks.size_bytes <= self.cache_chunks * CHUNK
        assert self.storage.running_max <= self.places
        assert 0 <= self.chunks._runs._spare_chunks <= self.cache_chunks - self.places

    async def end(self) -> None:
        for ended in await asyncio.gather(*self.readers, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), ended
        await asyncio.gather(*self.chunks._runs._tasks, return_exceptions=True)
        self.check_limits()
        assert not self.chunks._runs._fetching
        assert self.chunks._runs.size_bytes == 0
        assert self.chunks._runs._spare_chunks == self.cache_chunks - self.places, "all that was taken came back"

    async def read_all(self) -> None:
        for segment in (SEGMENT, OTHER):
            log = LOGS[segment.segment_id]
            for start in range(0, len(log), 330):
                assert bytes(await self.chunks.read(segment, start, start + 330)) == log[start : start + 330]
        await self.chunks.close()
