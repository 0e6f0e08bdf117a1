"""Many logs are closed with one sync of their filesystem; what a crash or a failure leaves is no worse than without."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.keeper import log_directory
from tierfetch.log.keeper.manager import LogManager
from tierfetch.protocol.records import ControlType
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import DiskCrash, FailNth, MemoryDisk, failures
from tierfetch.tests.log.logs import append, end_transaction, offsets_of, read_bytes
from tierfetch.tests.log.nodes import LOG_DIR, loaded

pytestmark = pytest.mark.virtual_time

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=0)
SHORT = LogConfig(segment_bytes=100_000, index_interval_bytes=200)
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
    assert found.recovery_report.scanned_segments == 1, "the last one, which is short"
    await check(disk.restart())


async def with_short_logs(disk: MemoryDisk) -> LogManager:
    """Each has one segment, a producer, and an aborted transaction of another one."""
    manager = await loaded(disk, config=SHORT)
    for number, partition in enumerate(PARTITIONS):
        log = await manager.create(partition, UUID(int=number + 1))
        for sequence in range(WRITTEN):
            await append(log, epoch=sequence // 4, producer_id=7, producer_epoch=0, base_sequence=sequence)
        await append(log, epoch=2, producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
        await end_transaction(log, ControlType.ABORT, 8, epoch=2)
        log.update_high_watermark(log.state.log_end_offset)
    return manager


def names(disk: MemoryDisk) -> set[str]:
    """The files of the first log."""
    return {path.name for path in disk.files() if path.parent == LOG_DIR / str(PARTITIONS[0])}


async def known(disk: MemoryDisk) -> list[object]:
    """What a start in order finds."""
    log = (await loaded(disk, config=SHORT)).get(PARTITIONS[0])
    assert log is not None
    state = log.state
    aborted = [list(await segment.transaction_index()) for segment in state.segments]
    indexes = [(await segment.indexes()).offset.encode() for segment in state.segments]
    producers = {number: entry.last_sequence for number, entry in state.producers.entries.items()}
    return [state.offsets, state.epochs.entries, producers, aborted, indexes, state.has_unsaved_epochs]


async def test_a_short_log_needs_no_small_files_and_is_what_it_would_be_with_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, other = MemoryDisk(), MemoryDisk()
    await (await with_short_logs(disk)).close()
    monkeypatch.setattr(log_directory, "SYNC_TOGETHER_MIN", 100)
    await (await with_short_logs(other)).close()
    assert names(disk) == {"00000000000000000000.log", "leader-epoch-checkpoint", "partition.metadata"}
    assert len(names(other)) == 3 + 4, "two indexes, the aborted transaction, and the producers"
    assert await known(disk.restart()) == await known(other.restart())
    assert caplog.text == "", "nothing of it is a finding"


async def test_a_short_log_that_was_not_written_to_since_the_start_takes_nothing() -> None:
    disk = MemoryDisk()
    await (await with_short_logs(disk)).close()
    manager = await loaded(disk, config=SHORT)
    before = len(disk.effects)
    await manager.close()
    written = {effect.path.parent for effect in disk.effects[before:] if effect.operation in {"sync", "write_file"}}
    assert written <= {LOG_DIR}


async def test_index_files_that_are_there_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start would believe them."""
    disk = MemoryDisk()
    with monkeypatch.context() as alone:
        alone.setattr(log_directory, "SYNC_TOGETHER_MIN", 100)
        await (await with_short_logs(disk)).close()
    manager = await loaded(disk, config=SHORT)
    log = manager.get(PARTITIONS[0])
    assert log is not None
    await append(log, epoch=2, producer_id=8, producer_epoch=0, base_sequence=1, is_transactional=True)
    await end_transaction(log, ControlType.ABORT, 8, epoch=2)
    await manager.close()
    again = (await loaded(disk.restart(), config=SHORT)).get(PARTITIONS[0])
    assert again is not None
    assert again.recovery_report.scanned_segments == 0
    assert len(await again.state.segments.active.transaction_index()) == 2


@pytest.mark.parametrize("has_recovery_point", [True, False])
async def test_damage_in_a_short_log_that_was_closed_in_order_is_rejected(has_recovery_point: bool) -> None:
    disk = MemoryDisk()
    await (await with_short_logs(disk)).close()
    path = LOG_DIR / str(PARTITIONS[0]) / "00000000000000000000.log"
    data = await disk.read_file(path)
    await disk.write_file(path, data[:-1])
    if not has_recovery_point:
        await disk.remove(LOG_DIR / "recovery-point-offset-checkpoint")
    manager = await loaded(disk, config=SHORT)
    assert "flushed data is never dropped silently" in str(manager.failures[PARTITIONS[0]])
    assert await disk.read_file(path) == data[:-1]
    assert manager.get(PARTITIONS[1]) is not None


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
