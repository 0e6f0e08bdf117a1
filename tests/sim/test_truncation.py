"""E4: both scenarios of KIP-101, on two real brokers. What their authors drew is done here step by step.

1  the follower has a record whose commit it has not heard of; it restarts; then its leader dies and it leads
2  both lose power, the one that comes back first lost a record, leads, and takes another one at the same offset
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest

from tierfetch.broker import static_changes
from tierfetch.broker.cluster_view import NewTopic
from tierfetch.broker.node import Broker
from tierfetch.broker.partition import Partition
from tierfetch.protocol.client import Address
from tierfetch.protocol.records import Record, build_batch, iter_records
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.brokers import DIRECTORY, PORT, BrokersOptions
from tierfetch.sim.client import AttemptFailedError, SimClient
from tierfetch.sim.history import ACKS_ALL
from tierfetch.sim.replica_checkers import batches_of
from tierfetch.sim.world import World

T = TopicPartition("t", 0)
A, B = "broker-1", "broker-2"
IDS = {A: 1, B: 2}
OPTIONS = replace(BrokersOptions.drawn(Random(1)), follows_tier=False, lag_time_max_ms=30_000)


class Pair:
    """Brokers A and B with one partition; nobody detects failures, so the ISR stays as it is."""

    def __init__(self, world: World, leader: str) -> None:
        self.world = world
        self.leader = leader
        self.client = SimClient("client", [Address(name, PORT) for name in IDS], Random(7))

    async def begin(self) -> None:
        for name in IDS:
            await self.start(name)
        replicas = (IDS[self.leader], *(number for name, number in IDS.items() if name != self.leader))
        topic = NewTopic(T.topic, 1, 2, (replicas,), {"retention.ms": "-1"})
        self.world.cluster.change(lambda image: static_changes.create_topic(image, topic, UUID(int=5)))
        await self.until(lambda: all(T in self.world.host(name).node.hosted.partitions for name in IDS))
        await self.until(lambda: self.leads(self.leader))

    def leads(self, name: str) -> bool:
        return self.replica(name).leadership is not None

    async def start(self, name: str) -> None:
        config = OPTIONS.broker_config(name).model_copy(update={"remote_log_storage_system_enable": False})
        await self.world.host(name).start(lambda environment: Broker(config, environment))

    def replica(self, name: str) -> Partition:
        return self.world.host(name).node.hosted.partitions[T]

    async def produce(self, value: bytes, acks: int = ACKS_ALL) -> int:
        batch = build_batch([Record(0, 1_000, None, value)], base_offset=0)
        while True:
            try:
                return await self.client.produce(T, batch, acks)
            except AttemptFailedError:
                await asyncio.sleep(0.1)
            except Exception as error:
                if "NOT_LEADER" not in str(error) and "NOT_AVAILABLE" not in str(error):
                    raise
                await asyncio.sleep(0.1)

    def elect(self, name: str) -> None:
        partition = self.world.cluster.image.topics[T.topic].id_partition(0)
        self.world.cluster.change(lambda image: static_changes.elect_leader(image, partition, IDS[name]))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - virtual time waits for free
                await asyncio.sleep(0.01)

    async def until_equal(self) -> None:
        def position(name: str) -> tuple[int, int, int]:
            log = self.replica(name).log
            return log.latest_epoch, log.log_end_offset, log.high_watermark

        await self.until(lambda: position(A) == position(B))
        assert self.content(A) == self.content(B)

    def content(self, name: str) -> bytes:
        files = self.world.host(name).files.walk(DIRECTORY / str(T))
        return b"".join(bytes(inode.content) for path, inode in files if path.suffix == ".log")

    def values(self, name: str) -> list[bytes | None]:
        batches = batches_of(self.content(name))
        return [record.value for batch in batches for record in iter_records(batch.data)]


def simulate(leader: str, scenario: Callable[[Pair], Awaitable[object]], seed: int = 1) -> object:
    with World(seed) as world:

        async def run() -> object:
            pair = Pair(world, leader)
            await pair.begin()
            return await scenario(pair)

        return world.run(run(), limit_s=300)


async def follower_that_has_not_heard(pair: Pair) -> None:
    """A has m2, and does not know that it is committed; then its process ends."""
    await pair.produce(b"m1")
    await pair.until(lambda: pair.replica(A).log.high_watermark == 1)
    await pair.produce(b"m2")
    pair.world.network.block(B, A)
    assert pair.replica(B).log.high_watermark == 2
    assert (pair.replica(A).log.log_end_offset, pair.replica(A).log.high_watermark) == (2, 1)
    pair.world.host(A).crash("process")
    pair.world.network.unblock(B, A)


async def take_over(pair: Pair) -> None:
    """A leads; B comes back, if it is down, and follows."""
    pair.elect(A)
    assert await pair.produce(b"m3") == 2
    if not pair.world.host(B).is_up:
        await pair.start(B)
    await pair.until_equal()
    assert pair.values(A) == [b"m1", b"m2", b"m3"]


@pytest.mark.parametrize("crash", ["process", "machine"])
def test_E4_scenario_1_no_record_is_lost_when_the_follower_that_restarted_leads(crash: str) -> None:
    async def scenario(pair: Pair) -> None:
        await follower_that_has_not_heard(pair)
        await pair.start(A)
        await pair.until(lambda: pair.replica(A).log.high_watermark == 2)
        assert pair.values(A) == [b"m1", b"m2"]
        pair.world.host(B).crash(crash)
        pair.world.cluster.change(lambda image: static_changes.fence_broker(image, IDS[B]))
        await take_over_without(pair)

    async def take_over_without(pair: Pair) -> None:
        await pair.until(lambda: pair.leads(A))
        assert await pair.produce(b"m3") == 2
        await pair.start(B)
        await pair.until_equal()
        assert pair.values(A) == [b"m1", b"m2", b"m3"]

    simulate(B, scenario)


def test_E4_scenario_1_when_the_leader_restarts_before_it_answers_the_epoch_request() -> None:
    async def scenario(pair: Pair) -> None:
        await follower_that_has_not_heard(pair)
        pair.world.network.block(B, A)
        await pair.start(A)
        await asyncio.sleep(1.0)
        assert pair.replica(A).log.high_watermark <= 1, "no answer reached it"
        assert pair.replica(A).log.log_end_offset == 2, "it keeps what it has"
        pair.world.host(B).crash("process")
        pair.world.network.unblock(B, A)
        await pair.start(B)
        await take_over(pair)

    simulate(B, scenario)


def test_E4_scenario_2_logs_never_diverge_after_both_lost_power() -> None:
    async def scenario(pair: Pair) -> bool:
        await pair.produce(b"m1")
        for name in IDS:
            await pair.replica(name).log.flush()
        await pair.produce(b"m2")
        await pair.replica(A).log.flush()
        for name in IDS:
            pair.world.host(name).crash("machine")
        await pair.start(B)
        has_lost = pair.replica(B).log.log_end_offset == 1
        pair.elect(B)
        offset = await pair.produce(b"m3", acks=1)
        assert offset == (1 if has_lost else 2)
        await pair.start(A)
        assert pair.values(A)[:2] == [b"m1", b"m2"], "A had flushed it"
        await pair.until_equal()
        assert pair.values(A) == ([b"m1", b"m3"] if has_lost else [b"m1", b"m2", b"m3"])
        return has_lost

    assert set(simulate(A, scenario, seed) for seed in range(8)) == {True, False}
