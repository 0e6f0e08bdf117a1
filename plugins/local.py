"""The `local` plugin: a directory, in the layout of Kafka's own `LocalTieredStorage`.

A Java broker with `LocalTieredStorage` on the same directory reads our tier, and we read its. An object becomes visible
by rename after fsync; unfinished ones are in a directory of their own that Java never looks into.

All calls run on threads of the plugin's own: a directory that hangs (a file server is down) blocks no other threads.
A segment's file is copied by the kernel, on a thread of the lowest priority: copies take what serving leaves over.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

import aiofiles
from pydantic import Field

from ..remote import (
    ObjectRange,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    SegmentSource,
)
from .layout import object_name
from .object_storage import ObjectRemoteStorage, ObjectTooLargeError, StorageConfig, try_to_clean_up
from .threads import Abandoned, BlockingCalls

T = TypeVar("T")

STORAGE_DIRECTORY = "kafka-tiered-storage"
UNFINISHED_DIRECTORY = ".unfinished"
CHUNK_BYTES = 4 << 20
COPY_BYTES = 256 << 10
"""Bytes copied between two looks at whether the caller still waits."""
CALLS_MAX = 8
COPIES_MAX = 4
COPY_NICE = 19


class LocalConfig(StorageConfig):
    """`rsm.config.dir`: the directory that all brokers share."""

    dir: Path = Field(description="Directory of the tier; made if absent. Every broker must see the same one.")
    subdirectory: str = Field(
        STORAGE_DIRECTORY,
        pattern=r"^([\w-][\w.-]*)?$",
        description="The prefix of its objects there, Kafka's name for it by default; empty for the directory itself.",
    )


@contextmanager
def storage_errors(key: str) -> Iterator[None]:
    """Turn the operating system's errors into the port's. `key` is an object's; the empty one is the whole tier."""
    key = key or "the tier"
    try:
        yield
    except FileNotFoundError as error:
        raise RemoteResourceNotFoundError(f"{key}: no such object in the tier") from error
    except (PermissionError, NotADirectoryError) as error:
        raise RemoteStorageRefusedError(f"{key}: {error.strerror or error}") from error
    except OSError as error:
        raise RemoteStorageError(f"{key}: {error.strerror or error}") from error


class DirectoryObjectStore:
    """Objects as files below one root: `subdirectory` of `directory`, or this itself where that is empty."""

    def __init__(self, directory: Path, subdirectory: str = STORAGE_DIRECTORY) -> None:
        self._root = directory.absolute() / subdirectory
        self._unfinished = directory.absolute() / UNFINISHED_DIRECTORY
        self._calls = BlockingCalls("tierfetch-local", CALLS_MAX)
        self._copies = BlockingCalls("tierfetch-local-copy", COPIES_MAX)

    async def _call(self, key: str, call: Callable[[], T]) -> T:
        with storage_errors(key):
            return await self._calls.run(key, lambda _: call())

    async def put(self, key: str, source: SegmentSource) -> None:
        target = self._root / key
        temporary = self._unfinished / f"{object_name(key)}~{uuid.uuid4().hex}"
        with storage_errors(key):
            await self._calls.run(key, lambda _: _make_directories(self._unfinished, target.parent))
            try:
                await self._write(key, temporary, source)
                above = [self._root.parent / each for each in target.parent.relative_to(self._root.parent).parents]
                await self._calls.run(key, partial(_publish, temporary, target, above))
            except BaseException:
                await try_to_clean_up(self._calls.run(key, lambda _: _remove(temporary)))
                raise

    async def _write(self, key: str, temporary: Path, source: SegmentSource) -> None:
        path, size = source.path, source.size
        if path is not None and sys.platform == "linux":
            if await self._copies.run(key, lambda abandoned: _copy(path, temporary, size, abandoned)):
                return
        async with aiofiles.open(temporary, "wb", executor=self._calls.executor) as file:
            position = 0
            while position < size:
                chunk = await source.read(position, min(CHUNK_BYTES, size - position))
                if not chunk:
                    raise RemoteStorageError(f"{path}: ends at byte {position} of {size}")
                await file.write(chunk)
                position += len(chunk)
            await file.flush()
            await self._calls.run(key, lambda _: os.fsync(file.fileno()))

    async def get(self, key: str, start: int, end: int) -> bytes:
        """All of it on one thread, at once: an index is smaller than the way there and back costs."""
        return await self._call(key, lambda: _content(f"{self._root}/{key}", start, end))

    async def get_whole(self, key: str, size_max: int) -> bytes:
        return await self._call(key, lambda: _whole(f"{self._root}/{key}", key, size_max))

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        first = ranges[0].key if ranges else "none"
        return await self._call(first, lambda: _contents(f"{self._root}/", ranges))

    async def size(self, key: str) -> int | None:
        try:
            return await self._call(key, lambda: os.stat(self._root / key).st_size)
        except RemoteResourceNotFoundError:
            return None

    async def delete(self, keys: Sequence[str]) -> None:
        for calls in (self._copies, self._calls):
            await calls.settled(keys)
        for key in keys:
            await self._call(key, partial(_remove, self._root / key))

    async def discard_unfinished(self, keys: Sequence[str]) -> None:
        beginnings = tuple(object_name(key) for key in keys)
        await self._call(keys[0], lambda: _remove_all(self._unfinished, beginnings))

    async def list(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        for key, size in await self._call(key_prefix, lambda: _sizes(self._root / key_prefix, key_prefix)):
            if key > start_after:
                yield key, size

    async def directories(self, key_prefix: str) -> AsyncIterator[str]:
        directory = self._root / key_prefix
        for name in await self._call(str(directory), lambda: _names(directory)):
            yield name

    async def close(self) -> None:
        await self._copies.close()
        await self._calls.close()


# On threads.


def _make_directories(*directories: Path) -> None:
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)


def _copy(path: Path, temporary: Path, size: int, abandoned: Abandoned) -> bool:
    """Copy a segment's file in the kernel, durably; False if it no longer has a name and is only held open."""
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


def _publish(temporary: Path, target: Path, above: Sequence[Path], abandoned: Abandoned) -> None:
    """Durably, with the names that lead there."""
    abandoned.check()
    os.rename(temporary, target)
    for directory in (target.parent, *above):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _content(path: str, start: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(end - start)


def _whole(path: str, key: str, size_max: int) -> bytes:
    with open(path, "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > size_max:
            raise ObjectTooLargeError(key, size_bytes, size_max)
        return file.read(size_bytes)


def _contents(root: str, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for key, start, end in ranges:
        try:
            found.append(_content(root + key, start, end))
        except FileNotFoundError:
            found.append(None)
    return found


def _sizes(directory: Path, key_prefix: str) -> list[tuple[str, int]]:
    """Return sizes by name. A file that is deleted meanwhile is left out; a missing directory is empty."""
    found = []
    if not directory.is_dir():
        return []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                found.append((key_prefix + entry.name, entry.stat().st_size))
            except FileNotFoundError:
                continue
    return sorted(found)


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.is_dir() else []


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _remove_all(directory: Path, beginnings: tuple[str, ...]) -> None:
    for name in _names(directory):
        if name.startswith(beginnings):
            _remove(directory / name)


class LocalTieredStorage(ObjectRemoteStorage):
    """The tier in a directory that all brokers share, as Kafka's LocalTieredStorage."""

    Config: ClassVar[type[LocalConfig]] = LocalConfig
    may_copy_in_worker = True

    def __init__(self, config: LocalConfig) -> None:
        super().__init__(DirectoryObjectStore(config.dir, config.subdirectory), config)
