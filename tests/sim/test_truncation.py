"""E4: both scenarios of KIP-101, on two real brokers. What their authors drew is done here step by step.

1  the follower has a record whose commit it has not heard of; it restarts; then its leader dies and it leads
2  both lose power, the one that comes back first lost a record, leads, and takes another one at the same offset
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from tierfetch.broker.replicas.partition import Partition
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import Record, build_batch, iter_records
from tierfetch.protocol.topics import TopicPartition
from tierfetch.sim.judges.core.history import ACKS_ALL
from tierfetch.sim.judges.core.replicas import batches_of
from tierfetch.sim.judges.final_state import DIRECTORY
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.client import AttemptFailedError, SimClient
from tierfetch.tests.sim.cluster import Cluster, broker_host

T = TopicPartition("t", 0)
A, B = broker_host(1), broker_host(2)
IDS = {A: 1, B: 2}
CONTROLLER_KEYS = {"broker.session.timeout.ms": "1000", "fast.failover.enable": "false"}
BROKER_KEYS = {"broker.heartbeat.interval.ms": "250", "replica.fetch.backoff.ms": "200"}


class Pair:
    """Brokers A and B with one partition."""

    def __init__(self, world: World, leader: str) -> None:
        self.world = world
        self.leader = leader
        self.cluster = Cluster(
            world, brokers=tuple(IDS.values()), controller_keys=CONTROLLER_KEYS, broker_keys=BROKER_KEYS
        )
        self.client = SimClient("client", self.cluster.addresses, Random(7))
        self.until = self.cluster.until

    async def begin(self) -> None:
        await self.cluster.start()
        replicas = sorted(IDS.values(), key=lambda number: number != IDS[self.leader])
        await self.cluster.create_topic(T.topic, *replicas, **{"retention.ms": "-1"})

    def leads(self, name: str) -> bool:
        return self.replica(name).leadership is not None

    def is_in_sync(self, name: str) -> bool:
        return IDS[name] in self.cluster.registration().isr

    async def start(self, name: str) -> None:
        await self.cluster.start_node(name)
        await self.until(lambda: T in self.cluster.broker(IDS[name]).hosted.partitions)

    def replica(self, name: str) -> Partition:
        return self.cluster.replica(IDS[name])

    async def produce(self, value: bytes, acks: int = ACKS_ALL) -> int:
        batch = build_batch([Record(0, 1_000, None, value)], base_offset=0)
        while True:
            try:
                return await self.client.produce(T, batch, acks)
            except AttemptFailedError:
                await asyncio.sleep(0.1)
            except KafkaError as error:
                if error.code not in (ErrorCode.not_leader_or_follower, ErrorCode.leader_not_available):
                    raise
                await asyncio.sleep(0.1)

    async def until_equal(self) -> None:
        def position(name: str) -> tuple[int, int, int]:
            log = self.replica(name).log
            return log.state.epochs.latest_epoch, log.state.log_end_offset, log.state.high_watermark

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
    await pair.until(lambda: pair.replica(A).log.state.high_watermark == 1)
    await pair.produce(b"m2")
    pair.world.network.block(B, A)
    assert pair.replica(B).log.state.high_watermark == 2
    assert (pair.replica(A).log.state.log_end_offset, pair.replica(A).log.state.high_watermark) == (2, 1)
    pair.world.host(A).crash("process")
    pair.world.network.unblock(B, A)


async def take_over(pair: Pair) -> None:
    """A leads; B comes back, if it is down, and follows."""
    await pair.until(lambda: pair.leads(A))
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
        await pair.until(lambda: pair.replica(A).log.state.high_watermark == 2)
        assert pair.values(A) == [b"m1", b"m2"]
        await pair.until(lambda: pair.is_in_sync(A))
        pair.world.host(B).crash(crash)
        await take_over(pair)

    simulate(B, scenario)


def test_E4_scenario_1_when_the_leader_restarts_before_it_answers_the_epoch_request() -> None:
    async def scenario(pair: Pair) -> None:
        await follower_that_has_not_heard(pair)
        pair.world.network.block(B, A)
        await pair.start(A)
        await asyncio.sleep(1.0)
        assert pair.replica(A).log.state.high_watermark <= 1, "no answer reached it"
        assert pair.replica(A).log.state.log_end_offset == 2, "it keeps what it has"
        pair.world.host(B).crash("process")
        pair.world.network.unblock(B, A)
        await pair.start(B)
        await pair.until(lambda: pair.is_in_sync(A))
        await pair.cluster.elect(IDS[A])
        await take_over(pair)

    simulate(B, scenario)


@pytest.mark.simulated
def test_E4_scenario_2_logs_never_diverge_after_both_lost_power() -> None:
    async def scenario(pair: Pair) -> bool:
        await pair.produce(b"m1")
        for name in IDS:
            await pair.replica(name).log.flush()
        await pair.produce(b"m2")
        await pair.replica(A).log.flush()
        for name in IDS:
            pair.world.host(name).crash("machine")
        await pair.until(lambda: len(pair.cluster.decided_isr()) == 1)
        first, second = sorted(IDS, key=lambda name: IDS[name] not in pair.cluster.decided_isr())
        await pair.start(first)
        has_lost = pair.replica(first).log.state.log_end_offset == 1
        assert first == B or not has_lost, "A had flushed it"
        offset = await pair.produce(b"m3", acks=1)
        assert offset == (1 if has_lost else 2)
        await pair.start(second)
        await pair.until_equal()
        assert pair.values(A) == ([b"m1", b"m3"] if has_lost else [b"m1", b"m2", b"m3"])
        return has_lost

    assert set(simulate(A, scenario, seed) for seed in range(8)) == {True, False}
