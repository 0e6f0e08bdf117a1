"""The layout of Kafka's `LocalTieredStorage`, which the plugins here write: an object for the log, one for each index.

The plugin itself is asked. What no name states (ends, epochs, timestamps) is read from the indexes and the end of the
log, once for each segment: `remote.survey`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from ...protocol import TopicIdPartition
from ...remote import IndexType, ListsPartitions, RemoteStorageError, RemoteStorageManager, Sighting, sight_segments
from ...remote.core import RemoteLogSegmentMetadata


class KafkaLayout:
    """A `SegmentStore` over any storage plugin that lists its partitions."""

    def __init__(self, storage: RemoteStorageManager) -> None:
        self._storage = storage

    async def partitions(self, wants: Callable[[str], bool]) -> list[TopicIdPartition]:
        if not isinstance(self._storage, ListsPartitions):
            raise RemoteStorageError(f"{type(self._storage).__name__} cannot list its partitions; use another plugin")
        return sorted([found async for found in self._storage.list_partitions() if wants(found.topic)])

    async def sight(self, partition: TopicIdPartition, known: Collection[UUID] = (), start_offset: int = 0) -> Sighting:
        return await sight_segments(self._storage, partition, known, start_offset)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        return await self._storage.fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        return await self._storage.fetch_index(metadata, index_type)

    async def close(self) -> None:
        await self._storage.close()
