"""`Disk` on the operating system's files: a small pool of threads, one queue a file.

    call -> file queue (FIFO) -> one job at a time drains the queue on the pool -> results back on the loop

* What waits while a job runs is done by the next job in one go: a hop between threads is paid once for many calls.
* Syncs that wait together are one fsync: it runs where the last of them stands in the queue, after every write
  before it, and answers all of them.
* A read does not queue behind other reads: with no write waiting it goes to the pool directly.
* After a failed fsync the file is poisoned: every later write and sync is refused. The kernel may have dropped the
  pages that it could not write, so a second fsync that succeeds would prove nothing.
* `send` runs `sendfile` on the loop, so its pages must be in memory: cold ones are probed for (`RWF_NOWAIT`) and
  read in a thread first. Where it must copy (TLS) it waits for `drain()` of the transport's protocol.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from .disk import Buffer, DirectoryEntry

T = TypeVar("T")

THREADS = 8
CALLS_MAX = 10_000
"""Calls of one disk under way at once; more wait their turn."""
COPY_CHUNK_BYTES = 256 * 1024
PROBE_STRIDE_BYTES = 128 * 1024

_temporary_numbers = itertools.count()
_NO_PROBE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class _Call:
    """One queued call: what to run on a thread, and whom to tell."""

    __slots__ = ("future", "is_sync", "run")

    def __init__(self, future: asyncio.Future[Any], run: Callable[[], Any], *, is_sync: bool) -> None:
        self.future = future
        self.run = run
        self.is_sync = is_sync


_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


def _drain(calls: list[_Call]) -> list[_Outcome]:
    """Run the calls in order, on a thread; a sync that has a later sync behind it shares that one's outcome."""
    outcomes: list[_Outcome] = []
    waiting: list[_Call] = []
    last_sync = max((i for i, call in enumerate(calls) if call.is_sync), default=-1)
    for i, call in enumerate(calls):
        if call.is_sync and i < last_sync:
            waiting.append(call)
            continue
        result, error = _run(call)
        outcomes.append((call.future, result, error))
        if call.is_sync:
            outcomes.extend((earlier.future, None, error) for earlier in waiting)
    return outcomes


def _run(call: _Call) -> tuple[Any, BaseException | None]:
    try:
        return call.run(), None
    except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
        return None, error


def _settle(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue  # its caller was cancelled; the effect stands
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


class OsFile:
    """An open file descriptor and its queue."""

    def __init__(self, disk: OsDisk, path: Path, descriptor: int) -> None:
        self._disk = disk
        self._path = path
        self._fd = descriptor
        self._queue: deque[_Call] = deque()
        self._busy = False
        self._reads = 0
        self._poisoned: OSError | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def path(self) -> Path:
        return self._path

    def fileno(self) -> int:
        """What `sendfile` asks for."""
        return self._fd

    async def size(self) -> int:
        return await self._enqueue(lambda: os.fstat(self._fd).st_size)

    async def write(self, offset: int, data: Buffer) -> None:
        assert offset >= 0, (self._path, offset)
        await self._enqueue(lambda: self._write_all(offset, data))

    async def read(self, offset: int, count: int) -> bytes:
        assert offset >= 0, (self._path, offset)
        assert count >= 0, (self._path, count)

        def read() -> bytes:
            return self._named(lambda: self._read_up_to(offset, count))

        if self._busy or self._queue or self._closing is not None:
            return await self._enqueue(read)
        self._reads += 1
        try:
            return await self._disk.run(read)
        finally:
            self._reads -= 1
            self._close_when_idle()

    async def send(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        if count == 0:
            return
        if transport.is_closing():
            raise ConnectionResetError(errno.ECONNRESET, "the connection is closing")
        self._reads += 1
        try:
            if transport.get_extra_info("sslcontext") is not None:
                await self._send_copy(offset, count, transport)
                return
            if not await self._in_memory(offset, count):
                await self._disk.run(lambda: self._warm(offset, count))
            loop = asyncio.get_running_loop()
            sent = await loop.sendfile(transport, self, offset, count, fallback=False)  # type: ignore[arg-type]
            if sent != count:
                raise self._short(offset, count, sent)
        finally:
            self._reads -= 1
            self._close_when_idle()

    async def sync(self) -> None:
        await self._enqueue(self._sync, is_sync=True)

    async def truncate(self, size: int) -> None:
        await self._enqueue(lambda: self._mutate(lambda: os.ftruncate(self._fd, size)))

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
            self._close_when_idle()
        await asyncio.shield(self._closing)

    async def _enqueue(self, run: Callable[[], T], *, is_sync: bool = False) -> T:
        async with self._disk.slots:
            if self._closing is not None:
                raise OSError(errno.EBADF, "the file is closed", str(self._path))
            future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            self._queue.append(_Call(future, run, is_sync=is_sync))
            self._disk.queued += 1
            if not self._busy:
                self._start_job()
            return await future

    def _start_job(self) -> None:
        calls = list(self._queue)
        self._queue.clear()
        self._busy = True
        job = self._disk.submit(lambda: _drain(calls))
        job.add_done_callback(lambda done: self._job_done(done, len(calls)))

    def _job_done(self, done: asyncio.Future[list[_Outcome]], calls: int) -> None:
        self._busy = False
        self._disk.queued -= calls
        if self._queue:
            self._start_job()
        if not done.cancelled():
            _settle(done.result())
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._closing is None or self._closing.done() or self._busy or self._queue or self._reads:
            return
        os.close(self._fd)
        self._fd = -1
        self._closing.set_result(None)

    # On threads from here on.

    def _named(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def _mutate(self, call: Callable[[], T]) -> T:
        if self._poisoned is not None:
            raise OSError(errno.EIO, f"refused after a failed fsync ({self._poisoned.strerror})", str(self._path))
        return self._named(call)

    def _write_all(self, offset: int, data: Buffer) -> None:
        def write() -> None:
            view, position = memoryview(data), offset
            while view:
                written = os.pwrite(self._fd, view, position)
                view, position = view[written:], position + written

        self._mutate(write)

    def _read_up_to(self, offset: int, count: int) -> bytes:
        data = os.pread(self._fd, count, offset)
        if len(data) in (0, count):
            return data
        parts = [data]
        got = len(data)
        while got < count and (more := os.pread(self._fd, count - got, offset + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def _sync(self) -> None:
        try:
            self._mutate(lambda: os.fdatasync(self._fd))
        except OSError as error:
            self._poisoned = self._poisoned or error
            raise

    async def _send_copy(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        drain = transport.get_protocol().drain  # type: ignore[attr-defined]
        sent = 0
        while sent < count:
            chunk = await self._disk.run(lambda at=offset + sent: os.pread(self._fd, COPY_CHUNK_BYTES, at))  # type: ignore[misc]
            if not chunk:
                raise self._short(offset, count, sent)
            transport.write(chunk[: count - sent])
            sent += len(chunk)
            await drain()

    async def _in_memory(self, offset: int, count: int) -> bool:
        probe = [bytearray(1)]
        points = (*range(offset, offset + count, PROBE_STRIDE_BYTES), offset + count - 1)
        try:
            for point in points:
                os.preadv(self._fd, probe, point, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            return error.errno in _NO_PROBE
        return True

    def _warm(self, offset: int, count: int) -> None:
        os.posix_fadvise(self._fd, offset, count, os.POSIX_FADV_WILLNEED)
        for position in range(offset, offset + count, COPY_CHUNK_BYTES):
            os.pread(self._fd, min(COPY_CHUNK_BYTES, offset + count - position), position)

    def _short(self, offset: int, count: int, sent: int) -> OSError:
        message = f"bytes [{offset}, {offset + count}) were to be sent, the file ended after {sent}"
        return OSError(errno.EIO, message, str(self._path))


class OsDisk:
    """The machine's files. `queued` is the number of calls that wait or run, for a gauge."""

    def __init__(self, threads: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tierfetch-disk")
        self.slots = asyncio.Semaphore(CALLS_MAX)
        self.queued = 0

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def run(self, call: Callable[[], T]) -> T:
        async with self.slots:
            self.queued += 1
            try:
                return await self.submit(call)
            finally:
                self.queued -= 1

    async def open(self, path: Path, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(self, path, await self.run(lambda: os.open(path, flags, 0o644)))

    async def read_file(self, path: Path) -> bytes:
        return await self.run(path.read_bytes)

    async def write_file(self, path: Path, data: Buffer, *, sync: bool = True) -> None:
        await self.run(lambda: _replace_file(path, data, sync=sync))

    async def list_directory(self, path: Path) -> Sequence[DirectoryEntry]:
        return await self.run(lambda: _list_directory(path))

    async def exists(self, path: Path) -> bool:
        return await self.run(path.exists)

    async def make_directory(self, path: Path) -> None:
        await self.run(lambda: path.mkdir(parents=True, exist_ok=True))

    async def rename(self, source: Path, target: Path) -> None:
        await self.run(lambda: os.rename(source, target))

    async def remove(self, path: Path) -> None:
        await self.run(lambda: path.unlink(missing_ok=True))

    async def remove_tree(self, path: Path) -> None:
        await self.run(lambda: _remove_tree(path))

    async def sync_directory(self, path: Path) -> None:
        await self.run(lambda: _sync_directory(path))

    async def free_bytes(self, path: Path) -> int:
        return await self.run(lambda: shutil.disk_usage(path).free)

    async def close(self) -> None:
        """End the threads; calls under way finish first."""
        await asyncio.get_running_loop().run_in_executor(None, lambda: self._pool.shutdown(wait=True))


def _replace_file(path: Path, data: Buffer, *, sync: bool) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{next(_temporary_numbers)}.tmp")
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
    if sync:
        _sync_directory(path.parent)


def _list_directory(path: Path) -> list[DirectoryEntry]:
    with os.scandir(path) as entries:
        found = []
        for entry in entries:
            is_directory = entry.is_dir(follow_symlinks=False)
            found.append(DirectoryEntry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size))
    return sorted(found, key=lambda entry: entry.name)


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
