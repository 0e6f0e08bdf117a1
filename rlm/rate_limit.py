"""`remote.log.manager.copy.max.bytes.per.second` and `.fetch.max.bytes.per.second`: waits that many tasks share."""

from __future__ import annotations

import asyncio

from .quota import TokenBucket


class RateLimit:
    """Lets bytes through at a rate that all who ask share."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._bucket: TokenBucket | None = None

    async def acquire(self, count: int) -> None:
        """Wait until `count` bytes may be moved."""
        now_s = asyncio.get_running_loop().time()
        if self._bucket is None:
            self._bucket = TokenBucket(self._bytes_per_second, now_s)
        await asyncio.sleep(self._bucket.take(count, now_s))
