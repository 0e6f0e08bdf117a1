"""Bytes of remote segments' `.log` objects: fetched in aligned chunks, ahead of those who read on, kept for a while.

| rule                                                        | why                                              |
|-------------------------------------------------------------|--------------------------------------------------|
| a chunk begins at a multiple of `chunk_bytes`               | consumers, or one that reads on, share requests  |
| one fetch of a chunk at a time, however many ask            | a burst of consumers behind the same segment     |
| a caller that is cancelled or out of time does not end it   | the next attempt finds the bytes                 |
| chunks can be fetched before anybody asks                   | the tier's latency is paid while others are sent |
| those of a guess only where all of them have free places,   | what is under way or waits must not wait for it  |
| and `rate_limit` has as many bytes left                     |                                                  |
| kept chunks and those under way hold `cache_bytes` at most  | many readers must not fill the memory            |
| at most `fetches_max` fetches at a time                     | nor the tier's connections                       |
| a fetch waits for `rate_limit` before it takes such a place | consumers must not starve copies of bandwidth    |
| nothing is kept when nobody has read for a while            | an idle broker needs little memory               |
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from ..remote import RemoteStorageCorruptError, RemoteStorageManager
from ..remote.core import ByteLru, RemoteLogSegmentId, RemoteLogSegmentMetadata
from .core.guess import ByteRange
from .metrics import RemoteLogCounters
from .rate_limit import RateLimit

IDLE_S: Final = 30.0

_Key = tuple[RemoteLogSegmentId, int]


class RemoteChunks:
    """See the module's docstring. `storage` keeps deadlines. `close` it before its storage."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        counters: RemoteLogCounters,
        rate_limit: RateLimit,
        *,
        chunk_bytes: int,
        cache_bytes: int,
        fetches_max: int,
        ahead_chunks: int,
        idle_s: float = IDLE_S,
    ) -> None:
        assert 0 < chunk_bytes <= cache_bytes, (chunk_bytes, cache_bytes)
        self._storage = storage
        self._counters = counters
        self._rate_limit = rate_limit
        self._chunk_bytes = chunk_bytes
        self._cache_bytes = cache_bytes
        self._ahead_chunks = ahead_chunks
        self._fetches_max = min(fetches_max, cache_bytes // chunk_bytes)
        self._slots = asyncio.Semaphore(self._fetches_max)
        self._kept: ByteLru[_Key, bytes] = ByteLru(cache_bytes)
        self._fetching: dict[_Key, asyncio.Task[bytes]] = {}
        self._fetching_bytes = 0
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._idle_s = idle_s
        self._read_at_s = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def chunk_bytes(self) -> int:
        return self._chunk_bytes

    @property
    def size_bytes(self) -> int:
        """The size of the chunks kept and under way."""
        return self._kept.size_bytes + self._fetching_bytes

    async def close(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self, segment: RemoteLogSegmentMetadata, start: int, end: int) -> memoryview:
        """Bytes [start, end) of the segment's log, cut at its end. RemoteStorageError if the tier fails."""
        end = min(end, segment.segment_size_in_bytes)
        if start >= end:
            return memoryview(b"")
        self._read_at_s = asyncio.get_running_loop().time()
        indexes = self._indexes(start, end)
        first, last = indexes[0], indexes[-1]
        wanted = [self._chunk(segment, index) for index in indexes]
        chunks = [each if isinstance(each, bytes) else await asyncio.shield(each) for each in wanted]
        views = [memoryview(chunk) for chunk in chunks]
        views[-1] = views[-1][: end - last * self._chunk_bytes]
        views[0] = views[0][start - first * self._chunk_bytes :]
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def begin(self, segment: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        """Begin to fetch bytes [start, end), which are about to be read: as much as there are free places for. More
        could push the first of them out of the memory before they are read.
        """
        end = min(end, segment.segment_size_in_bytes)
        for index in self._indexes(start, end)[: self._free_places] if start < end else ():
            self._chunk(segment, index)

    def guess(self, segment: RemoteLogSegmentMetadata, probable: ByteRange) -> list[ByteRange]:
        """Begin to fetch the chunks of what is probably about to be read; return those that this has begun."""
        missing = [
            index
            for index in self._indexes(probable.start, probable.end)
            if (segment.segment_id, index) not in self._fetching
            and self._kept.peek((segment.segment_id, index)) is None
        ]
        begun = [self._range(segment, index) for index in missing]
        size = sum(chunk.size for chunk in begun)
        if len(missing) > self._free_places or not self._rate_limit.has(size):
            return []
        for index in missing:
            self._chunk(segment, index)
        self._counters.guessed_bytes += size
        return begun

    def are_of(self, probable: ByteRange, position: int) -> bool:
        """Return whether the chunks of what is probably about to be read hold the position."""
        return position // self._chunk_bytes in self._indexes(probable.start, probable.end)

    def judge(self, begun: Iterable[ByteRange], start: int, end: int) -> None:
        """Count what a guess has begun for nothing: bytes [start, end) are what was to be read."""
        self._counters.wrongly_guessed_bytes += sum(chunk.size for chunk in begun if not chunk.touches(start, end))

    def fetch_ahead(self, segment: RemoteLogSegmentMetadata, position: int) -> bool:
        """Begin to fetch the chunks behind the one that holds `position`; True if that reaches beyond the segment."""
        first = position // self._chunk_bytes + 1
        for index in range(first, first + self._ahead_chunks):
            if index * self._chunk_bytes >= segment.segment_size_in_bytes:
                return True
            self._chunk(segment, index, is_ahead=True)
        return False

    def fetch_first(self, segment: RemoteLogSegmentMetadata) -> None:
        """Begin to fetch the segment's first chunk."""
        self._chunk(segment, 0, is_ahead=True)

    def drop(self, segment: RemoteLogSegmentMetadata) -> None:
        """Forget what is kept of a segment; who waits for a chunk of it gets that still."""
        for index in range(-(-segment.segment_size_in_bytes // self._chunk_bytes)):
            self._kept.pop((segment.segment_id, index))
            self._fetching.pop((segment.segment_id, index), None)

    def _chunk(
        self, segment: RemoteLogSegmentMetadata, index: int, *, is_ahead: bool = False
    ) -> bytes | asyncio.Task[bytes]:
        key = (segment.segment_id, index)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._fetch(segment, index, is_ahead=is_ahead))
            self._tasks.add(task)
            task.add_done_callback(self._land)
        return task

    @property
    def _free_places(self) -> int:
        """The number of fetches that would wait for no other, one of a chunk that was dropped included."""
        return max(0, self._fetches_max - len(self._tasks))

    def _indexes(self, start: int, end: int) -> range:
        """Return the numbers of the chunks that hold bytes [start, end)."""
        return range(start // self._chunk_bytes, -(-end // self._chunk_bytes))

    def _range(self, segment: RemoteLogSegmentMetadata, index: int) -> ByteRange:
        start = index * self._chunk_bytes
        return ByteRange(start, min(start + self._chunk_bytes, segment.segment_size_in_bytes))

    async def _fetch(self, segment: RemoteLogSegmentMetadata, index: int, *, is_ahead: bool) -> bytes:
        key = (segment.segment_id, index)
        chunk = self._range(segment, index)
        size = chunk.size
        try:
            await self._rate_limit.acquire(size)
            async with self._slots:
                self._fetching_bytes += size
                self._kept.make_room(self._fetching_bytes)
                try:
                    data = await self._fetch_checked(segment, chunk.start, chunk.end)
                finally:
                    self._fetching_bytes -= size
            if self._is_wanted(key):
                self._kept.add(key, data, size)
                self._watch_idleness()
        finally:
            if self._is_wanted(key):
                del self._fetching[key]
        self._counters.fetched_bytes += size
        self._counters.fetched_ahead_bytes += size if is_ahead else 0
        return data

    async def _fetch_checked(self, segment: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        self._counters.fetch_requests += 1
        try:
            data = await self._storage.fetch_log_segment(segment, start, end)
            if len(data) != end - start:
                raise RemoteStorageCorruptError(
                    f"{segment.segment_id}: the tier returned {len(data)} bytes for [{start}, {end}) of "
                    f"{segment.segment_size_in_bytes}"
                )
        except BaseException:
            self._counters.fetch_errors += 1
            raise
        return data

    def _watch_idleness(self) -> None:
        if self._idle_timer is None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_at(max(self._read_at_s, loop.time()) + self._idle_s, self._end_idleness)

    def _end_idleness(self) -> None:
        self._idle_timer = None
        if asyncio.get_running_loop().time() - self._read_at_s >= self._idle_s:
            self._kept = ByteLru(self._cache_bytes)
        elif len(self._kept):
            self._watch_idleness()

    def _is_wanted(self, key: _Key) -> bool:
        """Whether the chunk has not been dropped since this fetch began."""
        return self._fetching.get(key) is asyncio.current_task()

    def _land(self, task: asyncio.Task[bytes]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may have waited for what was fetched ahead
