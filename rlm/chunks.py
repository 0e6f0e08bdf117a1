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

Ahead of a consumer that reads on, several chunks are one fetch where the storage can stream (`StreamsSegments`), for a
request has a cost of its own: `core/read_ahead.py` says how many, `runs.py` fetches them.

    chunk   fetching (`runs.py`) -> kept -> evicted (`core/expected.py`), dropped, or idle
                                 -> failed: those who wait get the error; the next read fetches it again
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from ..remote import RemoteStorageManager
from ..remote.core import ByteLru, RemoteLogSegmentMetadata
from .core.expected import ExpectedChunks
from .core.guess import ByteRange
from .core.read_ahead import next_run
from .metrics import RemoteLogCounters
from .rate_limit import RateLimit
from .runs import ChunkKey, Runs

IDLE_S: Final = 30.0

Following = Callable[[], RemoteLogSegmentMetadata | None]
"""Returns the segment that a consumer reads after the one it is in; None if the tier has none."""
_Place = tuple[RemoteLogSegmentMetadata, int]


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
        self._counters = counters
        self._rate_limit = rate_limit
        self._chunk_bytes = chunk_bytes
        self._cache_bytes = cache_bytes
        self._ahead_chunks = ahead_chunks
        memory_chunks = cache_bytes // chunk_bytes
        self._read_bytes_max = max(1, memory_chunks // 2) * chunk_bytes
        self._runs = Runs(
            storage,
            counters,
            rate_limit,
            chunk_bytes=chunk_bytes,
            memory_chunks=memory_chunks,
            places=min(fetches_max, memory_chunks),
            make_room=self._make_room,
            keep=self._keep,
        )
        self._kept: ByteLru[ChunkKey, bytes] = ByteLru(cache_bytes)
        self._expected: ExpectedChunks[ChunkKey] = ExpectedChunks()
        self._idle_s = idle_s
        self._read_at_s = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def chunk_bytes(self) -> int:
        return self._chunk_bytes

    @property
    def read_bytes_max(self) -> int:
        """What one read may have: half of the memory. More could push its own first chunks out before the last have
        come: where the tier takes longer than a read may, the next attempt would begin from nothing, for ever.
        """
        return self._read_bytes_max

    @property
    def size_bytes(self) -> int:
        """The size of the chunks kept and under way."""
        return self._kept.size_bytes + self._runs.size_bytes

    async def close(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        await self._runs.close()

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
        for index in self._indexes(start, end)[: self._runs.free_places] if start < end else ():
            self._chunk(segment, index)

    def guess(self, segment: RemoteLogSegmentMetadata, probable: ByteRange) -> list[ByteRange]:
        """Begin to fetch the chunks of what is probably about to be read; return those that this has begun."""
        missing = [
            index
            for index in self._indexes(probable.start, probable.end)
            if (segment.segment_id, index) not in self._runs and self._kept.peek((segment.segment_id, index)) is None
        ]
        begun = [self._range(segment, index) for index in missing]
        size = sum(chunk.size for chunk in begun)
        if len(missing) > self._runs.free_places or not self._rate_limit.has(size):
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

    def fetch_ahead(
        self, segment: RemoteLogSegmentMetadata, start: int, end: int, read_bytes: int, following: Following
    ) -> None:
        """Begin to fetch what a consumer reads next that has read bytes [start, end), and `read_bytes` in sequence."""
        is_within = start // self._chunk_bytes == end // self._chunk_bytes and end < segment.segment_size_in_bytes
        if is_within and read_bytes > 2 * self._chunk_bytes:
            return  # it is where it was when this was looked at last
        self._note_read(segment, start, end)
        run = self._runs.longest(read_bytes)
        places = deque(islice(self._places_after(segment, end - 1, following), self._ahead_chunks * run))
        there = 0
        while places:
            if self._is_there(*places[0]):
                there += 1
                self._expect(*places.popleft())
                continue
            count = next_run(there, min(run, self._runs.longest(read_bytes)), self._room, self._ahead_chunks)
            if not count:
                return
            segment, missing = self._first_missing(places, count)
            begun = self._runs.begin_ahead(segment, missing)
            if begun < len(missing):
                run = 1

    def _note_read(self, segment: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        """Take up what a consumer has passed, and in which chunk it is."""
        for index in self._indexes(start, end):
            if self._range(segment, index).end <= end:
                self._expected.passed((segment.segment_id, index))
        if end < segment.segment_size_in_bytes:
            self._expect(segment, end // self._chunk_bytes)

    def _expect(self, segment: RemoteLogSegmentMetadata, index: int) -> None:
        now_s = asyncio.get_running_loop().time()
        self._expected.expect((segment.segment_id, index), self._range(segment, index).size, now_s)

    def note_damage(self) -> None:
        """Count a read that found something wrong in what came of the tier."""
        self._counters.damaged_reads += 1

    def drop(self, segment: RemoteLogSegmentMetadata) -> None:
        """Forget what is kept of a segment; who waits for a chunk of it gets that still."""
        for index in range(-(-segment.segment_size_in_bytes // self._chunk_bytes)):
            self._kept.pop((segment.segment_id, index))
            self._runs.forget((segment.segment_id, index))

    def _chunk(self, segment: RemoteLogSegmentMetadata, index: int) -> bytes | asyncio.Future[bytes]:
        """Return a chunk that is needed now: it, or what will have it."""
        key = (segment.segment_id, index)
        self._expected.read(key)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        return self._runs.get(key) or self._runs.begin(segment, index)

    def _places_after(self, segment: RemoteLogSegmentMetadata, position: int, following: Following) -> Iterator[_Place]:
        """Yield the chunks after the one that holds `position`, up to the end of the following segment."""
        for index in self._indexes(0, segment.segment_size_in_bytes)[position // self._chunk_bytes + 1 :]:
            yield segment, index
        after = following()
        if after is not None:
            for index in self._indexes(0, after.segment_size_in_bytes):
                yield after, index

    def _is_there(self, segment: RemoteLogSegmentMetadata, index: int) -> bool:
        """Return whether a chunk is under way or kept; if so, it stays a while longer."""
        key = (segment.segment_id, index)
        return key in self._runs or self._kept.get(key) is not None

    @property
    def _room(self) -> int:
        """The number of chunks that there is memory for, beside those that consumers are about to read."""
        now_s = asyncio.get_running_loop().time()
        expected_bytes = self._expected.size_bytes(
            now_s, lambda key: key in self._runs or self._kept.peek(key) is not None
        )
        return (self._cache_bytes - expected_bytes) // self._chunk_bytes

    def _first_missing(self, places: Iterable[_Place], count: int) -> tuple[RemoteLogSegmentMetadata, list[int]]:
        """Return the chunks of one segment that are missing, from the first of `places` on; at most `count`."""
        (segment, first), *rest = islice(places, count)
        missing = [first]
        for place in rest:
            if place[0] is not segment or self._is_there(*place):
                break
            missing.append(place[1])
        return segment, missing

    def _indexes(self, start: int, end: int) -> range:
        """Return the numbers of the chunks that hold bytes [start, end)."""
        return range(start // self._chunk_bytes, -(-end // self._chunk_bytes))

    def _range(self, segment: RemoteLogSegmentMetadata, index: int) -> ByteRange:
        start = index * self._chunk_bytes
        return ByteRange(start, min(start + self._chunk_bytes, segment.segment_size_in_bytes))

    def _make_room(self, size: int) -> None:
        """Let so many bytes fit: what consumers have passed goes first, then what was used least lately."""
        while self._kept.size_bytes + size > self._cache_bytes and (key := self._expected.pop_passed()) is not None:
            self._kept.pop(key)
        self._kept.make_room(size)

    def _keep(self, key: ChunkKey, data: bytes) -> None:
        self._kept.add(key, data, len(data))
        self._watch_idleness()

    def _watch_idleness(self) -> None:
        if self._idle_timer is None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_at(max(self._read_at_s, loop.time()) + self._idle_s, self._end_idleness)

    def _end_idleness(self) -> None:
        self._idle_timer = None
        if asyncio.get_running_loop().time() - self._read_at_s >= self._idle_s:
            self._kept, self._expected = ByteLru(self._cache_bytes), ExpectedChunks()
        elif len(self._kept):
            self._watch_idleness()
