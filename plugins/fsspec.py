"""The `fsspec` plugin: any URL that fsspec understands (file, memory, sftp, gs, abfs, hdfs, ...).

The driver of the URL's scheme must be installed; the error says which package has it. Drivers differ in whether a
half-written file shows under its name, so an object is written below `.unfinished/` and then moved: a rename on a
filesystem, a copy inside the store where there is no rename. Its size is asked for afterwards.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import fsspec
from pydantic import Field, SecretStr, model_validator

from ..remote import (
    ObjectRange,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageRefusedError,
    SegmentSource,
)
from .layout import object_name
from .object_storage import (
    ObjectRemoteStorage,
    ObjectTooLargeError,
    StorageConfig,
    refuse_credentials,
    try_to_clean_up,
)
from .threads import Abandoned, AbandonedError, BlockingCalls

T = TypeVar("T")

CHUNK_BYTES = 8 << 20
UNFINISHED_DIRECTORY = ".unfinished"
IN_PROCESS_SCHEME = "memory"
"""What one process stores there, no other one sees."""


class FsspecConfig(StorageConfig):
    """`rsm.config.*` of the `fsspec` plugin."""

    url: str = Field(min_length=1, description="Root of the tier, such as file:///srv/tier or gs://bucket/prefix.")
    options: dict[str, SecretStr] = Field(
        default_factory=dict, description="Storage options of the driver, as JSON; never shown."
    )
    connections_max: int = Field(8, ge=1, le=256, description="Threads of the plugin.")

    @model_validator(mode="after")
    def _check_credentials(self) -> FsspecConfig:
        refuse_credentials("url", self.url, "give them as options")
        return self


@contextmanager
def storage_errors(key: str) -> Iterator[None]:
    """Turn the filesystem's errors into the port's. `key` is an object's; the empty one is the whole tier."""
    key = key or "the tier"
    try:
        yield
    except FileNotFoundError as error:
        raise RemoteResourceNotFoundError(f"{key}: no such object in the tier") from error
    except PermissionError as error:
        raise RemoteStorageRefusedError(f"{key}: {type(error).__name__}: {error}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise RemoteStorageError(f"{key}: {type(error).__name__}: {error}") from error


class FsspecObjectStore:
    """Objects as files of an fsspec filesystem, below the URL's path."""

    def __init__(self, config: FsspecConfig) -> None:
        options = {name: value.get_secret_value() for name, value in config.options.items()}
        try:
            self._fs, root = fsspec.core.url_to_fs(config.url, **options)
        except (ImportError, ValueError) as error:
            raise RemoteStorageError(f"fsspec plugin: {config.url.partition('://')[0]}: {error}") from error
        self._root = root.rstrip("/")
        self._threads = config.connections_max
        self._calls = BlockingCalls("tierfetch-fsspec", self._threads)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    async def _call(self, key: str, call: Callable[[Abandoned], T]) -> T:
        def on_thread(abandoned: Abandoned) -> T:
            abandoned.check()
            with storage_errors(key):
                return call(abandoned)

        try:
            return await self._calls.run(key, on_thread)
        except AbandonedError as error:
            raise RemoteStorageError(f"{key}: abandoned") from error

    def _unfinished(self, key: str) -> str:
        return self._path(f"{UNFINISHED_DIRECTORY}/{object_name(key)}")

    async def put(self, key: str, source: SegmentSource) -> None:
        temporary = f"{self._unfinished(key)}~{uuid.uuid4().hex}"
        try:
            await self._write(key, temporary, source)
            await self._call(key, lambda abandoned: self._publish(key, temporary, abandoned))
        except BaseException:
            await try_to_clean_up(self._call(key, lambda _: self._remove(temporary)))
            raise
        stored = await self.size(key)
        if stored != source.size:
            raise RemoteStorageCorruptError(f"{key}: {source.size} bytes were written, {stored} are stored")

    async def _write(self, key: str, temporary: str, source: SegmentSource) -> None:
        file = await self._call(key, lambda _: self._create(temporary))
        try:
            position = 0
            while position < source.size:
                chunk = await source.read(position, min(CHUNK_BYTES, source.size - position))
                if not chunk:
                    raise RemoteStorageError(f"{source.path}: ends at byte {position} of {source.size}")
                await self._call(key, lambda _, chunk=chunk: file.write(chunk))  # type: ignore[misc]
                position += len(chunk)
        except BaseException:
            await try_to_clean_up(self._call(key, lambda _: file.close()))
            raise
        await self._call(key, lambda _: file.close())

    def _create(self, path: str) -> Any:
        self._fs.makedirs(self._fs._parent(path), exist_ok=True)
        return self._fs.open(path, "wb")

    def _publish(self, key: str, temporary: str, abandoned: Abandoned) -> None:
        self._fs.makedirs(self._fs._parent(self._path(key)), exist_ok=True)
        abandoned.check()
        self._fs.mv(temporary, self._path(key))

    def _remove(self, path: str) -> None:
        try:
            self._fs.rm_file(path)
        except FileNotFoundError:
            return

    async def get(self, key: str, start: int, end: int) -> bytes:
        def fetch(_: Abandoned) -> bytes:
            return bytes(self._fs.cat_file(self._path(key), start=start, end=end))

        return await self._call(key, fetch)

    async def get_whole(self, key: str, size_max: int) -> bytes:
        """Two calls: drivers read a whole object into memory before they say how large it is."""
        size_bytes = await self.size(key)
        if size_bytes is None:
            raise RemoteResourceNotFoundError(f"{key}: no such object in the tier")
        if size_bytes > size_max:
            raise ObjectTooLargeError(key, size_bytes, size_max)
        return await self.get(key, 0, size_bytes) if size_bytes else b""

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        """A few threads take their share each."""
        count = min(self._threads, len(ranges))
        shares = await asyncio.gather(*(self._get_share(ranges[start::count]) for start in range(count)))
        return [shares[index % count][index // count] for index in range(len(ranges))]

    async def _get_share(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        def fetch(abandoned: Abandoned) -> list[bytes | None]:
            found: list[bytes | None] = []
            for key, start, end in ranges:
                abandoned.check()
                try:
                    found.append(bytes(self._fs.cat_file(self._path(key), start=start, end=end)))
                except FileNotFoundError:
                    found.append(None)
            return found

        return await self._call(ranges[0].key, fetch)

    async def size(self, key: str) -> int | None:
        def info(_: Abandoned) -> int:
            self._fs.invalidate_cache(self._fs._parent(self._path(key)))
            return int(self._fs.info(self._path(key))["size"])

        try:
            return await self._call(key, info)
        except RemoteResourceNotFoundError:
            return None

    async def delete(self, keys: Sequence[str]) -> None:
        await self._calls.settled(keys)
        for key in keys:
            await self._call(key, lambda _, key=key: self._remove(self._path(key)))  # type: ignore[misc]

    async def discard_unfinished(self, keys: Sequence[str]) -> None:
        def discard(_: Abandoned) -> None:
            self._fs.invalidate_cache()
            beginnings = tuple(self._unfinished(key) for key in keys)
            for path in self._fs.find(self._path(UNFINISHED_DIRECTORY)):
                if path.startswith(beginnings):
                    self._remove(path)

        await self._call(keys[0], discard)

    async def list(self, key_prefix: str, start_after: str = "") -> AsyncIterator[tuple[str, int]]:
        def find(_: Abandoned) -> list[tuple[str, int]]:
            self._fs.invalidate_cache()
            found = self._fs.find(self._path(key_prefix), detail=True)
            return [(path, int(entry["size"])) for path, entry in sorted(found.items())]

        for path, size in await self._call(key_prefix, find):
            key = key_prefix + path.rpartition("/")[2]
            if key > start_after:
                yield key, size

    async def directories(self, key_prefix: str) -> AsyncIterator[str]:
        directory = self._path(key_prefix).rstrip("/")

        def names(_: Abandoned) -> list[str]:
            self._fs.invalidate_cache()
            found = self._fs.ls(directory, detail=False) if self._fs.exists(directory) else []
            return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

        for name in await self._call(directory, names):
            yield name

    async def close(self) -> None:
        await self._calls.close()


class FsspecRemoteStorage(ObjectRemoteStorage):
    """The tier on any filesystem that fsspec has a driver for."""

    Config: ClassVar[type[FsspecConfig]] = FsspecConfig

    def __init__(self, config: FsspecConfig) -> None:
        super().__init__(FsspecObjectStore(config), config)
        named = [*(link.partition("://")[0] for link in config.url.split("::")), *_texts(config.options)]
        self.may_copy_in_worker = IN_PROCESS_SCHEME not in named


def _texts(options: Mapping[str, SecretStr]) -> list[str]:
    return [value.get_secret_value() for value in options.values()]
