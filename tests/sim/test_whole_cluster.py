"""Three production controllers and three production brokers in a simulated world: nothing stands in for a node."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from tierfetch.broker.node import Broker, StartError
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.client import Address
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.topics import TopicPartition
from tierfetch.quorum.errors import QuorumStartError
from tierfetch.sim.controllers import CONTROLLER_PORT, ControllerProcess, controller_config, controller_host
from tierfetch.sim.world import World
from tierfetch.tests.sim.cluster import BROKERS, Client, broker_config

NODES = (11, 12, 13)
VOTERS = ",".join(f"{node}@{controller_host(node)}:{CONTROLLER_PORT}" for node in NODES)


class WholeCluster:
    def __init__(self, world: World) -> None:
        self.world = world
        self.topic_id = None

    async def start(self) -> None:
        for names in ([controller_host(node) for node in NODES], [f"broker-{number}" for number in BROKERS]):
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(self.start_node(name))

    def broker(self, number: int) -> Broker:
        return self.world.host(f"broker-{number}").node

    async def start_node(self, name: str) -> None:
        """A broker or a controller, by the name of its host."""
        host, (kind, _, number) = self.world.host(name), name.partition("-")
        if kind == "controller":
            await host.start(lambda machine: ControllerProcess(controller_config(int(number), NODES), machine))
            return
        config = broker_config(int(number), static_cluster_file=None, **{"controller.quorum.voters": VOTERS})
        await host.start(lambda machine: Broker(config, replace(machine, cluster_view=None)))

    async def make_topic(self) -> None:
        """`t`, of one partition that brokers 1, 2 and 3 have."""
        view = self.broker(1).view
        body = {
            "topics": [
                {
                    "name": "t",
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": 0, "broker_ids": list(BROKERS)}],
                    "configs": [{"name": "min.insync.replicas", "value": "2"}],
                }
            ],
            "timeout_ms": 10_000,
            "validate_only": False,
        }
        client = WholeClient(self, self.world, "admin")
        response = await client.host.run(client.client.request(Address("broker-1", 9092), ApiKey.CREATE_TOPICS, body))
        assert response.topics[0].error_code is ErrorCode.none, response
        while not all(number in self.broker(2).view.image.brokers for number in BROKERS):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        self.topic_id = view.image.topics["t"].topic_id


class WholeClient(Client):
    """Asks whom any running broker names."""

    def __init__(self, cluster: WholeCluster, world: World, name: str = "client-1") -> None:
        super().__init__(world, name)
        self.cluster = cluster

    def image(self):
        nodes = [self.world.host(f"broker-{number}").node for number in BROKERS]
        return max(
            (node.view.image for node in nodes if node is not None),
            key=lambda image: image.topics["t"].partitions[0].partition_epoch,
        )


def simulate(scenario, seed: int = 1):
    with World(seed) as world:
        cluster = WholeCluster(world)

        async def work():
            await cluster.start()
            await cluster.make_topic()
            return await scenario(world, cluster, WholeClient(cluster, world))

        result = world.run(work(), limit_s=300)
        assert world.loop.failures == []
        return result, world.digest()


async def produce(client: Client, records: int) -> list[bytes]:
    """What was acknowledged."""
    acknowledged = []
    for number in range(records):
        value = b"value-%d" % number
        with suppress(AssertionError, OSError):
            await client.produce(value)
            acknowledged.append(value)
        await asyncio.sleep(0.1)
    return acknowledged


def test_a_whole_cluster_serves_and_repeats():
    async def scenario(world, cluster, client):
        acknowledged = await client.host.run(produce(client, 20))
        assert len(acknowledged) == 20
        assert await client.host.run(client.fetch(0)) == acknowledged

    assert simulate(scenario) == simulate(scenario)


def test_the_controllers_replace_a_leader_that_crashes_and_take_it_back():
    async def scenario(world, cluster, client):
        producing = asyncio.ensure_future(client.host.run(produce(client, 150)))
        await asyncio.sleep(3)
        before = client.image().topics["t"].partitions[0]
        world.host(f"broker-{before.leader}").crash("machine")
        await asyncio.sleep(12)
        during = client.image().topics["t"].partitions[0]
        assert during.leader != before.leader
        assert before.leader not in during.isr
        await cluster.start_node(f"broker-{before.leader}")
        acknowledged = await producing
        assert len(acknowledged) > 50
        assert set(acknowledged) <= set(await client.host.run(client.fetch(0)))
        await asyncio.sleep(5)
        assert sorted(client.image().topics["t"].partitions[0].isr) == list(BROKERS)

    simulate(scenario)


class Operator:
    """Breaks a node after the other, and mends it."""

    def __init__(self, world: World, cluster: WholeCluster) -> None:
        self.world = world
        self.cluster = cluster
        self.rng = world.rng("operator")
        self.hosts = [f"broker-{number}" for number in BROKERS] + [controller_host(node) for node in NODES]

    async def work(self, until_s: float) -> None:
        while self.world.now_s < until_s:
            await asyncio.sleep(self.rng.uniform(0.5, 6))
            name = self.rng.choice(self.hosts)
            host, others = self.world.host(name), set(self.hosts) - {name}
            match self.rng.choice(["crash", "stop", "pause", "isolate", "mute"]):
                case "crash":
                    host.crash(self.rng.choice(["process", "machine"]))
                case "stop":
                    await host.stop()
                case "pause":
                    host.pause()
                case "isolate":
                    self.world.network.partition({name}, others)
                case "mute":
                    self.world.network.block(name, self.rng.choice(sorted(others)))
            await asyncio.sleep(self.rng.uniform(0, 12))
            host.resume()
            self.world.network.heal()
            await self.start_what_is_down()

    async def start_what_is_down(self) -> None:
        for name in self.hosts:
            while not self.world.host(name).is_up:
                try:
                    await self.cluster.start_node(name)
                except (StartError, QuorumStartError):
                    await asyncio.sleep(1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_whole_cluster_survives_what_the_seed_breaks(seed):
    async def scenario(world, cluster, client):
        producing = asyncio.ensure_future(client.host.run(produce(client, 600)))
        await Operator(world, cluster).work(world.now_s + 60)
        acknowledged = await producing
        await asyncio.sleep(30)
        assert sorted(client.image().topics["t"].partitions[0].isr) == list(BROKERS)
        logs = [cluster.broker(number).hosted.partitions[TopicPartition("t", 0)].log for number in BROKERS]
        assert len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1
        values = set()
        while len(values) < logs[0].high_watermark and (more := await client.host.run(client.fetch(len(values)))):
            values |= {(len(values) + number, value) for number, value in enumerate(more)}
        assert len(acknowledged) > 100
        assert set(acknowledged) <= {value for _, value in values}
        events = world.loop.events
        await asyncio.sleep(10)
        assert world.loop.events - events < 10 * 500, "idle nodes rest"

    simulate(scenario, seed)
