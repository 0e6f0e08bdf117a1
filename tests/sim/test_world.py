"""Production brokers in a simulated world: they serve, and every run of a seed is the same."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress

import pytest

from tierfetch.sim.machine.costs import Costs
from tierfetch.sim.machine.world import World
from tierfetch.tests.sim.cluster import BROKERS, Client, Cluster


async def produce_and_fetch(world: World, records: int) -> list[bytes]:
    cluster = Cluster(world)
    await cluster.start()
    await cluster.create_topic()
    client = Client(cluster)

    async def work() -> list[bytes]:
        for number in range(records):
            await client.produce(b"value-%d" % number)
            await asyncio.sleep(0.1)
        values = await client.fetch(0)
        await client.client.close()
        return values

    values = await client.host.run(work())
    for name in (*cluster.brokers, *cluster.controllers):
        await world.host(name).stop()
    return values


def run(seed: int, records: int = 10) -> tuple[list[bytes], str]:
    with World(seed) as world:
        values = world.run(produce_and_fetch(world, records), limit_s=100)
        assert world.loop.failures == []
        return values, world.digest()


def test_brokers_serve():
    values, _ = run(1)
    assert values == [b"value-%d" % number for number in range(10)]


@pytest.mark.slow
def test_a_seed_repeats():
    assert run(1)[1] == run(1)[1]
    assert run(1)[1] != run(2)[1]


@pytest.mark.slow
def test_a_seed_repeats_whatever_the_hash_seed_is():
    def digest(hash_seed: str) -> str:
        code = "from tierfetch.tests.sim.test_world import run; print(run(3, records=5)[1])"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    assert len({digest(hash_seed) for hash_seed in ("0", "1", "4711")}) == 1


@pytest.mark.slow
def test_a_leader_that_crashes_is_replaced_and_nothing_acknowledged_is_lost():
    async def scenario(world: World) -> None:
        cluster = Cluster(world, broker_keys={"replica.lag.time.max.ms": "3000"})
        await cluster.start()
        await cluster.create_topic(**{"min.insync.replicas": "2"})
        client = Client(cluster)

        async def work() -> list[bytes]:
            acknowledged = []
            for number in range(150):
                value = b"value-%d" % number
                with suppress(AssertionError, OSError):
                    await client.produce(value)
                    acknowledged.append(value)
                await asyncio.sleep(0.1)
            return acknowledged

        working = asyncio.ensure_future(client.host.run(work()))
        await asyncio.sleep(2)
        world.host("broker-1").crash("machine")
        await cluster.until(lambda: cluster.registration().leader > 1)
        await cluster.start_node("broker-1")
        acknowledged = await working
        values = await client.host.run(client.fetch(0))
        assert set(acknowledged) <= set(values)
        assert len(acknowledged) > 50
        await cluster.until(lambda: sorted(cluster.registration().isr) == list(BROKERS))

    for seed in range(3):
        with World(seed) as world:
            world.run(scenario(world), limit_s=100)
            assert world.loop.failures == []
            assert world.counters == {"machine crash": 1}


@pytest.mark.parametrize("seed", range(4))
def test_a_broker_that_made_its_own_directory_is_the_same_after_a_power_failure(seed: int):
    async def scenario(world: World) -> None:
        cluster = Cluster(world, brokers=(1,), controller_keys={"broker.session.timeout.ms": "1000"})
        await cluster.start()
        known = cluster.image.brokers[1].directory_ids
        world.host("broker-1").crash("machine")
        await asyncio.sleep(2)
        await cluster.start_node("broker-1")
        assert cluster.image.brokers[1].directory_ids == known

    with World(seed) as world:
        world.run(scenario(world), limit_s=100)


def test_segments_reach_the_simulated_tier():
    keys = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.plugin": "simulated",
        "remote.log.manager.task.interval.ms": "500",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    }

    async def scenario(world: World) -> None:
        world.store.faults.error_share = 0.05
        world.store.faults.lost_reply_share = 0.05
        cluster = Cluster(world, broker_keys=keys)
        await cluster.start()
        await cluster.create_topic(**{"remote.storage.enable": "true", "segment.bytes": "1048576"})
        client = Client(cluster)

        async def work() -> None:
            for _ in range(60):
                await client.produce(bytes(50_000))
            await asyncio.sleep(20)

        await client.host.run(work())
        kinds = Counter(key.rpartition(".")[2] for key in world.store.objects)
        assert kinds["log"] >= 2
        assert world.counters["store error"] > 0

    with World(1) as world:
        world.run(scenario(world), limit_s=100)
        assert world.loop.failures == []


def test_what_the_nodes_log_is_told_with_time_and_host_but_is_no_part_of_the_digest():
    lines: list[str] = []
    digests = []
    for sink, records_logs in ((None, False), (lines.append, True)):
        with World(1, sink=sink, records_logs=records_logs) as world:
            world.run(produce_and_fetch(world, 1), limit_s=100)
            digests.append(world.digest())
    assert digests[0] == digests[1]
    leader = next(line for line in lines if "leader at epoch 0" in line)
    assert leader.split()[1] == "broker-1"
    assert "[info] broker.replicas.manager:" in leader


def test_real_time_is_sampled_by_folder_and_changes_nothing():
    with Costs() as costs:
        sampled = run(1, records=20)
    assert sampled == run(1, records=20)
    assert costs.samples > 0
    assert "%" in costs.table(functions_max=3)


def test_what_refers_to_a_world_goes_with_it() -> None:
    class Scenario:
        def __init__(self, world: World) -> None:
            self.world = world
            world.loop.on_event = self.look

        def look(self, _: object) -> None: ...

    def run() -> weakref.ref[Scenario]:
        with World(1) as world:
            return weakref.ref(Scenario(world))

    gone = run()
    with World(2):
        assert gone() is None


def test_what_outlives_a_world_has_come_to_its_end() -> None:
    """Whoever failed refers to the tasks that were under way: what is collected later must not begin to clean up."""

    async def cleaning_up() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(1000))
                await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)

    async def scenario(coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        await asyncio.sleep(1)
        return task

    coroutine = cleaning_up()
    with World(1) as world:
        task = world.run(scenario(coroutine))
        assert not task.done()
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
