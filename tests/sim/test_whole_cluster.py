"""Three production controllers and three production brokers in a simulated world: nothing stands in for a node."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from tierfetch.broker.node import StartError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.quorum.core.errors import QuorumStartError
from tierfetch.sim.judges.core.acknowledged_writes import check_history
from tierfetch.sim.judges.core.history import ACKS_ALL, History
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.machine.host import CrashKind
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.client import SimClient
from tierfetch.sim.scenarios.workload import Pace, Producer, Reader, Shared
from tierfetch.tests.sim.cluster import BROKERS, Client, Cluster

pytestmark = pytest.mark.simulated

T = TopicPartition("t", 0)


def simulate(scenario, seed: int = 1):
    with World(seed) as world:
        cluster = Cluster(world, controllers=3)

        async def work():
            await cluster.start()
            await cluster.create_topic(**{"min.insync.replicas": "2"})
            return await scenario(world, cluster, Client(cluster))

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


@pytest.mark.slow
def test_a_whole_cluster_serves_and_repeats():
    async def scenario(world, cluster, client):
        acknowledged = await client.host.run(produce(client, 20))
        assert len(acknowledged) == 20
        assert await client.host.run(client.fetch(0)) == acknowledged

    assert simulate(scenario) == simulate(scenario)


@pytest.mark.slow
def test_the_controllers_replace_a_leader_that_crashes_and_take_it_back():
    async def scenario(world, cluster, client):
        producing = asyncio.ensure_future(client.host.run(produce(client, 150)))
        await asyncio.sleep(3)
        before = cluster.registration()
        world.host(f"broker-{before.leader}").crash("machine")
        await asyncio.sleep(12)
        during = cluster.registration()
        assert during.leader != before.leader
        assert before.leader not in during.isr
        await cluster.start_node(f"broker-{before.leader}")
        acknowledged = await producing
        assert len(acknowledged) > 50
        assert set(acknowledged) <= set(await client.host.run(client.fetch(0)))
        await asyncio.sleep(5)
        assert sorted(cluster.registration().isr) == list(BROKERS)

    simulate(scenario)


class Operator:
    """Breaks a node after the other, and mends it."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world = world
        self.cluster = cluster
        self.rng = world.rng("operator")
        self.hosts = [*cluster.brokers, *cluster.controllers]

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
        assert sorted(cluster.registration().isr) == list(BROKERS)
        logs = [cluster.replica(number).log.state for number in BROKERS]
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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["process", "machine"])
def test_C2_C5_acknowledged_records_survive_the_leader_and_the_active_controller(seed: int, kind: CrashKind) -> None:
    async def scenario(world: World, cluster: Cluster, _: Client) -> None:
        shared = Shared(
            History(),
            lambda: int(world.now_s * 1000),
            asyncio.Event(),
            publish=lambda _: None,
            logs_of=lambda _: {},
            were_clocks_set=lambda: False,
        )
        producer = Producer(
            "p", T, ACKS_ALL, SimClient("p", cluster.addresses, Random(seed)), shared, Random(seed), Pace()
        )
        producing = asyncio.ensure_future(world.host("producers").run(producer.run()))
        await asyncio.sleep(3)
        controller, leader = cluster.active_controller(), cluster.leader()
        world.host(controller).crash(kind)
        world.host(leader).crash(kind)
        before = shared.history.acknowledged
        await asyncio.sleep(25)
        assert shared.history.acknowledged > before, "another broker leads, under another controller"
        await cluster.start_node(controller)
        await cluster.start_node(leader)
        await asyncio.sleep(5)
        shared.stopping.set()
        await producing
        reader = Reader("judge", T, SimClient("judge", cluster.addresses, Random(2)), shared, Random(2))
        verdict = check_history(shared.history, {str(T): await reader.read_all()})
        assert verdict.anomalies == ()
        assert verdict.records_checked > before

    with World(seed) as world:
        cluster = Cluster(world, controllers=3, broker_keys={"replica.lag.time.max.ms": "1500"})
        observer = ReplicaObserver(
            lambda process: world.host(process.host).node if process.host in cluster.brokers else None,
            world.record,
            lambda _: None,
        )
        world.loop.on_event = observer.look

        async def work() -> None:
            await cluster.start()
            await cluster.create_topic(**{"min.insync.replicas": "2", "retention.ms": "-1"})
            await scenario(world, cluster, Client(cluster))

        world.run(work(), limit_s=300)
