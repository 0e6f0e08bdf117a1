"""A `RemoteStorageManager` over anything that keeps named objects: the part that all plugins share.

    copy     indexes first, `.log` last: a segment whose `.log` is there is whole
    fetch    ranges are cut at the size the metadata states; fewer bytes than that is corruption, said at once
    delete   `.log` first, then the rest, then what an abandoned attempt left; absent objects are no error

Every call has a deadline: `request_timeout_ms`, and for a copy the time its size takes at `copy_min_bytes_per_second`
on top; cleaning up after one that failed gets `CLEAN_UP_S_MAX` more. A plugin is an `ObjectStore` (eight calls) and a
configuration. One whose requests cost much beside their bytes is a `StreamingObjectStore`: a consumer that reads on
gets several MiB by one of them, in pieces, each of which has the deadline of a fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic import Field

from ..plugin_options import PluginConfig
from ..protocol import TopicIdPartition
from ..remote import (
    IndexType,
    LogSegmentData,
    ObjectRange,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    SegmentSource,
    check_index_size,
    index_size_max,
)
from ..remote.core import RemoteLogSegmentMetadata
from .layout import (
    describe_object,
    has_more_parts,
    partition_directory,
    partition_of,
    segment_key,
    segment_keys,
)

CLEAN_UP_S_MAX: Final = 5.0


CONTAINER_SCHEMES: Final = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""`abfss://container@account.dfs.core.windows.net/path`."""


def refuse_credentials(key: str, url: str | None, instead: str) -> None:
    """ValueError, without the URL, if it names a user or a password: messages and drivers show URLs. Azure's name the
    container where others name the user.
    """
    parts = urlsplit(url or "")
    is_container = parts.scheme in CONTAINER_SCHEMES and parts.password is None
    if "@" in parts.netloc and not is_container:
        raise ValueError(f"{key}: must not contain credentials; {instead}")


class StorageConfig(PluginConfig):
    """What every plugin understands; an unknown key is refused."""

    request_timeout_ms: int = Field(30_000, gt=0, description="Deadline of a fetch, a delete or a page of a listing.")
    copy_min_bytes_per_second: int = Field(
        1 << 20, gt=0, description="A copy may take request.timeout.ms plus its size at this rate."
    )


class ObjectTooLargeError(RemoteStorageCorruptError):
    """The object is larger than what its reader can use."""

    def __init__(self, key: str, size_bytes: int, size_max: int) -> None:
        super().__init__(f"{key}: {size_bytes} bytes, at most {size_max} are expected")
        self.size_bytes = size_bytes


class ObjectStore(Protocol):
    """Named objects. Errors are `RemoteStorageError`s; a key that is absent raises RemoteResourceNotFoundError in
    `get`.
    """

    async def put(self, key: str, source: SegmentSource) -> None:
        """Store all of `source`, visible under `key` only when whole. What is there already is replaced or
        confirmed.
        """

    async def get(self, key: str, start: int, end: int) -> bytes:
        """Bytes [start, end), cut at the object's end: never more, whatever the store answers."""

    async def get_whole(self, key: str, size_max: int) -> bytes:
        """All of the object. ObjectTooLargeError, before it is in memory, where it has more than `size_max` bytes."""

    async def size(self, key: str) -> int | None: ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Not before a `put` of the same keys that was cancelled can no longer have an effect."""

    async def discard_unfinished(self, keys: Sequence[str]) -> None:
        """Remove what interrupted `put`s of these keys left."""

    def list(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        """(key, size in bytes) of every object below the prefix whose key sorts after `start_after`."""

    def directories(self, key_prefix: str) -> AsyncIterator[str]:
        """What stands before the next `/` after the prefix, which ends with one or is empty; each once."""

    async def close(self) -> None: ...


@runtime_checkable
class GetsMany(Protocol):
    """An `ObjectStore` for which many small `get`s cost less together."""

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        """None for an object that is absent."""


class StreamingObjectStore(ObjectStore, Protocol):
    """An `ObjectStore` whose requests cost so much that a large one, in pieces, is worth several small ones."""

    def get_pieces(self, key: str, start: int, end: int, piece_bytes: int) -> AsyncGenerator[bytes, None]:
        """As `get`, by one request, in pieces of `piece_bytes` as they come; the last may be smaller."""


async def try_to_clean_up(work: Awaitable[object]) -> None:
    """After a failed `put`: what cannot be removed now, or not in time, is removed by the delete of its segment."""
    try:
        async with asyncio.timeout(CLEAN_UP_S_MAX):
            await work
    except (OSError, RemoteStorageError):
        return


@asynccontextmanager
async def deadline(what: str, timeout_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise RemoteStorageTimeoutError(f"{what} did not end within {timeout_s:.1f} s") from error


class ObjectRemoteStorage:
    """The calls of the port, and all that a storage may offer besides, over an `ObjectStore`."""

    may_copy_in_worker = False
    """As `CopiesInWorker` says: for a subclass to state."""

    def __init__(self, store: ObjectStore, config: StorageConfig) -> None:
        self._store = store
        self._timeout_s = config.request_timeout_ms / 1000
        self._copy_min_bytes_per_second = config.copy_min_bytes_per_second

    async def copy_log_segment_data(self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData) -> bytes | None:
        total = data.log.size + sum(source.size for source in data.indexes.values())
        async with deadline(
            f"copy of {metadata.segment_id}", self._timeout_s + total / self._copy_min_bytes_per_second
        ):
            for kind, source in sorted(data.indexes.items(), key=lambda item: item[0].value):
                await self._store.put(segment_key(metadata, kind), source)
            await self._store.put(segment_key(metadata, None), data.log)
        return None

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        assert 0 <= start <= end, (start, end)
        end = min(end, metadata.segment_size_in_bytes)
        if start >= end:
            return b""
        key = segment_key(metadata, None)
        async with deadline(f"fetch of {key} [{start}, {end})", self._timeout_s):
            data = await self._store.get(key, start, end)
        if len(data) != end - start:
            raise RemoteStorageCorruptError(
                f"{key}: bytes [{start}, {end}) came back as {len(data)} bytes; "
                f"the metadata states a size of {metadata.segment_size_in_bytes}"
            )
        return data

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        key = segment_key(metadata, index_type)
        async with deadline(f"fetch of {key}", self._timeout_s):
            try:
                return await self._store.get_whole(key, index_size_max(metadata, index_type))
            except ObjectTooLargeError as error:
                check_index_size(metadata, index_type, error.size_bytes)
                raise

    async def log_segment_size(self, metadata: RemoteLogSegmentMetadata) -> int | None:
        key = segment_key(metadata, None)
        async with deadline(f"size of {key}", self._timeout_s):
            return await self._store.size(key)

    async def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        async with deadline(f"delete of {metadata.segment_id}", self._timeout_s):
            await self._store.delete(segment_keys(metadata))
            await self._store.discard_unfinished(segment_keys(metadata))

    async def list_objects(self, partition: TopicIdPartition) -> AsyncIterator[RemoteObject]:
        async for listed in self.list_objects_from(partition, 0):
            yield listed

    async def list_objects_from(self, partition: TopicIdPartition, start_offset: int) -> AsyncIterator[RemoteObject]:
        directory = partition_directory(partition) + "/"
        async for key, size in self._store.list(directory, f"{directory}{start_offset:020d}" if start_offset else ""):
            yield describe_object(key, size, partition)

    async def read_object(self, key: str, start: int, end: int) -> bytes:
        async with deadline(f"fetch of {key}", self._timeout_s):
            return await self._store.get(key, start, end)

    async def read_whole(self, key: str, size_max: int) -> bytes:
        async with deadline(f"fetch of {key}", self._timeout_s):
            return await self._store.get_whole(key, size_max)

    async def read_objects(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        first = ranges[0].key if ranges else "none"
        async with deadline(f"fetch of {len(ranges)} objects from {first} on", self._timeout_s):
            if isinstance(self._store, GetsMany):
                return await self._store.get_many(ranges)
            return list(await asyncio.gather(*(self._get_if_present(one) for one in ranges)))

    async def _get_if_present(self, wanted: ObjectRange) -> bytes | None:
        try:
            return await self._store.get(*wanted)
        except RemoteResourceNotFoundError:
            return None

    def list_keys(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        return self._store.list(key_prefix, start_after)

    def list_directories(self, key_prefix: str) -> AsyncIterator[str]:
        return self._store.directories(key_prefix)

    async def list_partitions(self) -> AsyncIterator[TopicIdPartition]:
        async for directory in self._store.directories(""):
            if has_more_parts(directory):
                async for rest in self._store.directories(f"{directory}/"):
                    if (partition := partition_of(f"{directory}/{rest}")) is not None:
                        yield partition
            elif (partition := partition_of(directory)) is not None:
                yield partition

    async def close(self) -> None:
        await self._store.close()


class StreamingObjectStorage(ObjectRemoteStorage):
    """An `ObjectRemoteStorage` that streams (`StreamsSegments`), over a store that does."""

    def __init__(self, store: StreamingObjectStore, config: StorageConfig) -> None:
        super().__init__(store, config)
        self._streams = store

    async def stream_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start: int, end: int, piece_bytes: int
    ) -> AsyncGenerator[bytes, None]:
        assert 0 <= start <= end, (start, end)
        assert piece_bytes > 0, piece_bytes
        position, end = start, min(end, metadata.segment_size_in_bytes)
        if start >= end:
            return
        key = segment_key(metadata, None)
        async with aclosing(self._streams.get_pieces(key, start, end, piece_bytes)) as pieces:
            while True:
                async with deadline(f"fetch of {key} [{position}, {end}) in pieces", self._timeout_s):
                    piece = await anext(pieces, b"")
                following = min(position + piece_bytes, end)
                if len(piece) != following - position:
                    raise RemoteStorageCorruptError(
                        f"{key}: bytes [{position}, {following}) came back as {len(piece)} bytes; "
                        f"the metadata states a size of {metadata.segment_size_in_bytes}"
                    )
                if not piece:
                    return
                yield piece
                position = following
