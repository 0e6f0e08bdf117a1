"""Many logs are closed with one sync of their filesystem; what a crash or a failure leaves is no worse than without."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.keeper import log_directory
from tierfetch.log.keeper.manager import LogManager
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import DiskCrash, FailNth, MemoryDisk, failures
from tierfetch.tests.log.logs import append, offsets_of, read_bytes
from tierfetch.tests.log.nodes import LOG_DIR, loaded

pytestmark = pytest.mark.virtual_time

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=0)
MARKER = LOG_DIR / ".kafka_cleanshutdown"
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
FLUSHED, WRITTEN = 4, 10


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_directory, "SYNC_TOGETHER_MIN", 1)


async def with_logs(disk: MemoryDisk) -> LogManager:
    """Each has offsets 0 to 9, of a producer, in several segments; 0 to 3 are flushed."""
    manager = await loaded(disk, config=SMALL)
    for number, partition in enumerate(PARTITIONS):
        log = await manager.create(partition, UUID(int=number + 1))
        for sequence in range(WRITTEN):
            await append(log, value=bytes(50), producer_id=7, producer_epoch=0, base_sequence=sequence)
            if sequence + 1 == FLUSHED:
                await log.flush()
    await manager.upkeep.save_checkpoints()
    return manager


async def check(disk: MemoryDisk) -> None:
    """What was flushed is there; each log and its producer are what the batches say."""
    manager = await loaded(disk, config=SMALL)
    for partition in PARTITIONS:
        log = manager.get(partition)
        assert log is not None
        end_offset = log.state.log_end_offset
        assert FLUSHED <= end_offset <= WRITTEN
        assert offsets_of(await read_bytes(log)) == list(range(end_offset))
        assert log.state.producers.entries[7].last_sequence == end_offset - 1
        for segment in log.state.segments:
            saved, rebuilt = await segment.indexes(), await segment._rebuild_indexes()
            assert saved.offset.encode() == rebuilt.offset.encode()


async def test_one_sync_makes_a_close_in_order() -> None:
    disk = MemoryDisk()
    manager = await with_logs(disk)
    before = len(disk.effects)
    await manager.close()
    done = Counter(effect.operation for effect in disk.effects[before:])
    assert done["sync_filesystem"] == 1
    synced = {effect.path for effect in disk.effects[before:] if effect.operation == "sync_directory"}
    assert synced <= {LOG_DIR}, "the names of the logs' files come with it"
    after = disk.restart()
    assert MARKER in after.files()
    found = (await loaded(after, config=SMALL)).get(PARTITIONS[0])
    assert found is not None
    assert (found.state.log_end_offset, found.state.offsets.recovery_point) == (WRITTEN, WRITTEN)
    assert found.recovery_report.scanned_segments == 0
    await check(disk.restart())


@pytest.mark.parametrize("crash", [True, False])
async def test_a_fault_at_any_effect_loses_nothing_that_was_flushed(crash: bool) -> None:
    for fault in failures(crash=crash):
        disk = MemoryDisk()
        manager = await with_logs(disk)
        disk.faults = fault
        try:
            await manager.close()
        except (DiskCrash, OSError, BaseExceptionGroup):
            assert fault.fired
        disk.faults = None
        for seed in range(2):
            await check(disk.restart(Random(seed)))
        await check(disk.restart("kept"))


async def test_a_sync_that_fails_leaves_no_marker_and_no_recovery_point() -> None:
    disk = MemoryDisk()
    manager = await with_logs(disk)
    disk.faults = FailNth(1, only=frozenset({"sync_filesystem"}))
    await manager.close()
    disk.faults = None
    after = disk.restart()
    assert MARKER not in after.files()
    found = (await loaded(after, config=SMALL)).get(PARTITIONS[0])
    assert found is not None
    assert found.recovery_report.scanned_segments > 0
    await check(disk.restart())


async def test_where_it_cannot_begin_each_log_is_synced(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    manager = await with_logs(disk)
    disk.faults = FailNth(1, reads=True, only=frozenset({"filesystem_sync"}))
    await manager.close()
    assert "cannot be synced at once" in caplog.text
    assert MARKER in disk.restart().files()
    await check(disk.restart())
