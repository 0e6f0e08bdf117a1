"""The cluster state that simulated brokers see late."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.broker.cluster_view import BrokerRegistration, NewTopic
from tierfetch.broker.static_changes import fence_broker
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.sim.static_cluster import CONTROLLER, REQUEST_TIMEOUT_S
from tierfetch.sim.world import World


class Node:
    """A broker that is nothing but its view."""

    def __init__(self, environment) -> None:
        self.view = environment.cluster_view
        self.images = []

    async def __aenter__(self):
        await self.view.start()
        self.view.subscribe(lambda old, new: self.images.append((old, new)))
        return self

    async def __aexit__(self, *_):
        await self.view.close()


class Nodes:
    def __init__(self, world) -> None:
        self.world = world

    async def start(self, *numbers):
        for number in numbers:
            node = await self.host(number).start(Node)
            registration = BrokerRegistration(number, f"broker-{number}", 9092)
            await node.view.register(registration, ())

    def host(self, number):
        return self.world.host(f"broker-{number}")

    def node(self, number):
        return self.host(number).node


def simulate(scenario):
    with World(1) as world:
        nodes = Nodes(world)
        world.run(scenario(world, nodes), limit_s=1000)
        assert world.loop.failures == []


def test_each_broker_sees_every_change_in_order_and_its_own_before_its_call_returns():
    async def scenario(world, nodes):
        await nodes.start(1, 2, 3)
        topic = await nodes.node(1).view.create_topic(NewTopic("t", 2, 3))
        assert nodes.node(1).view.image.topics["t"] == topic
        assert "t" not in nodes.node(2).view.image.topics
        world.cluster.change(lambda image: fence_broker(image, 3))
        await asyncio.sleep(0.1)
        for number in (1, 2, 3):
            images = nodes.node(number).images
            assert images[-1][1] is world.cluster.image
            assert all(images[index][1] is images[index + 1][0] for index in range(len(images) - 1))
        ids = [await nodes.node(number).view.allocate_producer_ids() for number in (1, 2)]
        assert ids[1].first == ids[0].first + ids[0].size

    simulate(scenario)


def test_a_refusal_changes_nothing():
    async def scenario(world, nodes):
        await nodes.start(1, 2)
        topic = await nodes.node(1).view.create_topic(NewTopic("t", 1, 2))
        before = world.cluster.image
        with pytest.raises(KafkaError) as refused:
            await nodes.node(1).view.alter_partition(
                topic.id_partition(0), leader_epoch=0, partition_epoch=7, isr=[1, 2]
            )
        assert refused.value.code is ErrorCode.invalid_update_version
        assert world.cluster.image is before

    simulate(scenario)


@pytest.mark.parametrize(("source", "target"), [("broker-1", CONTROLLER), (CONTROLLER, "broker-1")])
def test_behind_a_block_a_call_fails_and_only_its_request_decides_what_happened(source, target):
    async def scenario(world, nodes):
        await nodes.start(1, 2)
        world.network.block(source, target)
        began = world.now_s
        with pytest.raises(OSError, match="no answer"):
            await nodes.node(1).view.create_topic(NewTopic("t", 1, 1))
        assert world.now_s - began >= REQUEST_TIMEOUT_S
        has_happened = source == CONTROLLER
        assert ("t" in world.cluster.image.topics) == has_happened
        assert ("t" in nodes.node(2).view.image.topics) == has_happened
        assert "t" not in nodes.node(1).view.image.topics
        world.network.heal()
        await asyncio.sleep(2)
        assert nodes.node(1).view.image is world.cluster.image

    simulate(scenario)


def test_a_paused_broker_hears_later_and_a_dead_one_never():
    async def scenario(world, nodes):
        await nodes.start(1, 2)
        await asyncio.sleep(1)
        paused, dead = nodes.node(1), nodes.node(2)
        nodes.host(1).pause()
        nodes.host(2).crash("process")
        world.cluster.change(lambda image: fence_broker(image, 2))
        await asyncio.sleep(1)
        heard = len(paused.images), len(dead.images)
        nodes.host(1).resume()
        await asyncio.sleep(1)
        assert len(paused.images) == heard[0] + 1
        assert len(dead.images) == heard[1]

    simulate(scenario)


def test_what_shall_happen_first_happens_before_a_broker_registers():
    async def scenario(world, nodes):
        await nodes.start(1, 2)
        await nodes.node(1).view.create_topic(NewTopic("t", 1, 2))
        world.cluster.on_register = fence_broker
        nodes.host(1).crash("machine")
        await nodes.start(1)
        partition = world.cluster.image.topics["t"].partitions[0]
        assert (partition.leader, partition.isr) == (2, (2,))
        assert not world.cluster.image.brokers[1].fenced

    simulate(scenario)
