"""A tier that can be slow or away: around any plugin, for the cluster of `tierfetch.testing`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition
from ...remote import IndexType, LogSegmentData, RemoteObject, RemoteStorageError, RemoteStorageManager
from ...remote.core import RemoteLogSegmentMetadata


@dataclass(slots=True)
class TierWeather:
    """What every call to the tier meets. It may change at any time, from any thread."""

    delay_s: float = 0.0
    is_away: bool = False

    async def passed(self) -> None:
        """Wait as long as the tier is slow; RemoteStorageError while it is away."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.is_away:
            raise RemoteStorageError("the tier is away: fail_tier was called")


class FaultyStorage:
    """The calls of the port, and no optional ones, in the weather."""

    def __init__(self, storage: RemoteStorageManager, weather: TierWeather) -> None:
        self._storage = storage
        self._weather = weather

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        await self._weather.passed()
        return await self._storage.copy_log_segment_data(metadata, data)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        await self._weather.passed()
        return await self._storage.fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        await self._weather.passed()
        return await self._storage.fetch_index(metadata, index_type)

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        await self._weather.passed()
        return await self._storage.log_segment_size(metadata)

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._weather.passed()
        await self._storage.delete_log_segment_data(metadata)

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        await self._weather.passed()
        async for listed in self._storage.list_objects(partition):
            yield listed

    async def close(self) -> None:
        await self._storage.close()
