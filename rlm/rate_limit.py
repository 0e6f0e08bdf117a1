"""`remote.log.manager.copy.max.bytes.per.second` and `.fetch.max.bytes.per.second`: waits that many tasks share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from ..remote import IndexType, ReadsSegments
from ..remote.core import RemoteLogSegmentMetadata
from .core.quota import TokenBucket

Rate = int | Callable[[], int]
"""Bytes a second, or what returns them: another number later."""
LOOK_S: Final = 1.0
"""How often a long wait looks for another rate."""


class RateLimit:
    """Lets bytes through at a rate that all who ask share. Waits that are under way follow a rate that changes."""

    def __init__(self, bytes_per_second: Rate) -> None:
        self._rate = bytes_per_second if callable(bytes_per_second) else partial(int, bytes_per_second)
        self._bucket: TokenBucket | None = None
        self._bucket_rate = 0

    async def acquire(self, count: int) -> None:
        """Wait until `count` bytes may be moved."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        pause_s = self._bucket_at(now_s).take(count, now_s)
        while pause_s > LOOK_S:
            rate = self._bucket_rate
            await asyncio.sleep(LOOK_S)
            self._bucket_at(loop.time())
            pause_s = (pause_s - LOOK_S) * rate / self._bucket_rate
        await asyncio.sleep(pause_s)

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
        rate, bucket = self._rate(), self._bucket
        if bucket is None:
            bucket = self._bucket = TokenBucket(rate, now_s)
        elif rate != self._bucket_rate:
            bucket.change(rate, now_s)
        self._bucket_rate = rate
        return bucket


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
