"""A simulated world: one seed, one event loop, one network, machines, an object store; and what happened, line by line.

    with World(seed) as world:
        world.run(scenario(world))            # on virtual time; what it raises is raised
        print(world.digest(), world.counters)

    async def scenario(world):
        host = world.host("broker-1")
        broker = await host.start(lambda environment: open_broker(config, environment))
        host.crash("machine")
        ...

Rules:

* The same seed and the same scenario give the same lines and the same digest, on any machine with the same commit, lock
  file and Python version, whatever PYTHONHASHSEED is.
* Chance comes from `rng(name)` alone: one stream for each part, by its name (see `chance`).
* The scenario and its checkers are outside of the simulated machines: no fault hits them, and their connections come
  from the host "outside". Clients with a host of their own are run by `Host.run`.
* The garbage collector's moments are no events: it is off during a run, and a crashed process is kept as it was until
  `close`, so that no `finally` of it ever runs. What was there before the world is frozen until then: `close` has to
  look at the world's own objects only.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from .chance import derived
from .host import Host, Stopped
from .loop import make_loop
from .network import Network
from .objects import SimObjectStore
from .process import Process, current_process

T = TypeVar("T")

__all__ = ["Host", "World"]

COLLECTIONS_MAX: Final = 10
"""Each may bring a few more clean-ups to their end, which leaves more to collect."""

RECENT_MAX: Final = 3_000
CLOSINGS_MAX: Final = 100
"""Attempts to close one coroutine: each gets it past one more `await` on its way out."""

PACKAGE: Final = __package__.partition(".")[0]


class World:
    """See the module's docstring. `counters` are the faults that were injected, by kind."""

    def __new__(cls, *_: object, **__: object) -> Self:
        """Freeze what there is, but not the world: it would be kept for ever where nothing is thawed."""
        thaws = gc.get_freeze_count() == 0
        gc.collect()  # what is left of a world before this one would be kept for ever
        gc.freeze()
        world = super().__new__(cls)
        world._thaws = thaws
        return world

    def __init__(self, seed: int, *, sink: Callable[[str], None] | None = None, records_logs: bool = False) -> None:
        """`sink` gets each line as it is written; `records_logs`: also what the nodes log (not part of the digest)."""
        self._thaws: bool
        """Whether what is frozen is of this world's making. What a test run has frozen stays so: it is large, and each
        collection would go through it.
        """
        self.seed = seed
        self.loop = make_loop(self.rng("loop"))
        self.network = Network(self.loop, self.rng("network"))
        self.counters: Counter[str] = Counter()
        self.store = SimObjectStore(self.network, self.rng("store"), self.counters)
        self.hosts: dict[str, Host] = {}
        self.stopped: list[Stopped] = []
        """Nodes that have stopped by themselves."""
        self.lines = 0
        self.recent: deque[str] = deque(maxlen=RECENT_MAX)
        """The last lines: a report has what led up to its failure."""
        self._sink = sink
        self._digest = blake2b(digest_size=16)
        self._buried: list[asyncio.Task[object]] = []
        self._logs = _LogLines(self) if records_logs else logging.NullHandler()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def now_s(self) -> float:
        return self.loop.time()

    def rng(self, name: str) -> Random:
        """The stream of that name."""
        return derived(self.seed, name)

    def host(self, name: str) -> Host:
        """The machine of that name; made, with an empty disk, at the first call."""
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = Host(self, name)
        return found

    def run(self, scenario: Coroutine[object, None, T], *, limit_s: float | None = None) -> T:
        """Its result. TimeLimitError after `limit_s` of virtual time; DeadlockError, LivelockError."""
        if limit_s is not None:
            self.loop.time_limit_s = self.now_s + limit_s
        logger = logging.getLogger(PACKAGE)
        propagates, level = logger.propagate, logger.level
        logger.propagate = False
        logger.setLevel(logging.INFO if isinstance(self._logs, _LogLines) else logging.CRITICAL + 1)
        logger.addHandler(self._logs)
        gc.disable()
        try:
            result: T = self.loop.run_until_complete(scenario)
            return result
        finally:
            gc.enable()
            logger.removeHandler(self._logs)
            logger.propagate = propagates
            logger.setLevel(level)

    # What happened.

    def record(self, host: str, text: str) -> None:
        """One line: a state transition, or a fault."""
        if self.loop.is_closed():
            return
        line = f"{self.loop.time():13.6f} {host:<12} {text}"
        self.lines += 1
        self.recent.append(line)
        self._digest.update(line.encode())
        if self._sink is not None:
            self._sink(line)

    def say(self, host: str, text: str) -> None:
        """A line for readers, which is no part of the digest."""
        if self._sink is not None:
            self._sink(f"{self.loop.time():13.6f} {host:<12} {text}")

    def count(self, fault: str) -> None:
        self.counters[fault] += 1

    def digest(self) -> str:
        """The digest of all lines, and of how many bytes and connections there were until now.

        The same in each version of Python. The number of events is not: `asyncio` itself schedules more in some.
        """
        digest = self._digest.copy()
        network = self.network
        digest.update(f"{self.now_s} {network.bytes_sent} {network.connections_made}".encode())
        return digest.hexdigest()

    # The end of processes, and of the world.

    def bury(self, process: Process) -> None:
        """Keep what the process was doing, so that nothing of it runs when it is collected."""
        self._buried += asyncio.all_tasks(self.loop)

    def close(self) -> None:
        """Drop the world. Idempotent."""
        if self.loop.is_closed():
            return
        self.loop.close()
        with _silence():
            for host in self.hosts.values():
                host.discard()
            self.network.close()
            self._unwind([*self._buried, *asyncio.all_tasks(self.loop)])
            self._buried.clear()
            for _ in range(COLLECTIONS_MAX):
                if not gc.collect():
                    break
        if self._thaws:
            gc.unfreeze()

    @staticmethod
    def _unwind(tasks: list[asyncio.Task[object]]) -> None:
        """End what was cut off in the middle. Its `finally` blocks run now, and can no longer do anything: the loop,
        the network and the disks are dead.
        """
        for task in tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())


def _close(coroutine: Any) -> None:
    """A task group waits for its tasks also when it is closed, and so may a `finally`: what has not come to its end
    would be closed again, loudly, when it is collected. So it is closed again here, each time from where it waits.
    """
    for _ in range(CLOSINGS_MAX):
        with suppress(BaseException):
            coroutine.close()
            return


@contextmanager
def _silence() -> Iterator[None]:
    """Nothing that ends badly is reported: neither by loggers nor by the interpreter."""
    level, hook = logging.root.manager.disable, sys.unraisablehook
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = hook
        logging.disable(level)


class _LogLines(logging.Handler):
    """What the nodes log, with virtual time and host."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process = current_process.get()
        text = f"[{record.levelname.lower()}] {record.name.removeprefix(PACKAGE + '.')}: {record.getMessage()}"
        self._world.say("outside" if process is None else process.host, text)
