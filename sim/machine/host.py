"""A simulated machine: files, a clock, a name in the network, and at most one node running on it.

| call               | the node                         | files                  | connections                        |
|--------------------|----------------------------------|------------------------|------------------------------------|
| `start`            | enters, in a process of its own  | as they are            | -                                  |
| `stop`, or it fails | leaves in order                 | as it leaves them      | as it closes them                  |
| `crash("process")` | killed, nothing is cleaned up    | as the page cache says | closed by the kernel, at once      |
| `crash("machine")` | killed                           | unsynced ones may lose | half open until it runs again      |
| `pause`, `resume`  | frozen; what it missed comes late | its calls take effect | accepted and filled by the kernel  |
| `wipe`             | must be down                     | none                   | -                                  |
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from contextvars import Context, copy_context
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol, TypeVar

from ...broker import NodeEnvironment
from ...light_dataclass import dataclass
from ...log.disk import LogDirectoryLockedError
from ...protocol import RetriableError
from .clock import WallClock
from .disk import DiskFaults, SimDisk
from .filesystem import SimFilesystem
from .loop import SimLoop
from .network import Network
from .objects import SimObjectStore
from .pipe import Pipe
from .process import Process, current_process

T = TypeVar("T")
Node = TypeVar("Node")
CrashKind = Literal["process", "machine"]


class ProcessDiedError(RetriableError):
    """The process crashed before it did what was awaited."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A node that has stopped by itself. `is_disk_to_blame`: a call of its disk had failed."""

    host: str
    reason: str
    is_disk_to_blame: bool


class Surroundings(Protocol):
    """What a machine needs of the world that it stands in."""

    @property
    def loop(self) -> SimLoop: ...

    @property
    def network(self) -> Network: ...

    @property
    def store(self) -> SimObjectStore: ...

    @property
    def counters(self) -> Counter[str]: ...

    @property
    def stopped(self) -> list[Stopped]: ...

    def rng(self, name: str) -> Random: ...

    def record(self, host: str, text: str) -> None: ...

    def count(self, fault: str) -> None: ...

    def bury(self, process: Process) -> None:
        """Keep what the process was doing, so that nothing of it runs when it is collected."""


class _Lock:
    def __init__(self, held: set[Path], directory: Path) -> None:
        self._held = held
        self._directory = directory

    def release(self) -> None:
        self._held.discard(self._directory)


class Host:
    """Made by `World.host`. `node` is what runs, for checkers to look into; None when it is down."""

    def __init__(self, world: Surroundings, name: str) -> None:
        self.name = name
        self.files = SimFilesystem()
        self.disk_faults = DiskFaults()
        self.clock = WallClock(world.loop)
        self.process: Process | None = None
        self.node: Any = None
        self.is_ongoing: Callable[[str, int, int], bool] | None = _coordinated_by_its_client
        """What verifies transactions here; None where their coordinators do."""
        self.device: Pipe | None = None
        """What its disk writes by, from its next start on; None: bytes take no time."""
        self._disks: list[SimDisk] = []
        """The disks of the process that runs, one for each role."""
        self._world = world
        self._rng = world.rng(f"host/{name}")
        self._runs = 0
        self._locked: set[Path] = set()
        self._stop_wanted: asyncio.Future[None] | None = None
        self._started: asyncio.Future[Any] | None = None
        self._ended: asyncio.Future[bool] | None = None
        """Done when the node has ended: whether it did so in order."""

    @property
    def is_up(self) -> bool:
        """Whether a process runs, be it paused or still starting."""
        return self.process is not None

    @property
    def has_broken_disk(self) -> bool:
        """Whether a call of the running process to its disk has failed."""
        return any(disk.errors for disk in self._disks)

    @property
    def is_paused(self) -> bool:
        return self.process is not None and not self.process.is_running

    async def start(self, make: Callable[[NodeEnvironment], AbstractAsyncContextManager[Node]]) -> Node:
        """Boot the machine if need be, and enter the node; raises what it raises, or ProcessDiedError."""
        assert self.process is None, f"{self.name} runs already"
        world, loop = self._world, self._world.loop
        process, context = self._new_process()
        self._started, self._stop_wanted, self._ended = (loop.create_future() for _ in range(3))
        started = self._started
        world.network.machine_up(self.name)
        world.record(self.name, f"starts, run {process.number}")
        loop.create_task(self._run(make, process), name=self.name, context=context)
        node: Node = await asyncio.shield(started)
        return node

    @property
    def is_stopping(self) -> bool:
        """Whether the node was asked to leave in order, and has not ended yet."""
        return self._stop_wanted is not None and self._stop_wanted.done()

    async def stop(self) -> bool:
        """Leave the node in order; return whether it has: it may crash, or fail, meanwhile."""
        if self._stop_wanted is None or self._ended is None:
            return False
        self._world.record(self.name, "stops")
        if not self._stop_wanted.done():
            self._stop_wanted.set_result(None)
        return await asyncio.shield(self._ended)

    async def until_down(self) -> None:
        """Return when the process that runs has ended, at once if none does."""
        if self._ended is not None:
            await asyncio.shield(self._ended)

    def crash(self, kind: CrashKind) -> None:
        """At once. A machine may crash while nothing runs on it."""
        world, process = self._world, self.process
        world.count(f"{kind} crash")
        if process is not None:
            world.bury(process)
            process.kill()
        for disk in self._disks:
            disk.crash()
        at_risk = 0
        if kind == "machine":
            world.network.machine_died(self.name, process)
            at_risk = self.files.lose_power(self._rng)
        elif process is not None:
            world.network.process_died(process)
        world.record(self.name, f"{kind} crash, {at_risk} changes not durable")
        if self._started is not None and not self._started.done():
            self._started.set_exception(ProcessDiedError(f"{self.name} crashed while it started"))
        self._down()

    def pause(self) -> None:
        """Freeze the process; nothing happens if none runs."""
        if self.process is not None and self.process.is_running:
            self._world.count("pause")
            self._world.record(self.name, "pauses")
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None and not self.process.is_running:
            self._world.record(self.name, "resumes")
            self._world.loop.release(self.process)

    def wipe(self, directory: Path | None = None) -> None:
        """An empty disk in the place of this one, or of the one of that directory."""
        assert self.process is None, f"{self.name} runs"
        self._world.count("wipe")
        self._world.record(self.name, "is wiped" if directory is None else f"loses {directory}")
        if directory is None:
            self.files.wipe()
        else:
            self.files.replace_directory(directory)

    def discard(self) -> None:
        """The world ends: whatever still runs no longer has any effect."""
        for disk in self._disks:
            disk.crash()
        self._down()

    async def run(self, work: Coroutine[object, None, T]) -> T:
        """Run client code on this host, in a process of its own that crashes never hit."""
        process, context = Process(self.name, 0), copy_context()
        self._world.network.machine_up(self.name)
        context.run(current_process.set, process)
        return await self._world.loop.create_task(work, name=self.name, context=context)

    # One run of a node.

    def _new_process(self) -> tuple[Process, Context]:
        self._runs += 1
        process = self.process = Process(self.name, self._runs)
        context = copy_context()
        context.run(current_process.set, process)
        return process, context

    async def _run(self, make: Callable[[NodeEnvironment], AbstractAsyncContextManager[Any]], process: Process) -> None:
        started, stop_wanted = self._started, self._stop_wanted
        assert started is not None, self.name
        assert stop_wanted is not None, self.name
        in_order = False
        try:
            async with make(self._environment(process)) as node:
                self.node = node
                self._world.record(self.name, "is up")
                started.set_result(node)
                await self._end_of(node, stop_wanted)
        except Exception as error:  # noqa: BLE001 - the supervisor of this node: its starter gets the error, else the run fails
            self._world.record(self.name, f"failed: {type(error).__name__}")
            if started.done():
                self._world.loop.call_exception_handler({"message": f"{self.name} failed", "exception": error})
            else:
                started.set_exception(error)
        else:
            in_order = stop_wanted.done()
            self._world.record(self.name, "is down")
        self._world.network.process_died(process)
        self._world.bury(process)
        process.kill()
        self._down(in_order=in_order)

    async def _end_of(self, node: object, stop_wanted: asyncio.Future[None]) -> None:
        """Until the node shall stop, or says by a future `failed` that it has to."""
        failed = getattr(node, "failed", None)
        if not isinstance(failed, asyncio.Future):
            await stop_wanted
            return
        await asyncio.wait([stop_wanted, failed], return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            self._world.record(self.name, f"has failed: {failed.result()}")
            has_broken = self.has_broken_disk
            self._world.stopped.append(Stopped(self.name, failed.result(), is_disk_to_blame=has_broken))

    def _environment(self, process: Process) -> NodeEnvironment:
        world = self._world
        rng = world.rng(f"node/{self.name}/{process.number}")
        return NodeEnvironment(
            disk=self.open_disk(),
            rng=rng,
            now_ms=self.clock.now_ms,
            lock_directory=self._lock_directory,
            open_remote_storage=lambda name, config, prefix: world.store.storage(self.name),
            is_ongoing=self.is_ongoing,
            process_metrics=tuple,
        )

    def open_disk(self) -> SimDisk:
        """Open the disk for one role of the process that runs."""
        world, number = self._world, len(self._disks)
        name = f"disk/{self.name}/{self._runs}" + (f"/{number}" if number else "")
        disk = SimDisk(self.files, self.disk_faults, world.rng(name), world.counters, world.network.context)
        disk.device = self.device
        self._disks.append(disk)
        return disk

    def _lock_directory(self, directory: Path) -> _Lock:
        if directory in self._locked:
            raise LogDirectoryLockedError(f"{directory} is in use by another process of {self.name}")
        self._locked.add(directory)
        return _Lock(self._locked, directory)

    def _down(self, *, in_order: bool = False) -> None:
        self.process = self.node = None
        self._disks = []
        self._locked = set()
        ended, self._ended = self._ended, None
        self._stop_wanted = self._started = None
        if ended is not None and not ended.done():
            ended.set_result(in_order)


def _coordinated_by_its_client(transactional_id: str, producer_id: int, producer_epoch: int) -> bool:
    """Return True: simulated clients end their transactions themselves (WriteTxnMarkers)."""
    return True
