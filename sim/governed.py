"""The governed scenario: three controllers, three brokers, a tiered topic on a simulated store, clients, an
administrator who changes the cluster, and the faults of a schedule on all of them.

    start -> clients and administrator begin -> safety phase: the schedule's faults -> heal, and start what is down
          -> clients and administrator end -> converge, within `CONVERGE_S` -> idle, measured
          -> read everything, look at every file -> judge

Nothing stands in for a node: who leads, who is in sync and who is fenced is decided by the production controllers. What
differs from seed to seed beside the faults is `GovernedOptions`. Segments are small and local retention short, so that
most of a log lies in the tier soon; nothing expires there, so every record of the main topic must be found.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import asdict
from typing import Final

from ..broker.cluster_view import ClusterImage
from ..broker.node import Broker
from ..controller.image import MetadataImage
from ..log.log_directory import CLUSTER_METADATA_TOPIC
from ..protocol.client import Address
from ..protocol.topics import TopicPartition
from ..quorum.node import QuorumNode
from ..quorum.state import RaftState
from .administrator import Administrator
from .brokers_state import DIRECTORY, replica_anomalies
from .checkers import Anomaly, FinalLog, check_history
from .client import SimClient
from .controllers import CLUSTER_ID, ControllerProcess
from .fence_judge import FenceJudge
from .governed_options import BROKERS, CLIENTS, CONTROLLERS, PORT, GovernedOptions
from .governed_state import unrest
from .history import ACKS_ALL, History
from .injector import FaultInjector
from .invariants import InvariantViolationError
from .isr_judge import IsrJudge
from .loss_tracker import LossTracker
from .observer import ReplicaObserver
from .process import Process, current_process
from .quorum_watch import QuorumWatch
from .report import Tallies
from .schedule import Schedule
from .tasks import first_error
from .truth import ClusterTruth
from .workload import Pace, Producer, Reader, Shared
from .world import World

TOPIC: Final = "orders"
METADATA_LOG: Final = f"{CLUSTER_METADATA_TOPIC}-0"
LISTENER: Final = "PLAINTEXT"
CONVERGE_S: Final = 90.0
CHECK_S: Final = 0.25
RUN_LIMIT_S: Final = 600.0
IDLE_S: Final = 2.0
IDLE_EVENTS_MAX: Final = 600
"""A second of one host, when nothing is to be done."""

Work = Callable[[], Coroutine[None, None, None]]


class GovernedRun:
    """One run. `run` once; then `findings` and `tallies` say what it came to."""

    def __init__(self, world: World, schedule: Schedule | None = None, options: GovernedOptions | None = None) -> None:
        self.world = world
        self.options = options or GovernedOptions.drawn(world.rng("options"))
        self.schedule = schedule or self.options.schedule(world.rng("faults"))
        self.history = History()
        self.anomalies: list[Anomaly] = []
        self.records_checked = 0
        self.records_excused = 0
        self.truth = ClusterTruth(CLUSTER_ID, LISTENER)
        self.observer = ReplicaObserver(self._broker_of, world.record)
        self.isr_judge = IsrJudge(self.observer, lambda: self.truth.image)
        self.losses = LossTracker(world, self.truth, self.observer, BROKERS, DIRECTORY)
        self.quorum = QuorumWatch(METADATA_LOG, CONTROLLERS, self._replica, world.record)
        starters = {name: self._starter(name) for name in (*CONTROLLERS, *BROKERS)}
        self.injector = FaultInjector(world, starters, (*starters, *CLIENTS), self, self)
        self.quorum.on_vote, self.quorum.on_win = self.injector.has_voted, self.injector.has_won
        self.truth.on_change.append(self._on_metadata)
        self.truth.on_unclean = self.losses.elected_uncleanly
        self._started_s: dict[str, float] = {}
        self._fences = FenceJudge(
            BROKERS,
            CONTROLLERS,
            session_s=self.options.session_timeout_ms / 1000,
            heartbeat_interval_s=self.options.heartbeat_interval_ms / 1000,
            now_s=world.loop.time,
            up_since_s=lambda host: self._started_s[host] if world.host(host).is_up else None,
        )
        self.injector.on_fault = lambda: self._fences.faults_are(self.injector.active)
        self._shared = Shared(self.history, lambda: int(world.now_s * 1000), asyncio.Event())
        self._shared.on_committed = self._check_committed
        self._addresses = [Address(name, PORT) for name in BROKERS]
        self._idle_events: Counter[str] | None = None
        self.administrator = Administrator(
            self.truth,
            self._brokers,
            self._addresses,
            world.rng("administrator"),
            side_configs=self.options.topic_configs,
            pace_s=self.options.administrator_pace_ms / 1000,
            record=world.record,
        )

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, number) for number in range(self.options.partitions)]

    def run(self) -> None:
        """InvariantViolationError at the event that violates one; what is found at the end is in `anomalies`."""
        self.world.loop.on_event = self._on_event
        self.world.run(self._main(), limit_s=RUN_LIMIT_S)

    def findings(self) -> list[str]:
        return [str(anomaly) for anomaly in self.anomalies]

    def tallies(self) -> Tallies:
        return Tallies(
            dict(self.injector.injected), self.history.acknowledged, self.records_checked, self.records_excused
        )

    def option_texts(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self.options).items()}

    # -- after every event --------------------------------------------------------------------------------------------

    def _on_event(self, process: Process | None) -> None:
        if process is None:
            return
        self.truth.check()
        self.losses.follow_cluster()
        if self._idle_events is not None:
            self._idle_events[process.host] += 1
        if process.host in CONTROLLERS:
            self.quorum.on_event(process)
        else:
            self.observer.on_event(process)

    def _on_metadata(self, metadata: MetadataImage, before: ClusterImage, after: ClusterImage) -> None:
        """A batch of the metadata log was applied first."""
        self.isr_judge.changed(before, after)
        self._fences.changed(before, after)
        for broker_id, broker in after.brokers.items():
            old = before.brokers.get(broker_id)
            if old is None or old.fenced != broker.fenced:
                self.world.record("metadata", f"broker {broker_id} is {'fenced' if broker.fenced else 'unfenced'}")
        for topic in before.topics.values():
            if topic.topic_id not in after.topic_names:
                self.world.record("metadata", f"{topic.name} is deleted")
        for topic in after.topics.values():
            old_topic = before.topics.get(topic.name)
            known = old_topic.partitions if old_topic is not None and old_topic.topic_id == topic.topic_id else {}
            for number, now in topic.partitions.items():
                if known.get(number) != now:
                    self.world.record("metadata", f"{topic.name}-{number} {now}")

    def _check_committed(self, partition: TopicPartition, end_offset: int, who: str) -> None:
        """A client believes that everything below this offset is committed. InvariantViolationError."""
        topic = self.truth.image.topics[partition.topic]
        committed_end = self.observer.of(topic.id_partition(partition.partition)).committed_end
        has_excuse = any(excuse.partition == str(partition) for excuse in self.losses.excuses)
        if end_offset > committed_end and not has_excuse:
            detail = f"{partition}: {who} was told of {end_offset}, leaders reported {committed_end}"
            raise InvariantViolationError("committed before it is told", detail)

    # -- the run ------------------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        for names in (CONTROLLERS, BROKERS):
            await asyncio.gather(*(self._start(name) for name in names))
        await self._administer(
            lambda: self.administrator.create_topic(TOPIC, self.options.assignments, self.options.topic_configs)
        )
        upkeep = [asyncio.create_task(self.injector.keep(name)) for name in (*CONTROLLERS, *BROKERS)]
        upkeep.append(asyncio.create_task(self._administer(self.administrator.rescue)))
        changes = asyncio.create_task(self._administer(self.administrator.run))
        clients = [asyncio.create_task(self._run_client(host, work), name=name) for name, host, work in self._clients()]
        try:
            await first_error(self.injector.run(self.schedule), [*upkeep, changes, *clients])
            self.world.record("faults", "all over: the liveness phase begins")
            changes.cancel()
            await first_error(self._calm_down(clients), [*upkeep, *clients])
        finally:
            for task in [*upkeep, changes, *clients]:
                task.cancel()
            await asyncio.gather(*upkeep, changes, *clients, return_exceptions=True)
        if not self.anomalies:
            await self._rest()
        if not self.anomalies:
            await self._judge()
        await self.administrator.close()

    async def _calm_down(self, clients: Sequence[asyncio.Task[None]]) -> None:
        """Clients go on for a moment without faults, end, and everything converges."""
        await asyncio.sleep(2.0)
        self._shared.stopping.set()
        deadline_s = self.world.now_s + CONVERGE_S
        waiting = [task for task in clients if not task.done()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=CONVERGE_S)
            if late:
                names = sorted(task.get_name() for task in late)
                self.anomalies.append(Anomaly("not live", TOPIC, f"clients that still wait for an answer: {names}"))
        while reasons := unrest(self.truth, self._brokers(), self._controllers(), self.world.store):
            if self.world.now_s > deadline_s:
                self.anomalies += [Anomaly("not converged", name, reason) for name, reason in reasons]
                return
            await asyncio.sleep(CHECK_S)

    async def _rest(self) -> None:
        """Who has nothing to do does nothing."""
        self._idle_events = Counter()
        await asyncio.sleep(IDLE_S)
        for host, events in sorted(self._idle_events.items()):
            if events > IDLE_EVENTS_MAX * IDLE_S:
                detail = f"{events / IDLE_S:.0f} events a second of an idle node"
                self.anomalies.append(Anomaly("busy when idle", host, detail))
        self._idle_events = None

    async def _judge(self) -> None:
        logs: dict[str, FinalLog] = {}
        for partition in self.partitions:
            logs[str(partition)] = await self._read_all(partition)
        verdict = check_history(self.history, logs, tuple(self.losses.excuses))
        self.anomalies += verdict.anomalies
        self.records_checked, self.records_excused = verdict.records_checked, verdict.records_excused
        self.anomalies += self.administrator.anomalies()
        files = {node_id: self.world.host(name).files for name, node_id in BROKERS.items()}
        image = self.truth.image
        for topic in image.topics.values():
            for number in topic.partitions:
                name = TopicPartition(topic.name, number)
                self.anomalies += replica_anomalies(name, self._brokers(), files, self.world.store, image)

    async def _read_all(self, partition: TopicPartition) -> FinalLog:
        client = SimClient("judge", self._addresses, self.world.rng("judge"))
        try:
            reader = Reader("judge", partition, client, self._shared, self.world.rng("judge/reader"))
            async with asyncio.timeout(CONVERGE_S):
                return await reader.read_all()
        finally:
            await client.close()

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _starter(self, name: str) -> Callable[[], Awaitable[None]]:
        return lambda: self._start(name)

    async def _start(self, name: str) -> None:
        host = self.world.host(name)
        self._started_s[name] = self.world.now_s
        if name in CONTROLLERS:
            controller, tap = self.options.controller_config(name), self.truth.tap(name)
            await host.start(lambda machine: ControllerProcess(controller, machine, listeners=[tap]))
        else:
            broker = self.options.broker_config(name)
            await host.start(lambda machine: Broker(broker, machine))

    def _broker_of(self, process: Process) -> Broker | None:
        node = self.world.host(process.host).node if process.host in BROKERS else None
        return node if isinstance(node, Broker) else None

    def _brokers(self) -> dict[int, Broker | None]:
        nodes = {node_id: self.world.host(name).node for name, node_id in BROKERS.items()}
        return {node_id: node if isinstance(node, Broker) else None for node_id, node in nodes.items()}

    def _controllers(self) -> dict[str, ControllerProcess]:
        """Those that run."""
        nodes = {name: self.world.host(name).node for name in CONTROLLERS}
        return {name: node for name, node in nodes.items() if isinstance(node, ControllerProcess)}

    def _replica(self, name: str) -> QuorumNode | None:
        node = self.world.host(name).node
        return node.service.node if isinstance(node, ControllerProcess) else None

    # -- what the injector asks and tells -----------------------------------------------------------------------------

    def move_leaders(self) -> None:
        """Half of the time the partitions', else the quorum's."""
        if self.world.rng(f"move/{self.world.now_s}").random() < 0.5:
            self._moving = self.world.loop.create_task(self._administer(self.administrator.move_leaders))
        elif (name := self.quorum_leader()) is not None and not self.world.host(name).is_paused:
            replica = self._replica(name)
            assert replica is not None, name
            context = copy_context()
            context.run(current_process.set, self.world.host(name).process)
            epoch = replica.leader_and_epoch.epoch
            self.world.loop.call_soon(replica.resign, epoch, "asked by the simulation", context=context)

    def quorum_leader(self) -> str | None:
        leading = {
            replica.leader_and_epoch.epoch: name
            for name in CONTROLLERS
            if (replica := self._replica(name)) is not None and replica.state is RaftState.LEADER
        }
        return leading[max(leading)] if leading else None

    def may_wipe(self, host: str) -> bool:
        return self.losses.may_wipe(host)

    def before_crash(self, host: str) -> None:
        if host in BROKERS:
            self.losses.before_crash(host)

    def machines_crashed(self, hosts: Sequence[str]) -> None:
        self.losses.machines_crashed([host for host in hosts if host in BROKERS])

    def wiped(self, host: str) -> None:
        self.truth.wiped.add(BROKERS[host])
        self.losses.wiped(host)

    def process_ended(self, host: str) -> None:
        if host in BROKERS:
            self.losses.process_ended(host)
        else:
            self.quorum.process_ended(host)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def _administer(self, work: Work) -> None:
        await self.world.host("administrator").run(work())

    def _clients(self) -> list[tuple[str, str, Work]]:
        """Name, host, and what the client process does."""
        options = self.options
        works: list[tuple[str, str, Work]] = []
        for partition in self.partitions:
            for number in range(options.producers + options.weak_producers):
                acks = ACKS_ALL if number < options.producers else 1
                name = f"producer-{partition}-{number}"
                works.append((name, "producers", self._producer(name, partition, acks).run))
            for number in range(options.transactional_producers):
                name = f"transactions-{partition}-{number}"
                works.append((name, "producers", self._producer(name, partition, ACKS_ALL).run_transactions))
            reader, committed = f"reader-{partition}", f"committed-{partition}"
            works.append((reader, "readers", self._reader(reader, partition).run))
            works.append((committed, "readers", self._reader(committed, partition, committed=True).run))
            sweeper = f"sweeper-{partition}"
            works.append((sweeper, "readers", self._reader(sweeper, partition).sweep))
        return works

    def _producer(self, name: str, partition: TopicPartition, acks: int) -> Producer:
        rng = self.world.rng(name)
        pace = Pace(gap_s=self.options.gap_ms / 1000)
        return Producer(name, partition, acks, SimClient(name, self._addresses, rng), self._shared, rng, pace)

    def _reader(self, name: str, partition: TopicPartition, *, committed: bool = False) -> Reader:
        rng = self.world.rng(name)
        client = SimClient(name, self._addresses, rng)
        return Reader(name, partition, client, self._shared, rng, is_read_committed=committed)

    async def _run_client(self, host: str, work: Work) -> None:
        await self.world.host(host).run(work())
