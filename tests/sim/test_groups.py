"""Groups on simulated brokers that crash: what was acknowledged is found again, over compaction of their topic too.

A committer without a group commits rising offsets and reads them back; a member joins, assigns, heartbeats and commits.
Both look for the coordinator again after every failure, as clients do.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from tierfetch.broker.node import Broker
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tierfetch.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tierfetch.protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC
from tierfetch.sim.machine.world import World
from tierfetch.tests.sim.cluster import BROKERS, PORT, Cluster, broker_host

pytestmark = pytest.mark.simulated

NODES = {broker_host(number): number for number in BROKERS}
BROKER_KEYS = {
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "500",
}
CRASHES = 4
NONE = ErrorCode.none


class Failed(Exception):
    """This attempt came to nothing, or to nothing known: look for the coordinator again."""


class GroupClient:
    """One client of one group."""

    def __init__(self, group: str, rng: Random) -> None:
        self.group = group
        self._client = KafkaClient(client_id=group, random=rng)
        self._coordinator: Address | None = None

    async def ask(self, request: Request[ResponseT]) -> ResponseT:
        """Return the coordinator's answer, in the newest version whose topics go by name."""
        if self._coordinator is None:
            self._coordinator = await self._find()
        return await self._send(self._coordinator, request, 9)

    async def commit(self, offset: int, generation: int = -1, member: str = "") -> None:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="x" * 40
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
        )
        answer = await self.ask(request)
        self.check(answer.topics[0].partitions[0].error_code)

    async def committed(self) -> int:
        topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
        group = OffsetFetchRequestGroup(group_id=self.group, topics=topics)
        answer = await self.ask(OffsetFetchRequest(groups=(group,)))
        self.check(answer.groups[0].error_code)
        return answer.groups[0].topics[0].partitions[0].committed_offset

    def check(self, error: ErrorCode) -> None:
        if error is not NONE:
            self._coordinator = None
            raise Failed(error.name)

    async def _find(self) -> Address:
        for name in NODES:
            try:
                request = FindCoordinatorRequest(coordinator_keys=(self.group,))
                answer = await self._send(Address(name, PORT), request, 4)
            except Failed:
                continue
            (found,) = answer.coordinators
            if found.error_code is NONE:
                return Address(found.host, found.port)
        raise Failed("no coordinator")

    async def _send(self, address: Address, request: Request[ResponseT], version: int) -> ResponseT:
        try:
            return await self._client.send(address, request, max_version=version, timeout_s=8.0)
        except (BrokerUnavailableError, OSError, TimeoutError) as error:
            self._coordinator = None
            raise Failed(str(error)) from error

    async def close(self) -> None:
        await self._client.close()


class Committer:
    """`acknowledged` is the highest offset that a coordinator said is committed, or gave out as such."""

    def __init__(self, client: GroupClient) -> None:
        self.client = client
        self.acknowledged = -1

    async def commit_once(self, offset: int) -> None:
        """What is committed once has to be found for ever, in whichever segment it lies by then."""
        while self.acknowledged < 0:
            try:
                await self.client.commit(offset)
                self.acknowledged = offset
            except Failed:
                await asyncio.sleep(0.2)

    async def run(self) -> None:
        """Looks what is there before it commits on: a later offset would hide that an earlier one was lost."""
        while True:
            try:
                await self.verify()
                for _ in range(5):
                    await self.client.commit(self.acknowledged + 1)
                    self.acknowledged += 1
            except Failed:
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.1)

    async def verify(self) -> None:
        known = self.acknowledged
        found = await self.client.committed()
        assert found >= known, f"group {self.client.group}: {known} was acknowledged, {found} is committed"
        self.acknowledged = found

    async def verify_in_the_end(self) -> None:
        """As often as it takes to find the coordinator."""
        for _ in range(100):
            try:
                return await self.verify()
            except Failed:
                await asyncio.sleep(0.2)
        raise AssertionError(f"group {self.client.group} has no coordinator any more")


class MemberOf(Committer):
    """Joins again whenever it has to; generations only rise."""

    generation = 0

    async def run(self) -> None:
        member = ""
        while True:
            try:
                member = await self._join(member)
                await self._stay(member)
            except Failed as failure:
                if str(failure) in ("unknown_member_id", "fenced_instance_id"):
                    member = ""
                await asyncio.sleep(0.2)

    async def _join(self, member: str) -> str:
        join = JoinGroupRequest(
            group_id=self.client.group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            member_id=member,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        joined = await self.client.ask(join)
        if joined.error_code is ErrorCode.member_id_required:
            joined = await self.client.ask(replace(join, member_id=joined.member_id))
        self.client.check(joined.error_code)
        assert joined.generation_id >= self.generation, "a generation came back"
        self.generation = joined.generation_id
        sync = SyncGroupRequest(
            group_id=self.client.group,
            generation_id=self.generation,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all"),),
        )
        synced = await self.client.ask(sync)
        self.client.check(synced.error_code)
        assert synced.assignment == b"all"
        return joined.member_id

    async def _stay(self, member: str) -> None:
        while True:
            await self.verify()
            heartbeat = HeartbeatRequest(group_id=self.client.group, generation_id=self.generation, member_id=member)
            beat = await self.client.ask(heartbeat)
            self.client.check(beat.error_code)
            offset = self.acknowledged + 1
            await self.client.commit(offset, self.generation, member)
            self.acknowledged = offset
            await asyncio.sleep(0.3)


class Scenario:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng("scenario")
        self.cluster = Cluster(world, controller_keys={"broker.session.timeout.ms": "1000"}, broker_keys=BROKER_KEYS)
        self.cleaned_bytes = 0

    async def run(self) -> None:
        await self.cluster.start()
        await self.cluster.create_topic()
        compact = {"cleanup.policy": "compact", "internal.segment.bytes": "1500", "min.cleanable.dirty.ratio": "0.1"}
        await self.cluster.create_topic(GROUP_METADATA_TOPIC, **compact, **{"min.insync.replicas": "2"})
        clients = [GroupClient(group, self.world.rng(group)) for group in ("g", "m")]
        actors = [Committer(clients[0]), MemberOf(clients[1])]
        once = [Committer(GroupClient(f"once-{number}", self.world.rng(f"once-{number}"))) for number in range(5)]
        for number, committer in enumerate(once):
            await committer.commit_once(number)
        tasks = [asyncio.create_task(each.run()) for each in actors]
        for _ in range(CRASHES):
            await self._pass(self.rng.uniform(1.0, 4.0), tasks)
            await self._crash_one(tasks)
        await self._pass(5.0, tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in [*once, *actors]:
            await each.verify_in_the_end()
            await each.client.close()
        assert [each.acknowledged for each in once] == list(range(len(once)))
        assert all(each.acknowledged > 20 for each in actors)

    async def _pass(self, seconds: float, tasks: list[asyncio.Task[None]]) -> None:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _crash_one(self, tasks: list[asyncio.Task[None]]) -> None:
        """One at a time, once all are in sync: what is acknowledged is on two others. Mostly the coordinator, cut off
        for a moment before: what it then acknowledges is on none.
        """
        coordinator = self.cluster.leader(GROUP_METADATA_TOPIC)
        name = self.rng.choice([*sorted(NODES), *4 * [coordinator]])
        self.world.network.partition({name}, NODES.keys() - {name})
        await self._pass(self.rng.uniform(0.05, 0.4), tasks)
        broker = self.world.host(name).node
        assert isinstance(broker, Broker)
        self.cleaned_bytes += broker.logs.upkeep.cleaner.cleaned_bytes
        self.world.host(name).crash(self.rng.choice(("process", "machine")))
        self.world.network.heal()
        await self._pass(self.rng.uniform(0.1, 3.0), tasks)
        await self.cluster.start_node(name)
        for _ in range(200):
            registration = self.cluster.registration(GROUP_METADATA_TOPIC)
            if len(registration.isr) == len(NODES):
                return
            await self._pass(0.2, tasks)
        raise AssertionError(f"never in sync again: {registration}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_what_a_coordinator_acknowledged_survives_crashes(seed: int) -> None:
    with World(seed) as world:
        scenario = Scenario(world)
        world.run(scenario.run(), limit_s=600)
        assert world.loop.failures == []
        assert scenario.cleaned_bytes > 0
