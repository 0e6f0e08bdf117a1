"""Production brokers in a simulated world: they serve, and every run of a seed is the same."""

from __future__ import annotations

import asyncio

from tierfetch.sim.world import World
from tierfetch.tests.sim.cluster import Client, make_topic, start_brokers


async def produce_and_fetch(world: World, records: int) -> list[bytes]:
    await start_brokers(world)
    await make_topic(world)
    await asyncio.sleep(1)
    client = Client(world)

    async def work() -> list[bytes]:
        for number in range(records):
            await client.produce(b"value-%d" % number)
            await asyncio.sleep(0.1)
        values = await client.fetch(0)
        await client.client.close()
        return values

    values = await client.host.run(work())
    for number in (1, 2, 3):
        await world.host(f"broker-{number}").stop()
    return values


def run(seed: int, records: int = 10) -> tuple[list[bytes], str]:
    with World(seed) as world:
        values = world.run(produce_and_fetch(world, records), limit_s=100)
        assert world.loop.failures == []
        return values, world.digest()


def test_brokers_serve():
    values, _ = run(1)
    assert values == [b"value-%d" % number for number in range(10)]


def test_a_seed_repeats():
    assert run(1)[1] == run(1)[1]
    assert run(1)[1] != run(2)[1]
