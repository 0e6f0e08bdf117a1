"""`remote.log.manager.copy.max.bytes.per.second` and `.fetch.max.bytes.per.second`: waits that many tasks share."""

from __future__ import annotations

import asyncio

from ..remote import IndexType, ReadsSegments
from ..remote.core import RemoteLogSegmentMetadata
from .core.quota import TokenBucket


class RateLimit:
    """Lets bytes through at a rate that all who ask share."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._bucket: TokenBucket | None = None

    async def acquire(self, count: int) -> None:
        """Wait until `count` bytes may be moved."""
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(self._bucket_at(now_s).take(count, now_s))

    def has(self, count: int) -> bool:
        """Return whether `count` bytes may be moved now without making the next caller wait."""
        now_s = asyncio.get_running_loop().time()
        return self._bucket_at(now_s).has(count, now_s)

    def take_at_once(self, count: int) -> bool:
        """Move `count` bytes if that makes no caller wait; return whether it does."""
        if not self.has(count):
            return False
        now_s = asyncio.get_running_loop().time()
        self._bucket_at(now_s).take(count, now_s)
        return True

    def _bucket_at(self, now_s: float) -> TokenBucket:
        if self._bucket is None:
            self._bucket = TokenBucket(self._bytes_per_second, now_s)
        return self._bucket


class LimitedReads:
    """The tier, with its logs at a rate; indexes are small, and pass at once."""

    def __init__(self, storage: ReadsSegments, limit: RateLimit) -> None:
        self._storage = storage
        self._limit = limit

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        await self._limit.acquire(end - start)
        return await self._storage.fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return await self._storage.fetch_index(metadata, index_type)
