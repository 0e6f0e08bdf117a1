"""The threads of a disk, and the limit on what may wait for them.

Three pools, so that one kind of call never waits for another's device: writes (they reach the page cache, and are short
unless the kernel throttles), syncs (as slow as the device), and everything else. A stalled fsync thus holds up other
fsyncs at most.

A device may be ill and not dead: a call on it never returns, and says nothing. So the loop looks at the calls under way
once a second. One that has run for `hang_s` condemns the device: every call on it, under way or to come, fails with
ETIMEDOUT, for good. What its threads still do, if they ever wake, is of no consequence: nobody takes it for done. A
thread cannot be ended, so these stay until the process ends.

A job is answered on the loop by one wake-up. `ThreadPoolExecutor` does the same with a future, a condition and two
semaphores for each job: measured on two cores, 63 us for a small write there and back, against 22 us here.
"""

from __future__ import annotations

import asyncio
import errno
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final, Generic, TypeVar, cast

from ...protocol.net import Turns
from .sending import BUFFER_BYTES

T = TypeVar("T")

THREADS: Final = 4
"""The number of threads of a pool; they start when the pool is first used."""
SYNCS_EACH: Final = 4
"""The pool of syncs has so many times as many. A file system commits the syncs that wait together at once, so a device
takes hardly longer for sixteen than for one: to close ten thousand logs takes several times as many.
"""

LOOK_INTERVAL_S: Final = 1.0
"""The time between two looks at the calls under way, for one that hangs."""

CALLS_MAX: Final = 10_000
"""The limit of calls of one disk under way at once; further calls wait in order."""


class Pool(Enum):
    WRITE = "write"
    SYNC = "sync"
    OTHER = "other"


class Job(Generic[T]):
    """A call on a thread, and afterwards what became of it: `error`, or else `value`."""

    __slots__ = ("_call", "_done", "_is_over", "_loop", "began_s", "error", "value")

    def __init__(self, call: Callable[[], T], done: Callable[[Job[T]], None]) -> None:
        self._call = call
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self.began_s: float | None = None
        """The monotonic time at which a thread took it; None while it waits for one."""
        self.value: T
        self.error: BaseException | None = None

    def run(self) -> None:
        if self._is_over:
            return
        self.began_s = time.monotonic()
        try:
            self.value = self._call()
        except BaseException as error:  # noqa: BLE001 - the caller on the loop receives it
            self.error = error
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            self._loop.call_soon_threadsafe(self._end)

    def fail(self, error: OSError) -> None:
        """End it on the loop with this error, whatever a thread makes of it."""
        if not self._is_over:
            self._is_over = True
            self.error = error
            self._done(self)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._done(self)

    def settle(self, future: asyncio.Future[T]) -> None:
        """Set the result of `future`, unless its caller was cancelled; the effect stands in any case."""
        if future.done():
            return
        if self.error is None:
            future.set_result(self.value)
        else:
            future.set_exception(self.error)


class _Workers:
    """The threads of one pool. Daemons: a process that ends without `close` has crashed as far as files go."""

    def __init__(self, name: str, count: int) -> None:
        self._jobs: queue.SimpleQueue[Job[object] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"tierfetch-disk-{name}-{number}", daemon=True)
            for number in range(count)
        ]
        self._is_started = False
        self._is_closed = False

    def put(self, job: Job[T]) -> None:
        assert not self._is_closed, "the disk is closed"
        self._jobs.put(job)  # type: ignore[arg-type]  # no code reads a job's value through the queue
        if not self._is_started:
            self._is_started = True
            for thread in self._threads:
                thread.start()

    def close(self) -> None:
        """Wait until every job is done, and end the threads."""
        self._is_closed = True
        if self._is_started:
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # not held until the next one comes: it holds the caller's buffer


class DiskThreads:
    """The thread pools of one disk: `enter` before a call, `leave` after its end; `start` runs its parts."""

    def __init__(self, threads: int, hang_s: float | None = None) -> None:
        self._pools = {pool: _Workers(pool.value, threads * (SYNCS_EACH if pool is Pool.SYNC else 1)) for pool in Pool}
        self._turns = Turns(CALLS_MAX)
        self._hang_s = hang_s
        self._jobs: dict[Job[object], None] = {}
        """The calls under way, the earliest first; kept where `hang_s` is given."""
        self._look_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        """Done once no call is under way; made when the disk is closed."""
        self.failure: OSError | None = None
        """Why every call fails; None while the device answers."""
        self.send_buffer = memoryview(bytearray(BUFFER_BYTES))
        """Shared by all sends, which run on the one loop of the disk."""

    @property
    def queue_depth(self) -> int:
        """Calls under way."""
        return self._turns.taken

    def try_enter(self) -> bool:
        """Take a free place, unless other calls wait for one; return whether it was taken."""
        return self._turns.try_take()

    async def enter(self) -> None:
        """Wait for a free place; does not yield to the loop if there is one."""
        await self._turns.take()

    def leave(self) -> None:
        self._turns.give_back()

    def start(self, pool: Pool, call: Callable[[], T], done: Callable[[Job[T]], None]) -> None:
        """Run `call` on a thread, then `done` on the loop, also if its caller was cancelled."""
        if self._hang_s is None:
            self._pools[pool].put(Job(call, done))
            return

        def ended(job: Job[T]) -> None:  # it must not refer to `watched`: a job that refers to itself keeps its buffer
            self._jobs.pop(cast("Job[object]", job), None)
            done(job)
            if self._drained is not None and not self._jobs and not self._drained.done():
                self._drained.set_result(None)

        watched = Job(call, ended)
        if self.failure is not None:
            asyncio.get_running_loop().call_soon(watched.fail, self.failure)
            return
        self._jobs[cast("Job[object]", watched)] = None
        self._pools[pool].put(watched)
        if self._look_timer is None:
            self._look_timer = asyncio.get_running_loop().call_later(LOOK_INTERVAL_S, self._look)

    def _look(self) -> None:
        """Condemn the device if a call hangs; look again as long as calls are under way."""
        assert self._hang_s is not None
        self._look_timer = None
        late_s = time.monotonic() - self._hang_s
        hanging = any(job.began_s is not None and job.began_s <= late_s for job in self._jobs)
        if hanging:
            self.condemn(f"a call has not returned for {self._hang_s:.0f} s")
        elif self._jobs:
            self._look_timer = asyncio.get_running_loop().call_later(LOOK_INTERVAL_S, self._look)

    def condemn(self, reason: str) -> None:
        """Fail every call under way, and all to come."""
        self.failure = OSError(errno.ETIMEDOUT, f"the disk hangs: {reason}")
        for job in list(self._jobs):
            job.fail(self.failure)

    async def close(self) -> None:
        """End the threads; what was started finishes first, or fails once the device is condemned."""
        if self._jobs:  # a thread that hangs cannot be joined: the watch over its calls continues until they have ended
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained
        if self._look_timer is not None:
            self._look_timer.cancel()
        if self.failure is None:
            for workers in self._pools.values():
                await asyncio.to_thread(workers.close)
