"""The checkpoints of a directory with many logs: collected some at a time, with all that a write promises."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.log.core import decode_offsets
from tierfetch.log.keeper.directory_checkpoints import DirectoryCheckpoints
from tierfetch.protocol import TopicPartition
from tierfetch.protocol.net import SLICE_ELEMENTS
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION
from tierfetch.tests.fakes.disk import MemoryDisk

pytestmark = pytest.mark.virtual_time

DIRECTORY = Path("/logs")
MANY = 10 * SLICE_ELEMENTS


def log_at(high_watermark: int) -> Any:
    state = SimpleNamespace(
        log_start_known=False,
        offsets=SimpleNamespace(recovery_point=0),
        high_watermark=high_watermark,
        clean_end_offset=0,
    )
    return SimpleNamespace(state=state)


def names(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", partition) for partition in range(count)]


def high_watermarks(disk: MemoryDisk) -> dict[TopicPartition, int]:
    return decode_offsets(disk.files()[DIRECTORY / "replication-offset-checkpoint"])


async def new_checkpoints(logs: dict[TopicPartition, Any]) -> tuple[MemoryDisk, DirectoryCheckpoints]:
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY)
    return disk, DirectoryCheckpoints(disk, DIRECTORY, logs, {}, {})


async def test_the_loop_turns_while_the_entries_of_many_logs_are_collected() -> None:
    looks = 0

    class Counting:
        @property
        def state(self) -> Any:
            nonlocal looks
            looks += 1
            return log_at(5).state

    logs: dict[TopicPartition, Any] = {name: Counting() for name in names(MANY)}
    disk, checkpoints = await new_checkpoints(logs)
    saving = asyncio.create_task(checkpoints.save_all())
    most = before = 0
    while not saving.done():
        most, before = max(most, looks - before), looks
        await asyncio.sleep(0)
    assert 0 < most <= ELEMENTS_PER_ITERATION + SLICE_ELEMENTS
    assert high_watermarks(disk) == dict.fromkeys(logs, 5)


async def test_an_entry_that_was_collected_may_be_on_disk_at_once() -> None:
    """A log that is created in the place of one that is deleted meanwhile has the files rewritten before."""
    logs = {name: log_at(5) for name in names(MANY)}
    first = next(iter(logs))
    disk, checkpoints = await new_checkpoints(logs)
    saving = asyncio.create_task(checkpoints.save_all())
    for _ in range(20):
        if checkpoints.may_have_entry(first):
            break
        await asyncio.sleep(0)
    assert not saving.done()
    assert not disk.files(), "nothing is written yet"
    del logs[first]
    await checkpoints.save_recovery_points()
    await saving
    assert first not in high_watermarks(disk)
    assert not checkpoints.may_have_entry(first)


async def test_nothing_is_written_where_nothing_has_changed() -> None:
    logs = {name: log_at(5) for name in names(3)}
    disk, checkpoints = await new_checkpoints(logs)
    await checkpoints.save_all()
    before = len(disk.effects)
    await checkpoints.save_all()
    assert len(disk.effects) == before
    logs[names(1)[0]] = log_at(6)
    await checkpoints.save_all()
    assert high_watermarks(disk) == {**dict.fromkeys(names(3), 5), names(1)[0]: 6}
