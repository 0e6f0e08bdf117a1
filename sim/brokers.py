"""The brokers' scenario: three brokers, a tiered topic on a simulated store, clients, and the faults of a schedule.

    start -> clients begin -> safety phase: the schedule's faults -> heal, and start what is down
          -> clients end -> converge, within `CONVERGE_S` -> read everything, look at every file -> judge

What differs from seed to seed beside the faults (the swarm's options) is `BrokersOptions`. Segments are small and local
retention short, so that most of a log lies in the tier soon; nothing expires there, so every record must be found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from ..broker import static_changes
from ..broker.cluster_view import NewTopic
from ..broker.config import BrokerConfig, parse
from ..broker.node import Broker
from ..protocol.client import Address
from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC, TopicPartition
from .brokers_state import not_converged, replica_anomalies
from .checkers import Anomaly, FinalLog, check_history
from .client import SimClient
from .history import ACKS_ALL, History
from .injector import FaultInjector
from .loss_tracker import LossTracker
from .observer import ReplicaObserver
from .operator import Operator
from .process import Process
from .report import Tallies
from .schedule import Schedule, generate
from .static_cluster import CONTROLLER
from .tasks import first_error
from .workload import Pace, Producer, Reader, Shared
from .world import World

NODES: Final = {"broker-1": 1, "broker-2": 2, "broker-3": 3}
CLIENTS: Final = ("producers", "readers")
TOPIC: Final = "orders"
PORT: Final = 9092
DIRECTORY: Final = Path("/data")
SAFETY_MS: Final = 20_000
CONVERGE_S: Final = 90.0
CHECK_S: Final = 0.25
RUN_LIMIT_S: Final = 600.0
FLUSH_NEVER: Final = 2**63 - 1

Work = Callable[[], Coroutine[None, None, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersOptions:
    """What a seed chooses beside its faults."""

    partitions: int
    min_insync_replicas: int
    flush_messages: int
    segment_bytes: int
    local_retention_ms: int
    bootstrap_policy: str
    follows_tier: bool
    session_timeout_ms: int
    lag_time_max_ms: int
    producers: int
    weak_producers: int
    transactional_producers: int
    gap_ms: int

    @classmethod
    def drawn(cls, rng: Random) -> BrokersOptions:
        return cls(
            partitions=rng.choice((1, 1, 2)),
            min_insync_replicas=rng.choice((1, 2, 2)),
            flush_messages=rng.choice((1, 5, FLUSH_NEVER, FLUSH_NEVER)),
            segment_bytes=rng.choice((3_000, 6_000, 15_000)),
            local_retention_ms=rng.choice((500, 2_000, 8_000)),
            bootstrap_policy=rng.choice(("tier-first", "earliest-pending-upload", "local-log-start", "bounded-local")),
            follows_tier=rng.random() < 0.85,
            session_timeout_ms=rng.choice((700, 1_500, 3_000)),
            lag_time_max_ms=rng.choice((1_000, 2_500)),
            producers=rng.choice((1, 2)),
            weak_producers=rng.choice((0, 0, 1)),
            transactional_producers=rng.choice((0, 0, 1)),
            gap_ms=rng.choice((70, 130, 250)),
        )

    @property
    def topic_configs(self) -> dict[str, str]:
        return {
            "remote.storage.enable": "true",
            "internal.segment.bytes": str(self.segment_bytes),
            "index.interval.bytes": "300",
            "segment.ms": "3000",
            "local.retention.ms": str(self.local_retention_ms),
            "retention.ms": "-1",
            "flush.messages": str(self.flush_messages),
            "min.insync.replicas": str(self.min_insync_replicas),
            "file.delete.delay.ms": "500",
        }

    def broker_config(self, name: str) -> BrokerConfig:
        properties = {
            "node.id": str(NODES[name]),
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "log.dirs": str(DIRECTORY),
            "static.cluster.file": "/unused/cluster.yaml",
            "replica.lag.time.max.ms": str(self.lag_time_max_ms),
            "replica.fetch.wait.max.ms": "500",
            "replica.fetch.backoff.ms": "200",
            "replica.socket.timeout.ms": "3000",
            "replica.high.watermark.checkpoint.interval.ms": "1000",
            "log.retention.check.interval.ms": "1000",
            "request.timeout.ms": "5000",
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.plugin": "local",
            "remote.log.manager.task.interval.ms": "300",
            "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
            "rlmm.config.remote.log.metadata.topic.min.isr": "2",
            "follower.fetch.last.tiered.offset.enable": str(self.follows_tier).lower(),
            "bootstrap.policy": self.bootstrap_policy,
        }
        config, warnings = parse(properties, name)
        assert not warnings, warnings
        return config


class BrokersRun:
    """One run. `run` once; then `failures`, `injected`, `verdict` and the rest say what it came to."""

    name = "brokers"

    def __init__(self, world: World, schedule: Schedule | None = None, options: BrokersOptions | None = None) -> None:
        self.world = world
        self.options = options or BrokersOptions.drawn(world.rng("options"))
        self.schedule = schedule or generate(
            world.rng("faults"), tuple(NODES), SAFETY_MS, has_store=True, clients=CLIENTS
        )
        self.history = History()
        self.anomalies: list[Anomaly] = []
        self.records_checked = 0
        self.records_excused = 0
        self.observer = ReplicaObserver(self._broker_of, world.record)
        self.operator = Operator(world, NODES, self.options.session_timeout_ms / 1000, world.rng("operator"))
        self.losses = LossTracker(world, self.observer, NODES, DIRECTORY, self.operator.crashed)
        self.injector = FaultInjector(
            world,
            {name: self._starter(name) for name in NODES},
            (*NODES, *CLIENTS, CONTROLLER),
            self.losses,
            self.operator.move_leaders,
        )
        self._shared = Shared(self.history, lambda: int(world.now_s * 1000), asyncio.Event())
        self._addresses = [Address(name, PORT) for name in NODES]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, number) for number in range(self.options.partitions)]

    def run(self) -> None:
        """InvariantViolationError at the event that violates one; what is found at the end is in `anomalies`."""
        self.world.loop.on_event = self._on_event
        self.world.run(self._main(), limit_s=RUN_LIMIT_S)

    def _on_event(self, process: Process | None) -> None:
        self.losses.follow_cluster()
        self.observer.on_event(process)

    async def _main(self) -> None:
        for name in NODES:
            await self._start(name)
        self._create_topic()
        upkeep = [asyncio.create_task(self.operator.run())]
        upkeep += [asyncio.create_task(self.injector.keep(name)) for name in NODES]
        clients = [asyncio.create_task(self._run_client(host, work), name=name) for name, host, work in self._clients()]
        try:
            await first_error(self.injector.run(self.schedule), [*upkeep, *clients])
            self.world.record("faults", "all over: the liveness phase begins")
            await first_error(self._calm_down(clients), [*upkeep, *clients])
        finally:
            for task in [*upkeep, *clients]:
                task.cancel()
            await asyncio.gather(*upkeep, *clients, return_exceptions=True)
        await self._judge()

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
        while reasons := not_converged(self._brokers(), self.world.cluster.image):
            if self.world.now_s > deadline_s:
                self.anomalies += [Anomaly("not converged", name, reason) for name, reason in reasons]
                return
            await asyncio.sleep(CHECK_S)

    async def _judge(self) -> None:
        if self.anomalies:
            return
        logs: dict[str, FinalLog] = {}
        for partition in self.partitions:
            logs[str(partition)] = await self._read_all(partition)
        verdict = check_history(self.history, logs, tuple(self.losses.excuses))
        self.anomalies += verdict.anomalies
        self.records_checked, self.records_excused = verdict.records_checked, verdict.records_excused
        files = {NODES[name]: self.world.host(name).files for name in NODES}
        for partition in [*self.partitions, TopicPartition(REMOTE_LOG_METADATA_TOPIC, 0)]:
            self.anomalies += replica_anomalies(
                partition, self._brokers(), files, DIRECTORY, self.world.store, self.world.cluster.image
            )

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
        config = self.options.broker_config(name)
        await self.world.host(name).start(lambda environment: Broker(config, environment))

    def _broker_of(self, process: Process) -> Broker | None:
        node = self.world.host(process.host).node if process.host in NODES else None
        return node if isinstance(node, Broker) else None

    def _brokers(self) -> dict[int, Broker | None]:
        nodes = {node_id: self.world.host(name).node for name, node_id in NODES.items()}
        return {node_id: node if isinstance(node, Broker) else None for node_id, node in nodes.items()}

    def _create_topic(self) -> None:
        ids = tuple(NODES.values())
        assignments = tuple(ids[number:] + ids[:number] for number in range(self.options.partitions))
        topic = NewTopic(TOPIC, self.options.partitions, len(ids), assignments, self.options.topic_configs)
        topic_id = UUID(int=self.world.rng("topic").getrandbits(128), version=4)
        self.world.cluster.change(lambda image: static_changes.create_topic(image, topic, topic_id))

    # -- clients ------------------------------------------------------------------------------------------------------

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

    def findings(self) -> list[str]:
        return [str(anomaly) for anomaly in self.anomalies]

    def tallies(self) -> Tallies:
        return Tallies(
            dict(self.injector.injected), self.history.acknowledged, self.records_checked, self.records_excused
        )

    def option_texts(self) -> dict[str, str]:
        return {key: str(value) for key, value in asdict(self.options).items()}
