"""`Disk` on the operating system's files.

Calls on an open file are ordered by `open_file`; calls that name a path wait for the earlier ones that name it too
(a rename names two), and for no others. All of them run on the threads of `disk.threads`: those of the separate
directory that the path is in, or else the common ones. Both names of a rename are in one directory.

Syncs of one directory that wait at the same time are one (group commit), as those of one file are: to rename thousands
of directories within another waits for the device a few times, and not thousands of times in a row.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from .filesystem_sync import OsFilesystemSync, find_syncfs, open_filesystem
from .open_file import OsFile
from .port import Buffer, DirectoryEntry, DiskSpace, check_size
from .threads import THREADS, DiskThreads, Job, Pool

T = TypeVar("T")

FILE_MODE: Final = 0o644
_SYNCFS: Final = find_syncfs()


class _WaitingSync(NamedTuple):
    """A sync of a directory that has not begun, and the end of its call."""

    answer: Awaitable[object]
    ended: asyncio.Future[None]


class OsDisk:
    """The machine's files. `threads` is the size of each pool but that of syncs, which is larger."""

    def __init__(self, threads: int = THREADS) -> None:
        self._common = DiskThreads(threads)
        self._separate: dict[Path, DiskThreads] = {}
        self._threads_each = threads
        # By text: a `Path` is hashed and compared by functions in Python.
        self._last_calls: dict[str, asyncio.Future[None]] = {}
        """The end of the last call that named a path."""
        self._waiting_syncs: dict[str, _WaitingSync] = {}
        """The syncs of directories that wait for earlier calls on their path."""

    @property
    def queue_depth(self) -> int:
        """Calls that wait or run, for a gauge."""
        return sum(threads.queue_depth for threads in (self._common, *self._separate.values()))

    def separate(self, directory: Path, *, hang_s: float | None) -> None:
        if directory not in self._separate:
            self._separate[directory] = DiskThreads(self._threads_each, hang_s)

    def has_hung(self, directory: Path) -> bool:
        threads = self._separate.get(directory)
        return threads is not None and threads.failure is not None

    def _threads_of(self, path: Path) -> DiskThreads:
        # As text: `Path.is_relative_to` takes both paths apart, and was 40 % of the time in which logs are opened.
        text = str(path)
        for directory, threads in self._separate.items():
            prefix = str(directory)
            if text.startswith(prefix) and text[len(prefix) : len(prefix) + 1] in ("", "/"):
                return threads
        return self._common

    async def open(self, path: Path, *, create: bool = False) -> OsFile:
        opening = await self._begin(lambda: _open(path, create=create), path)
        try:
            descriptor, size = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        return OsFile(self._threads_of(path), path, descriptor, size)

    async def read_file(self, path: Path, *, size_max: int | None = None) -> bytes:
        return await self._call(lambda: _read_file(path, size_max), path)

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True, sync_name: bool = True) -> None:
        pool = Pool.SYNC if sync else Pool.OTHER
        await self._call(lambda: _replace_file(path, data, sync=sync, sync_name=sync_name), path, pool=pool)

    async def write_directory(self, path: Path, files: Mapping[str, Buffer]) -> None:
        await self._call(lambda: _write_directory(path, files), path, pool=Pool.SYNC)

    async def list_directory(self, path: Path) -> Sequence[DirectoryEntry]:
        return await self._call(lambda: _list_directory(path), path)

    async def exists(self, path: Path) -> bool:
        return await self._call(path.exists, path)

    async def make_directory(self, path: Path) -> None:
        await self._call(lambda: path.mkdir(parents=True, exist_ok=True), path)

    async def rename(self, source: Path, target: Path) -> None:
        await self._call(lambda: os.rename(source, target), source, target)

    async def remove(self, path: Path) -> None:
        await self._call(lambda: path.unlink(missing_ok=True), path)

    async def remove_tree(self, path: Path) -> None:
        await self._call(lambda: _remove_tree(path), path)

    async def sync_directory(self, path: Path) -> None:
        name = str(path)
        waiting = self._waiting_syncs.get(name)
        # Only the last call on the path is joined: what comes after a call has to take effect after it.
        if waiting is not None and self._last_calls.get(name) is waiting.ended:
            answer = waiting.answer
        else:
            answer = await self._begin(lambda: _sync_directory(path), path, pool=Pool.SYNC, may_be_joined=True)
        await asyncio.shield(answer)

    async def filesystem_sync(self, path: Path) -> OsFilesystemSync | None:
        if _SYNCFS is None:
            return None
        descriptor = await self._call(lambda: open_filesystem(path), path)
        return OsFilesystemSync(partial(self._call, pool=Pool.SYNC), _SYNCFS, path, descriptor)

    async def space(self, path: Path) -> DiskSpace:
        usage = await self._call(lambda: shutil.disk_usage(path), path)
        return DiskSpace(usage.total, usage.free)

    async def close(self) -> None:
        """End the threads; calls under way finish first."""
        for threads in (self._common, *self._separate.values()):
            await threads.close()

    async def _call(self, call: Callable[[], T], *paths: Path, pool: Pool = Pool.OTHER) -> T:
        return await (await self._begin(call, *paths, pool=pool))

    async def _begin(
        self, call: Callable[[], T], *paths: Path, pool: Pool = Pool.OTHER, may_be_joined: bool = False
    ) -> asyncio.Future[T]:
        """Run a call once the earlier ones on its paths have ended. It takes effect though its caller be cancelled."""
        threads = self._threads_of(paths[0])
        await threads.enter()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()
        names = [str(path) for path in paths]
        earlier = {self._last_calls[name] for name in names if name in self._last_calls}
        for name in names:
            self._last_calls[name] = ended

        def done(job: Job[T]) -> None:
            for name in names:
                if self._last_calls[name] is ended:
                    del self._last_calls[name]
            ended.set_result(None)
            threads.leave()
            job.settle(answer)

        def start() -> None:
            if may_be_joined:
                self._waiting_syncs.pop(names[0], None)
            threads.start(pool, lambda: _naming(paths[0], call), done)

        if earlier and may_be_joined:
            self._waiting_syncs[names[0]] = _WaitingSync(answer, ended)
        _when_done(earlier, start)
        return answer


def _when_done(earlier: set[asyncio.Future[None]], start: Callable[[], None]) -> None:
    """Call `start` when all of them are done, at once if there is none."""

    def start_after(before: asyncio.Future[None]) -> None:
        earlier.remove(before)
        if not earlier:
            start()

    for before in tuple(earlier):
        before.add_done_callback(start_after)
    if not earlier:
        start()


def _close_unwanted(opening: asyncio.Future[tuple[int, int]]) -> None:
    if opening.exception() is None:
        os.close(opening.result()[0])


def _naming(path: Path, call: Callable[[], T]) -> T:
    """The call; its OSError names a path."""
    try:
        return call()
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _open(path: Path, *, create: bool) -> tuple[int, int]:
    """(descriptor, size)."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)
    return descriptor, os.fstat(descriptor).st_size


def _read_file(path: Path, size_max: int | None) -> bytes:
    with open(path, "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        check_size(path, size_bytes, size_max)
        return file.read(size_bytes)  # what is appended meanwhile is not read


def _replace_file(path: Path, data: Buffer, *, sync: bool, sync_name: bool) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if sync and sync_name:
        _sync_directory(path.parent)


def _write_directory(path: Path, files: Mapping[str, Buffer]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        with open(path / name, "wb") as file:
            if len(data):
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    _sync_directory(path)
    _sync_directory(path.parent)


def _list_directory(path: Path) -> list[DirectoryEntry]:
    listed = []
    with os.scandir(path) as entries:
        for entry in entries:
            is_directory = entry.is_dir(follow_symlinks=False)
            try:
                size = 0 if is_directory else entry.stat().st_size
            except FileNotFoundError:
                continue  # removed since the directory was read
            listed.append(DirectoryEntry(entry.name, is_directory, size))
    return sorted(listed, key=lambda entry: entry.name)


def _remove_tree(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
