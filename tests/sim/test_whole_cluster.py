"""Three production controllers and three production brokers in a simulated world: nothing stands in for a node."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from tierfetch.broker.node import Broker
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.client import Address
from tierfetch.protocol.errors import ErrorCode
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
        async with asyncio.TaskGroup() as group:
            for node in NODES:
                config = controller_config(node, NODES)
                host = self.world.host(controller_host(node))
                group.create_task(host.start(lambda machine, config=config: ControllerProcess(config, machine)))
        async with asyncio.TaskGroup() as group:
            for number in BROKERS:
                group.create_task(self.start_broker(number))

    def broker(self, number: int) -> Broker:
        return self.world.host(f"broker-{number}").node

    async def start_broker(self, number: int) -> None:
        config = broker_config(number, static_cluster_file=None, **{"controller.quorum.voters": VOTERS})
        host = self.world.host(f"broker-{number}")
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
        running = [self.cluster.broker(number) for number in BROKERS]
        return max(
            (broker.view.image for broker in running if broker is not None),
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
        await cluster.start_broker(before.leader)
        acknowledged = await producing
        assert len(acknowledged) > 50
        assert set(acknowledged) <= set(await client.host.run(client.fetch(0)))
        await asyncio.sleep(5)
        assert sorted(client.image().topics["t"].partitions[0].isr) == list(BROKERS)

    simulate(scenario)
