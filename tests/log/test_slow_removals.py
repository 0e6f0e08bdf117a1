"""A disk on which removing a file takes for ever: appends and reads of the log continue meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.tests.fakes.disk import DiskCrash, Effect, FailNth, MemoryDisk, failures
from tierfetch.tests.log.compaction import History, Write, clean, reopened, settled
from tierfetch.tests.log.logs import NOW_MS, Clock, append, offsets_of, open_log, read_bytes

DAY_MS = 86_400_000
SMALL = LogConfig(segment_bytes=400, retention_ms=DAY_MS)
TIERED = LogConfig(segment_bytes=400, remote_storage_enable=True)


class Stalled:
    """Holds an operation on segments' files until `release` is set: unlinking them, or renaming them."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.begun = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, effect: Effect) -> None:
        is_segment = effect.operation == "rename" or effect.path.name.endswith(".deleted")
        if effect.operation == self.operation and is_segment:
            self.begun.set()
            await self.release.wait()


async def log_of_six(disk: MemoryDisk, config: LogConfig, clock: Clock | None = None) -> PartitionLog:
    """Return a log of three segments, with two batches of two records in each."""
    log = await open_log(disk, config=config, clock=clock)
    for _ in range(6):
        await append(log, 2, value=bytes(50))
    log.update_high_watermark(12)
    await log.flush()
    assert [segment.base_offset for segment in log.state.segments] == [0, 4, 8]
    return log


def deleted(disk: MemoryDisk) -> list[str]:
    return [path.name for path in disk.files() if path.name.endswith(".deleted")]


@pytest.mark.parametrize("operation", ["remove", "rename"])
async def test_D6_appends_reads_and_rolls_continue_while_retention_removes(operation: str) -> None:
    disk, clock = MemoryDisk(), Clock()
    log = await log_of_six(disk, SMALL, clock)
    clock.now_ms = NOW_MS + 2 * DAY_MS
    disk.before_effect = stalled = Stalled(operation)
    removal = asyncio.create_task(log.delete_old_segments())
    await stalled.begun.wait()
    first = log.state.log_start_offset
    async with asyncio.timeout(5):
        for _ in range(6):
            await append(log, 2, value=bytes(50))
        assert offsets_of(await read_bytes(log)) == list(range(first, 24))
    assert first == 12, "the active segment has expired with the others"
    assert not removal.done()
    stalled.release.set()
    assert await removal == 3
    assert deleted(disk) == []


async def test_D6_appends_continue_while_the_epochs_of_the_trimmed_log_are_saved() -> None:
    disk, clock = MemoryDisk(), Clock()
    log = await log_of_six(disk, SMALL, clock)
    clock.now_ms = NOW_MS + 2 * DAY_MS
    stalled = Stalled("write_file")

    async def epochs_alone(effect: Effect) -> None:
        if effect.operation == "write_file" and effect.path.name == "leader-epoch-checkpoint":
            stalled.begun.set()
            await stalled.release.wait()

    disk.before_effect = epochs_alone
    removal = asyncio.create_task(log.delete_old_segments())
    await stalled.begun.wait()
    async with asyncio.timeout(5):
        await append(log, 1)
    stalled.release.set()
    assert await removal == 3
    assert [(entry.epoch, entry.start_offset) for entry in log.state.epochs.entries] == [(0, 12)]


async def test_D6_appends_continue_while_segments_that_the_tier_has_are_removed() -> None:
    disk = MemoryDisk()
    log = await log_of_six(disk, TIERED)
    disk.before_effect = stalled = Stalled("remove")
    removal = asyncio.create_task(log.delete_local_segments(8))
    await stalled.begun.wait()
    async with asyncio.timeout(5):
        await append(log, 2)
        await log.flush()
    assert (log.state.offsets.local_log_start_offset, log.state.log_start_offset) == (8, 0)
    stalled.release.set()
    assert await removal == 2


async def test_D6_a_log_restarts_at_an_offset_whose_old_file_is_still_being_unlinked() -> None:
    disk = MemoryDisk()
    log = await log_of_six(disk, TIERED)
    disk.before_effect = stalled = Stalled("remove")
    removal = asyncio.create_task(log.delete_local_segments(8))
    await stalled.begun.wait()
    async with asyncio.timeout(5):
        await log.truncate_fully_and_start_at(4)
        await log.append_as_follower(await _batch_at(4))
    stalled.release.set()
    await removal
    await log.reap()
    assert deleted(disk) == []
    assert offsets_of(await read_bytes(log)) == [4, 5]
    await log.close()
    again = await open_log(disk.restart("kept"), config=TIERED, log_start_offset=4)
    assert offsets_of(await read_bytes(again)) == [4, 5]


async def _batch_at(offset: int) -> bytes:
    other = await open_log(MemoryDisk())
    for _ in range(offset // 2 + 1):
        await append(other, 2)
    return await read_bytes(other, offset)


async def test_D6_a_truncation_waits_for_no_unlink() -> None:
    disk = MemoryDisk()
    log = await log_of_six(disk, SMALL)
    disk.before_effect = stalled = Stalled("remove")
    async with asyncio.timeout(5):
        assert await log.truncate_to(2) == 2
        await append(log, 1)
    assert log.state.has_deleted_files
    stalled.release.set()
    await log.reap()
    assert (log.state.has_deleted_files, deleted(disk)) == (False, [])


async def test_D6_appends_continue_while_a_compaction_unlinks_what_it_replaced() -> None:
    disk = MemoryDisk()
    log = await reopened(disk)
    await History(log).apply([Write(((f"k{i % 3}".encode(), b"v"),)) for i in range(60)])
    await settled(log)
    stalled = Stalled("remove")

    async def from_the_swap_on(effect: Effect) -> None:
        if any(path.name.endswith(".deleted") for path in disk.files()):
            await stalled(effect)

    disk.before_effect = from_the_swap_on
    cleaning = asyncio.create_task(clean(log))
    await stalled.begun.wait()
    async with asyncio.timeout(5):
        await append(log, 1)
    stalled.release.set()
    await cleaning
    assert deleted(disk) == []


async def test_a_full_disk_that_takes_no_longer_name_is_still_freed() -> None:
    disk, clock = MemoryDisk(), Clock()
    log = await log_of_six(disk, SMALL, clock)
    clock.now_ms += 2 * DAY_MS
    disk.faults = FailNth(1, persistent=True, only=frozenset({"rename"}))
    assert await log.delete_old_segments() == 3
    assert log.state.failure is None
    names = {path.name for path in disk.files()}
    assert not {name for name in names if name.startswith((f"{0:020d}.log", f"{4:020d}.log", f"{8:020d}.log"))}


async def test_what_a_cancelled_removal_leaves_is_unlinked_by_the_upkeep() -> None:
    disk, clock = MemoryDisk(), Clock()
    log = await log_of_six(disk, SMALL, clock)
    clock.now_ms += 2 * DAY_MS
    disk.before_effect = stalled = Stalled("remove")
    removal = asyncio.create_task(log.delete_old_segments())
    await stalled.begun.wait()
    removal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await removal
    assert log.state.has_deleted_files
    stalled.release.set()
    await log.reap()
    disk.before_effect = None
    await log.reap()
    assert not log.state.has_deleted_files


async def refusing(effect: Effect) -> None:
    if effect.operation == "remove" and effect.path.name.endswith(".deleted"):
        raise OSError(5, "Input/output error", str(effect.path))


async def test_a_file_that_cannot_be_unlinked_is_left_to_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    disk, clock = MemoryDisk(), Clock()
    log = await log_of_six(disk, SMALL, clock)
    clock.now_ms += 2 * DAY_MS
    disk.before_effect = refusing
    assert await log.delete_old_segments() == 3
    assert (log.state.failure, log.state.has_deleted_files) == (None, False)
    assert "the next start tries again" in caplog.text
    await log.close()
    after = disk.restart("kept")
    assert len(deleted(after)) > 0
    await open_log(after, config=SMALL)
    assert deleted(after) == []


@pytest.mark.parametrize("config", [SMALL, TIERED])
@pytest.mark.parametrize("unsynced", ["lost", "kept"])
async def test_after_a_crash_at_any_effect_the_log_has_no_hole_and_no_deleted_file(
    config: LogConfig, unsynced: str
) -> None:
    for fault in failures(crash=True):
        disk, clock = MemoryDisk(), Clock()
        log = await log_of_six(disk, config, clock)
        clock.now_ms += 2 * DAY_MS
        disk.faults = fault
        try:
            if config is TIERED:
                await log.delete_local_segments(8)
            else:
                await log.delete_old_segments()
        except DiskCrash:
            pass
        after = disk.restart(unsynced)  # type: ignore[arg-type]
        again = await open_log(
            after, config=config, recovery_point=log.state.offsets.recovery_point, log_start_offset=0
        )
        assert offsets_of(await read_bytes(again)) == list(range(again.state.offsets.local_log_start_offset, 12))
        assert again.state.offsets.local_log_start_offset in (0, 4, 8, 12)
        assert deleted(after) == []
