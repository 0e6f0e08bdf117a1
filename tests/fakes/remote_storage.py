"""A `RemoteStorageManager` in memory that fails, hangs and lies where a test says.

    tier = MemoryRemoteStorage(FailNth(3))          # the third call raises RemoteStorageError
    tier.hang_on.add("fetch_index")                 # that call waits until it is cancelled, or for `deadline_s`
    tier.tamper = lambda operation, data: data[:-1] # short bytes; or wrong ones
    tier.objects.pop((segment_id, IndexType.PRODUCER_SNAPSHOT))   # a missing object

`calls` lists what was asked, in order, the failed ones too. Objects are keyed by (segment id, index type), the `.log`
by (segment id, None). Faults strike before a call has any effect; `fail_after_effect` lets the effect happen first, as
when an answer is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import (
    IndexType,
    LogSegmentData,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    check_index_size,
)
from tierfetch.remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata
from tierfetch.tests.fakes.faults import FailNth

ObjectKey = tuple[RemoteLogSegmentId, IndexType | None]


class MemoryRemoteStorage:
    def __init__(self, faults: FailNth | None = None, *, deadline_s: float | None = None) -> None:
        self.faults = faults
        self.deadline_s = deadline_s
        self.fail_after_effect = False
        self.hang_on: set[str] = set()
        self.tamper: Callable[[str, bytes], bytes] = lambda operation, data: data
        self.objects: dict[ObjectKey, bytes] = {}
        self.calls: list[tuple[str, RemoteLogSegmentId]] = []
        self.on_call: Callable[[str, RemoteLogSegmentId], None] = lambda operation, segment_id: None

    def put(self, metadata: RemoteLogSegmentMetadata, log: bytes, indexes: Mapping[IndexType, bytes]) -> None:
        """Store a segment without a call."""
        self.objects[metadata.segment_id, None] = log
        for index_type, data in indexes.items():
            self.objects[metadata.segment_id, index_type] = data

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        await self._enter("copy_log_segment_data", metadata, before_effect=True)
        log = await data.log.read(0, data.log.size)
        indexes = {index_type: await source.read(0, source.size) for index_type, source in data.indexes.items()}
        self.put(metadata, log, indexes)
        await self._enter("copy_log_segment_data", metadata, before_effect=False)
        return None

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        await self._enter("fetch_log_segment", metadata)
        return self.tamper("fetch_log_segment", self._object(metadata, None)[start:end])

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        operation = f"fetch_index {index_type.value}"
        await self._enter(operation, metadata)
        data = self.tamper(operation, self._object(metadata, index_type))
        check_index_size(metadata, index_type, len(data))
        return data

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        await self._enter("log_segment_size", metadata)
        log = self.objects.get((metadata.segment_id, None))
        return None if log is None else len(self.tamper("log_segment_size", log))

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        await self._enter("delete_log_segment_data", metadata, before_effect=True)
        for key in [key for key in self.objects if key[0] == metadata.segment_id]:
            del self.objects[key]
        await self._enter("delete_log_segment_data", metadata, before_effect=False)

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        for (segment_id, kind), data in list(self.objects.items()):
            if segment_id.topic_id_partition == partition:
                name = "log" if kind is None else kind.value
                yield RemoteObject(f"{segment_id}.{name}", len(data), segment_id, kind, kind is None)

    async def close(self) -> None:
        """Nothing is held."""

    def _object(self, metadata: RemoteLogSegmentMetadata, kind: IndexType | None) -> bytes:
        data = self.objects.get((metadata.segment_id, kind))
        if data is None:
            name = "log" if kind is None else kind.value
            raise RemoteResourceNotFoundError(f"no {name} of segment {metadata.segment_id}")
        return data

    async def _enter(
        self, operation: str, metadata: RemoteLogSegmentMetadata, *, before_effect: bool | None = None
    ) -> None:
        """Count the call and let its fault strike, if this is the side of its effect to do so."""
        if before_effect is not None and before_effect == self.fail_after_effect:
            return
        self.calls.append((operation, metadata.segment_id))
        self.on_call(operation, metadata.segment_id)
        await asyncio.sleep(0)
        if operation in self.hang_on or operation.split()[0] in self.hang_on:
            await self._hang(operation)
        if self.faults is not None and self.faults.hits(operation, is_read=False):
            raise RemoteStorageError(f"{operation} of {metadata.segment_id} (injected at call {self.faults.calls})")

    async def _hang(self, operation: str) -> None:
        try:
            async with asyncio.timeout(self.deadline_s):
                await asyncio.Event().wait()
        except TimeoutError as error:
            raise RemoteStorageTimeoutError(f"{operation} did not end within {self.deadline_s} s") from error


class MemoryStreams(MemoryRemoteStorage):
    """A `MemoryRemoteStorage` that streams. `before_piece` is called with the position of each piece: it may take its
    time, or raise. `tamper` sees each piece.
    """

    def __init__(self, faults: FailNth | None = None, *, deadline_s: float | None = None) -> None:
        super().__init__(faults, deadline_s=deadline_s)
        self.before_piece: Callable[[int], Awaitable[object]] = lambda _: asyncio.sleep(0)

    async def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int, piece_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        await self._enter("stream_log_segment", metadata)
        data = self._object(metadata, None)
        end = min(end, metadata.segment_size_in_bytes)
        for position in range(start, end, piece_bytes):
            await self.before_piece(position)
            piece = self.tamper("stream_log_segment", data[position : min(end, position + piece_bytes)])
            if len(piece) < min(piece_bytes, end - position):
                raise RemoteStorageCorruptError(f"{metadata.segment_id}: {len(piece)} bytes at {position}")
            yield piece
