"""The `local` plugin: a directory, in the layout of Kafka's own `LocalTieredStorage`.

A Java broker with `LocalTieredStorage` on the same directory reads our tier, and we read its. An object becomes visible
by rename after fsync; unfinished ones lie in a directory of their own that Java never looks into.

A segment's file is copied by the kernel, on a thread of the lowest priority: copies take what serving leaves over.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import aiofiles
import aiofiles.os
from pydantic import Field

from ..remote.storage import ObjectRange, RemoteResourceNotFoundError, RemoteStorageError, SegmentSource
from .layout import object_name
from .object_storage import ObjectRemoteStorage, StorageConfig, try_to_clean_up
from .threads import Abandoned, BlockingCalls

STORAGE_DIRECTORY = "kafka-tiered-storage"
UNFINISHED_DIRECTORY = ".unfinished"
CHUNK_BYTES = 4 << 20
COPY_BYTES = 256 << 10
"""Copied between two looks at whether anybody still wants it."""
COPIES_MAX = 4
COPY_NICE = 19

_fsync = aiofiles.os.wrap(os.fsync)
_open_fd = aiofiles.os.wrap(os.open)
_close_fd = aiofiles.os.wrap(os.close)


class LocalConfig(StorageConfig):
    """`rsm.config.dir`: the directory that all brokers share."""

    dir: Path = Field(description="Directory of the tier; made if absent. Every broker must see the same one.")
    subdirectory: str = Field(
        STORAGE_DIRECTORY,
        pattern=r"^([\w-][\w.-]*)?$",
        description="Where its objects lie there, Kafka's name for it by default; empty for the directory itself.",
    )


@asynccontextmanager
async def storage_errors(key: str) -> AsyncIterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise RemoteResourceNotFoundError(f"{key}: no such object in the tier") from error
    except OSError as error:
        raise RemoteStorageError(f"{key}: {error.strerror or error}") from error


class DirectoryObjectStore:
    """Objects as files below one root: `subdirectory` of `directory`, or this itself where that is empty."""

    def __init__(self, directory: Path, subdirectory: str = STORAGE_DIRECTORY) -> None:
        self._root = directory.absolute() / subdirectory
        self._unfinished = directory.absolute() / UNFINISHED_DIRECTORY
        self._copies = BlockingCalls("tierfetch-local-copy", COPIES_MAX)
        self._publishing: dict[str, set[asyncio.Future[None]]] = {}
        """By key: renames, which go on in their threads if who asked for them is cancelled."""

    async def put(self, key: str, source: SegmentSource) -> None:
        target = self._root / key
        temporary = self._unfinished / f"{object_name(key)}~{uuid.uuid4().hex}"
        async with storage_errors(key):
            await aiofiles.os.makedirs(self._unfinished, exist_ok=True)
            await aiofiles.os.makedirs(target.parent, exist_ok=True)
            try:
                await self._write(temporary, source)
                await self._publish(key, temporary, target)
                for directory in (target.parent, *target.parent.relative_to(self._root.parent).parents):
                    await self._sync_directory(self._root.parent / directory)
            except BaseException:
                await try_to_clean_up(_remove(temporary))
                raise

    async def _publish(self, key: str, temporary: Path, target: Path) -> None:
        renaming = asyncio.ensure_future(aiofiles.os.rename(temporary, target))
        self._publishing.setdefault(key, set()).add(renaming)
        renaming.add_done_callback(lambda ended: self._published(key, ended))
        await asyncio.shield(renaming)

    def _published(self, key: str, ended: asyncio.Future[None]) -> None:
        self._publishing[key].discard(ended)
        if not self._publishing[key]:
            del self._publishing[key]
        if not ended.cancelled():
            ended.exception()  # nobody may wait for it any more

    async def _write(self, temporary: Path, source: SegmentSource) -> None:
        path = source.path
        if path is not None and sys.platform == "linux":
            size = source.size
            if await self._copies.run(temporary.name, lambda abandoned: _copy(path, temporary, size, abandoned)):
                return
        async with aiofiles.open(temporary, "wb") as file:
            position = 0
            while position < source.size:
                chunk = await source.read(position, min(CHUNK_BYTES, source.size - position))
                if not chunk:
                    raise RemoteStorageError(f"{source.path}: ends at byte {position} of {source.size}")
                await file.write(chunk)
                position += len(chunk)
            await file.flush()
            await _fsync(file.fileno())

    async def _sync_directory(self, directory: Path) -> None:
        descriptor = await _open_fd(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            await _fsync(descriptor)
        finally:
            await _close_fd(descriptor)

    async def get(self, key: str, start: int, end: int | None) -> bytes:
        async with storage_errors(key):
            return await _read(f"{self._root}/{key}", start, end)

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        async with storage_errors(ranges[0].key if ranges else "none"):
            return await _read_many(f"{self._root}/", ranges)

    async def size(self, key: str) -> int | None:
        async with storage_errors(key):
            try:
                return (await aiofiles.os.stat(self._root / key)).st_size
            except FileNotFoundError:
                return None

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            if (publishing := self._publishing.get(key)) is not None:
                await asyncio.wait(list(publishing))
            async with storage_errors(key):
                await _remove(self._root / key)

    async def discard_unfinished(self, key_prefix: str) -> None:
        async with storage_errors(key_prefix):
            if not await aiofiles.os.path.isdir(self._unfinished):
                return
            for name in await aiofiles.os.listdir(self._unfinished):
                if name.startswith(object_name(key_prefix)):
                    await _remove(self._unfinished / name)

    async def list(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        directory = self._root / key_prefix
        async with storage_errors(key_prefix):
            if not await aiofiles.os.path.isdir(directory):
                return
            for key, size in await _sizes(directory, key_prefix):
                if key > start_after:
                    yield key, size

    async def directories(self, key_prefix: str) -> AsyncIterator[str]:
        directory = self._root / key_prefix
        async with storage_errors(str(directory)):
            if not await aiofiles.os.path.isdir(directory):
                return
            for name in sorted(await aiofiles.os.listdir(directory)):
                yield name

    async def close(self) -> None:
        await self._copies.close()


def _copy(path: Path, temporary: Path, size: int, abandoned: Abandoned) -> bool:
    """Copy a segment's file in the kernel, durably; False if it has no name any more, only those who hold it open."""
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), COPY_NICE)
    try:
        with open(temporary, "wb", buffering=0) as target:
            position = 0
            while position < size:
                abandoned.check()
                copied = os.sendfile(target.fileno(), source, position, min(COPY_BYTES, size - position))
                if not copied:
                    raise RemoteStorageError(f"{path}: ends at byte {position} of {size}")
                position += copied
            abandoned.check()
            os.fsync(target.fileno())
    finally:
        os.close(source)
    return True


def _content(path: str, start: int, end: int | None) -> bytes:
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(-1 if end is None else end - start)


@aiofiles.os.wrap
def _read(path: str, start: int, end: int | None) -> bytes:
    """All of it on one thread, at once: an index is smaller than the way there and back costs."""
    return _content(path, start, end)


@aiofiles.os.wrap
def _read_many(root: str, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for key, start, end in ranges:
        try:
            found.append(_content(root + key, start, end))
        except FileNotFoundError:
            found.append(None)
    return found


@aiofiles.os.wrap
def _sizes(directory: Path, key_prefix: str) -> list[tuple[str, int]]:
    """By name; a file that goes meanwhile is left out."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                found.append((key_prefix + entry.name, entry.stat().st_size))
            except FileNotFoundError:
                continue
    return sorted(found)


async def _remove(path: Path) -> None:
    try:
        await aiofiles.os.remove(path)
    except FileNotFoundError:
        return


class LocalTieredStorage(ObjectRemoteStorage):
    """Tier on a directory."""

    Config: ClassVar[type[LocalConfig]] = LocalConfig

    def __init__(self, config: LocalConfig) -> None:
        super().__init__(DirectoryObjectStore(config.dir, config.subdirectory), config)
