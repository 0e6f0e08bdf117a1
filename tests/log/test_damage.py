"""Damaged logs are put aside whole, or not at all."""

from __future__ import annotations

import pytest

from tierfetch.log.keeper.damage import ASIDE_MAX, damage_of, put_damaged_aside
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.log.logs import append
from tierfetch.tests.log.nodes import LIVE, LOG_DIR, TOPIC_ID, TP, loaded

RECOVERY_POINTS = LOG_DIR / "recovery-point-offset-checkpoint"


async def damaged() -> MemoryDisk:
    """Ten records; a bit of the first one, which had been flushed, is another."""
    disk = MemoryDisk()
    manager = await loaded(disk)
    log = await manager.create(TP, TOPIC_ID)
    for _ in range(10):
        await append(log, value=bytes(50))
    log.update_high_watermark(7)
    await log.flush()
    await manager.upkeep.save_checkpoints()
    after = disk.restart("kept")
    data = bytearray(after.files()[log.state.segments[0].path])
    data[70] ^= 1
    after.put(log.state.segments[0].path, bytes(data))
    after.put(RECOVERY_POINTS, b"0\n1\nt 0 1\n")
    return after


def strays(disk: MemoryDisk) -> dict[str, dict[str, bytes]]:
    """Directories that were put aside, with their files."""
    found: dict[str, dict[str, bytes]] = {}
    for path, data in disk.files(LOG_DIR).items():
        directory = path.relative_to(LOG_DIR).parts[0]
        if directory.endswith("-stray"):
            found.setdefault(directory, {})[path.name] = data
    return found


async def test_every_byte_is_kept_and_a_new_log_begins_with_nothing_of_it() -> None:
    disk = await damaged()
    before = {path.name: data for path, data in disk.files(LIVE).items()}
    manager = await loaded(disk)
    assert damage_of(manager, TP) is not None
    await put_damaged_aside(manager, TP)
    assert list(strays(disk.restart()).values()) == [before]
    assert damage_of(manager, TP) is None
    log = await manager.create(TP, TOPIC_ID)
    assert (log.state.log_end_offset, log.state.high_watermark, log.state.offsets.recovery_point) == (0, 0, 0)
    await manager.close()
    again = await loaded(disk)
    assert again.logs[TP].state.log_end_offset == 0
    assert len(strays(disk)) == 1


async def test_what_is_not_damaged_stays() -> None:
    manager = await loaded(MemoryDisk())
    log = await manager.create(TP, TOPIC_ID)
    await put_damaged_aside(manager, TP)
    assert manager.get(TP) is log


async def test_a_disk_that_damages_log_after_log_is_not_filled_with_them() -> None:
    disk = await damaged()
    hurt = {path: data for path, data in disk.files().items() if LIVE in path.parents or path == RECOVERY_POINTS}
    for number in range(ASIDE_MAX + 1):
        for path, data in hurt.items():
            disk.put(path, data)
        manager = await loaded(disk, seed=number)
        if number == ASIDE_MAX:
            with pytest.raises(
                KafkaError, match=r"is damaged at byte.* not moved aside: .* has 3 damaged logs of t-0"
            ) as refused:
                await put_damaged_aside(manager, TP)
            assert refused.value.code is ErrorCode.kafka_storage_error
            assert damage_of(manager, TP) is not None
        else:
            await put_damaged_aside(manager, TP)
        assert len(strays(disk)) == min(number + 1, ASIDE_MAX)


@pytest.mark.parametrize("crash", [True, False])
async def test_a_failure_half_way_loses_nothing_and_is_tried_again(crash: bool) -> None:
    for fault in failures(crash=crash):
        disk = await damaged()
        before = {path.name: data for path, data in disk.files(LIVE).items()}
        manager = await loaded(disk)
        disk.faults = fault
        try:
            await put_damaged_aside(manager, TP)
            await manager.create(TP, TOPIC_ID)
            break
        except (OSError, DiskCrash):
            disk.faults = None
        if crash:
            disk = disk.restart()
            manager = await loaded(disk)
        await put_damaged_aside(manager, TP)
        if manager.may_open_again(TP):
            await manager.reopen(TP)
        log = await manager.create(TP, TOPIC_ID)
        assert (log.state.log_end_offset, log.state.high_watermark) == (0, 0)
        assert list(strays(disk).values()) == [before]
