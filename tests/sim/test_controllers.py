"""Three production controllers in a simulated world."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.quorum.core.errors import NotLeaderError
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.controllers import controller_config, controller_host, open_quorum_process

NODES = (1, 2, 3)


class Recorder:
    def __init__(self):
        self.records = []

    def on_commit(self, batch):
        self.records += batch.records

    def on_load_snapshot(self, snapshot):
        self.records = [record for batch in snapshot.batches for record in batch]

    def on_leader_change(self, leader):
        pass


class Quorum:
    def __init__(self, world) -> None:
        self.world = world
        self.hosts = {node: world.host(controller_host(node)) for node in NODES}
        self.states = {}

    async def start(self, *nodes):
        for node in nodes or NODES:
            self.states[node] = state = Recorder()
            config = controller_config(node, NODES)
            await self.hosts[node].start(
                lambda machine, config=config, state=state: open_quorum_process(config, machine, listeners=[state])
            )

    async def leader(self, but=None):
        """(its number, the replica), once there is one."""
        while True:
            for node, host in self.hosts.items():
                replica = host.node and host.node.service.node
                if replica and node != but and replica.status.leader_and_epoch.leader_id == node:
                    return node, replica
            await asyncio.sleep(0.05)

    async def append(self, *records, but=None):
        while True:
            _, replica = await self.leader(but)
            try:
                return await replica.append_and_commit(replica.status.leader_and_epoch.epoch, records)
            except NotLeaderError:
                await asyncio.sleep(0.05)


def simulate(scenario, seed=1):
    with World(seed) as world:
        result = world.run(scenario(world, Quorum(world)), limit_s=300)
        assert world.loop.failures == []
        return result, world.digest()


async def elect_and_append(world, quorum):
    await quorum.start()
    for number in range(20):
        await quorum.append(b"record-%d" % number)
    await asyncio.sleep(1)
    assert {tuple(state.records) for state in quorum.states.values()} == {tuple(b"record-%d" % n for n in range(20))}
    return world.now_s


@pytest.mark.slow
def test_controllers_elect_a_leader_and_replicate():
    (took_s, digest) = simulate(elect_and_append)
    assert took_s < 20
    assert simulate(elect_and_append)[1] == digest
    assert simulate(elect_and_append, 2)[1] != digest


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "machine"])
def test_committed_records_survive_the_leaders_crash(kind):
    async def scenario(world, quorum):
        await quorum.start()
        await quorum.append(b"before")
        first, _ = await quorum.leader()
        quorum.hosts[first].crash(kind)
        await quorum.append(b"after", but=first)
        await quorum.start(first)
        await quorum.append(b"at last")
        await asyncio.sleep(2)
        assert {tuple(state.records) for state in quorum.states.values()} == {(b"before", b"after", b"at last")}

    for seed in range(3):
        simulate(scenario, seed)


def test_a_replica_whose_disk_fails_stops_itself_and_the_others_go_on():
    async def scenario(world, quorum):
        await quorum.start()
        await quorum.append(b"before")
        first, _ = await quorum.leader()
        quorum.hosts[first].disk_faults.error_share = 1.0
        appending = asyncio.ensure_future(quorum.append(b"lost or not"))
        await asyncio.wait([appending])
        await asyncio.sleep(10)
        assert not quorum.hosts[first].is_up
        await quorum.append(b"after", but=first)
        return appending.exception()

    simulate(scenario)


def test_a_follower_that_comes_back_asks_no_more_than_before():
    """A fetch from before the block that is answered late must not be taken for the one that is awaited."""

    async def scenario(world, quorum):
        await quorum.start()
        await quorum.append(b"before")
        leader, _ = await quorum.leader()
        follower = controller_host(next(node for node in NODES if node != leader))
        for _ in range(3):
            world.network.partition({follower}, {controller_host(leader)})
            await asyncio.sleep(9)
            world.network.heal()
            await asyncio.sleep(5)
            events = world.loop.events
            await asyncio.sleep(1)
            assert world.loop.events - events < 150

    simulate(scenario)
