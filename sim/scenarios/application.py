"""An application of others in a simulated cluster: its processes run on hosts of their own, under the same faults.

    start -> topics -> application, driver -> safety phase: the schedule's faults -> heal, start what is down
          -> the driver ends -> settle -> check, or the application ends

| role        | host          | what happens to it                                                                   |
|-------------|---------------|--------------------------------------------------------------------------------------|
| application | `app-1`, ...  | killed, powered off, paused, asked to stop, cut off; started again until it returns  |
| driver      | `driver`      | cut off only; it feeds the application from the beginning                            |
| check       | `driver`      | nothing: the faults are over                                                         |

A role is a coroutine function of a `Place`. What it has in memory is lost with its process; what is on its disk stays,
as far as the disk was synced. An error that `may_exit` ends the process of the application, which is started again; any
other error of a role fails the run at once. The cluster itself is not judged here, but by its own seeds (`cluster`):
that nodes of it end by themselves, or leave errors that no code awaits, fails the run all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...broker import NodeEnvironment
from ...light_dataclass import dataclass
from ...protocol.net import Address
from ..faults.applications import KINDS, of_application
from ..faults.injector import FaultInjector
from ..faults.schedule import Fault, FaultKind, Schedule
from ..judges.core.events import MetadataChanged, Observed
from ..judges.core.judge import Judges
from ..judges.core.partition import InvariantViolationError
from ..judges.core.truth import ClusterTruth
from ..machine.clock import WallClock
from ..machine.disk import SimDisk
from ..machine.outside import Outside
from ..machine.tasks import first_error
from ..machine.world import World
from .administrator import Administrator
from .cluster_nodes import ClusterNodes
from .cluster_options import BROKERS, FLUSH_NEVER, NO_LIMIT, PORT, ClusterOptions
from .cluster_state import metadata_changes
from .controllers import CLUSTER_ID
from .operations.grammar import check_actions

DRIVER: Final = "driver"
LISTENER: Final = "PLAINTEXT"
INTERNAL_PARTITIONS: Final = "3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a role runs: the host's name, which of the application's instances it is (0 for the driver), and which run
    of it, both from 1; its disk; and what writes a line of the trace.
    """

    host: str
    instance: int
    run: int
    disk: SimDisk
    record: Callable[[str], None]


Role = Callable[[Place], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What runs, and for how long, in virtual seconds. `topics` have so many partitions each."""

    application: Role
    topics: Mapping[str, int]
    instances: int = 1
    drive: Role | None = None
    check: Role | None = None
    may_exit: Callable[[BaseException], bool] = lambda error: isinstance(error, OSError)
    kinds: frozenset[FaultKind] = KINDS
    faults_s: float = 30.0
    settle_s: float = 30.0
    limit_s: float = 600.0
    topic_configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(f"app-{number}" for number in range(1, self.instances + 1))


class ApplicationOptions(ClusterOptions):
    """What a seed chooses for the cluster around an application: nothing that may lose what was acknowledged."""

    @classmethod
    def drawn_for(cls, world: World) -> ClusterOptions:
        drawn = cls._drawn(world.rng("options"))
        return replace(
            drawn,
            replication_factor=3,
            min_insync_replicas=2,
            flush_messages=1,
            segment_bytes=world.rng("segments").choice((15_000, 60_000)),
            local_retention_ms=world.rng("local retention").choice((5_000, 60_000)),
            racks=world.rng("racks").random() < 0.3,
            retention_ms=NO_LIMIT,
            snapshot_bytes=20 * 1024 * 1024,
            session_timeout_ms=world.rng("sessions").choice((3_000, 9_000)),
            lag_time_max_ms=world.rng("lags").choice((5_000, 10_000)),
            election_timeout_ms=1_000,
            fetch_timeout_ms=2_000,
        )

    @property
    def side_configs(self) -> dict[str, str]:
        """Segments go to the tier, but not one for every few records."""
        return {**super().side_configs, "segment.ms": "15000"}

    @property
    def _quorum_keys(self) -> dict[str, str]:
        return {**super()._quorum_keys, "controller.quorum.retry.backoff.ms": "100"}

    def _broker_keys(self, name: str) -> dict[str, str]:
        assert self.flush_messages < FLUSH_NEVER, self
        internal = {"num.partitions": INTERNAL_PARTITIONS, "replication.factor": "3"}
        return {
            **super()._broker_keys(name),
            **{f"offsets.topic.{key}": value for key, value in internal.items()},
            **{f"transaction.state.log.{key}": value for key, value in internal.items()},
            "log.flush.interval.messages": str(self.flush_messages),
            "min.insync.replicas": "2",
            "group.initial.rebalance.delay.ms": "500",
            "replica.high.watermark.checkpoint.interval.ms": "5000",
            "log.retention.check.interval.ms": "5000",
            "log.cleaner.backoff.ms": "15000",
            "remote.log.manager.task.interval.ms": "10000",
            "replica.fetch.wait.max.ms": "2000",
            "replica.socket.timeout.ms": "5000",
        }


class ApplicationFailedError(Exception):
    """A role ended with an error, which is the cause. `role` says whose it is, and where."""

    def __init__(self, role: str, error: BaseException) -> None:
        super().__init__(f"{role}: {type(error).__name__}: {error}")
        self.role = role
        self.error = error


class ClusterFailedError(AssertionError):
    """A node did what it must not: a bug of the cluster's, not of the application's."""


@dataclass(frozen=True, slots=True)
class _Process:
    """One process of the application. `failed` is done when it ends by itself."""

    failed: asyncio.Future[str]


class ApplicationScenario:
    """One run. `run` once; it raises ApplicationFailedError, ClusterFailedError, or what the world raises."""

    def __init__(self, world: World, play: Play, schedule: Schedule | None = None) -> None:
        self.world = world
        self.play = play
        self.options = ApplicationOptions.drawn_for(world)
        self.starts: dict[str, int] = dict.fromkeys(play.hosts, 0)
        """How often each instance was started."""
        self._judges = Judges()
        self.truth = ClusterTruth(CLUSTER_ID, LISTENER, self._judges)
        self.nodes = ClusterNodes(world, self.options, self.truth.tap, lambda service: None)
        self._administrator = Administrator(
            self.truth,
            self.nodes.brokers,
            [Address(name, PORT) for name in BROKERS],
            world.rng("administrator"),
            side_configs={},
            record=world.record,
        )
        self._ended: dict[str, None] = {}
        """The instances that have returned."""
        self._all_ended = asyncio.Event()
        self._failed: asyncio.Future[None] = world.loop.create_future()
        self._doing: dict[asyncio.Task[None], None] = {}
        starts = {name: partial(self.nodes.start, name) for name in self.nodes.names}
        starts |= {name: partial(self._start, name) for name in play.hosts}
        self._names = tuple(starts)
        self.schedule = schedule or of_application(
            world.rng,
            nodes=self._names,
            brokers=tuple(BROKERS),
            own=play.hosts,
            client=DRIVER,
            kinds=play.kinds,
            safety_ms=int(play.faults_s * 1000),
        )
        self.injector = FaultInjector(world, starts, (*starts, DRIVER), self, self._judges.on)
        self.injector.immediate_faults[FaultKind.RESTART] = self._restart
        self.injector.check(self.schedule)
        check_actions(self.schedule)
        self._judges.add(self, self.injector)

    def run(self) -> None:
        for name in (*self._names, DRIVER):
            self.world.host(name).is_ongoing = None
        self.world.loop.numbers_futures = True
        self.world.loop.on_event = lambda _: self._judges.check()
        with Outside(self.world.loop, self.world.rng("application"), self.clock_of):
            try:
                self.world.run(self._main(), limit_s=self.play.limit_s)
            except InvariantViolationError as violation:
                raise ClusterFailedError(str(violation)) from violation

    def clock_of(self, host: str) -> WallClock | None:
        """Return the clock of a host that runs code of the application; None for nodes."""
        return self.world.host(host).clock if host == DRIVER or host in self.starts else None

    # -- the run ------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        controllers = [name for name in self.nodes.names if name not in BROKERS]
        for names in (controllers, list(BROKERS)):
            await asyncio.gather(*(self.nodes.start(name) for name in names))
        await self._create_topics()
        keepers = [asyncio.create_task(self.injector.keep(name, rests=True)) for name in self._names]
        driver = asyncio.create_task(self._drive())
        guards = [*keepers, asyncio.create_task(self._wait_for_failure())]
        try:
            await first_error(self.injector.run(self.schedule), [*guards, driver])
            self.world.record("faults", "all over")
            await first_error(self._end(driver), guards)
        finally:
            for task in [*guards, driver, *self._doing]:
                task.cancel()
            await asyncio.gather(*guards, driver, *self._doing, return_exceptions=True)
        await self._administrator.close()

    async def _create_topics(self) -> None:
        ids = list(BROKERS.values())
        configs = {**self.options.side_configs, **self.play.topic_configs}
        for topic, partitions in self.play.topics.items():
            replicas = [[ids[(number + place) % len(ids)] for place in range(len(ids))] for number in range(partitions)]
            work = self._administrator.create_topic(topic, replicas, configs)
            await self.world.host("administrator").run(work)

    async def _drive(self) -> None:
        if self.play.drive is not None:
            await self._act("driver", self.play.drive)

    async def _end(self, driver: asyncio.Task[None]) -> None:
        await driver
        await asyncio.sleep(self.play.settle_s)
        if self.play.check is None:
            await self._all_ended.wait()
        else:
            await self._act("check", self.play.check)

    async def _act(self, name: str, role: Role) -> None:
        """Run what runs on the driver's host."""
        host = self.world.host(DRIVER)
        place = Place(host=DRIVER, instance=0, run=1, disk=host.open_disk(), record=partial(self.world.record, DRIVER))
        try:
            await host.run(role(place))
        except Exception as error:
            raise ApplicationFailedError(name, error) from error

    async def _wait_for_failure(self) -> None:
        await self._failed

    # -- the application's processes ----------------------------------------------------------------------------------

    async def _start(self, name: str) -> None:
        """Start it, unless it has come to its end."""
        if name not in self._ended:
            self.starts[name] += 1
            await self.world.host(name).start(partial(self._open, name))

    @asynccontextmanager
    async def _open(self, name: str, machine: NodeEnvironment) -> AsyncIterator[_Process]:
        """Run the application for `Host.start`; asked to stop, it is cancelled."""
        disk = machine.disk
        assert isinstance(disk, SimDisk), disk
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        place = Place(
            host=name,
            instance=self.play.hosts.index(name) + 1,
            run=self.starts[name],
            disk=disk,
            record=partial(self.world.record, name),
        )
        task = asyncio.get_running_loop().create_task(self.play.application(place), name=name)
        task.add_done_callback(partial(self._process_ended, name, failed))
        try:
            yield _Process(failed)
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _process_ended(self, name: str, failed: asyncio.Future[str], task: asyncio.Task[object]) -> None:
        if failed.done() or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._ended[name] = None
            if len(self._ended) == self.play.instances:
                self._all_ended.set()
        elif not self.play.may_exit(error) and not self._failed.done():
            self._failed.set_exception(ApplicationFailedError(name, error))
        if error is not None:  # the text may name addresses, and is no part of the digest
            self.world.say(name, f"{type(error).__name__}: {error}")
        failed.set_result("returned" if error is None else type(error).__name__)

    # -- what the injector asks ----------------------------------------------------------------------------------------

    def may_wipe(self, host: str, directory: Path | None = None) -> bool:
        return False

    def move_leaders(self) -> None:
        self._do(lambda: self.world.host("administrator").run(self._administrator.move_leaders()))

    def quorum_leader(self) -> str | None:
        return self.nodes.quorum_leader()

    def _restart(self, fault: Fault) -> None:
        self._do(lambda: self._stop(fault.targets[0]))

    async def _stop(self, name: str) -> None:
        """As an operator does; its keeper starts it again."""
        host = self.world.host(name)
        if host.node is not None:
            await host.stop()

    def _do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = self.world.loop.create_task(work())
        self._doing[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._doing[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, Exception), error
            self._judges.report(error)

    # -- what happened ------------------------------------------------------------------------------------------------

    def on(self, event: Observed) -> None:
        """Write the changes of the metadata into the trace."""
        if isinstance(event, MetadataChanged):
            for text in metadata_changes(event.before, event.after):
                self.world.record("metadata", text)

    def cluster_failures(self) -> list[str]:
        """What nodes did that they must not. Clients that were left open report it without an exception, outside of
        all processes.
        """
        stopped = [f"{each.host} stopped by itself: {each.reason}" for each in self._of_nodes(self.world.stopped)]
        unexpected = [
            f"unexpected: {each.get('exception') or each['message']!r}"
            for each in self.world.loop.failures
            if self._is_of_nodes(each)
        ]
        return stopped + unexpected

    def _is_of_nodes(self, failure: dict[str, Any]) -> bool:
        process = failure["process"]
        return "exception" in failure if process is None else self.clock_of(process.host) is None

    def _of_nodes(self, stopped: Iterable[Any]) -> Sequence[Any]:
        return [each for each in stopped if each.host not in self.starts and not each.is_disk_to_blame]
