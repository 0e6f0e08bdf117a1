"""One of several log directories fails: what lies there is out of reach, the rest goes on."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.log.core import META_PROPERTIES, RECOVERY_POINT_CHECKPOINT, LogConfig, decode_offsets
from tierfetch.log.core.checkpoints import CLEAN_SHUTDOWN
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.keeper.upkeep import UpkeepSettings
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import Effect, MemoryDisk
from tierfetch.tests.log.logs import append, offsets_of, read_bytes
from tierfetch.tests.log.nodes import loaded, new_manager

FIRST, SECOND = Path("/first"), Path("/second")
TOPIC = UUID(int=42)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class Failing:
    """The disk below a directory takes nothing, when it is told so; or nothing of one file."""

    def __init__(self, directory: Path, number: int = errno.EIO, name: str = "") -> None:
        self.directory = directory
        self.number: int | None = number
        self.name = name

    async def __call__(self, effect: Effect) -> None:
        is_meant = effect.path.is_relative_to(self.directory) and self.name in effect.path.name
        if self.number is not None and is_meant:
            raise OSError(self.number, os.strerror(self.number), str(effect.path))


async def filled(disk: MemoryDisk) -> LogManager:
    manager = await loaded(disk, log_dirs=(FIRST, SECOND))
    for partition in PARTITIONS:
        log = await manager.create(partition, TOPIC)
        await append(log)
        await log.flush()
    await manager.upkeep.save_checkpoints()
    return manager


def names(manager: LogManager, directory: int) -> set[TopicPartition]:
    return set(manager.directories[directory].logs)


async def test_new_logs_are_spread_and_known_by_directory() -> None:
    manager = await filled(MemoryDisk())
    assert [len(names(manager, index)) for index in (0, 1)] == [2, 2]
    ids = {partition: manager.directory_id_of(partition) for partition in PARTITIONS}
    assert set(ids.values()) == set(manager.directory_ids)
    assert manager.directory_id_of(TopicPartition("u", 0)) is None


async def test_logs_that_are_made_at_once_are_spread_too() -> None:
    manager = await loaded(MemoryDisk(), log_dirs=(FIRST, SECOND))
    await asyncio.gather(*(manager.create(partition, TOPIC) for partition in PARTITIONS))
    assert [len(names(manager, index)) for index in (0, 1)] == [2, 2]


@pytest.mark.parametrize(
    ("name", "is_known"), [(META_PROPERTIES, False), (CLEAN_SHUTDOWN, True), (RECOVERY_POINT_CHECKPOINT, True)]
)
async def test_a_directory_that_cannot_be_opened_is_left_out_at_the_start(name: str, is_known: bool) -> None:
    """`is_known`: the node knows which one it is, and can tell the cluster."""
    disk = MemoryDisk()
    manager = await filled(disk)
    lost = names(manager, 1)
    second_id = manager.directories[1].directory_id
    await manager.close()
    if name == RECOVERY_POINT_CHECKPOINT:
        await disk.write_file(SECOND / name, b"damaged")
    if name == META_PROPERTIES:
        await disk.rename(SECOND / name, SECOND / "away")
    disk.before_effect = Failing(SECOND, name=name)
    again = await loaded(disk, log_dirs=(FIRST, SECOND))
    assert again.directory_ids == (manager.directory_ids if is_known else manager.directory_ids[:1])
    assert again.offline_directory_ids == (manager.directory_ids[1:] if is_known else ())
    assert set(again.logs) == set(PARTITIONS) - lost
    for partition in lost:
        with pytest.raises(KafkaError, match="/second is offline") as caught:
            await again.create(partition, TOPIC, directory_id=second_id)
        assert caught.value.code is ErrorCode.kafka_storage_error
    new = TopicPartition("new", 0)
    await again.create(new, UUID(int=43), directory_id=None)
    assert new in names(again, 0)
    await again.close()
    disk.before_effect = None
    if name == META_PROPERTIES:
        await disk.rename(SECOND / "away", SECOND / name)
    whole = await loaded(disk, log_dirs=(FIRST, SECOND))
    assert set(whole.logs) == {*PARTITIONS, new}
    assert second_id in whole.directory_ids


async def test_a_log_that_was_made_anew_meanwhile_is_the_one_that_the_cluster_names() -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    partition = sorted(names(manager, 1))[0]
    ids = manager.directory_ids
    await manager.close()
    disk.before_effect = Failing(SECOND)
    again = await loaded(disk, log_dirs=(FIRST, SECOND))
    await again.create(partition, TOPIC, directory_id=None)
    await again.close()
    disk.before_effect = None
    with pytest.raises(
        KafkaError, match=f"{partition} is in /first and in /second, and must be in one log directory: remove one"
    ):
        await loaded(disk, log_dirs=(FIRST, SECOND))
    for kept in (0, 1):
        copy = disk.restart("kept")
        whole = new_manager(copy, log_dirs=(FIRST, SECOND), directory_of={partition: ids[kept]}.get)
        await whole.identify()
        await whole.load()
        assert partition in names(whole, kept)
        assert partition not in names(whole, 1 - kept)
        assert whole.logs[partition].state.log_end_offset == kept
        other = (FIRST, SECOND)[1 - kept]
        assert any(path.relative_to(other).parts[0].endswith("-stray") for path in copy.files(other))


async def test_the_first_directory_must_be_there() -> None:
    disk = MemoryDisk()
    await (await filled(disk)).close()
    disk.before_effect = Failing(FIRST)
    with pytest.raises(OSError, match="first"):
        await loaded(disk, log_dirs=(FIRST, SECOND))


async def test_D4_a_directory_whose_disk_fails_goes_offline_with_its_partitions() -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    told: list[tuple[UUID, ...]] = []
    manager.upkeep.on_offline = lambda: told.append(manager.offline_directory_ids)
    lost = names(manager, 1)
    disk.before_effect = Failing(SECOND)
    for partition in lost:
        with pytest.raises(KafkaError):
            await append(manager.logs[partition])
    await manager.upkeep.check_directories()
    assert told == [(manager.directories[1].directory_id,)]
    assert set(manager.logs) == set(PARTITIONS) - lost
    disk.before_effect = None
    for partition in lost:
        with pytest.raises(KafkaError, match="offline"):
            manager.get(partition)
        with pytest.raises(KafkaError, match="offline"):
            await manager.reopen(partition)
    for partition in set(PARTITIONS) - lost:
        await append(manager.logs[partition])
    await manager.upkeep.check_directories()
    assert len(told) == 1
    gone = sorted(lost)[0]
    await manager.delete(gone)
    assert gone not in manager.failures
    await manager.upkeep.save_checkpoints()
    await manager.close()
    again = await loaded(disk, log_dirs=(FIRST, SECOND))
    assert set(again.logs) == set(PARTITIONS), "what could not be deleted is there again, for who knows what it is"
    for partition in PARTITIONS:
        assert offsets_of(await read_bytes(again.logs[partition]))[0] == 0


async def test_without_any_directory_there_is_no_place_for_a_new_log() -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    disk.before_effect = Failing(Path("/"))
    for partition in PARTITIONS:
        with pytest.raises(KafkaError):
            await append(manager.logs[partition])
    await manager.upkeep.check_directories()
    with pytest.raises(KafkaError, match="offline") as raised:
        await manager.create(TopicPartition("new", 0), TOPIC)
    assert raised.value.code is ErrorCode.kafka_storage_error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_takes_no_directory_offline(number: int) -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    disk.before_effect = Failing(SECOND, number)
    partition = sorted(names(manager, 1))[0]
    with pytest.raises(KafkaError):
        await append(manager.logs[partition])
    await manager.upkeep.check_directories()
    assert manager.offline_directory_ids == ()
    disk.before_effect = None
    await append(await manager.reopen(partition))


async def test_one_log_that_failed_once_takes_no_directory_offline() -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    failing = disk.before_effect = Failing(SECOND)
    partition = sorted(names(manager, 1))[0]
    with pytest.raises(KafkaError):
        await append(manager.logs[partition])
    failing.number = None
    await manager.upkeep.check_directories()
    assert manager.offline_directory_ids == ()
    await append(await manager.reopen(partition))


async def test_nothing_is_remembered_of_logs_that_are_gone() -> None:
    manager = await filled(MemoryDisk())
    for partition in PARTITIONS:
        manager.logs[partition].update_config(LogConfig(flush_ms=0))
    await manager.upkeep.flush_due()
    assert len(flushed(manager)) == len(PARTITIONS)
    for partition in PARTITIONS[1:]:
        await manager.delete(partition)
    await manager.upkeep.remove_due()
    gc.collect()
    assert (len(manager._locks), flushed(manager)) == (0, PARTITIONS[:1])


def saved_recovery_points(disk: MemoryDisk) -> dict[TopicPartition, int]:
    return dict(decode_offsets(disk.files()[FIRST / RECOVERY_POINT_CHECKPOINT]))


def flushed(manager: LogManager) -> list[TopicPartition]:
    return [log.state.topic_partition for each in manager.upkeep._each for log in each._flushed_at]


async def test_D4_a_directory_whose_disk_hangs_goes_offline() -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    reports: list[tuple[UUID, ...]] = []
    manager.upkeep.on_offline = lambda: reports.append(manager.offline_directory_ids)
    disk.hung.add(SECOND)
    disk.before_effect = Failing(SECOND, errno.ETIMEDOUT)
    await manager.upkeep.check_directories()
    assert reports == [(manager.directories[1].directory_id,)]
    assert set(manager.logs) == names(manager, 0)


async def test_D4_upkeep_of_a_directory_waits_for_no_other_ones_disk() -> None:
    """The disk of the second directory does not return from a call; all that is due in the first is done."""
    disk = MemoryDisk()
    settings = UpkeepSettings(checkpoint_interval_ms=1, retention_check_interval_ms=1, look_interval_ms=1)
    config = LogConfig(segment_bytes=100, retention_bytes=0, file_delete_delay_ms=0)
    manager = await loaded(disk, log_dirs=(FIRST, SECOND), config=config, upkeep=settings)
    logs = [await manager.create(partition, TOPIC) for partition in PARTITIONS]
    returns = asyncio.Event()

    async def hang(effect: Effect) -> None:
        if effect.path.is_relative_to(SECOND):
            await returns.wait()

    for log in logs:
        for _ in range(3):
            await append(log)
        log.update_high_watermark(log.state.log_end_offset)
    disk.before_effect = hang
    running = asyncio.create_task(manager.upkeep.run())
    well = [manager.logs[partition] for partition in sorted(names(manager, 0))]
    async with asyncio.timeout(10):
        while any(log.state.has_unflushed_segments or log.state.offsets.log_start_offset == 0 for log in well):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        states = [log.state for log in well]
        while saved_recovery_points(disk) != {each.topic_partition: each.recovery_point for each in states}:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    returns.set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await manager.close()


async def test_D4_a_start_opens_each_directory_while_another_ones_disk_is_slow() -> None:
    """No call of the first directory's disk returns before all logs of the second one are open."""
    disk = MemoryDisk()
    manager = await filled(disk)
    ids = manager.directory_ids
    await manager.close()
    again = new_manager(disk, log_dirs=(FIRST, SECOND))

    async def wait_for_the_second(effect: Effect) -> None:
        if effect.path.is_relative_to(FIRST):
            async with asyncio.timeout(10):
                while len(again.directories[1].logs) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)

    await again.identify()
    disk.before_effect = wait_for_the_second
    await again.load()
    assert set(again.logs) == set(PARTITIONS)
    assert again.directory_ids == ids
    await again.close()


@pytest.mark.parametrize("ends", ["slowly", "with an error"])
async def test_D4_a_stop_marks_each_directory_that_closed_in_order_whatever_becomes_of_another(ends: str) -> None:
    disk = MemoryDisk()
    manager = await filled(disk)
    is_marked = asyncio.Event()

    async def ill(effect: Effect) -> None:
        if effect.path == FIRST / CLEAN_SHUTDOWN:
            is_marked.set()
        elif effect.path.is_relative_to(SECOND):
            async with asyncio.timeout(10):
                await is_marked.wait()
            if ends == "with an error":
                raise OSError(errno.ETIMEDOUT, "the disk hangs", str(effect.path))

    disk.before_effect = ill
    await manager.close()
    disk.before_effect = None
    assert await disk.exists(FIRST / CLEAN_SHUTDOWN)
    assert await disk.exists(SECOND / CLEAN_SHUTDOWN) == (ends == "slowly")
    assert set((await loaded(disk, log_dirs=(FIRST, SECOND))).logs) == set(PARTITIONS)
