"""The `slow-local` tier: the `local` plugin, slow and narrow as two files in its directory say.

    latency-ms     every read waits first for so many ms
    bytes-per-s    what all brokers together get through, to the tier and from it; 0: no limit

Both are read each time: they can change while brokers run. What is narrow is shared by turns: a broker that has bytes
to pass takes the next turn for a piece of them, in the file `turn`, which says until when the last one lasts; so a
small object waits for a piece of each large one, not for all of it. The clock is that of the machine.
"""

from __future__ import annotations

import asyncio
import fcntl
import time

from tierfetch.plugins.local import LocalConfig, LocalTieredStorage
from tierfetch.remote import IndexType, LogSegmentData
from tierfetch.remote.core import RemoteLogSegmentMetadata

PIECE_BYTES = 64 << 10
LATE_S = 0.02
"""Who wakes up late makes up for so much."""


class SlowLocalTieredStorage(LocalTieredStorage):
    """See the module."""

    def __init__(self, config: LocalConfig) -> None:
        super().__init__(config)
        self._latency = config.dir / "latency-ms"
        self._rate = config.dir / "bytes-per-s"
        self._turn = config.dir / "turn"

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        await self._pass(data.log.size + sum(each.size for each in data.indexes.values()))
        return await super().copy_log_segment_data(metadata, data)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        await self._wait()
        content = await super().fetch_log_segment(metadata, start, end)
        await self._pass(len(content))
        return content

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        await self._wait()
        content = await super().fetch_index(metadata, index_type)
        await self._pass(len(content))
        return content

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        await self._wait()
        return await super().log_segment_size(metadata)

    async def _wait(self) -> None:
        await asyncio.sleep(int(self._latency.read_text() or "0") / 1000)

    async def _pass(self, count: int) -> None:
        """Until so many bytes are through."""
        rate = int(self._rate.read_text() or "0")
        while rate and count > 0:
            piece = min(count, PIECE_BYTES)
            await asyncio.sleep(self._turn_s(piece / rate))
            count -= piece

    def _turn_s(self, takes_s: float) -> float:
        """Take a turn that lasts so long; returns in how many seconds it is over."""
        with self._turn.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = time.monotonic()
            file.seek(0)
            until = max(now - LATE_S, float(file.read() or "0")) + takes_s
            file.truncate(0)
            file.write(repr(until))
        return max(0.0, until - now)
