"""The offset checkpoints of a directory with thousands of logs: written from slices, between which the loop is free."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from pathlib import Path
from types import SimpleNamespace
from typing import Self, cast

import pytest

from tierfetch.log.core import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, decode_offsets
from tierfetch.log.keeper.directory_checkpoints import DirectoryCheckpoints
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.net import SLICE_ELEMENTS
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import FailNth, MemoryDisk

pytestmark = pytest.mark.virtual_time

COUNT = 5 * SLICE_ELEMENTS + 1
DIRECTORY = Path("/data")
FIRST, LAST = TopicPartition("t", 0), TopicPartition("t", COUNT - 1)

Logs = dict[TopicPartition, PartitionLog]


def log(recovery_point: int) -> PartitionLog:
    state = SimpleNamespace(
        recovery_point=recovery_point,
        high_watermark=recovery_point,
        log_start_offset=0,
        log_start_known=True,
        clean_end_offset=0,
        config=SimpleNamespace(remote_storage_enable=False),
        segments=SimpleNamespace(first_base_offset=0),
    )
    return cast("PartitionLog", SimpleNamespace(state=state))


class Directory:
    """Logs, failed logs, and their checkpoints."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.logs: Logs = {TopicPartition("t", number): log(number) for number in range(COUNT)}
        self.futures: Logs = {}
        self.kept: dict[TopicPartition, object] = {}
        self.checkpoints = DirectoryCheckpoints(self.disk, DIRECTORY, ChainMap(self.logs, self.futures), self.kept)

    @classmethod
    async def made(cls) -> Self:
        directory = cls()
        await directory.disk.make_directory(DIRECTORY)
        return directory

    async def saved(self, name: str = RECOVERY_POINT_CHECKPOINT) -> dict[TopicPartition, int]:
        return decode_offsets(await self.disk.read_file(DIRECTORY / name))

    async def first_turns(self, save: asyncio.Task[None]) -> None:
        """Return after some logs were looked at, the first ones, and before the last ones are."""
        for _ in range(3):
            await asyncio.sleep(0)
        assert not save.done()
        assert self.checkpoints.may_have_entry(FIRST)
        assert not self.checkpoints.may_have_entry(LAST)


async def test_many_logs_are_saved_in_slices() -> None:
    directory, turns = await Directory.made(), 0
    save = asyncio.create_task(directory.checkpoints.save_recovery_points())
    while not save.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > COUNT / SLICE_ELEMENTS
    assert await directory.saved() == {TopicPartition("t", number): number for number in range(COUNT)}
    before = len(directory.disk.effects)
    await directory.checkpoints.save_recovery_points()
    assert directory.disk.effects[before:] == [], "nothing has changed"


async def test_a_log_that_is_deleted_between_two_slices_leaves_no_entry() -> None:
    directory = await Directory.made()
    save = asyncio.create_task(directory.checkpoints.save_recovery_points())
    await directory.first_turns(save)
    del directory.logs[FIRST]
    assert directory.checkpoints.may_have_entry(FIRST), "or its successor would inherit it"
    await directory.checkpoints.save_all()
    await save
    assert FIRST not in await directory.saved()
    assert not directory.checkpoints.may_have_entry(FIRST)


@pytest.mark.parametrize("which", [FIRST, LAST])
@pytest.mark.parametrize("is_future", [False, True])
async def test_a_log_that_takes_anothers_place_between_two_slices_gets_its_own_entry(
    which: TopicPartition, is_future: bool
) -> None:
    directory = await Directory.made()
    if is_future:
        directory.futures |= directory.logs
        directory.logs.clear()
    logs = directory.futures if is_future else directory.logs
    logs[which].state.recovery_point = 77
    save = asyncio.create_task(directory.checkpoints.save_recovery_points())
    await directory.first_turns(save)
    del logs[which]
    await asyncio.sleep(0)
    logs[which] = log(0)
    await save
    assert (await directory.saved())[which] == 0


@pytest.mark.parametrize("which", [FIRST, LAST])
async def test_a_log_without_an_entry_gets_none_of_the_log_whose_place_it_takes(which: TopicPartition) -> None:
    directory = await Directory.made()
    directory.logs[which].state.log_start_offset = 50
    directory.logs[TopicPartition("t", 1)].state.log_start_offset = 3  # so there is something to write
    save = asyncio.create_task(directory.checkpoints.save_log_start_offsets())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not save.done()
    directory.logs[which] = log(0)
    await save
    assert which not in await directory.saved(LOG_START_OFFSET_CHECKPOINT)


@pytest.mark.parametrize("which", [FIRST, LAST])
async def test_an_adoption_that_ends_between_two_slices_has_its_log_start_saved(which: TopicPartition) -> None:
    directory = await Directory.made()
    directory.logs[which].state.log_start_offset = 50
    directory.checkpoints.pending_log_starts[which] = 90
    await directory.checkpoints.save_log_start_offsets()
    directory.logs[TopicPartition("t", 1)].state.log_start_offset = 3  # so there is something to write
    save = asyncio.create_task(directory.checkpoints.save_log_start_offsets())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not save.done()
    directory.logs[which] = log(0)
    directory.logs[which].state.log_start_offset = 90
    del directory.checkpoints.pending_log_starts[which]
    await save
    assert (await directory.saved(LOG_START_OFFSET_CHECKPOINT))[which] == 90


@pytest.mark.parametrize("becomes", ["failed", "open"])
async def test_a_log_that_fails_or_is_opened_again_between_two_slices_keeps_its_entry(becomes: str) -> None:
    directory = await Directory.made()
    await directory.checkpoints.save_recovery_points()
    if becomes == "open":
        directory.kept[LAST] = directory.logs.pop(LAST)
    directory.logs[FIRST].state.recovery_point = 7
    save = asyncio.create_task(directory.checkpoints.save_recovery_points())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not save.done()
    if becomes == "open":
        directory.logs[LAST] = cast("PartitionLog", directory.kept.pop(LAST))
    else:
        directory.kept[LAST] = directory.logs.pop(LAST)
    await save
    saved = await directory.saved()
    assert (saved[FIRST], saved[LAST]) == (7, COUNT - 1)


async def test_what_is_raised_between_two_slices_is_saved_by_those_who_ask_then() -> None:
    directory = await Directory.made()
    save = asyncio.create_task(directory.checkpoints.save_recovery_points())
    await directory.first_turns(save)
    directory.logs[FIRST].state.recovery_point = 9
    await directory.checkpoints.save_recovery_points()
    assert (await directory.saved())[FIRST] == 9
    await save


class _Unread:
    """The state of a log that must not be looked at."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was looked at")


async def test_a_log_start_that_is_saved_for_one_partition_looks_at_no_other() -> None:
    """Thousands of adoptions would else look at every log each."""
    directory = await Directory.made()
    for name in (FIRST, LAST):
        directory.logs[name].state.log_start_offset = 50
    await directory.checkpoints.save_log_start_offsets()
    for name, each in directory.logs.items():
        if name != LAST:
            each.state = _Unread()  # type: ignore[misc]
    new = TopicPartition("new", 0)
    directory.checkpoints.pending_log_starts[new] = 90
    await directory.checkpoints.save_log_start(new)
    assert await directory.saved(LOG_START_OFFSET_CHECKPOINT) == {FIRST: 50, LAST: 50, new: 90}
    before = len(directory.disk.effects)
    await directory.checkpoints.save_log_start(new)
    assert directory.disk.effects[before:] == [], "it is there already"
    del directory.checkpoints.pending_log_starts[new]  # the adoption has failed, and left no log
    directory.logs[LAST].state.log_start_offset = 51
    await asyncio.gather(directory.checkpoints.save_log_start(new), directory.checkpoints.save_log_start(LAST))
    assert await directory.saved(LOG_START_OFFSET_CHECKPOINT) == {FIRST: 50, LAST: 51}
    assert len(directory.disk.effects) == before + 2, "one write, and the sync of its name"


async def test_a_save_of_all_is_not_content_with_a_write_for_one() -> None:
    directory = await Directory.made()
    await directory.checkpoints.save_log_start_offsets()
    for number in (0, 1, 2):
        directory.logs[TopicPartition("t", number)].state.log_start_offset = 10 + number
    saves = [
        directory.checkpoints.save_log_start(TopicPartition("t", 1)),
        directory.checkpoints.save_log_start_offsets(),
        directory.checkpoints.save_log_start(TopicPartition("t", 2)),
    ]
    await asyncio.gather(*saves)
    saved = await directory.saved(LOG_START_OFFSET_CHECKPOINT)
    assert saved == {TopicPartition("t", number): 10 + number for number in (0, 1, 2)}


async def test_after_a_write_that_failed_all_are_written() -> None:
    """What is on disk is not known: neither that the failed one is, nor that it is not."""
    directory = await Directory.made()
    directory.logs[FIRST].state.log_start_offset = 5
    await directory.checkpoints.save_log_start_offsets()
    directory.disk.faults = FailNth(1)
    directory.logs[FIRST].state.log_start_offset = 6
    with pytest.raises(OSError, match="injected"):
        await directory.checkpoints.save_log_start(FIRST)
    directory.disk.faults = None
    directory.logs[LAST].state.log_start_offset = 7
    await directory.checkpoints.save_log_start(FIRST)
    assert await directory.saved(LOG_START_OFFSET_CHECKPOINT) == {FIRST: 6, LAST: 7}


async def test_a_log_that_failed_keeps_its_entry_in_a_write_for_one() -> None:
    directory = await Directory.made()
    directory.logs[FIRST].state.log_start_offset = 5
    await directory.checkpoints.save_log_start_offsets()
    directory.kept[FIRST] = directory.logs.pop(FIRST)
    directory.logs[LAST].state.log_start_offset = 7
    await asyncio.gather(directory.checkpoints.save_log_start(FIRST), directory.checkpoints.save_log_start(LAST))
    assert await directory.saved(LOG_START_OFFSET_CHECKPOINT) == {FIRST: 5, LAST: 7}
