"""Chunks of remote logs: shared, fetched ahead, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tierfetch.remote import RemoteStorageCorruptError, RemoteStorageError
from tierfetch.rlm.chunks import RemoteChunks
from tierfetch.rlm.core.expected import EXPECTED_S
from tierfetch.rlm.core.quota import TokenBucket
from tierfetch.rlm.metrics import RemoteLogCounters
from tierfetch.rlm.rate_limit import RateLimit
from tierfetch.tests.fakes.faults import FailNth
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage

from .brokers import until
from .views import remote

pytestmark = pytest.mark.virtual_time

CHUNK = 100
SEGMENT = remote(1, 0, 105)
"""1050 bytes: ten chunks and a half."""
OTHER = remote(2, 105, 210)
LOG = bytes(i % 251 for i in range(SEGMENT.segment_size_in_bytes))


class CountingStorage(MemoryRemoteStorage):
    """Knows how many fetches run at the same time, and which ranges were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []
        self.running = self.running_max = 0

    async def fetch_log_segment(self, metadata, start: int, end: int) -> bytes:
        self.ranges.append((start, end))
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        try:
            return await super().fetch_log_segment(metadata, start, end)
        finally:
            self.running -= 1


@pytest.fixture
def storage() -> CountingStorage:
    storage = CountingStorage()
    storage.put(SEGMENT, LOG, {})
    storage.put(OTHER, LOG[::-1], {})
    return storage


@pytest.fixture
async def chunks(storage: CountingStorage) -> AsyncIterator[RemoteChunks]:
    made = make(storage)
    yield made
    await made.close()


def make(
    storage: CountingStorage, *, cache_bytes: int = 400, fetches_max: int = 3, ahead: int = 2, rate: int = 2**63 - 1
) -> RemoteChunks:
    return RemoteChunks(
        storage,
        RemoteLogCounters(),
        RateLimit(rate),
        chunk_bytes=CHUNK,
        cache_bytes=cache_bytes,
        fetches_max=fetches_max,
        ahead_chunks=ahead,
    )


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (0, 100), (0, 101), (99, 101), (250, 777), (1000, 1050), (1049, 5000), (1050, 1060), (7, 7)],
)
async def test_R4_any_range_is_cut_at_the_end(chunks: RemoteChunks, start: int, end: int) -> None:
    assert bytes(await chunks.read(SEGMENT, start, end)) == LOG[start:end]


async def test_of_several_chunks_only_what_is_asked_for_is_put_together(chunks: RemoteChunks) -> None:
    for start, end in ((150, 260), (20, 560), (999, 1050)):
        found = await chunks.read(SEGMENT, start, end)
        assert found.obj == LOG[start:end]


async def test_requests_are_aligned_and_made_once(chunks: RemoteChunks, storage: CountingStorage) -> None:
    await chunks.read(SEGMENT, 150, 260)
    await chunks.read(SEGMENT, 100, 299)
    await chunks.read(SEGMENT, 1040, 1050)
    assert storage.ranges == [(100, 200), (200, 300), (1000, 1050)]


async def test_many_readers_of_one_chunk_are_one_fetch(chunks: RemoteChunks, storage: CountingStorage) -> None:
    read = await asyncio.gather(*(chunks.read(SEGMENT, 0, 50) for _ in range(30)))
    assert {bytes(data) for data in read} == {LOG[:50]}
    assert storage.ranges == [(0, 100)]


async def test_reader_that_is_cancelled_does_not_end_the_fetch(chunks: RemoteChunks, storage: CountingStorage) -> None:
    impatient = asyncio.create_task(chunks.read(SEGMENT, 0, 50))
    patient = asyncio.create_task(chunks.read(SEGMENT, 0, 50))
    await until(lambda: storage.running)
    impatient.cancel()
    assert bytes(await patient) == LOG[:50]
    assert storage.ranges == [(0, 100)]


async def test_memory_and_concurrency_are_bounded(storage: CountingStorage) -> None:
    chunks = make(storage, cache_bytes=350, fetches_max=10)
    sizes: list[int] = []

    async def read(position: int) -> None:
        segment, data = (SEGMENT, LOG) if position % 2 else (OTHER, LOG[::-1])
        assert bytes(await chunks.read(segment, position, position + 150)) == data[position : position + 150]
        sizes.append(chunks.size_bytes)

    await asyncio.gather(*(read(position) for position in range(0, 1050, 35)))
    assert max(sizes) <= 350
    assert storage.running_max == 3, "as many as the cache has room for"
    assert chunks.size_bytes > 0
    await chunks.close()


async def test_chunk_used_least_lately_goes_first(storage: CountingStorage) -> None:
    chunks = make(storage, cache_bytes=300)
    for position in (0, 100, 200, 0, 300):
        await chunks.read(SEGMENT, position, position + 10)
    storage.ranges.clear()
    for position in (300, 200, 0):
        await chunks.read(SEGMENT, position, position + 10)
    assert storage.ranges == []
    await chunks.read(SEGMENT, 100, 110)
    assert storage.ranges == [(100, 200)]
    await chunks.close()


def ahead(chunks: RemoteChunks, position: int, read_bytes: int = 0, following=None) -> None:
    """A consumer has read the byte at `position`, and what is before it."""
    chunks.fetch_ahead(SEGMENT, position, position + 1, read_bytes, lambda: following)


async def test_reading_ahead(storage: CountingStorage) -> None:
    chunks = make(storage, cache_bytes=800)
    ahead(chunks, 99, following=OTHER)
    await until(lambda: len(storage.ranges) == 2 and not storage.running)
    assert storage.ranges == [(100, 200), (200, 300)]
    await chunks.read(SEGMENT, 120, 280)
    assert len(storage.ranges) == 2
    ahead(chunks, 950)
    await until(lambda: len(storage.ranges) == 3)
    assert storage.ranges[-1] == (1000, 1050), "nothing follows"
    ahead(chunks, 950, following=OTHER)
    await until(lambda: len(storage.ranges) == 4)
    assert storage.ranges[-1] == (0, 100), "of the following segment"
    await chunks.close()


async def test_the_less_memory_is_left_the_less_is_fetched_ahead(storage: CountingStorage) -> None:
    chunks = make(storage, cache_bytes=600)
    for position in (99, 399, 699, 899):
        ahead(chunks, position)
    await until(lambda: not chunks._runs._tasks)
    assert storage.ranges == [(100, 200), (200, 300), (400, 500), (500, 600), (700, 800), (900, 1000)]
    ahead(chunks, 999)
    await until(lambda: not chunks._runs._tasks)
    assert storage.ranges[6:] == [(1000, 1050)], "one of the six has been passed"
    assert {index for _, index in chunks._kept._entries} == {1, 2, 4, 5, 7, 10}, "and went first"
    await chunks.close()


async def test_what_a_consumer_has_passed_goes_before_what_others_are_about_to_read(storage: CountingStorage) -> None:
    chunks = make(storage, cache_bytes=600)
    ahead(chunks, 699)
    await until(lambda: not chunks._runs._tasks)
    for index in range(5):
        await chunks.read(SEGMENT, index * 100, index * 100 + 100)
        chunks.fetch_ahead(SEGMENT, index * 100, index * 100 + 100, 0, lambda: None)
    await until(lambda: not chunks._runs._tasks)
    kept = {index for _, index in chunks._kept._entries}
    assert {7, 8, 5, 6} <= kept, "two that another consumer is about to read, and this one's"
    await chunks.close()


async def test_what_no_consumer_comes_for_is_no_longer_waited_for(storage: CountingStorage) -> None:
    chunks = make(storage, cache_bytes=600)
    for position in (99, 399, 699):
        ahead(chunks, position)
    assert chunks._room == 1
    await asyncio.sleep(EXPECTED_S / 2)
    ahead(chunks, 399)
    await asyncio.sleep(EXPECTED_S / 2)
    assert chunks._room == 4
    await chunks.read(SEGMENT, 900, 950)
    await chunks.read(SEGMENT, 0, 50)
    assert {index for _, index in chunks._kept._entries} == {9, 0, 4, 5, 2, 7}, "one of those goes first"
    await chunks.close()


async def test_failed_fetch_is_told_to_all_and_tried_again(chunks: RemoteChunks, storage: CountingStorage) -> None:
    storage.faults = FailNth(1)
    failed = await asyncio.gather(*(chunks.read(SEGMENT, 0, 50) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in failed] == [RemoteStorageError] * 3
    assert bytes(await chunks.read(SEGMENT, 0, 50)) == LOG[:50]
    assert chunks.size_bytes == 100


async def test_failure_that_nobody_waits_for_is_silent(chunks: RemoteChunks, storage: CountingStorage) -> None:
    storage.faults = FailNth(1, persistent=True)
    ahead(chunks, 0)
    await until(lambda: len(storage.calls) == 2 and not storage.running)
    storage.faults = None
    assert bytes(await chunks.read(SEGMENT, 100, 150)) == LOG[100:150]


@pytest.mark.parametrize("tamper", [lambda data: data[:-1], lambda data: data + b"x"])
async def test_wrong_size_is_corruption(chunks: RemoteChunks, storage: CountingStorage, tamper) -> None:
    storage.tamper = lambda operation, data: tamper(data)
    with pytest.raises(RemoteStorageCorruptError, match=r"\[0, 100\) of 1050"):
        await chunks.read(SEGMENT, 0, 10)


async def test_dropped_segment_is_fetched_anew(chunks: RemoteChunks, storage: CountingStorage) -> None:
    await chunks.read(SEGMENT, 0, 10)
    waiting = asyncio.create_task(chunks.read(SEGMENT, 100, 110))
    await until(lambda: storage.running)
    chunks.drop(SEGMENT)
    assert chunks.size_bytes == 100
    assert bytes(await waiting) == LOG[100:110]
    assert chunks.size_bytes == 0, "what was under way is not kept"
    storage.ranges.clear()
    await chunks.read(SEGMENT, 0, 110)
    assert storage.ranges == [(0, 100), (100, 200)]


async def test_close_ends_what_is_under_way(storage: CountingStorage) -> None:
    chunks = make(storage)
    storage.hang_on.add("fetch_log_segment")
    waiting = asyncio.create_task(chunks.read(SEGMENT, 0, 10))
    await until(lambda: storage.running)
    await chunks.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert storage.running == 0


async def test_idle_cache_lets_go_of_its_memory(storage: CountingStorage) -> None:
    chunks = RemoteChunks(
        storage,
        RemoteLogCounters(),
        RateLimit(2**63 - 1),
        chunk_bytes=CHUNK,
        cache_bytes=400,
        fetches_max=3,
        ahead_chunks=2,
        idle_s=0.01,
    )
    await chunks.read(SEGMENT, 0, 250)
    chunks.fetch_ahead(SEGMENT, 0, 250, 250, lambda: None)
    assert chunks._expected.pop_passed() is not None, "one of the two that were read to their ends"
    await until(lambda: chunks.size_bytes == 0)
    assert chunks._expected.pop_passed() is None
    assert bytes(await chunks.read(SEGMENT, 0, 10)) == LOG[:10]
    await until(lambda: chunks.size_bytes == 0)
    await chunks.close()


async def test_fetches_share_the_rate_limit_and_the_cache_is_free(storage: CountingStorage) -> None:
    """The first chunk may go at once and leaves a debt; what is kept already waits for nothing."""
    chunks = make(storage, rate=10_000, ahead=0)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    chunks._rate_limit._bucket = TokenBucket(10_000, began_s)
    chunks._rate_limit._bucket.take(10_000, began_s)
    for _ in range(4):
        await chunks.read(SEGMENT, 0, 400)
    assert loop.time() - began_s >= 0.03 - 0.002, "four chunks of 100 bytes, the first one at once"
    assert len(storage.ranges) == 4
    await chunks.close()


async def test_fetch_that_waits_for_the_rate_limit_holds_no_place(storage: CountingStorage) -> None:
    chunks = make(storage, fetches_max=1, rate=1, ahead=0)
    await chunks.read(SEGMENT, 0, 1)
    waiting = asyncio.create_task(chunks.read(SEGMENT, 200, 201))
    await asyncio.sleep(0.001)
    assert not waiting.done()
    assert not chunks._runs._places.locked()
    await chunks.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
