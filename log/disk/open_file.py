"""One open file of `OsDisk`: the order of its calls.

A call waits for the earlier ones that it must not overtake, and for no others:

| earlier, not finished    | write, truncate | sync             | read, send, size             |
|--------------------------|-----------------|------------------|------------------------------|
| write, truncate at o     | waits           | waits            | waits if it reaches beyond o |
| sync                     | -               | waits, or shares | -                            |
| read, send, size up to e | waits if o < e  | -                | -                            |

`size` reaches beyond everything; a change behind the end of the file counts from the end on, since it fills the gap.
So a reader of what is written waits for nobody, and neither it nor an append waits for an fsync. What queues up behind
a running job is done by the next one in one go; syncs that wait for the running fsync share the next.

After a failure:

| failed          | then                                                                                        |
|-----------------|---------------------------------------------------------------------------------------------|
| write, truncate | so do the writes, truncations and syncs that were queued after it, undone, because their    |
|                 | callers did not know of it; later ones are carried out                                      |
| sync            | the file is poisoned: writes, truncations and syncs are refused for good. The kernel may    |
|                 | have dropped the pages that it could not write, so a second fsync that succeeds would prove |
|                 | nothing                                                                                     |

A call whose caller is cancelled still takes effect, in its turn; a send stops.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypeVar

from ...light_dataclass import dataclass
from .port import Buffer
from .sending import send_copy, send_native, transport_socket
from .threads import DiskThreads, Job, Pool

T = TypeVar("T")

JOB_CALLS_MAX: Final = 64
"""Writes and truncations that one job does in one go."""

READ_ON_LOOP_BYTES_MAX: Final = 64 * 1024
"""A read of at most this many bytes is tried without a thread: it is answered from memory or not at all."""

_EVERYTHING: Final = 2**63 - 1
_NO_SENDFILE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""What a file system says that cannot be sent from."""


@dataclass(slots=True, eq=False)
class _Change:
    """`offset` is the first byte that it may change, or append."""

    number: int
    offset: int
    run: Callable[[], None]
    future: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Sync:
    number: int
    future: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Read:
    number: int
    end: int
    admitted: asyncio.Future[None] | None = None


class _Duplicate:
    """A duplicate of a descriptor, closed with the last reference to it: a thread that hangs keeps its own open."""

    def __init__(self, descriptor: int) -> None:
        self.number = -1
        self.number = os.dup(descriptor)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class OsFile:
    """A file descriptor and its calls. `number` counts the calls, in the order in which they were made."""

    def __init__(self, threads: DiskThreads, path: Path, descriptor: int, size: int) -> None:
        self._threads = threads
        self._path = path
        self._fd = descriptor
        self._size = size
        """What the file's size will be once every change made so far is done."""
        self._calls = 0
        self._jobs = 0
        self._changes: deque[_Change] = deque()
        self._running_changes: list[_Change] = []
        self._syncs: list[_Sync] = []
        self._running_syncs: list[_Sync] = []
        self._reads: set[_Read] = set()
        self._waiting_reads: list[_Read] = []
        self._poisoned = False
        self._can_read_on_loop = True
        self._closing: asyncio.Future[None] | None = None

    @property
    def path(self) -> Path:
        return self._path

    async def size(self) -> int:
        read = await self._begin_read(_EVERYTHING)
        try:
            return os.fstat(self._fd).st_size
        finally:
            self._end_read(read)

    async def write(self, offset: int, data: Buffer) -> None:
        assert offset >= 0, (self._path, offset)
        view = memoryview(data)
        if view.nbytes:
            await self._change(offset, offset + view.nbytes, lambda: self._write_all(offset, view))

    def begin_write(self, offset: int, data: Buffer) -> Awaitable[None]:
        if self._refusal(changes=True) is not None or not self._threads.try_enter():
            return self.write(offset, data)
        view = memoryview(data)
        return self._begin_change(offset, offset + view.nbytes, lambda: self._write_all(offset, view))

    async def truncate(self, size: int) -> None:
        assert size >= 0, (self._path, size)
        await self._change(size, size, lambda: os.ftruncate(self._fd, size), is_cut=True)

    async def sync(self) -> None:
        await self._enter(changes=True)
        sync = _Sync(self._next_number(), asyncio.get_running_loop().create_future())
        self._syncs.append(sync)
        self._start_sync()
        await sync.future

    async def drop_cache(self) -> None:
        await self._enter()
        await self._job(Pool.OTHER, lambda: os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED))

    async def read(self, offset: int, count: int) -> bytes:
        assert offset >= 0, (self._path, offset)
        assert count >= 0, (self._path, count)
        data = self.read_at_once(offset, count)
        if data is not None:
            return data
        read = await self._begin_read(offset + count)
        return await self._job(Pool.OTHER, lambda: self._read_up_to(offset, count), lambda: self._end_read(read))

    def read_at_once(self, offset: int, count: int) -> bytes | None:
        if self._closing is not None or self._changes_below(offset + count):
            return None
        return self.read_on_loop(offset, count)

    def _changes_below(self, end: int) -> bool:
        """Whether a change that is not done may change a byte before `end`."""
        if not self._running_changes and not self._changes:
            return False
        return any(change.offset < end for change in chain(self._running_changes, self._changes))

    async def send(self, offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        assert offset >= 0, (self._path, offset)
        assert count >= 0, (self._path, count)
        read = await self._begin_read(offset + count)
        try:
            if transport_socket(transport) is not None:
                sent = await send_native(self, offset, count, transport)
            else:
                sent = await send_copy(self, offset, count, transport)
            if sent != count:
                message = f"bytes [{offset}, {offset + count}) expected, but the file ended after {sent} of them"
                raise OSError(errno.EIO, message, str(self._path))
        finally:
            self._end_read(read)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
            self._close_when_idle()
        await asyncio.shield(self._closing)

    # For a send, which is under way as a read.

    @property
    def send_buffer(self) -> memoryview:
        return self._threads.send_buffer

    def fileno(self) -> int:
        return self._fd

    def read_on_loop(self, offset: int, count: int) -> bytes | None:
        """The bytes if they are few and in memory; None if a thread must look."""
        if not self._can_read_on_loop or count > READ_ON_LOOP_BYTES_MAX:
            return None
        data = bytearray(count)
        with memoryview(data) as view:
            got = self.read_now(offset, view)
        if got is None or (got < count and os.fstat(self._fd).st_size > offset + got):
            return None
        del data[got:]
        return bytes(data)

    def read_now(self, offset: int, buffer: memoryview) -> int | None:
        """How many bytes were put into `buffer` from memory, 0 at the end of the file; None if a thread must look."""
        if not self._can_read_on_loop:
            return None
        try:
            return os.preadv(self._fd, [buffer], offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError:
            self._can_read_on_loop = False  # this file system cannot; if it is a fault, the thread says so
            return None

    async def send_in_thread(self, offset: int, count: int, socket: int) -> int:
        """See `SendableFile`. A thread whose caller was cancelled may still send: its descriptor is its own."""
        own = _Duplicate(socket)
        return await self._job(Pool.OTHER, lambda: self._send_up_to(own.number, offset, count))

    async def read_in_thread(self, offset: int, count: int) -> bytes:
        """As `read`, without waiting for other calls."""
        return await self._job(Pool.OTHER, lambda: self._read_up_to(offset, count))

    # The order of calls, on the loop.

    async def _enter(self, *, changes: bool = False) -> None:
        await self._threads.enter()
        error = self._refusal(changes=changes)
        if error is not None:
            self._threads.leave()
            raise error

    def _refusal(self, *, changes: bool) -> OSError | None:
        if self._closing is not None:
            return self._error(errno.EBADF, "the file is closed")
        if changes and self._poisoned:
            return self._error(errno.EIO, "rejected: an earlier fsync of this file failed")
        return None

    def _next_number(self) -> int:
        self._calls += 1
        return self._calls

    async def _change(self, offset: int, end: int, run: Callable[[], None], *, is_cut: bool = False) -> None:
        await self._enter(changes=True)
        await self._begin_change(offset, end, run, is_cut=is_cut)

    def _begin_change(
        self, offset: int, end: int, run: Callable[[], None], *, is_cut: bool = False
    ) -> asyncio.Future[None]:
        first = min(offset, self._size)
        self._size = end if is_cut else max(self._size, end)
        change = _Change(self._next_number(), first, run, asyncio.get_running_loop().create_future())
        self._changes.append(change)
        self._start_changes()
        return change.future

    async def _begin_read(self, end: int) -> _Read:
        await self._enter()
        read = _Read(self._next_number(), end)
        if self._may_read(read):
            self._reads.add(read)
            return read
        read.admitted = asyncio.get_running_loop().create_future()
        self._waiting_reads.append(read)
        try:
            await read.admitted
        except asyncio.CancelledError:
            self._end_read(read)
            raise
        return read

    def _end_read(self, read: _Read) -> None:
        if read in self._reads:
            self._reads.remove(read)
        else:
            self._waiting_reads.remove(read)
        self._threads.leave()
        if self._changes or self._syncs or self._waiting_reads or self._closing is not None:
            self._start_ready_calls()

    def _may_read(self, read: _Read) -> bool:
        if not self._running_changes and not self._changes:
            return True
        return not any(
            change.number < read.number and change.offset < read.end
            for change in chain(self._running_changes, self._changes)
        )

    def _may_change(self, change: _Change) -> bool:
        return not any(
            read.number < change.number and change.offset < read.end for read in chain(self._reads, self._waiting_reads)
        )

    def _start_ready_calls(self) -> None:
        self._start_changes()
        self._start_sync()
        for read in [read for read in self._waiting_reads if self._may_read(read)]:
            self._waiting_reads.remove(read)
            self._reads.add(read)
            assert read.admitted is not None, read
            if not read.admitted.done():
                read.admitted.set_result(None)
        self._close_when_idle()

    def _start_changes(self) -> None:
        if self._running_changes:
            return
        for change in islice(self._changes, JOB_CALLS_MAX):
            if not self._may_change(change):
                break
            self._running_changes.append(change)
        if self._running_changes:
            calls = [change.run for change in self._running_changes]
            for _ in calls:
                self._changes.popleft()
            self._start(Pool.WRITE, lambda: self._run_until_failure(calls), self._changes_done)

    def _changes_done(self, job: Job[tuple[int, OSError | None]]) -> None:
        changes, self._running_changes = self._running_changes, []
        performed, error = job.value if job.error is None else (0, job.error)
        for change in changes[:performed]:
            self._answer(change.future, None)
        if error is not None:
            self._answer(changes[performed].future, error)
            skipped = self._error(errno.ECANCELED, "skipped: an earlier write failed")
            for change in changes[performed + 1 :]:
                self._answer(change.future, skipped)
            self._fail_queue(skipped, changes[performed].number)
            if self._threads.failure is None:  # else this call might not return either
                self._size = os.fstat(self._fd).st_size
        self._start_ready_calls()

    def _start_sync(self) -> None:
        if self._running_syncs or not self._syncs:
            return
        first_change = next(chain(self._running_changes, self._changes), None)
        ready = [sync for sync in self._syncs if first_change is None or sync.number < first_change.number]
        if ready:
            self._running_syncs, self._syncs = ready, self._syncs[len(ready) :]
            self._start(Pool.SYNC, lambda: self._outcome(lambda: os.fdatasync(self._fd)), self._sync_done)

    def _sync_done(self, job: Job[OSError | None]) -> None:
        syncs, self._running_syncs = self._running_syncs, []
        error = job.error or job.value
        for sync in syncs:
            self._answer(sync.future, error)
        if error is not None:
            self._poisoned = True
            refusal = self._refusal(changes=True)
            assert refusal is not None, error
            self._fail_queue(refusal, 0)
        self._start_ready_calls()

    def _fail_queue(self, error: OSError, after_number: int) -> None:
        """Fail the waiting changes, and the waiting syncs behind the call of that number."""
        while self._changes:
            self._answer(self._changes.popleft().future, error)
        failed = [sync for sync in self._syncs if sync.number > after_number]
        self._syncs = [sync for sync in self._syncs if sync.number <= after_number]
        for sync in failed:
            self._answer(sync.future, error)

    def _answer(self, future: asyncio.Future[None], error: BaseException | None) -> None:
        self._threads.leave()
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def _start(self, pool: Pool, call: Callable[[], T], done: Callable[[Job[T]], None]) -> None:
        self._jobs += 1

        def ended(job: Job[T]) -> None:
            self._jobs -= 1
            done(job)

        self._threads.start(pool, call, ended)

    def _job(self, pool: Pool, call: Callable[[], T], finished: Callable[[], None] | None = None) -> asyncio.Future[T]:
        """Run a call on a thread; `finished` when the thread is done with the file, also if nobody waits any longer."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(job: Job[T]) -> None:
            job.settle(future)
            if finished is not None:
                finished()
            self._close_when_idle()

        self._start(pool, call, done)
        return future

    def _close_when_idle(self) -> None:
        is_idle = not (self._jobs or self._changes or self._syncs or self._reads or self._waiting_reads)
        if self._closing is None or not is_idle or self._fd < 0:
            return
        descriptor, self._fd = self._fd, -1
        closing = self._closing
        self._threads.start(Pool.OTHER, lambda: os.close(descriptor), lambda job: job.settle(closing))

    def _error(self, number: int, message: str) -> OSError:
        return OSError(number, message, str(self._path))

    # On threads.

    def _run_until_failure(self, calls: list[Callable[[], None]]) -> tuple[int, OSError | None]:
        """(how many were done, why the next one was not)."""
        for performed, call in enumerate(calls):
            error = self._outcome(call)
            if error is not None:
                return performed, error
        return len(calls), None

    def _outcome(self, call: Callable[[], object]) -> OSError | None:
        try:
            call()
        except OSError as error:
            return self._error(error.errno or errno.EIO, error.strerror or str(error))
        return None

    def _write_all(self, offset: int, data: memoryview) -> None:
        while data:
            written = os.pwrite(self._fd, data, offset)
            data, offset = data[written:], offset + written

    def _send_up_to(self, socket: int, offset: int, count: int) -> int:
        try:
            return os.sendfile(socket, self._fd, offset, count)
        except OSError as error:
            if error.errno not in _NO_SENDFILE:
                raise
        return os.write(socket, os.pread(self._fd, count, offset))

    def _read_up_to(self, offset: int, count: int) -> bytes:
        parts: list[bytes] = []
        got = 0
        while got < count:
            try:
                part = os.pread(self._fd, count - got, offset + got)
            except OSError as error:
                raise self._error(error.errno or errno.EIO, f"read at {offset}: {error.strerror}") from error
            if not part:
                break
            parts.append(part)
            got += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)
