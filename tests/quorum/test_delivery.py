"""The committed log, handed over: once, in order, below the high watermark, leaders in their place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierfetch.controller.records import decode_record
from tierfetch.protocol.fetch.messages import SnapshotId
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION
from tierfetch.protocol.wire.stepping import Steps
from tierfetch.quorum.core.effects import AppendRecords, ControlBatch, KRaftVersionRecord, VotersRecord
from tierfetch.quorum.core.state import LeaderAndEpoch
from tierfetch.quorum.core.voters import VotersAt, VoterSet
from tierfetch.quorum.delivery import RECORD_WEIGHT, Delivery
from tierfetch.quorum.listener import RECORDS_PER_STEP, CommittedBatch, SnapshotContent
from tierfetch.quorum.metrics import QuorumMetrics
from tierfetch.quorum.storage.control_batches import append_bytes
from tierfetch.quorum.storage.metadata_log import MetadataLog
from tierfetch.quorum.storage.snapshot_file import ParsedSnapshot, snapshot_name
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.quorum.nodes import Recorder
from tierfetch.tests.quorum.test_control_batches import NODE, OTHER
from tierfetch.tests.quorum.test_metadata_log import DIRECTORY, batch, cut_snapshot, new_disk, open_log

CONFIGURED = VotersAt(-1, VoterSet.of([NODE]), 0)
TURNS_MAX = 10_000
"""Of the event loop, whose disk is in memory."""
ME, THEM = LeaderAndEpoch(1, 5), LeaderAndEpoch(2, 6)


class Delivering:
    """A delivery that runs, its state machine, and what it gave up for."""

    def __init__(self, log: MetadataLog) -> None:
        self.state = Recorder()
        self.failures: list[str] = []
        metrics = QuorumMetrics(asyncio.get_running_loop().time)
        self.delivery = Delivery(log, CONFIGURED, metrics, self.failures.append)
        self.delivery.listeners = [self.state]

    async def until_applied(self, offset: int) -> None:
        for _ in range(TURNS_MAX):
            if self.delivery.applied_offset >= offset:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"applied is {self.delivery.applied_offset} where {offset} is expected")

    async def settle(self) -> None:
        """Everything that is ready is done."""
        for _ in range(50):
            await asyncio.sleep(0)


@asynccontextmanager
async def delivering(log: MetadataLog) -> AsyncIterator[Delivering]:
    running = Delivering(log)
    task = asyncio.create_task(running.delivery.run())
    yield running
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None, task.exception()


async def log_of(count: int, disk: MemoryDisk | None = None) -> MetadataLog:
    log = await open_log(disk or new_disk())
    for offset in range(0, count, 2):
        await log.append(batch(offset, 2))
    return log


async def test_Q6_nothing_above_the_high_watermark_and_nothing_twice() -> None:
    async with delivering(await log_of(10)) as running:
        await running.settle()
        assert running.state.batches == []
        running.delivery.advance(4)
        await running.until_applied(4)
        await running.settle()
        assert [item.base_offset for item in running.state.batches] == [0, 2]
        running.delivery.advance(4)
        running.delivery.advance(10)
        await running.until_applied(10)
        assert running.state.records == [b"record %d" % number for number in range(10)]


async def test_Q9_the_latest_snapshot_comes_first() -> None:
    disk = new_disk()
    log = await log_of(10, disk)
    await cut_snapshot(log, 4)
    await cut_snapshot(log, 6)
    async with delivering(log) as running:
        running.delivery.advance(10)
        await running.until_applied(10)
        assert running.state.snapshots == [(6, 1)]
        assert running.state.records == [b"s", *(b"record %d" % number for number in range(6, 10))]


async def test_Q9_a_snapshot_that_is_installed_during_a_read_takes_its_place() -> None:
    log = await log_of(4)
    read = log.read_bytes

    async def overtaken(offset: int, *, max_offset: int) -> bytes:
        if log.log_start_offset == 0:
            await log.begin_at_snapshot(await cut_snapshot(log, 50, epoch=3))
            running.delivery.snapshot_installed()
        return await read(offset, max_offset=max_offset)

    log.read_bytes = overtaken  # type: ignore[method-assign]
    async with delivering(log) as running:
        running.delivery.advance(4)
        await running.until_applied(50)
        assert running.failures == []
        assert running.state.snapshots == [(50, 3)]


async def test_Q9_a_snapshot_that_is_removed_while_it_is_loaded_is_not_missed() -> None:
    log = await log_of(10)
    await cut_snapshot(log, 4)
    read = log.snapshots.read

    async def overtaken(snapshot_id: SnapshotId) -> ParsedSnapshot:
        if snapshot_id.end_offset == 4:
            await log.begin_at_snapshot(await cut_snapshot(log, 50, epoch=3))
        return await read(snapshot_id)

    log.snapshots.read = overtaken  # type: ignore[method-assign]
    async with delivering(log) as running:
        await running.until_applied(50)
        assert running.failures == []
        assert running.state.snapshots == [(50, 3)]


async def test_Q9_a_log_that_begins_anew_is_loaded_from_its_snapshot() -> None:
    log = await log_of(4)
    async with delivering(log) as running:
        running.delivery.advance(4)
        await running.until_applied(4)
        await log.begin_at_snapshot(await cut_snapshot(log, 50, epoch=3))
        running.delivery.snapshot_installed()
        await running.until_applied(50)
        assert running.state.snapshots == [(50, 3)]
        await log.append(batch(50, 2, epoch=3))
        running.delivery.advance(52)
        await running.until_applied(52)
        assert running.state.records == [b"s", b"record 50", b"record 51"]


async def test_Q6_a_leader_hears_it_once_it_has_applied_what_was_there_before() -> None:
    async with delivering(await log_of(10)) as running:
        running.delivery.leader_changed(ME, 6)
        running.delivery.advance(4)
        await running.until_applied(4)
        await running.settle()
        assert running.state.leaders == []
        running.delivery.advance(6)
        await running.until_applied(6)
        await running.settle()
        assert running.state.leaders == [ME]


async def test_Q8_leadership_that_is_lost_before_that_is_never_told() -> None:
    async with delivering(await log_of(10)) as running:
        running.delivery.leader_changed(ME, 6)
        running.delivery.leader_changed(THEM)
        running.delivery.advance(10)
        await running.until_applied(10)
        await running.settle()
        assert running.state.leaders == [THEM]


async def test_Q15_the_voters_at_any_offset_since_the_last_snapshot() -> None:
    log = await log_of(4)
    voters = VoterSet.of([NODE, OTHER])
    control = ControlBatch(4, (KRaftVersionRecord(1), VotersRecord(voters)))
    await log.append(append_bytes(AppendRecords(4, 6, 1, (control,)), 1))
    await log.append(batch(6, 2))
    async with delivering(log) as running:
        running.delivery.advance(8)
        await running.until_applied(8)
        delivery = running.delivery
        assert delivery.voters_at(4) == CONFIGURED
        assert delivery.voters_at(8) == delivery.voters_at(6) == VotersAt(5, voters, 1)
        for offset in (8, 3):  # the latter one's place was taken while it was written
            delivery.snapshot_taken(offset)
            assert delivery.voters_at(8) == VotersAt(5, voters, 1)
        assert running.state.batches[2].records == ()


async def test_a_damaged_snapshot_stops_it_with_a_reason() -> None:
    disk = new_disk()
    log = await log_of(4, disk)
    snapshot_id: SnapshotId = await cut_snapshot(log, 4)
    path: Path = DIRECTORY / snapshot_name(snapshot_id)
    disk.put(path, disk.files()[path][:-5])
    async with delivering(log) as running:
        await running.settle()
        assert len(running.failures) == 1
        assert path.name in running.failures[0]


class AclsOfNextYear(Recorder):
    """A state machine to which every record is an ACL in a version of the future."""

    def on_commit(self, batch: CommittedBatch) -> None:
        decode_record(b"\x01\x12\x01" + bytes(40))


async def test_a_record_of_a_newer_release_stops_it_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with delivering(await log_of(6)) as running:
        running.delivery.advance(4)
        await running.until_applied(4)
        running.delivery.listeners = [AclsOfNextYear()]
        running.delivery.advance(6)
        await running.settle()
        reason = "unknown: api key 18, version 1: a newer release wrote it, upgrade to it"
        assert running.failures == [f"the committed metadata log cannot be applied from offset 4 on: {reason}"]
    assert "internal error" not in caplog.text


async def test_what_is_no_whole_batch_stops_it_with_a_reason() -> None:
    log = await log_of(6)
    read = log.read_bytes

    async def cut(offset: int, *, max_offset: int) -> bytes:
        data = await read(offset, max_offset=max_offset)
        return data if offset < 4 else data[:-1]

    log.read_bytes = cut  # type: ignore[method-assign]
    async with delivering(log) as running:
        running.delivery.advance(4)
        await running.until_applied(4)
        running.delivery.advance(6)
        await running.settle()
        (failure,) = running.failures
        assert failure.startswith("the committed metadata log cannot be applied from offset ")
        assert "no whole batch in" in failure


async def test_Q11_the_end_of_its_own_leadership_waits_for_no_disk() -> None:
    """A deposed controller whose disk was slow went on answering heartbeats, which its successor missed."""
    log = await log_of(4)
    read, is_read = log.read_bytes, asyncio.Event()

    async def slow(offset: int, *, max_offset: int) -> bytes:
        await is_read.wait()
        return await read(offset, max_offset=max_offset)

    async with delivering(log) as running:
        running.delivery.advance(2)
        running.delivery.leader_changed(ME, 2)
        await running.until_applied(2)
        await running.settle()
        log.read_bytes = slow  # type: ignore[method-assign]
        running.delivery.advance(4)
        await running.settle()
        running.delivery.leader_changed(LeaderAndEpoch(None, 5))
        running.delivery.leader_changed(THEM)
        assert running.state.leaders == [ME, LeaderAndEpoch(None, 5)]
        is_read.set()
        await running.until_applied(4)
        await running.settle()
        assert running.state.leaders == [ME, LeaderAndEpoch(None, 5), THEM]


class Stepwise:
    """A state machine whose batches and snapshots take more than an iteration's share, and the turns they took."""

    def __init__(self) -> None:
        self.turn = 0
        self.begun = asyncio.Event()
        self.steps: list[tuple[int, int]] = []
        """The base offset of the batch, or the offset of the snapshot, and the turn."""

    def on_commit(self, batch: CommittedBatch) -> Steps[None]:
        yield from self._steps(batch.base_offset)

    def on_load_snapshot(self, snapshot: SnapshotContent) -> Steps[None]:
        yield from self._steps(snapshot.offset)

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """It does not matter here."""

    def _steps(self, offset: int) -> Steps[None]:
        for _ in range(ELEMENTS_PER_ITERATION // (RECORDS_PER_STEP * RECORD_WEIGHT) + 2):
            self.steps.append((offset, self.turn))
            self.begun.set()
            yield

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn += 1


@asynccontextmanager
async def delivering_stepwise(log: MetadataLog) -> AsyncIterator[tuple[Delivering, Stepwise]]:
    stepwise = Stepwise()
    async with delivering(log) as running:
        running.delivery.listeners = [stepwise, running.state]
        counting = asyncio.create_task(stepwise.count())
        try:
            yield running, stepwise
        finally:
            counting.cancel()


async def test_others_have_their_turn_while_a_listener_applies_and_nothing_overtakes_it() -> None:
    async with delivering_stepwise(await log_of(4)) as (running, stepwise):
        running.delivery.advance(4)
        running.delivery.leader_changed(THEM)
        await running.until_applied(4)
        offsets = [offset for offset, _ in stepwise.steps]
        assert offsets == sorted(offsets), "a batch begins when the one before it is applied"
        assert len({turn for _, turn in stepwise.steps}) > 1
        assert [item.base_offset for item in running.state.batches] == [0, 2]


async def test_what_is_applied_in_steps_counts_when_it_is_at_its_end() -> None:
    async with delivering_stepwise(await log_of(2)) as (running, stepwise):
        running.delivery.advance(2)
        await stepwise.begun.wait()
        assert (running.delivery.applied_offset, running.state.batches) == (0, [])
        await running.until_applied(2)
        assert [item.base_offset for item in running.state.batches] == [0]


async def test_a_snapshot_is_loaded_in_steps() -> None:
    disk = new_disk()
    log = await log_of(6, disk)
    log.update_high_watermark(6)
    await cut_snapshot(log, 4)
    async with delivering_stepwise(log) as (running, stepwise):
        await running.until_applied(4)
        assert {offset for offset, _ in stepwise.steps} == {4}
        assert len({turn for _, turn in stepwise.steps}) > 1
        assert running.state.snapshots == [(4, 1)]
