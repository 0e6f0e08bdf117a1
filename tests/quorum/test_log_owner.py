"""Effects on the log: done in order, told in order, and nothing after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tierfetch.protocol.fetch.messages import SnapshotId
from tierfetch.quorum.core.config import MetadataLogConfig
from tierfetch.quorum.core.effects import (
    AppendFetched,
    AppendRecords,
    DataBatch,
    Flush,
    InstallSnapshot,
    SnapshotChunkAppend,
    Truncate,
)
from tierfetch.quorum.core.errors import QuorumFailedError
from tierfetch.quorum.core.events import (
    LogCompleted,
    LogFailed,
    SnapshotChunkRefused,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotTaken,
)
from tierfetch.quorum.core.state import OffsetAndEpoch
from tierfetch.quorum.core.voters import VotersAt, VoterSet
from tierfetch.quorum.log_owner import LogOwner
from tierfetch.quorum.metrics import QuorumMetrics
from tierfetch.quorum.storage.control_batches import fetched_records
from tierfetch.quorum.storage.metadata_log import MetadataLog
from tierfetch.quorum.storage.snapshot_file import STATIC_SETUP, QuorumSetup, snapshot_batches
from tierfetch.quorum.storage.snapshots import KEPT_FREE_BYTES, CutSnapshot
from tierfetch.tests.fakes.disk import FailNth, MemoryDisk
from tierfetch.tests.quorum.test_control_batches import NODE
from tierfetch.tests.quorum.test_metadata_log import NOW_MS, batch, new_disk, open_log
from tierfetch.tests.quorum.test_snapshot_file import VOTERS

CONFIGURED = VotersAt(-1, VoterSet.of([NODE]), 0)
ID = OffsetAndEpoch(50, 3)


class Owned:
    """An owner that runs, and what it told."""

    def __init__(self, log: MetadataLog) -> None:
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.metrics = QuorumMetrics(asyncio.get_running_loop().time)
        self.owner = LogOwner(
            log,
            now_ms=lambda: NOW_MS,
            configured=CONFIGURED,
            metrics=self.metrics,
            report=self.told.put_nowait,
        )

    async def next(self) -> Any:
        async with asyncio.timeout(5):
            return await self.told.get()


@asynccontextmanager
async def owned(log: MetadataLog) -> AsyncIterator[Owned]:
    running = Owned(log)
    task = asyncio.create_task(running.owner.run())
    yield running
    running.owner.drop()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None, task.exception()


def append(offset: int, count: int) -> AppendRecords:
    return AppendRecords(offset, offset + count, 1, (DataBatch(offset, (b"x",) * count),))


def snapshot_bytes(setup: QuorumSetup = STATIC_SETUP) -> bytes:
    snapshot_id = SnapshotId(ID.offset, ID.epoch)
    return b"".join(snapshot_batches(snapshot_id, [b"s"], setup=setup, last_append_time_ms=1, now_ms=2))


def chunk_of(data: bytes, start: int, end: int) -> SnapshotChunkAppend:
    payload = memoryview(data)[start:end]
    return SnapshotChunkAppend(ID, start, start + len(payload), payload, len(data))


async def test_Q7_effects_are_told_in_order_and_a_flush_covers_what_came_before() -> None:
    disk = new_disk()
    log = await open_log(disk)
    async with owned(log) as running:
        data = batch(3, 2)
        effects = [
            append(0, 3),
            AppendFetched(3, 5, fetched_records(data, CONFIGURED)),
            Flush(5),
            append(5, 1),
            Truncate(5),
        ]
        for effect in effects:
            running.owner.put(effect)
        for effect in effects:
            assert await running.next() == LogCompleted(effect)
    again = await open_log(disk.restart("lost"))
    assert again.log_end_offset == 5


async def test_Q7_a_failed_fsync_is_told_and_nothing_is_done_after_it() -> None:
    disk = new_disk()
    log = await open_log(disk)
    async with owned(log) as running:
        running.owner.put(append(0, 3))
        assert isinstance(await running.next(), LogCompleted)
        disk.faults = FailNth(1)
        running.owner.put(Flush(3))
        running.owner.put(append(3, 1))
        failed = await running.next()
        assert isinstance(failed, LogFailed)
        effects = len(disk.effects)
        await asyncio.sleep(0)
        assert running.told.empty()
        assert len(disk.effects) == effects
        assert log.failure is not None


@pytest.mark.parametrize("setup", [STATIC_SETUP, QuorumSetup(1, VOTERS)])
async def test_Q9_a_snapshot_is_fetched_and_takes_the_logs_place(setup: QuorumSetup) -> None:
    disk = new_disk()
    log = await open_log(disk)
    data = snapshot_bytes(setup)
    async with owned(log) as running:
        for start in range(0, len(data), 60):
            chunk = chunk_of(data, start, start + 60)
            running.owner.put(chunk)
            assert await running.next() == SnapshotChunkWritten(chunk)
        running.owner.put(InstallSnapshot(ID))
        installed = await running.next()
        assert isinstance(installed, SnapshotInstalled)
        assert installed.voters.offset == 49
        assert installed.voters.kraft_version == setup.kraft_version
        assert [node.id for node in installed.voters.voters] == [1]
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)


async def test_Q9_a_snapshot_that_is_not_whole_leaves_all_as_it_was() -> None:
    log = await open_log(new_disk())
    async with owned(log) as running:
        running.owner.put(append(0, 3))
        await running.next()
        running.owner.put(chunk_of(snapshot_bytes()[:-1], 0, 10_000))
        await running.next()
        running.owner.put(InstallSnapshot(ID))
        rejected = await running.next()
        assert isinstance(rejected, SnapshotRejected)
        assert (log.log_start_offset, log.log_end_offset, log.snapshots.ids) == (0, 3, ())


async def test_Q9_a_snapshot_whose_leader_says_that_it_is_endless_is_not_fetched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = new_disk()
    log = await open_log(disk, MetadataLogConfig(snapshot_bytes_max=200))
    async with owned(log) as running:
        for size in (201, 2**62, 2**63 - 1):
            refused = SnapshotChunkAppend(ID, 0, 100, memoryview(bytes(100)), size)
            running.owner.put(refused)
            assert await running.next() == SnapshotChunkRefused(refused)
        assert "has 201 bytes, expected were 200 at most (metadata.log.max.snapshot.bytes)" in caplog.text
        assert not [path for path in disk.files() if path.suffix == ".part"]
        running.owner.put(append(0, 3))
        assert isinstance(await running.next(), LogCompleted)


async def test_Q9_a_snapshot_that_the_disk_has_no_room_for_is_not_fetched(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    log = await open_log(disk)
    data = snapshot_bytes()
    disk.capacity_bytes = sum(map(len, disk.files().values())) + KEPT_FREE_BYTES + len(data) - 1
    async with owned(log) as running:
        first = chunk_of(data, 0, 60)
        running.owner.put(first)
        assert await running.next() == SnapshotChunkRefused(first)
        assert "free space there" in caplog.text
        disk.capacity_bytes += 1
        running.owner.put(first)
        assert await running.next() == SnapshotChunkWritten(first)


async def test_Q9_a_snapshot_above_the_limit_is_not_cut() -> None:
    disk = new_disk()
    log = await open_log(disk, MetadataLogConfig(snapshot_bytes_max=200))
    async with owned(log) as running:
        with pytest.raises(OSError, match=r"metadata\.log\.max\.snapshot\.bytes"):
            await running.owner.take_snapshot(SnapshotId(2, 1), [bytes(200)], STATIC_SETUP, 1)
        assert log.snapshots.ids == ()
        assert not [path for path in disk.files() if path.suffix == ".part"]


async def test_Q9_a_snapshot_is_cut_and_the_log_begins_with_it() -> None:
    disk = new_disk()
    log = await open_log(disk, MetadataLogConfig(retention_bytes=1))
    async with owned(log) as running:
        running.owner.put(append(0, 3))
        running.owner.put(Flush(3))
        await running.next()
        await running.next()
        log.update_high_watermark(3)
        await running.owner.take_snapshot(SnapshotId(2, 1), [b"s"], STATIC_SETUP, 1)
        assert await running.next() == SnapshotTaken(OffsetAndEpoch(2, 1), OffsetAndEpoch(2, 1))
        await running.owner.take_snapshot(SnapshotId(1, 1), [b"older"], STATIC_SETUP, 1)
        assert running.told.empty()
        assert log.snapshots.ids == (SnapshotId(2, 1),)


@asynccontextmanager
async def cutting(running: Owned, log: MetadataLog) -> AsyncIterator[asyncio.Task[None]]:
    """A snapshot of offset 2 that is being written, until the end of the block."""
    goes_on, write = asyncio.Event(), log.snapshots.write

    async def slow(snapshot_id: SnapshotId, batches: Iterable[bytes]) -> CutSnapshot:
        await goes_on.wait()
        return await write(snapshot_id, batches)

    log.snapshots.write = slow  # type: ignore[method-assign]
    task = asyncio.create_task(running.owner.take_snapshot(SnapshotId(2, 1), [b"s"], STATIC_SETUP, 1))
    await asyncio.sleep(0)
    yield task
    goes_on.set()
    await asyncio.wait([task])


async def test_Q9_appends_do_not_wait_for_a_snapshot_that_is_being_written() -> None:
    log = await open_log(new_disk())
    async with owned(log) as running:
        async with cutting(running, log) as task:
            for effect in (append(0, 3), Flush(3)):
                running.owner.put(effect)
                assert await running.next() == LogCompleted(effect)
            assert not task.done()
        assert await running.next() == SnapshotTaken(OffsetAndEpoch(2, 1), OffsetAndEpoch(0, 0))
        assert log.snapshots.ids == (SnapshotId(2, 1),)


async def test_Q9_a_snapshot_gives_way_to_a_later_one_that_was_fetched_while_it_was_written() -> None:
    disk = new_disk()
    log = await open_log(disk)
    data = snapshot_bytes()
    async with owned(log) as running:
        async with cutting(running, log) as task:
            for effect in (chunk_of(data, 0, len(data)), InstallSnapshot(ID)):
                running.owner.put(effect)
            assert isinstance(await running.next(), SnapshotChunkWritten)
            assert isinstance(await running.next(), SnapshotInstalled)
        assert task.exception() is None
        assert running.told.empty(), "the log begins above it"
        assert log.snapshots.ids == (SnapshotId(ID.offset, ID.epoch),)
    assert not [path for path in disk.files() if path.suffix == ".part"]


async def test_a_snapshot_that_is_being_written_when_the_replica_stops_is_not_cut() -> None:
    log = await open_log(new_disk())
    running = Owned(log)
    async with cutting(running, log) as task:
        running.owner.drop()
    assert isinstance(task.exception(), QuorumFailedError)
    assert log.snapshots.ids == ()


CUTTING = ("open", "write", "sync", "rename", "sync_directory")


@pytest.mark.parametrize("effect", CUTTING)
async def test_Q9_a_snapshot_that_cannot_be_cut_is_told_and_counted_and_the_log_goes_on(effect: str) -> None:
    disk: MemoryDisk = new_disk()
    log = await open_log(disk, MetadataLogConfig(retention_bytes=1))
    async with owned(log) as running:
        for order in (append(0, 3), Flush(3)):
            running.owner.put(order)
            await running.next()
        log.update_high_watermark(3)
        disk.faults = FailNth(1, only=frozenset({effect}))
        with pytest.raises(OSError, match="injected"):
            await running.owner.take_snapshot(SnapshotId(2, 1), [b"s"], STATIC_SETUP, 1)
        assert (log.snapshots.ids, running.metrics.snapshot_errors) == ((), 1)
        assert not [path for path in disk.files() if path.suffix == ".part"]
        for order in (append(3, 1), Flush(4)):
            running.owner.put(order)
            assert await running.next() == LogCompleted(order)
        await running.owner.take_snapshot(SnapshotId(2, 1), [b"s"], STATIC_SETUP, 1)
        assert await running.next() == SnapshotTaken(OffsetAndEpoch(2, 1), OffsetAndEpoch(2, 1))


async def test_Q9_a_log_that_cannot_let_go_of_what_a_snapshot_covers_has_failed() -> None:
    disk = new_disk()
    log = await open_log(disk, MetadataLogConfig(retention_bytes=1))
    async with owned(log) as running:
        for order in (append(0, 3), Flush(3)):
            running.owner.put(order)
            await running.next()
        await running.owner.take_snapshot(SnapshotId(2, 1), [b"s"], STATIC_SETUP, 1)
        await running.next()
        disk.faults = FailNth(2, only=frozenset({"remove"}))  # of the part that might be there, of the older snapshot
        with pytest.raises(OSError, match="injected"):
            await running.owner.take_snapshot(SnapshotId(3, 1), [b"s"], STATIC_SETUP, 1)
        assert isinstance(await running.next(), LogFailed)


async def test_who_waits_for_a_snapshot_is_not_left_waiting() -> None:
    running = Owned(await open_log(new_disk()))
    waiting = asyncio.create_task(running.owner.take_snapshot(SnapshotId(2, 1), [b"s"], STATIC_SETUP, 1))
    await asyncio.sleep(0)
    running.owner.drop()
    with pytest.raises(QuorumFailedError, match="the snapshot is not cut"):
        await waiting
