"""Which log of a node is cleaned when, and what is remembered of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tierfetch.log.cleaner.cleaner import CleanerSettings, LogCleaner
from tierfetch.log.cleaner.cleaning import PAUSE_BYTES, Throttle
from tierfetch.log.core import decode_offsets
from tierfetch.log.core.checkpoints import CLEANER_OFFSET_CHECKPOINT
from tierfetch.log.keeper.upkeep import UpkeepSettings
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.waiting import until
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.compaction import COMPACT, History, Write, reopened, settled, uncommitted_view
from tierfetch.tests.log.logs import NOW_MS, Clock
from tierfetch.tests.log.nodes import LOG_DIR, TOPIC_ID, TP, loaded, new_manager

LENGTH_LOW_BYTE = 11
"""Where a batch has the last byte of its length."""


def puts(count: int, *, keys: int = 1) -> list[Write]:
    return [Write(((b"k%d" % (number % keys), b"v%d" % number),)) for number in range(count)]


async def filled(count: int, **config: object) -> PartitionLog:
    log = await reopened(MemoryDisk())
    log.update_config(replace(COMPACT, **config))
    await History(log).apply(puts(count))
    await settled(log)
    return log


def cleaner(*logs: PartitionLog, **settings: object) -> LogCleaner:
    by_name = {TopicPartition("t", number): log for number, log in enumerate(logs)}
    return LogCleaner(lambda: by_name, CleanerSettings(**settings))


async def test_the_dirtiest_log_comes_first_and_a_clean_one_not_at_all() -> None:
    half_clean, dirty = await filled(20), await filled(40)
    tidier = cleaner(half_clean, dirty)
    assert await tidier.clean_dirtiest()
    first_end = (half_clean.state.clean_end_offset, dirty.state.clean_end_offset)
    assert await tidier.clean_dirtiest()
    assert 0 in first_end
    assert not await tidier.clean_dirtiest()
    await History(half_clean).apply(puts(1))
    await settled(half_clean)
    assert not await tidier.clean_dirtiest(), "as much is clean as is dirty"
    await History(half_clean).apply(puts(1))
    await settled(half_clean)
    assert await tidier.clean_dirtiest()


async def test_logs_that_are_not_compacted_are_left_alone() -> None:
    log = await filled(20, cleanup_policy=frozenset({"delete"}))
    assert not await cleaner(log).clean_dirtiest()
    assert len(await uncommitted_view(log)) == 20


async def test_an_overdue_log_is_cleaned_however_clean_it_is() -> None:
    log = await filled(20, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    clock = log.state.now_ms
    assert isinstance(clock, Clock)
    assert not await cleaner(log).clean_dirtiest()
    clock.now_ms = NOW_MS + 1001
    assert await cleaner(log).clean_dirtiest()


async def test_a_log_that_cannot_be_cleaned_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    damaged, sound = await filled(60), await filled(20)
    segment = damaged.state.segments[0]
    with segment.pinned():
        await (await segment.file()).write(30, b"\xff" * 8)
    tidier = cleaner(damaged, sound)
    assert [await tidier.clean_dirtiest() for _ in range(3)] == [True, True, False]
    assert "could not be cleaned" in caplog.text
    assert sound.state.clean_end_offset > 0
    assert len(await uncommitted_view(sound)) < 20


async def test_a_batch_whose_length_is_damaged_does_not_end_its_segment_early(caplog: pytest.LogCaptureFixture) -> None:
    """It would be lost, and all after it: with a flipped bit it ends beyond the file, as one that is being written."""
    disk = MemoryDisk()
    log = await reopened(disk)
    log.update_config(COMPACT)
    await History(log).apply(puts(20, keys=20))
    await settled(log)
    segment = log.state.segments[0]
    sound = disk.files()[segment.path]
    *_, (position, _) = iter_batches(sound)
    damaged = bytearray(sound)
    damaged[position + LENGTH_LOW_BYTE] ^= 0x40
    with segment.pinned():
        await (await segment.file()).write(0, bytes(damaged))
    assert await cleaner(log).clean_dirtiest()
    assert "could not be cleaned" in caplog.text
    assert "are no complete batch" in caplog.text
    assert disk.files()[segment.path] == damaged


async def test_a_round_without_work_reads_nothing() -> None:
    disk = MemoryDisk()
    log = await reopened(disk)
    log.update_config(COMPACT)
    await History(log).apply(puts(20))
    await settled(log)
    tidier = cleaner(log)
    await tidier.clean_dirtiest()
    effects = len(disk.effects)
    assert not await tidier.clean_dirtiest()
    assert len(disk.effects) == effects


async def test_a_node_remembers_how_far_it_cleaned() -> None:
    disk = MemoryDisk()
    manager = await loaded(disk, config=COMPACT)
    log = await manager.create(TP, TOPIC_ID)
    await History(log).apply(puts(30))
    await settled(log)
    assert await manager.upkeep.cleaner.clean_dirtiest()
    end = log.state.clean_end_offset
    assert end > 0
    await manager.close()
    saved = disk.files()[LOG_DIR / CLEANER_OFFSET_CHECKPOINT]
    assert saved == b"0\n1\nt 0 %d\n" % end
    again = await loaded(disk.restart(), config=COMPACT)
    reloaded = again.get(TP)
    assert reloaded is not None
    assert reloaded.state.clean_end_offset == end
    await again.delete(TP)
    assert decode_offsets(disk_of(again).files()[LOG_DIR / CLEANER_OFFSET_CHECKPOINT]) == {}
    await again.close()


def disk_of(manager: object) -> MemoryDisk:
    return manager.services.disk


async def test_no_file_is_made_for_nothing() -> None:
    disk = MemoryDisk()
    manager = await loaded(disk, config=COMPACT)
    await manager.create(TP, TOPIC_ID)
    await manager.close()
    assert LOG_DIR / CLEANER_OFFSET_CHECKPOINT not in disk.files()


async def test_the_cleaner_runs_with_the_nodes_upkeep() -> None:
    disk = MemoryDisk()
    upkeep = UpkeepSettings(cleaner=CleanerSettings(backoff_ms=1))
    manager = new_manager(disk, config=COMPACT, upkeep=upkeep)
    await manager.identify()
    await manager.load()
    log = await manager.create(TP, TOPIC_ID)
    await History(log).apply(puts(30))
    await settled(log)
    running = asyncio.create_task(manager.upkeep.run())
    await until(lambda: log.state.clean_end_offset > 0)
    running.cancel()
    await asyncio.wait([running])
    await manager.close()


async def test_a_cleaner_that_is_switched_off_ends() -> None:
    await cleaner(enabled=False).run()


async def test_a_walk_keeps_to_its_rate_and_to_half_of_the_time() -> None:
    loop = asyncio.get_running_loop()
    throttle = Throttle(4 * PAUSE_BYTES)
    throttle.begin()
    began = loop.time()
    await throttle.walked(PAUSE_BYTES // 2)
    assert loop.time() - began < 0.1
    await throttle.walked(PAUSE_BYTES // 2)
    assert loop.time() - began >= 0.25 * 0.9


async def test_truncation_takes_the_clean_end_along() -> None:
    log = await filled(40)
    await cleaner(log).clean_dirtiest()
    assert log.state.clean_end_offset > 20
    await log.truncate_to(20)
    assert log.state.clean_end_offset <= 20
