"""The start of a log: raising the log start, removing the oldest segments, and what is durable when."""

from __future__ import annotations

from typing import Literal

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.log.logs import NOW_MS, Clock, Keeper, append, offsets_of, open_log, read_bytes

SMALL = LogConfig(segment_bytes=400)
TIERED = LogConfig(segment_bytes=400, remote_storage_enable=True)


async def log_of_twelve(
    disk: MemoryDisk | None = None,
    *,
    config: LogConfig = SMALL,
    keeper: Keeper | None = None,
    clock: Clock | None = None,
) -> PartitionLog:
    log = await open_log(disk or MemoryDisk(), config=config, keeper=keeper, clock=clock)
    for i in range(6):
        await append(log, 2, epoch=i // 2, value=bytes(50))
    log.update_high_watermark(12)
    assert [segment.base_offset for segment in log.state.segments] == [0, 4, 8]
    return log


async def test_the_log_start_only_rises_and_is_durable_when_reported() -> None:
    keeper = Keeper()
    log = await log_of_twelve(keeper=keeper)
    calls: list[int] = []
    log.state.listeners.append(lambda: calls.append(log.state.log_start_offset))
    assert await log.increment_log_start_offset(5)
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (5, 5)
    assert [(entry.epoch, entry.start_offset) for entry in log.state.epochs.entries] == [(1, 5), (2, 8)]
    assert keeper.calls[-1] == "log start"
    assert not await log.increment_log_start_offset(5)
    assert not await log.increment_log_start_offset(2)
    assert calls == [5]
    assert offsets_of(await read_bytes(log, 5)) == [4, 5, 6, 7, 8, 9, 10, 11]


async def test_the_log_start_stays_at_or_below_the_high_watermark() -> None:
    log = await open_log(MemoryDisk())
    await append(log, 5)
    log.update_high_watermark(3)
    with pytest.raises(KafkaError, match="above the high watermark 3") as raised:
        await log.increment_log_start_offset(4)
    assert raised.value.code is ErrorCode.offset_out_of_range
    assert await log.increment_log_start_offset(3)


async def test_a_follower_raises_its_log_start_before_the_high_watermark_that_lies_below() -> None:
    seen: list[tuple[int, int]] = []

    class LookingKeeper(Keeper):
        async def save_log_start_offsets(self) -> None:
            seen.append((log.state.log_start_offset, log.state.high_watermark))

    log = await open_log(MemoryDisk(), keeper=LookingKeeper())
    await append(log, 5)
    log.update_high_watermark(3)
    log.state.listeners.append(lambda: seen.append((log.state.log_start_offset, log.state.high_watermark)))
    assert await log.follow_log_start_offset(4)
    assert not await log.follow_log_start_offset(3)
    assert seen == [(4, 3), (4, 4)]


async def test_a_follower_whose_log_start_cannot_be_saved_raises_nothing() -> None:
    keeper = FullKeeper()
    log = await open_log(MemoryDisk(), keeper=keeper)
    await append(log, 5)
    log.update_high_watermark(3)
    with pytest.raises(OSError, match="No space left"):
        await log.follow_log_start_offset(4)
    assert (log.state.log_start_offset, log.state.high_watermark) == (0, 3)


class FullKeeper(Keeper):
    """Cannot write its checkpoint."""

    async def save_log_start_offsets(self) -> None:
        raise OSError(28, "No space left on device")


async def test_a_log_start_that_cannot_be_made_durable_is_not_raised() -> None:
    log = await log_of_twelve(keeper=FullKeeper(), config=TIERED)
    for call in (lambda: log.increment_log_start_offset(5), lambda: log.delete_local_segments(5)):
        with pytest.raises(OSError, match="No space left"):
            await call()
    assert (log.state.log_start_offset, log.state.failure) == (0, None)
    assert offsets_of(await read_bytes(log)) == list(range(12))
    assert [(entry.epoch, entry.start_offset) for entry in log.state.epochs.entries] == [(0, 0), (1, 4), (2, 8)]


async def test_segments_below_the_log_start_go() -> None:
    disk = MemoryDisk()
    log = await log_of_twelve(disk)
    await log.increment_log_start_offset(9)
    assert await log.delete_old_segments_by_log_start() == 2
    assert [segment.base_offset for segment in log.state.segments] == [8]
    names = {path.name for path in disk.files()}
    assert not {name for name in names if name.startswith((f"{0:020d}", f"{4:020d}"))}
    assert await log.delete_old_segments_by_log_start() == 0


async def test_bootstrap_rule_4_local_segments_of_a_tiered_log_go_and_its_log_start_stays() -> None:
    keeper = Keeper()
    log = await log_of_twelve(config=TIERED, keeper=keeper)
    assert await log.delete_local_segments(7) == 1
    assert await log.delete_local_segments(100) == 1
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, 8)
    assert "log start" in keeper.calls, "it is durable before the first local file is no longer a guess at it"
    assert [(entry.epoch, entry.start_offset) for entry in log.state.epochs.entries] == [(0, 0), (1, 4), (2, 8)]
    with pytest.raises(KafkaError, match=r"not in the local log \[8, 12\]"):
        await log.read(4, max_bytes=100, max_offset=12)
    log.update_config(SMALL)
    assert await log.producer_snapshot_at(8) is not None


async def test_retention_by_size_moves_the_log_start_of_an_untiered_log() -> None:
    log = await log_of_twelve()
    size = log.state.segments[2].size_bytes
    log.update_config(LogConfig(segment_bytes=400, retention_bytes=2 * size))
    assert await log.delete_old_segments() == 1
    assert (log.state.log_start_offset, [segment.base_offset for segment in log.state.segments]) == (
        4,
        [4, 8],
    )
    assert await log.delete_old_segments() == 0


async def test_retention_by_time_rolls_the_active_segment() -> None:
    clock = Clock()
    log = await log_of_twelve(clock=clock)
    log.update_config(LogConfig(segment_bytes=400, retention_ms=1000))
    assert await log.delete_old_segments() == 0
    clock.now_ms = NOW_MS + 1002
    assert await log.delete_old_segments() == 3
    assert (log.state.log_start_offset, log.state.log_end_offset) == (12, 12)
    assert [segment.base_offset for segment in log.state.segments] == [12]
    assert (await append(log, epoch=3)).first_offset == 12


async def test_a_segment_without_timestamps_ages_by_its_last_change() -> None:
    clock = Clock()
    log = await open_log(MemoryDisk(), config=LogConfig(retention_ms=1000), clock=clock)
    await append(log, timestamp_ms=-1)
    await log.roll()
    log.update_high_watermark(1)
    clock.now_ms += 1000
    assert await log.delete_old_segments() == 0
    clock.now_ms += 1
    assert await log.delete_old_segments() == 1


async def test_a_crash_at_every_effect_of_a_removal_leaves_a_suffix() -> None:
    for fault in failures(crash=True):
        disk = MemoryDisk()
        log = await log_of_twelve(disk)
        await log.flush()
        disk.faults = fault
        try:
            await log.increment_log_start_offset(9)
            await log.delete_old_segments_by_log_start()
        except DiskCrash:
            pass
        else:
            assert not fault.fired
        for unsynced in ("kept", "lost"):
            again = await open_log(disk.restart(unsynced), config=SMALL, recovery_point=12, log_start_offset=9)
            assert again.state.log_start_offset == 9
            assert offsets_of(await read_bytes(again, 9))[-4:] == [8, 9, 10, 11]


async def test_a_failure_at_every_effect_of_a_removal_fails_the_log_or_nothing() -> None:
    for fault in failures():
        disk = MemoryDisk()
        log = await log_of_twelve(disk)
        disk.faults = fault
        try:
            await log.increment_log_start_offset(9)
            await log.delete_old_segments_by_log_start()
        except KafkaError:
            assert log.state.failure is not None
            await log.abandon()
            disk.faults = None
            log = await open_log(disk, config=SMALL, log_start_offset=9)
        except OSError:
            assert log.state.failure is None
        assert offsets_of(await read_bytes(log, 9)) == [8, 9, 10, 11]


@pytest.mark.parametrize("unsynced", ["kept", "lost"])
async def test_what_producers_have_done_below_a_removed_segment_survives_its_removal(
    unsynced: Literal["kept", "lost"],
) -> None:
    """The tier has the segment, sooner than the flush after the roll came by."""
    disk = MemoryDisk()
    log = await open_log(disk, config=TIERED)
    await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    await append(log, 2)
    log.update_high_watermark(4)
    await log.roll()
    assert await log.delete_local_segments(4) == 1
    after = disk.restart(unsynced)
    again = await open_log(after, config=TIERED, log_start_offset=0, recovery_point=log.state.offsets.recovery_point)
    assert again.state.log_end_offset == 4
    assert again.state.offsets.first_unstable_offset == 0
    with pytest.raises(KafkaError) as raised:
        await append(again, producer_id=7, producer_epoch=0, base_sequence=5, is_transactional=True)
    assert raised.value.code is ErrorCode.out_of_order_sequence_number
