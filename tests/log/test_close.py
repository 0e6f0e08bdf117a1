"""What a close in order writes and syncs: all that is new, each directory once, and nothing of an idle log."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.tests.fakes.disk import DiskCrash, FailNth, MemoryDisk
from tierfetch.tests.log.logs import DIRECTORY, NOW_MS, append, open_log

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=1)


async def closed_log(disk: MemoryDisk, batches: int = 3) -> None:
    log = await open_log(disk, config=SMALL)
    for number in range(batches):
        await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=2 * number)
    await log.close()


async def reopened(disk: MemoryDisk, end_offset: int = 6) -> PartitionLog:
    return await open_log(disk, config=SMALL, is_clean=True, recovery_point=end_offset)


def written(disk: MemoryDisk, before: int) -> Counter[str]:
    return Counter(
        effect.operation for effect in disk.effects[before:] if effect.operation not in {"open", "read", "read_file"}
    )


async def test_a_log_that_was_written_to_syncs_its_directory_once() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 2)
    before = len(disk.effects)
    await log.close()
    done = written(disk, before)
    # The log's bytes; the first leader epoch, with its name; both indexes and the snapshot, with their names at once.
    assert (done["sync"], done["write_file"], done["sync_directory"]) == (1, 1 + 3, 1 + 1)


async def test_an_idle_log_writes_and_syncs_nothing() -> None:
    disk = MemoryDisk()
    await closed_log(disk)
    log = await reopened(disk)
    before = len(disk.effects)
    await log.close()
    assert written(disk, before) == Counter()
    again = await reopened(disk)
    assert again.state.log_end_offset == 6
    assert again.state.producers.entries[7].last_sequence == 5


@pytest.mark.parametrize("change", ["append", "truncate", "roll"])
async def test_what_has_changed_since_is_written(change: str) -> None:
    disk = MemoryDisk()
    await closed_log(disk)
    log = await reopened(disk)
    size_bytes = log.state.segments.active.size_bytes
    if change == "truncate":
        await log.truncate_to(4)
        await append(log, 2, timestamp_ms=NOW_MS + 99, producer_id=7, producer_epoch=0, base_sequence=4)
        assert log.state.segments.active.size_bytes == size_bytes, "nothing but the bytes themselves tells them apart"
    else:
        for _ in range(1 if change == "append" else 9):
            await append(log, 2)
    end_offset = log.state.log_end_offset
    await log.close()
    after = disk.restart()
    again = await reopened(after, end_offset)
    assert again.state.log_end_offset == end_offset
    for segment in again.state.segments:
        path = segment.path
        saved = [await after.read_file(path.with_suffix(suffix)) for suffix in (".index", ".timeindex")]
        indexes = await segment._rebuild_indexes()
        indexes.close()
        assert saved == [indexes.offset.encode(), indexes.time.encode()], path


async def test_indexes_that_were_rebuilt_at_the_start_are_saved() -> None:
    disk = MemoryDisk()
    await closed_log(disk)
    await disk.remove(DIRECTORY / "00000000000000000000.timeindex")
    log = await reopened(disk)
    before = len(disk.effects)
    await log.close()
    assert written(disk, before)["write_file"] == 2
    assert (await (await reopened(disk)).state.segments.active.indexes()).has_largest_timestamp


@pytest.mark.parametrize("seed", range(3))
async def test_a_crash_at_any_effect_of_a_close_loses_nothing_that_was_flushed(seed: int) -> None:
    for number in range(1, 100):
        disk = MemoryDisk()
        log = await open_log(disk, config=SMALL)
        await append(log, 2)
        await log.flush()
        await append(log, 2)
        disk.faults = FailNth(number, crash=True)
        try:
            await log.close()
        except DiskCrash:
            again = await open_log(disk.restart(Random(seed)), config=SMALL, recovery_point=2)
            assert again.state.log_end_offset in {2, 4}
        else:
            assert number > 5
            return
    pytest.fail("a close has no end")


async def test_a_time_index_without_its_last_entry_is_completed() -> None:
    """As Kafka leaves the active segment's at a stop in order."""
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    for number in range(3):
        await append(log, timestamp_ms=NOW_MS + number)
    await log.close()
    path = DIRECTORY / "00000000000000000000.timeindex"
    whole = await disk.read_file(path)
    assert len(whole) > 12
    await disk.write_file(path, whole[:-12])
    await (await reopened(disk, 3)).close()
    assert await disk.read_file(path) == whole
