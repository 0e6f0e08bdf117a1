"""Three controllers and three brokers in one world: failover without a stand-in for the controller, judged as ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Self

import pytest

from tierfetch.broker.config import parse
from tierfetch.broker.environment import NodeEnvironment
from tierfetch.broker.node import Broker
from tierfetch.controller.service import ControllerService
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.client import Address, KafkaClient
from tierfetch.protocol.topics import TopicPartition
from tierfetch.quorum.controller_config import ControllerConfig
from tierfetch.quorum.formatting import FormatOrder, format_directories, new_directory_id
from tierfetch.quorum.state import ReplicaKey
from tierfetch.sim.brokers import NODES, PORT
from tierfetch.sim.checkers import check_history
from tierfetch.sim.client import SimClient
from tierfetch.sim.controllers import CLUSTER_ID, CONTROLLER_PORT, controller_config, controller_host
from tierfetch.sim.history import ACKS_ALL, History
from tierfetch.sim.host import CrashKind
from tierfetch.sim.observer import ReplicaObserver
from tierfetch.sim.workload import Pace, Producer, Reader, Shared
from tierfetch.sim.world import World

CONTROLLERS = (1, 2, 3)
BROKER_IDS = {name: 10 + number for name, number in NODES.items()}
T = TopicPartition("t", 0)


class GovernedController:
    """For `Host.start`: formats a new directory, then is a controller."""

    def __init__(self, config: ControllerConfig, machine: NodeEnvironment) -> None:
        self._config = config
        self._machine = machine

    async def __aenter__(self) -> Self:
        config, machine = self._config, self._machine
        order = FormatOrder(CLUSTER_ID, ReplicaKey(config.node_id, new_directory_id(machine.rng)), config.directories)
        await format_directories(machine.disk, order, ignore_formatted=True, rng=machine.rng, now_ms=machine.now_ms)
        self.service = ControllerService(
            config, disk=machine.disk, rng=machine.rng, now_ms=machine.now_ms, lock=machine.lock_directory
        )
        await self.service.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.__aexit__(None, None, None)


class Cluster:
    def __init__(self, world: World) -> None:
        self.world = world
        self.history = History()
        self.shared = Shared(self.history, lambda: int(world.now_s * 1000), asyncio.Event())
        self.addresses = [Address(name, PORT) for name in NODES]

    async def start_controller(self, number: int) -> None:
        config = controller_config(number, CONTROLLERS)
        await self.world.host(controller_host(number)).start(lambda machine: GovernedController(config, machine))

    async def start_broker(self, name: str) -> None:
        properties = {
            "process.roles": "broker",
            "node.id": str(BROKER_IDS[name]),
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            "log.dirs": "/data",
            "replica.lag.time.max.ms": "1500",
            "replica.fetch.backoff.ms": "200",
            "controller.quorum.bootstrap.servers": ",".join(
                f"{controller_host(number)}:{CONTROLLER_PORT}" for number in CONTROLLERS
            ),
        }
        config, _ = parse(properties, name)
        await self.world.host(name).start(lambda machine: Broker(config, replace(machine, cluster_view=None)))

    async def begin(self) -> None:
        await asyncio.gather(*(self.start_controller(number) for number in CONTROLLERS))
        await asyncio.gather(*(self.start_broker(name) for name in NODES))
        client = KafkaClient(client_id="admin", random=Random(1))
        assignments = [{"partition_index": 0, "broker_ids": list(BROKER_IDS.values())}]
        configs = [{"name": "retention.ms", "value": "-1"}, {"name": "min.insync.replicas", "value": "2"}]
        topic = {
            "name": T.topic,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": assignments,
            "configs": configs,
        }
        body = {"topics": [topic], "timeout_ms": 10_000, "validate_only": False}
        answer = await client.request(self.addresses[0], ApiKey.CREATE_TOPICS, body)
        assert answer.topics[0].error_code == 0, answer
        await client.close()

    def active_controller(self) -> int:
        for number in CONTROLLERS:
            node = self.world.host(controller_host(number)).node
            if node is not None and node.service.node.leader_and_epoch.leader_id == number:
                return number
        raise AssertionError("no controller leads")

    def leader(self) -> str:
        for name in NODES:
            node = self.world.host(name).node
            partition = None if node is None else node.hosted.partitions.get(T)
            if partition is not None and partition.leadership is not None:
                return name
        raise AssertionError("no broker leads")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["process", "machine"])
def test_C2_C5_acknowledged_records_survive_the_leader_and_the_active_controller(seed: int, kind: CrashKind) -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.begin()
        producer = Producer(
            "p", T, ACKS_ALL, SimClient("p", cluster.addresses, Random(seed)), cluster.shared, Random(seed), Pace()
        )
        producing = asyncio.ensure_future(world.host("producers").run(producer.run()))
        await asyncio.sleep(3)
        controller, leader = cluster.active_controller(), cluster.leader()
        world.host(controller_host(controller)).crash(kind)
        world.host(leader).crash(kind)
        before = cluster.history.acknowledged
        await asyncio.sleep(25)
        assert cluster.history.acknowledged > before, "another broker leads, under another controller"
        await cluster.start_controller(controller)
        await cluster.start_broker(leader)
        await asyncio.sleep(5)
        cluster.shared.stopping.set()
        await producing
        reader = Reader("judge", T, SimClient("judge", cluster.addresses, Random(2)), cluster.shared, Random(2))
        verdict = check_history(cluster.history, {str(T): await reader.read_all()})
        assert verdict.anomalies == ()
        assert verdict.records_checked > before

    with World(seed) as world:
        observer = ReplicaObserver(
            lambda process: world.host(process.host).node if process.host in NODES else None, world.record
        )
        world.loop.on_event = observer.on_event
        world.run(scenario(world, Cluster(world)), limit_s=300)
