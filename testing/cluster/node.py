"""A node in a thread of its own, with an event loop of its own: what a process is to `tierfetch broker`.

| state   | how it gets there                  | its loop                                             |
|---------|------------------------------------|------------------------------------------------------|
| running | `start`                            | runs                                                 |
| paused  | `pause`                            | blocked, as by SIGSTOP: its connections stay         |
| ended   | `stop`, `kill`, or its own failure | closed; every task, thread and descriptor is gone    |

`kill` leaves on disk what kill -9 would. First every file fails and every connection is shut down, so nothing that the
node still does can be seen; then its tasks are cancelled until they have ended.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, TypeVar

from ...protocol import OUTSIDE, OperatorError
from .disk import FaultyDisk
from .network import Network, NodeLoop

T = TypeVar("T")
Served = TypeVar("Served")

STOP_TIMEOUT_S: Final = 30.0
KILL_INTERVAL_S: Final = 0.002
"""Between two cancellations of a killed node, which may still await something as it unwinds."""
CALL_TIMEOUT_S: Final = 30.0

_log = logging.getLogger(__name__)


class NodeThread(Generic[Served]):
    """One run of a node; a restarted broker is another one. `served` is what it runs, from `start` to its end."""

    def __init__(
        self,
        name: str,
        opening: Callable[[FaultyDisk], AbstractAsyncContextManager[Served]],
        failures: Callable[[Served], list[asyncio.Future[str]]],
        *,
        fsync: bool,
    ) -> None:
        self.name = name
        self._opening = opening
        self._failures = failures
        self._loop = NodeLoop()
        self.disk = FaultyDisk(fsync=fsync, until_open=self._until_open)
        self._started: Future[Served] = Future()
        self._stopping = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._resumed: threading.Event | None = None
        self._is_killed = False
        self.failure: str | None = None
        """The reason why it ended by itself."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def _until_open(self) -> None:
        while self._loop.network is Network.STALLED:  # noqa: ASYNC110 - a switch that another thread turns
            await asyncio.sleep(0.01)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_paused(self) -> bool:
        return self._resumed is not None

    @property
    def can_stop(self) -> bool:
        """Whether it may stop in order: it is not paused, and its network is open."""
        return not self.is_paused and self._loop.network is Network.OPEN

    @property
    def served(self) -> Served:
        return self._started.result(timeout=0)

    def start(self) -> None:
        """Begin; `wait_started` has the end of it."""
        self._thread.start()

    def wait_started(self, timeout_s: float) -> None:
        """Return once it serves. Raise what its start raised, and TimeoutError."""
        self._started.result(timeout_s)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                try:
                    runner.run(self._live())
                finally:  # once more: a killed node was cancelled while it waited for its disk's threads
                    runner.run(self.disk.close())
        except asyncio.CancelledError:
            _log.info("%s was killed", self.name)
        except (*OUTSIDE, OperatorError) as error:
            self.failure = self.failure or str(error)
            _log.error("%s ended: %s", self.name, error)
        finally:
            if not self._started.done():
                self._started.set_exception(RuntimeError(f"{self.name} ended before it served: {self.failure}"))

    async def _live(self) -> None:
        self._main = asyncio.current_task()
        try:
            async with self._opening(self.disk) as served:
                self._started.set_result(served)
                stopping: asyncio.Future[bool] = asyncio.ensure_future(self._stopping.wait())
                failures = self._failures(served)
                ends: list[asyncio.Future[bool] | asyncio.Future[str]] = [stopping, *failures]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                self.failure = next((each.result() for each in failures if each.done()), None)
        except Exception as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise

    def call(self, function: Callable[[Served], T]) -> T:
        """Return what the function returns on the node's loop. RuntimeError if the node does not run."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(function(self.served))
            except Exception as error:  # noqa: BLE001 - it belongs to the caller's thread
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return answer.result(CALL_TIMEOUT_S)

    def run(self, function: Callable[[Served], Coroutine[object, None, T]]) -> T:
        """Return the result of a coroutine function, run on the node's loop."""

        async def on_loop() -> T:
            return await function(self.served)

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(CALL_TIMEOUT_S)

    # Faults.

    def set_network(self, state: Network) -> None:
        """Return once the network is in that state. A paused node is not asked: resume it first."""
        done = threading.Event()

        def switch() -> None:
            self._loop.set_network(state)
            done.set()

        self._loop.call_soon_threadsafe(switch)
        done.wait(CALL_TIMEOUT_S)

    def pause(self) -> None:
        """Block the loop until `resume`."""
        if self._resumed is not None:
            return
        paused, resumed = threading.Event(), threading.Event()
        self._resumed = resumed

        def block() -> None:
            paused.set()
            resumed.wait()
            if self._is_killed:
                self._die()

        self._loop.call_soon_threadsafe(block)
        paused.wait(CALL_TIMEOUT_S)

    def resume(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    # Ends.

    def stop(self) -> None:
        """Stop in order, as SIGTERM does; kill what does not stop within `STOP_TIMEOUT_S`."""
        self.resume()
        self._post(self._stopping.set)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            _log.warning("%s did not stop within %.0f s, and is killed", self.name, STOP_TIMEOUT_S)
            self.kill()

    def kill(self) -> None:
        """End it without letting it write or send another byte."""
        self._is_killed = True
        self.disk.fail()
        self._post(self._die)
        self.resume()
        self._thread.join(STOP_TIMEOUT_S)
        assert not self._thread.is_alive(), f"internal error: {self.name} does not end"

    def _die(self) -> None:
        self._loop.set_network(Network.DEAD)
        self._cancel()

    def _cancel(self) -> None:
        if self._main is not None and not self._main.done():
            self._main.cancel()
            self._loop.call_later(KILL_INTERVAL_S, self._cancel)

    def _post(self, function: Callable[[], None]) -> None:
        if self._thread.is_alive() and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(function)
            except RuntimeError:  # it has just ended by itself
                return
