"""How fast the simulator is: `python -m bench simulation`. Virtual seconds for each second of CPU time of one core.

| case | what runs, every invariant checked after every event |
|---|---|
| idle | three controllers and three brokers, one topic of three replicas, fetch waits of 500 ms |
| 10 produce requests a second | the same, and a client that appends with acks=all, one batch each 100 ms |
| and a consumer | the same, and a client that follows the topic with waits of 500 ms |
| seeds of the cluster scenario | whole runs with faults, tier and transactions, each a world of its own |

Each run is made twice: timed, and with `sim/machine/costs.py` sampling whose code runs. CPU time, not wall time: what
else the machine does changes it less. Of Apache Kafka there is nothing to compare with.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tierfetch.broker import Broker, open_broker
from tierfetch.broker.config import parse_broker_config
from tierfetch.protocol import ErrorCode, TopicPartition
from tierfetch.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tierfetch.protocol.net import Address, KafkaClient
from tierfetch.protocol.records import Record, build_batch, iter_batches
from tierfetch.quorum import QuorumNode
from tierfetch.sim.judges.core.history import ACKS_ALL
from tierfetch.sim.judges.core.judge import Judges
from tierfetch.sim.judges.core.truth import ClusterTruth
from tierfetch.sim.judges.durability import DurableLogs
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.judges.quorum_replicas import QuorumJudge
from tierfetch.sim.machine.clock import EPOCH_MS
from tierfetch.sim.machine.costs import Costs
from tierfetch.sim.machine.process import Process
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios import run_seed
from tierfetch.sim.scenarios.client import SimClient
from tierfetch.sim.scenarios.controllers import (
    CLUSTER_ID,
    CONTROLLER_PORT,
    ControllerProcess,
    controller_config,
    controller_host,
    open_controller_process,
)

from .measure import Results
from .systems import TIERFETCH, System

BENCHMARK: Final = "simulation"
CONTROLLERS: Final = {controller_host(node_id): node_id for node_id in (11, 12, 13)}
BROKERS: Final = {"broker-1": 1, "broker-2": 2, "broker-3": 3}
PORT: Final = 9092
ADDRESSES: Final = [Address(host, PORT) for host in BROKERS]
LEADER: Final = 1
PARTITION: Final = TopicPartition("orders", 0)
PRODUCE_INTERVAL_S: Final = 0.1
WAIT_MS: Final = 500
CHECK_S: Final = 0.1
WARM_UP_S: Final = 5.0
VIRTUAL_S: Final = 60.0
SEEDS: Final = range(5)
CI_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class Load:
    """What clients do."""

    produces: bool = False
    consumes: bool = False


CASES: Final = {
    "idle": Load(),
    "10 produce requests a second": Load(produces=True),
    "and a consumer": Load(produces=True, consumes=True),
}


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a run."""

    virtual_s: float
    cpu_s: float
    events: int


def run(system: System, base: Path, results: Results, size_mb: int, runs: int) -> None:
    """Measure tierfetch alone; sizes are fixed."""
    del base, size_mb
    if system is not TIERFETCH:
        return
    for case, load in CASES.items():
        for seed in range(runs):
            costs = Costs()
            run_steady(seed, load, sampling=costs)
            _tell(results, case, run_steady(seed, load), costs)
    for seed in SEEDS:
        with Costs() as costs:
            run_cluster(seed)
        _tell(results, "seeds of the cluster scenario", run_cluster(seed), costs)


def _tell(results: Results, case: str, span: Span, costs: Costs) -> None:
    def add(quantity: str, value: float, unit: str) -> None:
        results.add(BENCHMARK, case, TIERFETCH.name, quantity, value, unit)

    event_us = span.cpu_s / span.events * 1e6
    speed = span.virtual_s / span.cpu_s
    add("faster than real time", speed, "times")
    add("virtual hours a CI minute", speed * CI_MINUTE_S / 3600, "h")
    add("events a virtual second", span.events / span.virtual_s, "")
    add("an event", event_us, "us")
    for folder, samples in costs.folders.most_common():
        add(f"an event, {folder}", event_us * samples / costs.samples, "us")


def run_cluster(seed: int) -> Span:
    """A whole run, the world's beginning and end included."""
    began_s = time.process_time()
    report = run_seed(seed, "cluster")
    return Span(report.virtual_s, time.process_time() - began_s, report.events)


def run_steady(
    seed: int, load: Load, *, virtual_s: float = VIRTUAL_S, sampling: AbstractContextManager[object] | None = None
) -> Span:
    """A cluster that nothing is wrong with, from the moment on that it has warmed up."""
    with World(seed) as world:
        cluster = SteadyCluster(world)
        world.loop.on_event = cluster.judge

        async def scenario() -> Span:
            await cluster.start()
            clients = [asyncio.create_task(work) for work in cluster.clients(load)]
            await asyncio.sleep(WARM_UP_S)
            with sampling or nullcontext():
                events, began_s, cpu_s = world.loop.events, world.now_s, time.process_time()
                await asyncio.sleep(virtual_s)
                span = Span(world.now_s - began_s, time.process_time() - cpu_s, world.loop.events - events)
            for client in clients:
                assert not client.done(), client.result()
                client.cancel()
            return span

        return world.run(scenario())


class SteadyCluster:
    """Three controllers, three brokers, a topic of one partition, and the judges that look after every event."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._judges = Judges()
        self._truth = ClusterTruth(CLUSTER_ID, "PLAINTEXT", self._judges)
        disks = DurableLogs(lambda host: world.host(host).files)
        quorum = QuorumJudge(CONTROLLERS, self._replica, disks, world.record, self._judges.on)
        replicas = ReplicaObserver(self._broker, world.record, self._judges.on)
        self._looks = dict.fromkeys(CONTROLLERS, quorum.look) | dict.fromkeys(BROKERS, replicas.look)

    def judge(self, process: Process | None) -> None:
        """After every event; InvariantViolationError."""
        if process is None:
            return
        self._judges.check()
        judge = self._looks.get(process.host)
        if judge is not None:
            judge(process)

    async def start(self) -> None:
        await asyncio.gather(*(self._start_controller(name) for name in CONTROLLERS))
        await asyncio.gather(*(self._start_broker(name) for name in BROKERS))
        client = KafkaClient(client_id="administrator", random=self._world.rng("administrator"))
        replicas = CreatableReplicaAssignment(partition_index=PARTITION.partition, broker_ids=tuple(BROKERS.values()))
        topic = CreatableTopic(
            name=PARTITION.topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(replicas,),
            configs=(CreatableTopicConfig(name="min.insync.replicas", value="2"),),
        )
        answer = await client.send(ADDRESSES[0], CreateTopicsRequest(topics=(topic,), timeout_ms=10_000))
        assert answer.topics[0].error_code is ErrorCode.none, answer
        await client.close()
        while not all(self._leader_known(name) for name in BROKERS):  # noqa: ASYNC110 - virtual time waits for free
            await asyncio.sleep(CHECK_S)

    def clients(self, load: Load) -> list[Coroutine[object, None, None]]:
        """Each on a host of its own, without end."""
        wanted = {"producer": (load.produces, _produce), "consumer": (load.consumes, _consume)}
        return [
            self._world.host(name).run(work(SimClient(name, ADDRESSES, self._world.rng(name))))
            for name, (is_wanted, work) in wanted.items()
            if is_wanted
        ]

    def _leader_known(self, name: str) -> bool:
        """Whether the broker has the topic, and leads it if it is the one to lead."""
        broker: Broker = self._world.host(name).node
        partition = broker.hosted.partitions.get(PARTITION)
        return partition is not None and (BROKERS[name] != LEADER or partition.leadership is not None)

    async def _start_controller(self, name: str) -> None:
        config, tap = controller_config(CONTROLLERS[name], list(CONTROLLERS.values())), self._truth.tap(name)
        await self._world.host(name).start(lambda machine: open_controller_process(config, machine, listeners=[tap]))

    async def _start_broker(self, name: str) -> None:
        properties = {
            "node.id": str(BROKERS[name]),
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "log.dirs": "/data",
            "controller.quorum.bootstrap.servers": ",".join(f"{host}:{CONTROLLER_PORT}" for host in CONTROLLERS),
            "replica.fetch.wait.max.ms": str(WAIT_MS),
        }
        config, warnings = parse_broker_config(properties, name)
        assert not warnings, warnings
        await self._world.host(name).start(lambda machine: open_broker(config, machine))

    def _broker(self, process: Process) -> Broker | None:
        node: Broker | None = self._world.host(process.host).node
        return node

    def _replica(self, name: str) -> QuorumNode | None:
        host = self._world.hosts.get(name)
        node: ControllerProcess | None = None if host is None else host.node
        return None if node is None else node.service.node


async def _produce(client: SimClient) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for number in itertools.count():
        await asyncio.sleep(began_s + number * PRODUCE_INTERVAL_S - loop.time())
        batch = build_batch([Record(0, EPOCH_MS, None, b"value %d" % number)], base_offset=0)
        await client.produce(PARTITION, batch, ACKS_ALL)


async def _consume(client: SimClient) -> None:
    position = 0
    while True:
        fetched = await client.fetch(PARTITION, position, max_wait_ms=WAIT_MS)
        for _, header in iter_batches(fetched.data):
            position = header.next_offset
