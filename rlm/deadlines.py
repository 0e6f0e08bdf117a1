"""Deadlines around everything remote: a plugin that hangs costs one call, never a partition.

Plugins keep deadlines of their own; these here are the watchdog behind them. What runs out of time ends as the error
that its caller retries anyway. An index that is too large for its segment is not passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from ..protocol import TopicIdPartition
from ..remote import (
    IndexType,
    LogSegmentData,
    RemoteLogMetadataError,
    RemoteLogMetadataManager,
    RemoteObject,
    RemoteStorageManager,
    RemoteStorageTimeoutError,
    StreamsSegments,
    check_index_size,
)
from ..remote.core import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from .checked_source import copy_checked
from .core.view import CopyDeadline


@asynccontextmanager
async def _storage_deadline(what: str, timeout_ms: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            yield
    except TimeoutError as error:
        raise RemoteStorageTimeoutError(f"{what} did not end within {timeout_ms} ms and was abandoned") from error


class WatchedStorage:
    """A `RemoteStorageManager` each of whose calls ends in time, by RemoteStorageTimeoutError."""

    def __init__(self, storage: RemoteStorageManager, *, copy_deadline: CopyDeadline, request_timeout_ms: int) -> None:
        self._storage = storage
        self._copy_deadline = copy_deadline
        self._timeout_ms = request_timeout_ms

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        async with self._upload_deadline(metadata, data):
            return await self._storage.copy_log_segment_data(metadata, data)

    async def copy_checked(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        async with self._upload_deadline(metadata, data):
            return await copy_checked(self._storage, metadata, data)

    def _upload_deadline(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> AbstractAsyncContextManager[None]:
        total_bytes = data.log.size + sum(source.size for source in data.indexes.values())
        timeout_ms = self._copy_deadline.of_size_ms(total_bytes)
        return _storage_deadline(f"upload of {metadata.segment_id} ({total_bytes} bytes)", timeout_ms)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        async with _storage_deadline(f"fetch of {metadata.segment_id} [{start}, {end})", self._timeout_ms):
            return await self._storage.fetch_log_segment(metadata, start, end)

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        async with _storage_deadline(f"fetch of {index_type.value} of {metadata.segment_id}", self._timeout_ms):
            data = await self._storage.fetch_index(metadata, index_type)
        check_index_size(metadata, index_type, len(data))
        return data

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        async with _storage_deadline(f"size of {metadata.segment_id}", self._timeout_ms):
            return await self._storage.log_segment_size(metadata)

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        async with _storage_deadline(f"deletion of {metadata.segment_id}", self._timeout_ms):
            await self._storage.delete_log_segment_data(metadata)

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        listing = self._storage.list_objects(partition)
        while True:
            async with _storage_deadline(f"listing of {partition}", self._timeout_ms):
                try:
                    listed = await anext(listing)
                except StopAsyncIteration:
                    return
            yield listed

    async def close(self) -> None:
        await self._storage.close()


class WatchedStreams(WatchedStorage):
    """A `WatchedStorage` over one that streams: each piece comes in time, too."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        streams: StreamsSegments,
        *,
        copy_deadline: CopyDeadline,
        request_timeout_ms: int,
    ) -> None:
        super().__init__(storage, copy_deadline=copy_deadline, request_timeout_ms=request_timeout_ms)
        self._streams = streams

    async def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int, piece_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        what = f"fetch of {metadata.segment_id} [{start}, {end}) in pieces"
        async with aclosing(self._streams.stream_log_segment(metadata, start, end, piece_bytes)) as pieces:
            while True:
                async with _storage_deadline(what, self._timeout_ms):
                    try:
                        piece = await anext(pieces)
                    except StopAsyncIteration:
                        return
                yield piece


def watched(storage: RemoteStorageManager, *, copy_deadline: CopyDeadline, request_timeout_ms: int) -> WatchedStorage:
    """Return the storage with deadlines; it streams if the storage does."""
    if isinstance(storage, StreamsSegments):
        return WatchedStreams(storage, storage, copy_deadline=copy_deadline, request_timeout_ms=request_timeout_ms)
    return WatchedStorage(storage, copy_deadline=copy_deadline, request_timeout_ms=request_timeout_ms)


class MetadataWriter:
    """Writes events to the remote log metadata, as one broker, each within a deadline.

    RemoteLogMetadataError if that ran out or the write failed (the event may be there all the same: look at the
    ledger); IllegalTransitionError if the ledger refuses the event.
    """

    def __init__(
        self,
        metadata: RemoteLogMetadataManager,
        *,
        broker_id: int,
        timeout_ms: int,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._metadata = metadata
        self._broker_id = broker_id
        self._timeout_ms = timeout_ms
        self._wall_clock_ms = wall_clock_ms

    def is_given_up(self, segment_id: RemoteLogSegmentId) -> bool:
        """Whether the ledger says that the segment is being deleted, or does not name it. Not while it is read again:
        it may end with a segment that is finished.
        """
        ledger = self._metadata.ledger(segment_id.topic_id_partition)
        if ledger is None:
            return False
        segment = ledger.get(segment_id)
        return segment is None or segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED

    async def start_copy(self, segment: RemoteLogSegmentMetadata) -> None:
        assert segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED, segment
        async with self._deadline(f"start of the copy {segment.segment_id}"):
            await self._metadata.add_segment(segment)

    async def confirm_started(self, segment: RemoteLogSegmentMetadata) -> None:
        async with self._deadline(f"COPY_SEGMENT_STARTED of {segment.segment_id}, once more"):
            await self._metadata.confirm_started(segment)

    async def update(
        self, segment_id: RemoteLogSegmentId, state: RemoteLogSegmentState, custom_metadata: bytes | None = None
    ) -> None:
        event = RemoteLogSegmentMetadataUpdate(
            segment_id, state, self._wall_clock_ms(), self._broker_id, custom_metadata
        )
        async with self._deadline(f"{state.name} of {segment_id}"):
            await self._metadata.update_segment(event)

    async def update_partition(self, partition: TopicIdPartition, state: RemotePartitionDeleteState) -> None:
        event = RemotePartitionDeleteMetadata(partition, state, self._wall_clock_ms(), self._broker_id)
        async with self._deadline(f"{state.name} of {partition}"):
            await self._metadata.put_partition_delete(event)

    @asynccontextmanager
    async def _deadline(self, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                yield
        except TimeoutError as error:
            raise RemoteLogMetadataError(
                f"remote log metadata: {what} was not committed within {self._timeout_ms} ms"
            ) from error
