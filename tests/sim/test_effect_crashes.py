"""A coordinator of transactions that crashes at each of its effects in turn: before it performs it, or just after.

A producer writes to two partitions and commits offsets, in transactions that it commits, aborts and commits, and goes
on whatever happens. In the end readers of committed records are given each transaction whole or not at all, as it was
answered, and the group is where the last one that was committed has put it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from tierfetch.broker.node import Broker, open_broker
from tierfetch.broker.transactions.active_shard import ActiveShard
from tierfetch.broker.transactions.core.events import Effect
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tierfetch.sim.judges.core.exactly_once import check_atomicity
from tierfetch.sim.judges.core.history import History
from tierfetch.sim.machine.loop import TimeLimitError
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.client import SimClient
from tierfetch.sim.scenarios.workers.coordinators import AbortableError, CoordinatorClient, LaterError, SupersededError
from tierfetch.sim.scenarios.workers.members import GroupMember
from tierfetch.sim.scenarios.workers.transactions import PRODUCE_MAX, TransactionalProducer
from tierfetch.sim.scenarios.workload import AttemptFailedError, Reader, Shared
from tierfetch.tests.sim.cluster import Cluster
from tierfetch.tests.sim.planted.coordinator_bugs import EFFECT_CRASHES, NOT_RESUMED
from tierfetch.tests.sim.planted.registry import shown_by

pytestmark = [pytest.mark.simulated, pytest.mark.slow]

A, B, INPUT = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("in", 0)
GROUP, TRANSACTIONAL_ID = "g", "tx"
BROKER_KEYS = {
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
DOWN_S = 3.0
"""Another broker coordinates long before the crashed one is back."""


class CoordinatedCluster(Cluster):
    """Its brokers verify with their coordinators what producers write in transactions."""

    async def start_node(self, name: str) -> None:
        if name in self.controllers:
            await super().start_node(name)
            return
        config = self._broker_config(name)
        await self.world.host(name).start(lambda machine: open_broker(config, replace(machine, is_ongoing=None)))


class Crash:
    """Takes down the broker of the coordinator at its `number`th effect; `is_after` has it begin that."""

    def __init__(self, cluster: Cluster, number: int, *, is_after: bool) -> None:
        self.cluster = cluster
        self.effects = 0
        self.crashed: str | None = None
        self._number = number
        self._is_after = is_after

    @contextmanager
    def planted(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        perform = ActiveShard._perform

        def counted(shard: ActiveShard, transactional_id: str, effects: Iterable[Effect]) -> None:
            for effect in effects:
                self.effects += 1
                if self.effects != self._number:
                    perform(shard, transactional_id, [effect])
                    continue
                if self._is_after:
                    perform(shard, transactional_id, [effect])
                self.crashed = self._host_of(shard)
                self.cluster.world.loop.call_soon(self.cluster.world.host(self.crashed).crash, "process")
                return

        with monkeypatch.context() as patch:
            patch.setattr(ActiveShard, "_perform", counted)
            yield

    def _host_of(self, shard: ActiveShard) -> str:
        for name in self.cluster.brokers:
            node = self.cluster.world.host(name).node
            if isinstance(node, Broker) and shard in node.transactions.coordinator.shards:
                return name
        raise AssertionError("a coordinator that no broker has")

    async def repair(self) -> None:
        """Start the broker again once it has been down for a while."""
        while self.crashed is None:  # noqa: ASYNC110 - virtual time waits for free
            await asyncio.sleep(0.05)
        await asyncio.sleep(DOWN_S)
        await self.cluster.start_node(self.crashed)


class Story:
    """The producer, the group that it commits for, and what must have come of it."""

    def __init__(self, world: World, cluster: Cluster, version: int) -> None:
        self.shared = Shared(
            history=History(),
            now_ms=lambda: int(world.loop.time() * 1000),
            stopping=asyncio.Event(),
            publish=lambda _: None,
            logs_of=lambda _: {},
            were_clocks_set=lambda: False,
        )
        self._world, self._cluster = world, cluster
        self._coordinators = CoordinatorClient("producer", cluster.addresses, world.rng("coordinators"))
        self._client = SimClient(
            "producer",
            cluster.addresses,
            world.rng("client"),
            transactional_id=TRANSACTIONAL_ID,
            produce_max=PRODUCE_MAX[version],
        )
        self._producer = TransactionalProducer(
            "producer", TRANSACTIONAL_ID, version, self._client, self._coordinators, self.shared, Random(1)
        )
        self.committed = 0
        """The offset that the group must be at."""

    async def run(self) -> None:
        for offset, commit in ((10, True), (20, False), (30, True)):
            while not await self._transaction(offset, commit=commit):
                self._producer.give_up()
                await asyncio.sleep(0.1)
            if commit:
                self.committed = offset

    async def _transaction(self, offset: int, *, commit: bool) -> bool:
        """Whether it came to its end."""
        member = cast(GroupMember, SimpleNamespace(group=GROUP, generation=-1, member_id="", instance_id=None))
        try:
            number = await self._producer.begin()
            await self._producer.produce(A, (number * 100 + 1, number * 100 + 2))
            await self._producer.produce(B, (number * 100 + 3,))
            await self._producer.send_offsets(member, {INPUT: offset})
            await self._producer.produce(B, (number * 100 + 4,))
            await self._producer.end(commit=commit)
        except (AbortableError, SupersededError, LaterError, AttemptFailedError):
            return False
        return True

    async def shown(self) -> set[int]:
        """What readers of committed records are given of both partitions, up to their ends."""
        for partition in (A, B):
            client = SimClient("reader", self._cluster.addresses, self._world.rng("reader"))
            reader = Reader("reader", partition, client, self.shared, Random(1), is_read_committed=True)
            await reader.read_stable()
            await client.close()
        return {value for poll in self.shared.history.polls for _, value in poll.records}

    async def found(self) -> int:
        """Return where the group is."""
        member = GroupMember("judge", GROUP, [INPUT], self._coordinators, lambda _: None, instance_id=None)
        while True:
            try:
                return (await member.committed([INPUT]))[INPUT]
            except (LaterError, AttemptFailedError):
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        await self._client.close()
        await self._coordinators.close()


async def play(world: World, crash: Crash, story: Story, cluster: Cluster) -> None:
    compact = {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    await cluster.start()
    for name, replicas, configs in (
        (TRANSACTION_STATE_TOPIC, (3, 1, 2), compact),
        (GROUP_METADATA_TOPIC, (2, 3, 1), compact),
        ("a", (1, 2, 3), {"min.insync.replicas": "2"}),
        ("b", (2, 3, 1), {"min.insync.replicas": "2"}),
        ("in", (1, 2, 3), {}),
    ):
        await cluster.create_topic(name, *replicas, **configs)
    client = world.host("client")
    repair = asyncio.create_task(crash.repair())
    await client.run(story.run())
    if crash.crashed is None:
        repair.cancel()
    await asyncio.gather(repair, return_exceptions=True)
    history = story.shared.history
    shown = await client.run(story.shown())
    assert check_atomicity(history, [str(A), str(B)], shown) == []
    commits = {end.transaction for end in history.ends if end.is_commit and end.is_certain}
    wanted = {value for send in history.sends if send.transaction in commits for value in send.values}
    unknown = {end.transaction for end in history.ends if end.is_commit and not end.is_certain}
    allowed = {value for send in history.sends if send.transaction in unknown for value in send.values}
    assert wanted <= shown <= wanted | allowed
    assert await client.run(story.found()) == story.committed
    await client.run(story.close())


def crashes_at(version: int, number: int, monkeypatch: pytest.MonkeyPatch, *, is_after: bool) -> bool:
    """Play the story with a crash at that effect, and return whether there were so many."""
    with World(1000 * version + number) as world:
        cluster = CoordinatedCluster(
            world, controller_keys={"broker.session.timeout.ms": "1000"}, broker_keys=BROKER_KEYS
        )
        crash = Crash(cluster, number, is_after=is_after)
        with crash.planted(monkeypatch):
            world.run(_played(world, crash, cluster, version), limit_s=300)
        assert world.loop.failures == []
        return crash.crashed is not None


def crash_at_each(version: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Play the story with a crash at each effect, and return the number that there were, and one."""
    number = 1
    while crashes_at(version, number, monkeypatch, is_after=(number + version) % 2 == 0):
        number += 1
    return number


async def _played(world: World, crash: Crash, cluster: Cluster, version: int) -> None:
    await play(world, crash, Story(world, cluster, version), cluster)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [1, 2])
def test_T1_a_transaction_is_whole_whichever_effect_its_coordinator_crashes_at(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Before and after take turns, so that each version crashes before what the other one crashes after."""
    assert crash_at_each(version, monkeypatch) > 30


@pytest.mark.timeout(600)
def test_T1_a_coordinator_that_does_not_resume_what_was_decided_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with shown_by(EFFECT_CRASHES)[NOT_RESUMED](), pytest.raises(TimeLimitError):
        crash_at_each(2, monkeypatch)
