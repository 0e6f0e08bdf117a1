"""An asyncio event loop on virtual time.

    ready callbacks, in their order -> none left -> the clock jumps to the next timer -> its callbacks are ready ...

Rules:

* Time passes only by jumps. It is a multiple of `TICK_S`, and timers are rounded up to one, so that code which waits
  for a deadline finds it reached, whatever its floating point made of it.
* Callbacks of one process run in the order in which they became ready. Timers of different processes that are due at
  the same moment run in an order drawn by the seed.
* Callbacks of a paused process wait, those of a dead one are dropped (see `process`).
* Nothing of the outside comes in: no threads, no executor, no name resolution, no signals, no file descriptors. Each is
  refused with `NotSimulatedError`, which names it.
* Tasks hash by number: asyncio keeps them in sets. So do futures where `numbers_futures`: clients of others keep those
  in sets, too. Everything else that a node keeps in sets must hash by value.
* An exception that no task awaits is kept in `failures`: the simulation judges it at the end.
* A run that makes no progress is an error: nothing to wait for (`DeadlockError`), or too many callbacks without time
  passing (`LivelockError`).

The network is a part of its own (`network`); the loop only passes the calls on.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Final, NoReturn, Protocol, TypeVar, TypeVarTuple, Unpack

from ...protocol import InternalError
from .process import Process, current_process

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICK_S: Final = 2.0**-20
_WHOLE_TICKS_S: Final = 2.0**32
"""A double of this size has no bits finer than a tick: what is added to it is rounded to one."""
EVENTS_PER_INSTANT_MAX: Final = 100_000
CANCELLED_TIMERS_MIN: Final = 64
"""Cancelled timers are swept when they are more than this, and more than half of the moments that have timers."""


class NotSimulatedError(InternalError, RuntimeError):
    """Simulated code reached for something outside the simulation."""


class DeadlockError(InternalError, RuntimeError):
    """Nothing is ready and no timer is set: what is awaited will never come."""


class LivelockError(InternalError, RuntimeError):
    """Callbacks continue without end and without time passing."""


class TimeLimitError(InternalError, RuntimeError):
    """The run did not end within its virtual time."""


class Sockets(Protocol):
    """What the loop needs of the network."""

    async def create_server(self, factory: Any, host: Any, port: Any, *, start_serving: bool) -> Any: ...

    async def create_connection(self, factory: Any, host: str, port: int) -> Any: ...

    def addresses(self, host: str, port: int) -> Any: ...


class SimHandle(asyncio.TimerHandle):
    """A callback that waits for its turn. Without asyncio's constructor, which costs more than all the rest."""

    __slots__ = ("args", "callback", "loop", "process", "run_in", "when_s")
    __init__ = object.__init__  # the loop sets what it knows: that costs a third

    loop: SimLoop
    """The loop of a timer."""
    callback: Callable[..., object] | None
    args: tuple[Any, ...]
    run_in: Context
    process: Process | None
    when_s: float

    def __repr__(self) -> str:
        return f"<SimHandle {self.callback!r} at {self.when_s:.6f}>"

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.args = ()
            if self.when_s >= 0:
                self.loop.cancelled_timers += 1

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.when_s

    def get_context(self) -> Context:
        return self.run_in


_NOT_A_TIMER: Final = -1.0


class SimTask(asyncio.Task[T]):
    """A task whose place in a set, of a TaskGroup's say, does not depend on its address in memory."""

    __slots__ = ("number", "process")

    def __init__(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: SimLoop,
        name: str,
        context: Context | None,
    ) -> None:
        self.number = loop.tasks = loop.tasks + 1
        self.process = current_process.get() if context is None else context.get(current_process)
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future[T]):
    """A future whose place in a set does not depend on its address in memory."""

    __slots__ = ("number", "process")

    number: int
    process: Process | None

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.AbstractEventLoop):
    """`run_until_complete` runs a scenario. `rng` draws the order among processes; `sockets` is set by the network."""

    def __init__(self, rng: Random) -> None:
        self.sockets: Sockets | None = None
        self.on_event: Callable[[Process | None], None] | None = None
        """Called after each callback, with the process that it ran in."""
        self.now_s = 0.0
        """What `time()` says."""
        self.events = 0
        """Callbacks run so far."""
        self._events_max = 0
        """There shall not be so many before time passes."""
        self.tasks = 0
        """Tasks made so far, and futures that are numbered."""
        self.numbers_futures = False
        self.refused: list[str] = []
        """What code reached for that is outside of the simulation."""
        self.failures: list[dict[str, Any]] = []
        """What asyncio's exception handler was called with, and by `process` whose failure it is."""
        self.time_limit_s = math.inf
        self._rng = rng
        self._ready: deque[SimHandle] = deque()
        self._timers: dict[float, list[SimHandle]] = {}
        """Timers by the moment at which they are due, each moment's in the order of the calls."""
        self._moments: list[float] = []
        """The moments of the timers, as a heap."""
        self.cancelled_timers = 0
        """Counted by those who are cancelled, and are still among the timers."""
        self._is_running = False
        self._is_stopping = False
        self._is_closed = False
        self._thread = threading.get_ident()

    # Time and callbacks.

    def time(self) -> float:
        return self.now_s

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        handle: SimHandle = SimHandle()
        handle.callback = callback
        handle.args = args
        handle.run_in = run_in = copy_context() if context is None else context
        handle.process = run_in.get(current_process)
        handle.when_s = _NOT_A_TIMER
        if not self._is_closed:
            self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        handle: SimHandle = SimHandle()
        handle.loop = self
        handle.callback = callback
        handle.args = args
        handle.run_in = run_in = copy_context() if context is None else context
        handle.process = run_in.get(current_process)
        if when > self.now_s:
            when_s = when + _WHOLE_TICKS_S - _WHOLE_TICKS_S
            if when_s < when:
                when_s += TICK_S
        else:
            when_s = self.now_s
        handle.when_s = when_s
        if not self._is_closed:
            at_once = self._timers.get(when_s)
            if at_once is None:
                self._timers[when_s] = [handle]
                heappush(self._moments, when_s)
            else:
                at_once.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> SimHandle:
        if threading.get_ident() != self._thread:
            self.refuse(f"a thread that calls the loop with {callback!r}")
        return self.call_soon(callback, *args, context=context)

    def release(self, process: Process) -> None:
        """Let a paused process continue: what it missed becomes ready, in its order."""
        assert not process.is_dead, process
        process.is_running = True
        self._ready.extend(process.held)
        process.held.clear()

    # Tasks and futures.

    def create_future(self) -> asyncio.Future[Any]:
        if not self.numbers_futures:
            return asyncio.Future(loop=self)
        future: SimFuture[Any] = SimFuture(loop=self)
        future.number = self.tasks = self.tasks + 1
        future.process = current_process.get()
        return future

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        return SimTask(coro, loop=self, name="task" if name is None else str(name), context=context)

    def get_task_factory(self) -> None:
        return None

    def set_task_factory(self, factory: object) -> None:
        if factory is not None:
            self.refuse("a task factory")

    # Running.

    def run_until_complete(self, future: Any) -> Any:
        """The result of `future`, or of a task made of it."""
        assert not self._is_closed, "the loop is closed"
        assert not self._is_running, "the loop runs already"
        is_new = not asyncio.isfuture(future)
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._stop)
        try:
            self.run_forever()
        except BaseException:
            if is_new and task.done() and not task.cancelled():
                task.exception()
            raise
        finally:
            task.remove_done_callback(self._stop)
        assert task.done(), "the loop was stopped before the scenario ended"
        return task.result()

    def run_forever(self) -> None:
        assert events._get_running_loop() is None, "another event loop runs in this thread"
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize_generator)
        events._set_running_loop(self)
        self._is_running = True
        try:
            self._run()
        finally:
            self._is_running = self._is_stopping = False
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _run(self) -> None:
        ready = self._ready
        self._events_max = self.events + EVENTS_PER_INSTANT_MAX
        while not self._is_stopping:
            if not ready:
                self._jump()
                continue
            handle = ready.popleft()
            callback = handle.callback
            if callback is None:
                continue
            process = handle.process
            if process is not None and not process.is_running:
                process.hold(handle)
                continue
            self.events += 1
            try:
                if handle.args:
                    handle.run_in.run(callback, *handle.args)
                else:
                    handle.run_in.run(callback)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio: the supervisor of the loop is notified
                self.call_exception_handler({"message": f"exception in {callback!r}", "exception": error})
            if self.on_event is not None:
                self.on_event(process)
            if self.events >= self._events_max:
                raise LivelockError(f"{EVENTS_PER_INSTANT_MAX} callbacks at {self.now_s:.6f} s, the last: {callback!r}")

    def _jump(self) -> None:
        """To the next moment that has timers; those that are not cancelled become ready."""
        if self.cancelled_timers > CANCELLED_TIMERS_MIN and self.cancelled_timers > len(self._moments) // 2:
            self._sweep()
        if not self._moments:
            raise DeadlockError(f"at {self.now_s:.6f} s nothing is ready, and no timer is set")
        moment_s = heappop(self._moments)
        due = self._timers.pop(moment_s)
        if len(due) > 1:
            due = self._left(due)
            if not due:
                return
        elif due[0].callback is None:
            self.cancelled_timers -= 1
            return
        if moment_s > self.time_limit_s:
            self._timers[moment_s] = due
            heappush(self._moments, moment_s)
            raise TimeLimitError(f"the run did not end within {self.time_limit_s:g} virtual seconds")
        if moment_s > self.now_s:
            self.now_s = moment_s
            self._events_max = self.events + EVENTS_PER_INSTANT_MAX
        for handle in due:
            handle.when_s = _NOT_A_TIMER
        self._ready.extend(self._interleaved(due) if len(due) > 1 else due)

    def _left(self, timers: list[SimHandle]) -> list[SimHandle]:
        """The timers that are not cancelled."""
        left = [handle for handle in timers if handle.callback is not None]
        self.cancelled_timers -= len(timers) - len(left)
        return left

    def _sweep(self) -> None:
        """Let go of the timers that are cancelled."""
        self._timers = {at_s: left for at_s, timers in self._timers.items() if (left := self._left(timers))}
        self._moments = list(self._timers)
        heapify(self._moments)

    def _interleaved(self, due: list[SimHandle]) -> list[SimHandle]:
        """In an order drawn by the seed that keeps the order within each process."""
        queues: dict[Process | None, deque[SimHandle]] = {}
        for handle in due:
            queues.setdefault(handle.process, deque()).append(handle)
        if len(queues) == 1:
            return due
        owners = [handle.process for handle in due]
        self._rng.shuffle(owners)
        return [queues[owner].popleft() for owner in owners]

    def stop(self) -> None:
        self._is_stopping = True

    def _stop(self, _: object) -> None:
        self._is_stopping = True

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Drop what is left. Whatever is called afterwards has no effect."""
        assert not self._is_running, "the loop runs"
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        self._moments.clear()

    async def shutdown_asyncgens(self) -> None:
        """Generators that are left are dropped by `close`."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def _finalize_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._is_closed:
            self.call_soon(self.create_task, generator.aclose())

    # Errors and debugging.

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_closed:
            failed = context.get("task") or context.get("future")
            process = failed.process if isinstance(failed, SimTask | SimFuture) else current_process.get()
            self.failures.append({**context, "process": process})

    def get_exception_handler(self) -> None:
        return None

    get_debug = staticmethod(bool)
    """False. Asked for with each future, so it is answered without a call into Python."""

    def set_debug(self, enabled: bool) -> None:
        """Costs too much here; traces are the simulation's."""

    # Connections.

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: object = None,
        start_serving: bool = True,
        **_: Any,
    ) -> Any:
        self._refuse_tls(ssl)
        return await self._network().create_server(protocol_factory, host, port, start_serving=start_serving)

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        *,
        ssl: object = None,
        **_: Any,
    ) -> Any:
        self._refuse_tls(ssl)
        return await self._network().create_connection(protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return self._network().addresses(host, port)

    def _network(self) -> Sockets:
        if self.sockets is None:
            raise NotSimulatedError("this loop has no network")
        return self.sockets

    # What is not simulated.

    def refuse(self, what: str) -> NoReturn:
        """Raise NotSimulatedError, and note it: the code that reached for it may swallow the error."""
        process = current_process.get()
        self.refused.append(
            f"{what} is not simulated, and {'outside' if process is None else process.host} reached for it: "
            "simulated code waits, connects and resolves names by its event loop, and keeps files by its simulated disk"
        )
        raise NotSimulatedError(self.refused[-1])

    def _refuse_tls(self, ssl: object) -> None:
        if ssl is not None:
            self.refuse("TLS")

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        self.refuse("run_in_executor: a thread")

    async def getnameinfo(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("getnameinfo: real name resolution")

    def add_signal_handler(self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> NoReturn:
        self.refuse("add_signal_handler: a signal")

    def add_reader(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> NoReturn:
        self.refuse("add_reader: a file descriptor")

    def add_writer(self, fd: Any, callback: Callable[[Unpack[Ts]], Any], *args: *Ts) -> NoReturn:
        self.refuse("add_writer: a file descriptor")

    async def subprocess_exec(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("subprocess_exec: a process")

    async def subprocess_shell(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("subprocess_shell: a process")

    async def create_datagram_endpoint(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("create_datagram_endpoint: UDP")

    async def create_unix_connection(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("create_unix_connection: a local socket")

    async def create_unix_server(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("create_unix_server: a local socket")

    async def start_tls(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse("start_tls: TLS")


def make_loop(rng: Random) -> SimLoop:
    """asyncio's interface has more than is used here: it is left out, which type checkers mind."""
    return SimLoop(rng)  # type: ignore[abstract]
