"""The follower on real logs: the worked scenario, producer state, and a bootstrap whose n-th disk effect fails."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random

import pytest

from tierfetch.fetcher.aux_state import AuxStateBuilder
from tierfetch.fetcher.bootstrap_runner import Bootstrapper, BootstrapSettings
from tierfetch.fetcher.core.policies import TierFirst
from tierfetch.fetcher.replica_fetcher import ReplicaFetcher
from tierfetch.log.core import EpochEntry
from tierfetch.log.partition_log import PartitionLog
from tierfetch.tests.fakes.disk import FailNth, MemoryDisk, Unsynced, failures
from tierfetch.tests.fetcher.cluster import QUICK, until
from tierfetch.tests.fetcher.model_tier import PARTITION, ModelTier
from tierfetch.tests.fetcher.real_replica import RealLeader, RealReplica, local_bytes, manager_on

EFFECTS_MIN = 10
"""A bootstrap has at least so many effects on the disk."""

TP = PARTITION.topic_partition
EPOCHS = (EpochEntry(0, 0), EpochEntry(1, 3), EpochEntry(2, 5), EpochEntry(3, 7))


async def empty_leader() -> RealLeader:
    tier = ModelTier()
    await tier.start()
    logs = manager_on(MemoryDisk(), 1)
    await logs.identify()
    await logs.load()
    return RealLeader(await logs.create(TP, PARTITION.topic_id), tier)


async def leader_with_tier() -> RealLeader:
    """The worked scenario: segments 0-2 and 3-5 in the tier, 3..7 on the leader, epochs (0,0)(1,3)(2,5)(3,7)."""
    leader = await empty_leader()
    epoch_starts = {entry.start_offset: entry.epoch for entry in EPOCHS}
    for offset in range(8):
        if offset in epoch_starts:
            await leader.lead(epoch_starts[offset])
        if offset in (3, 6):
            await leader.log.roll()
        await leader.append(b"msg %d" % offset, producer_id=100 + offset, sequence=0)
    await leader.upload_closed_segments()
    await leader.log.delete_local_segments(3)
    return leader


@dataclass
class Node:
    """A follower's disk, logs and replica."""

    disk: MemoryDisk
    replica: RealReplica

    @classmethod
    async def start(cls, disk: MemoryDisk, leader: RealLeader) -> Node:
        logs = manager_on(disk, 2)
        await logs.identify()
        await logs.load()
        await logs.create(TP, PARTITION.topic_id)
        disk.settle()
        return cls(disk, RealReplica(logs, leader.leader_epoch))

    @asynccontextmanager
    async def following(self, leader: RealLeader) -> AsyncIterator[ReplicaFetcher]:
        settings = BootstrapSettings(policy=TierFirst(), is_option_enabled=True, is_feature_supported=True)
        aux_states = AuxStateBuilder(leader.tier.storage, leader.tier.metadata)
        fetcher = ReplicaFetcher(leader, Bootstrapper(lambda: settings, aux_states), QUICK, Random(1))
        task = asyncio.create_task(fetcher.run())
        fetcher.add(self.replica)
        try:
            yield fetcher
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def catch_up(self, leader: RealLeader) -> None:
        async with self.following(leader):
            await until(lambda: self.log_end_offset() == leader.log.state.log_end_offset)

    async def follow_until_equal(self, leader: RealLeader) -> None:
        """Until the replica's local bytes are the leader's."""
        theirs = leader.log
        async with self.following(leader):
            await until(
                lambda: (
                    (self.replica.epochs.entries, self.log_end_offset())
                    == (theirs.state.epochs.entries, theirs.state.log_end_offset)
                )
            )
        assert await local_bytes(self.replica.log, 0) == await local_bytes(theirs, 0)

    async def follow_into_crash(self, leader: RealLeader) -> None:
        """Until the machine stops, or the replica has everything."""
        with suppress(BaseExceptionGroup):
            async with self.following(leader):
                await until(lambda: self.disk.crashed or self.log_end_offset() == leader.log.state.log_end_offset)

    def log_end_offset(self) -> int:
        log = self.replica.logs.logs.get(TP)
        return -1 if log is None else log.state.log_end_offset


async def check_equal(node: Node, leader: RealLeader) -> None:
    """The replica has what the leader has; what lies below its local start is in the tier."""
    mine, theirs = node.replica.log, leader.log
    assert (mine.state.log_start_offset, mine.state.log_end_offset) == (
        theirs.state.log_start_offset,
        theirs.state.log_end_offset,
    )
    assert mine.state.epochs.entries == theirs.state.epochs.entries == EPOCHS
    assert mine.state.producers.snapshot() == theirs.state.producers.snapshot()
    start = mine.state.offsets.local_log_start_offset
    assert await local_bytes(mine, start) == await local_bytes(theirs, start)


async def test_F9_the_worked_scenario_on_real_logs() -> None:
    leader = await leader_with_tier()
    node = await Node.start(MemoryDisk(), leader)
    await node.catch_up(leader)
    assert node.replica.log.state.offsets.local_log_start_offset == 6
    await check_equal(node, leader)
    assert next(call for call in leader.calls if call.startswith("fetch")) == "fetch 6"


async def test_F9_what_was_adopted_survives_a_crash() -> None:
    leader = await leader_with_tier()
    node = await Node.start(MemoryDisk(), leader)
    await node.catch_up(leader)
    node.disk.crashed = True
    restarted = await Node.start(node.disk.restart(), leader)
    log = restarted.replica.log
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, 6)
    assert log.state.epochs.entries[:3] == EPOCHS[:3]
    await restarted.catch_up(leader)
    await check_equal(restarted, leader)


async def test_F10_a_duplicate_that_lives_only_in_the_tier_is_refused_after_the_new_replica_leads() -> None:
    leader = await leader_with_tier()
    node = await Node.start(MemoryDisk(), leader)
    await node.catch_up(leader)
    promoted = RealLeader(node.replica.log, leader.tier)
    await promoted.lead(4)
    again = await promoted.append(b"msg 4", producer_id=104, sequence=0)
    assert again.duplicate
    assert again.first_offset == 4
    assert promoted.log.state.log_end_offset == 8
    assert not (await promoted.append(b"new", producer_id=104, sequence=1)).duplicate


async def test_bootstrap_rule_6_a_transaction_open_below_the_start_stays_open_until_its_marker_is_replicated() -> None:
    leader = await empty_leader()
    await leader.lead(0)
    await leader.append(b"unfinished", producer_id=7, sequence=0, is_transactional=True)
    await leader.append(b"other", producer_id=8, sequence=0)
    await leader.log.roll()
    await leader.append(b"pending", producer_id=8, sequence=1)
    await leader.upload_closed_segments()
    node = await Node.start(MemoryDisk(), leader)
    await node.catch_up(leader)
    log = node.replica.log
    assert log.state.offsets.local_log_start_offset == 2
    assert log.state.offsets.last_stable_offset == 0

    marker = await leader.abort(7)
    async with node.following(leader):
        await until(lambda: log.state.high_watermark > marker.last_offset)
    assert log.state.offsets.last_stable_offset == log.state.log_end_offset
    aborted = await log.aborted_transactions(0, log.state.log_end_offset)
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(7, 0)]


class TestDivergence:
    """Two real logs; the one that leads last is right."""

    async def replicas(self) -> tuple[RealLeader, Node]:
        """m1 and m2 on both, written by the leader of epoch 0."""
        leader = await empty_leader()
        await leader.lead(0)
        node = await Node.start(MemoryDisk(), leader)
        node.replica.is_tiered = False
        for sequence in range(2):
            await leader.append(b"m%d" % (sequence + 1), producer_id=1, sequence=sequence)
        await node.catch_up(leader)
        return leader, node

    async def test_E4_scenario_2_both_crash_and_the_logs_never_diverge(self) -> None:
        old_leader, node = await self.replicas()
        await node.replica.log.flush()
        await node.replica.logs.upkeep.save_checkpoints()
        node.disk.settle()
        unsynced = await Node.start(MemoryDisk(), old_leader)
        new_leader = RealLeader(unsynced.replica.log, old_leader.tier)
        await new_leader.lead(0)
        await new_leader.append(b"m1", producer_id=1, sequence=0)
        await new_leader.lead(1)
        await new_leader.append(b"m3", producer_id=1, sequence=1)
        assert new_leader.log.state.log_end_offset == node.replica.log.state.log_end_offset, "only epochs can tell"

        restarted = await Node.start(node.disk.restart(), new_leader)
        restarted.replica.is_tiered = False
        await restarted.follow_until_equal(new_leader)
        assert restarted.replica.log.state.producers.snapshot() == new_leader.log.state.producers.snapshot()

    async def test_E3_repeated_rounds_on_real_logs(self) -> None:
        leader, node = await self.replicas()
        follower = RealLeader(node.replica.log, leader.tier)
        for epoch in (1, 3):
            await follower.lead(epoch)
            await follower.append(b"lost %d" % epoch, producer_id=10 + epoch, sequence=0)
        for epoch in (2, 4):
            await leader.lead(epoch)
            await leader.append(b"kept %d" % epoch, producer_id=10 + epoch, sequence=0)
        node.replica.leader_epoch = 4
        await node.follow_until_equal(leader)
        assert node.replica.log.state.epochs.entries == leader.log.state.epochs.entries


async def test_every_remote_call_may_fail_on_real_logs() -> None:
    leader = await leader_with_tier()
    for n in range(1, 5):
        leader.tier.storage.faults = fault = FailNth(n)
        node = await Node.start(MemoryDisk(), leader)
        await node.catch_up(leader)
        await check_equal(node, leader)
        assert fault.fired == (n < 4)


@pytest.mark.parametrize("n", [1, 2, 3])
async def test_a_tier_that_stays_away_leaves_the_old_replica_until_it_is_back(n: int) -> None:
    leader = await leader_with_tier()
    leader.tier.storage.faults = FailNth(n, persistent=True)
    node = await Node.start(MemoryDisk(), leader)
    async with node.following(leader) as fetcher:
        await until(lambda: fetcher.replicas[PARTITION].failures >= 2)
        assert (node.log_end_offset(), node.replica.epochs.entries) == (0, ())
        leader.tier.storage.faults = None
        await until(lambda: node.log_end_offset() == 8)
    await check_equal(node, leader)


async def test_every_disk_effect_may_fail_and_the_replica_still_becomes_the_leaders() -> None:
    leader = await leader_with_tier()
    for fault in failures():
        node = await Node.start(MemoryDisk(), leader)
        node.disk.faults = fault
        await node.catch_up(leader)
        node.disk.faults = None
        await check_equal(node, leader)
    assert fault.n > EFFECTS_MIN


async def test_a_disk_that_is_full_from_any_effect_on_leaves_the_old_replica_or_the_new_one_and_heals() -> None:
    leader = await leader_with_tier()
    for fault in failures(persistent=True, error_number=errno.ENOSPC):
        node = await Node.start(MemoryDisk(), leader)
        node.disk.faults = fault
        async with node.following(leader) as fetcher:
            await until(lambda: fetcher.replicas[PARTITION].failures >= 2 or node.log_end_offset() == 8)  # noqa: B023
            node.disk.faults = None
            await until(lambda: node.log_end_offset() == 8)  # noqa: B023
        await check_equal(node, leader)
        restarted = await Node.start(node.disk.restart("kept"), leader)
        await check_equal(restarted, leader)
    assert fault.n > EFFECTS_MIN


@pytest.mark.parametrize("unsynced", ["lost", "kept", Random(1)], ids=["lost", "kept", "some"])
async def test_a_crash_at_every_disk_effect_leaves_the_old_replica_or_the_new_one(unsynced: Unsynced) -> None:
    leader = await leader_with_tier()
    outcomes = []
    for fault in failures(crash=True):
        node = await Node.start(MemoryDisk(), leader)
        node.disk.faults = fault
        await node.follow_into_crash(leader)
        restarted = await Node.start(node.disk.restart(unsynced), leader)
        outcomes.append(what_is_left(restarted.replica.log))
        await restarted.catch_up(leader)
        await check_equal(restarted, leader)
    assert outcomes == sorted(outcomes, reverse=True), "once the new replica is there it stays"
    assert set(outcomes) == {"old", "new"}
    assert len(outcomes) > EFFECTS_MIN


def what_is_left(log: PartitionLog) -> str:
    if log.state.offsets.local_log_start_offset == 0:
        assert log.state.log_end_offset == 0, "half of a bootstrap"
        assert log.state.epochs.entries == ()
        return "old"
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, 6)
    assert log.state.epochs.entries[:3] == EPOCHS[:3]
    assert set(log.state.producers.entries) >= set(range(100, 106))
    return "new"
