"""The `slow-local` tier: the `local` plugin whose every read waits first, for as many ms as the file `latency-ms` says.

The file is in the tier's directory and is read each time, so that it can change while brokers run.
"""

from __future__ import annotations

import asyncio

from tierfetch.plugins.local import LocalConfig, LocalTieredStorage
from tierfetch.remote import IndexType
from tierfetch.remote.core import RemoteLogSegmentMetadata


class SlowLocalTieredStorage(LocalTieredStorage):
    """See the module."""

    def __init__(self, config: LocalConfig) -> None:
        super().__init__(config)
        self._latency = config.dir / "latency-ms"

    async def _wait(self) -> None:
        await asyncio.sleep(int(self._latency.read_text() or "0") / 1000)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        await self._wait()
        return await super().fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        await self._wait()
        return await super().fetch_index(metadata, index_type)

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        await self._wait()
        return await super().log_segment_size(metadata)
