"""The machine's files for one node, which can fail and need not fsync.

A failed directory answers every call below it with EIO, open files included, until the node's next start. A disk whose
process was killed fails everywhere. Without `fsync`, a sync returns once the earlier calls on its file have ended: the
bytes outlive the node, as after kill -9, and not the machine.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from ...log.disk import (
    Buffer,
    DirectoryEntry,
    DiskFile,
    DiskSpace,
    FilesystemSync,
    OsDisk,
    lock_directory,
    write_directory_stepwise,
)
from ...log.keeper import HeldLock

ROOT = Path("/")


class FaultyDisk:
    """`Disk` on the operating system's files."""

    def __init__(self, *, fsync: bool, until_open: Callable[[], Awaitable[None]]) -> None:
        """`until_open` returns once the node's network takes bytes."""
        self._disk = OsDisk(threads=2)
        self.has_fsync = fsync
        self.until_open = until_open
        self._failed: list[Path] = []
        self._locks: list[HeldLock] = []
        self.files: set[FaultyFile] = set()
        """The open ones."""

    def fail(self, directory: Path = ROOT) -> None:
        """Fail every later call below a directory. Safe on any thread."""
        self._failed = [*self._failed, directory]

    def check(self, path: Path) -> None:
        """Raise OSError below a failed directory."""
        if self._failed and any(path.is_relative_to(directory) for directory in self._failed):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    @property
    def queue_depth(self) -> int:
        return self._disk.queue_depth

    def separate(self, directory: Path, *, hang_s: float | None) -> None:
        self._disk.separate(directory, hang_s=hang_s)

    def has_hung(self, directory: Path) -> bool:
        return self._disk.has_hung(directory)

    async def open(self, path: Path, *, create: bool = False) -> DiskFile:
        self.check(path)
        file = FaultyFile(self, await self._disk.open(path, create=create))
        self.files.add(file)
        return file

    async def read_file(self, path: Path, *, size_max: int | None = None) -> bytes:
        self.check(path)
        return await self._disk.read_file(path, size_max=size_max)

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True, sync_name: bool = True) -> None:
        self.check(path)
        await self._disk.write_file(path, data, sync=sync and self.has_fsync, sync_name=sync_name)

    async def write_directory(self, path: Path, files: Mapping[str, Buffer]) -> None:
        await write_directory_stepwise(self, path, files)

    async def list_directory(self, path: Path) -> Sequence[DirectoryEntry]:
        self.check(path)
        return await self._disk.list_directory(path)

    async def exists(self, path: Path) -> bool:
        self.check(path)
        return await self._disk.exists(path)

    async def make_directory(self, path: Path) -> None:
        self.check(path)
        await self._disk.make_directory(path)

    async def rename(self, source: Path, target: Path) -> None:
        self.check(source)
        self.check(target)
        await self._disk.rename(source, target)

    async def remove(self, path: Path) -> None:
        self.check(path)
        await self._disk.remove(path)

    async def remove_tree(self, path: Path) -> None:
        self.check(path)
        await self._disk.remove_tree(path)

    async def sync_directory(self, path: Path) -> None:
        self.check(path)
        if self.has_fsync:
            await self._disk.sync_directory(path)

    async def filesystem_sync(self, path: Path) -> FilesystemSync | None:
        self.check(path)
        return await self._disk.filesystem_sync(path) if self.has_fsync else None

    async def space(self, path: Path) -> DiskSpace:
        self.check(path)
        return await self._disk.space(path)

    def lock_directory(self, directory: Path) -> HeldLock:
        """Lock a log directory until `close` at the latest."""
        lock = lock_directory(directory)
        self._locks.append(lock)
        return lock

    async def close(self) -> None:
        """Close what is open, as the end of a process does: a killed node is cancelled before it closes its own."""
        while self.files:
            await next(iter(self.files)).close()
        await self._disk.close()
        while self._locks:
            self._locks.pop().release()


class FaultyFile:
    """An open file of a `FaultyDisk`."""

    def __init__(self, disk: FaultyDisk, file: DiskFile) -> None:
        self._disk = disk
        self._file = file

    @property
    def path(self) -> Path:
        return self._file.path

    def _check(self) -> None:
        self._disk.check(self._file.path)

    async def size(self) -> int:
        self._check()
        return await self._file.size()

    async def write(self, offset: int, data: Buffer) -> None:
        self._check()
        await self._file.write(offset, data)

    def begin_write(self, offset: int, data: Buffer) -> Awaitable[None]:
        try:
            self._check()
        except OSError as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        return self._file.begin_write(offset, data)

    async def read(self, offset: int, count: int) -> bytes:
        self._check()
        return await self._file.read(offset, count)

    def read_at_once(self, offset: int, count: int) -> bytes | None:
        self._check()
        return self._file.read_at_once(offset, count)

    async def send(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        self._check()
        await self._disk.until_open()
        await self._file.send(offset, count, transport)

    async def sync(self) -> None:
        self._check()
        if self._disk.has_fsync:
            await self._file.sync()
        else:
            await self._file.size()

    async def drop_cache(self) -> None:
        self._check()
        await self._file.drop_cache()

    async def truncate(self, size: int) -> None:
        self._check()
        await self._file.truncate(size)

    async def close(self) -> None:
        self._disk.files.discard(self)
        await self._file.close()
