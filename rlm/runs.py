"""Fetches of chunks: one alone, or a run of several that follow each other by one request, as it is for those who read
on (`core/read_ahead.py` says how long).

| rule                                                       | why                                               |
|------------------------------------------------------------|---------------------------------------------------|
| each chunk is there for its readers as soon as it has come | the first waits no longer than for one alone      |
| a run has one place, and memory for all of its chunks      | it waits for no other half-way; fetches of one    |
| beside what all other places may need; it is shorter where | chunk always find theirs                          |
| there is no such memory                                    |                                                   |
| `rate_limit` must have all bytes of a run; else one chunk  | a long run would delay the others                 |
| a fetch of one waits for `rate_limit`, then for a place    | consumers must not starve copies of bandwidth     |
| what breaks off, or has another size, fails for the chunks | those before it are whole; the next read asks for |
| that have not come; runs are of one chunk then             | what is missing, alone                            |
| a run ends early only with its owner                       | the chunks may have readers by now                |

    chunk   wanted -> under way -> delivered, to the owner and to who waits
                                -> failed: the error of the storage, a wrong size, or cancelled
            forgotten (while wanted or under way) -> delivered to who waits alone
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial

from ..light_dataclass import dataclass
from ..remote import RemoteStorageCorruptError, RemoteStorageManager, StreamsSegments
from ..remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from .core.guess import ByteRange
from .core.read_ahead import RUN_CHUNKS_MAX, RunLimit, run_chunks
from .metrics import RemoteLogCounters
from .rate_limit import RateLimit

ChunkKey = tuple[RemoteLogSegmentId, int]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A chunk that is not here yet: its bytes in the log, and what its readers wait for."""

    key: ChunkKey
    range: ByteRange
    data: asyncio.Future[bytes]


@dataclass(frozen=True, slots=True)
class _Run:
    """Chunks to be fetched by one request; each is taken out when it has come."""

    segment: RemoteLogSegmentMetadata
    left: deque[_Wanted]
    is_ahead: bool

    @property
    def size_bytes(self) -> int:
        return sum(wanted.range.size for wanted in self.left)


class Runs:
    """See the module's docstring. `make_room` is called with the bytes under way when there are more of them, `keep`
    with each chunk that has come. Close it before its storage.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        counters: RemoteLogCounters,
        rate_limit: RateLimit,
        *,
        chunk_bytes: int,
        memory_chunks: int,
        places: int,
        make_room: Callable[[int], object],
        keep: Callable[[ChunkKey, bytes], None],
    ) -> None:
        assert 0 < places <= memory_chunks, (places, memory_chunks)
        self._storage = storage
        self._streams = storage if isinstance(storage, StreamsSegments) else None
        self._counters = counters
        self._rate_limit = rate_limit
        self._chunk_bytes = chunk_bytes
        self._places_max = places
        self._places = asyncio.Semaphore(places)
        self._spare_chunks = memory_chunks - places
        """The chunks that there is memory for, beside one for each place: what runs may take."""
        self._make_room = make_room
        self._keep = keep
        self._limit = RunLimit(RUN_CHUNKS_MAX if self._streams is not None else 1)
        self._fetching: dict[ChunkKey, asyncio.Future[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The size of what is under way."""
        return self._size_bytes

    @property
    def free_places(self) -> int:
        """The number of fetches that would wait for no other, one of a chunk that was forgotten included."""
        return max(0, self._places_max - len(self._tasks))

    def __contains__(self, key: ChunkKey) -> bool:
        return key in self._fetching

    def get(self, key: ChunkKey) -> asyncio.Future[bytes] | None:
        """Return what will have the chunk; None unless it is wanted already."""
        return self._fetching.get(key)

    def forget(self, key: ChunkKey) -> None:
        """Do not keep the chunk when it comes."""
        self._fetching.pop(key, None)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def longest(self, read_bytes: int) -> int:
        """Return how many chunks a run may have now for a consumer that has read so much in sequence."""
        return run_chunks(read_bytes, self._chunk_bytes, min(self._limit.chunks, 1 + self._spare_chunks))

    def begin(self, segment: RemoteLogSegmentMetadata, index: int) -> asyncio.Future[bytes]:
        """Begin to fetch a chunk that is needed now."""
        return self._begin(segment, [index], is_ahead=False)[0].data

    def begin_ahead(self, segment: RemoteLogSegmentMetadata, indexes: Sequence[int]) -> int:
        """Begin to fetch chunks that follow each other, or the first of them alone; return how many. There are at most
        as many as `longest` says.
        """
        assert len(indexes) <= 1 + self._spare_chunks, (indexes, self._spare_chunks)
        if len(indexes) > 1:
            size = self._range(segment, indexes[-1]).end - self._range(segment, indexes[0]).start
            indexes = indexes if self._rate_limit.take_at_once(size) else indexes[:1]
        self._spare_chunks -= len(indexes) - 1
        return len(self._begin(segment, indexes, is_ahead=True))

    def _begin(self, segment: RemoteLogSegmentMetadata, indexes: Sequence[int], *, is_ahead: bool) -> list[_Wanted]:
        loop = asyncio.get_running_loop()
        chunks = [
            _Wanted((segment.segment_id, index), self._range(segment, index), loop.create_future()) for index in indexes
        ]
        self._fetching.update({wanted.key: wanted.data for wanted in chunks})
        run = _Run(segment, deque(chunks), is_ahead)
        task = asyncio.create_task(self._fetch(run))
        self._tasks.add(task)
        task.add_done_callback(partial(self._land, run))
        return chunks

    def _range(self, segment: RemoteLogSegmentMetadata, index: int) -> ByteRange:
        start = index * self._chunk_bytes
        return ByteRange(start, min(start + self._chunk_bytes, segment.segment_size_in_bytes))

    async def _fetch(self, run: _Run) -> None:
        is_long = len(run.left) > 1
        try:
            if not is_long:  # what a long one needs it has taken already
                await self._rate_limit.acquire(run.size_bytes)
            async with self._places:
                await self._receive(run)
        except BaseException as error:
            if is_long and not isinstance(error, asyncio.CancelledError):
                self._limit.failed()
            self._fail(run, error)
            raise
        self._limit.ended()

    async def _receive(self, run: _Run) -> None:
        """Fetch the chunks of a run that has its place."""
        self._size_bytes += run.size_bytes
        self._make_room(self._size_bytes)
        self._counters.fetch_requests += 1
        try:
            async with aclosing(self._pieces(run)) as pieces:
                async for data in pieces:
                    self._check(run, data)
                    self._deliver(run, data)
            if run.left:
                self._check(run, b"")
        except BaseException:
            self._counters.fetch_errors += 1
            raise
        finally:
            self._size_bytes -= run.size_bytes

    async def _pieces(self, run: _Run) -> AsyncGenerator[bytes, None]:
        """Yield what the tier returns for each chunk of a run."""
        start, end = run.left[0].range.start, run.left[-1].range.end
        if len(run.left) == 1:
            yield await self._storage.fetch_log_segment(run.segment, start, end)
            return
        assert self._streams is not None, "runs are of one chunk where the storage does not stream"
        async with aclosing(self._streams.stream_log_segment(run.segment, start, end, self._chunk_bytes)) as pieces:
            async for data in pieces:
                yield data

    def _check(self, run: _Run, data: bytes) -> None:
        """RemoteStorageCorruptError unless these are as many bytes as the next chunk of the run has."""
        segment = run.segment
        if not run.left:
            raise RemoteStorageCorruptError(f"{segment.segment_id}: the tier returned more than it was asked for")
        wanted = run.left[0].range
        if len(data) != wanted.size:
            raise RemoteStorageCorruptError(
                f"{segment.segment_id}: the tier returned {len(data)} bytes for [{wanted.start}, {wanted.end}) of "
                f"{segment.segment_size_in_bytes}"
            )

    def _deliver(self, run: _Run, data: bytes) -> None:
        """Give a chunk to the owner, unless it was forgotten, and to those who wait for it."""
        wanted = run.left.popleft()
        self._size_bytes -= wanted.range.size
        if run.left:
            self._spare_chunks += 1
        if self._fetching.get(wanted.key) is wanted.data:
            del self._fetching[wanted.key]
            self._keep(wanted.key, data)
        self._counters.fetched_bytes += wanted.range.size
        self._counters.fetched_ahead_bytes += wanted.range.size if run.is_ahead else 0
        wanted.data.set_result(data)

    def _fail(self, run: _Run, error: BaseException) -> None:
        """Fail what has not come."""
        self._spare_chunks += max(0, len(run.left) - 1)
        while run.left:
            wanted = run.left.popleft()
            if self._fetching.get(wanted.key) is wanted.data:
                del self._fetching[wanted.key]
            if isinstance(error, asyncio.CancelledError):
                wanted.data.cancel()
            else:
                wanted.data.set_exception(error)
                wanted.data.exception()  # often no reader waits for what is fetched ahead

    def _land(self, run: _Run, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self._fail(run, asyncio.CancelledError())  # it may have been cancelled before it began
        else:
            task.exception()  # who waits has got it
