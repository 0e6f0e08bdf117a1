"""What a crash leaves of a `MemoryDisk`, and which call fails."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random

import pytest

from tierfetch.log.disk import DiskSpace
from tierfetch.tests.fakes.disk import DiskCrash, Effect, FailNth, MemoryDisk, failures

DIR = Path("/logs/t-0")
A, B = DIR / "a", DIR / "b"


def disk_with_directory(faults: FailNth | None = None, **options) -> MemoryDisk:
    disk = MemoryDisk(**options)
    disk.put(A, b"old")
    disk.faults = faults
    return disk


async def test_a_crash_loses_what_was_not_synced():
    disk = disk_with_directory()
    file = await disk.open(A)
    await file.write(3, b" synced")
    await file.sync()
    await file.write(10, b" not")
    assert disk.restart().files() == {A: b"old synced"}
    assert disk.restart("kept").files() == {A: b"old synced not"}


async def test_a_synced_file_without_a_synced_name_is_lost():
    disk = disk_with_directory()
    file = await disk.open(B, create=True)
    await file.write(0, b"data")
    await file.sync()
    assert disk.restart().files() == {A: b"old"}
    await disk.sync_directory(DIR)
    assert disk.restart().files() == {A: b"old", B: b"data"}


async def test_a_synced_name_without_synced_data_is_empty():
    disk = disk_with_directory()
    file = await disk.open(B, create=True)
    await file.write(0, b"data")
    await disk.sync_directory(DIR)
    assert disk.restart().files() == {A: b"old", B: b""}


async def test_renames_and_removals_last_once_the_directory_is_synced():
    disk = disk_with_directory()
    await disk.rename(A, B)
    assert disk.restart().files() == {A: b"old"}
    await disk.sync_directory(DIR)
    assert disk.restart().files() == {B: b"old"}
    await disk.remove(B)
    assert disk.restart().files() == {B: b"old"}


async def test_a_renamed_directory_takes_its_durable_content_along():
    disk = disk_with_directory()
    aside = Path("/logs/t-0.aside")
    await disk.make_directory(aside)
    await disk.write_file(aside / "a", b"new")
    await disk.remove_tree(DIR)
    await disk.rename(aside, DIR)
    assert disk.restart().files() == {A: b"old"}
    await disk.sync_directory(DIR.parent)
    assert disk.restart().files() == {A: b"new"}


async def test_write_file_is_durable_unless_asked_not_to_be():
    disk = disk_with_directory()
    await disk.write_file(A, b"unsynced", sync=False)
    assert disk.restart().files() == {A: b"old"}
    await disk.write_file(A, b"synced")
    assert disk.restart().files() == {A: b"synced"}


async def test_restart_with_a_seed_keeps_a_prefix_of_the_unsynced_writes_with_a_torn_end():
    disk = disk_with_directory()
    file = await disk.open(A)
    for i in range(4):
        await file.write(4 * i, b"%04d" % i)
    full = bytes(disk.files()[A])
    outcomes = {disk.restart(Random(seed)).files()[A] for seed in range(60)}
    assert all(full.startswith(outcome) or outcome in (b"old", b"0ld", b"00d", b"000") for outcome in outcomes)
    assert full in outcomes
    assert any(len(outcome) % 4 for outcome in outcomes)


async def test_restart_with_a_seed_never_loses_both_names_of_a_rename():
    for seed in range(20):
        disk = disk_with_directory()
        await disk.write_file(B, b"new", sync=False)
        await disk.rename(B, A)
        assert A in disk.restart(Random(seed)).files()


async def test_a_failed_write_leaves_half_of_its_data():
    disk = disk_with_directory(FailNth(1))
    file = await disk.open(A)
    with pytest.raises(OSError, match=r"write: .*injected at call 1.*/logs/t-0/a") as caught:
        await file.write(0, b"12345678")
    assert caught.value.errno == errno.EIO
    assert disk.files() == {A: b"1234"}
    await file.write(0, b"12345678")
    assert disk.files() == {A: b"12345678"}


async def test_a_failed_sync_makes_nothing_durable_and_poisons_the_file():
    disk = disk_with_directory(FailNth(2))
    file = await disk.open(A)
    await file.write(0, b"new")
    with pytest.raises(OSError, match="sync"):
        await file.sync()
    for call in (file.sync(), file.write(0, b"x"), file.truncate(0)):
        with pytest.raises(OSError, match="an earlier sync failed"):
            await call
    assert await file.read(0, 3) == b"new"
    again = await disk.open(A)
    await again.sync()
    assert disk.restart().files() == {A: b"old"}, "the kernel takes it for written"
    again = await disk.open(A)
    await again.write(0, b"new")
    await again.sync()
    assert disk.restart().files() == {A: b"new"}


async def test_a_crash_stops_everything_and_no_handler_of_errors_sees_it():
    disk = disk_with_directory(FailNth(1, crash=True))
    file = await disk.open(A)
    assert not issubclass(DiskCrash, Exception)
    with pytest.raises(DiskCrash):
        await file.write(0, b"1234")
    with pytest.raises(DiskCrash):
        await disk.read_file(A)
    assert disk.restart("kept").files() == {A: b"12d"}


async def test_persistent_faults_reads_and_chosen_operations():
    disk = disk_with_directory(FailNth(1, persistent=True, only=frozenset({"remove"})))
    await disk.write_file(B, b"")
    for path in (A, B):
        with pytest.raises(OSError, match="remove"):
            await disk.remove(path)
    disk.faults = FailNth(2, reads=True, error_number=errno.ENOSPC)
    await disk.read_file(A)
    with pytest.raises(OSError, match="read_file: No space left"):
        await disk.read_file(A)


async def test_failures_end_with_the_first_run_that_is_not_hit():
    async def run(disk: MemoryDisk) -> None:
        await disk.write_file(A, b"new")
        await disk.remove(B)

    outcomes = []
    for fault in failures():
        disk = disk_with_directory(fault)
        try:
            await run(disk)
            outcomes.append("done")
        except OSError:
            outcomes.append(disk.effects[-1].operation)
    assert outcomes == ["write_file", "sync_directory", "remove", "done"]
    assert disk.effects == [Effect("write_file", A), Effect("sync_directory", DIR), Effect("remove", B)]


async def test_a_replacement_whose_directory_sync_failed_is_seen_but_not_durable():
    disk = disk_with_directory(FailNth(2))
    with pytest.raises(OSError, match="sync_directory"):
        await disk.write_file(A, b"new")
    assert disk.files() == {A: b"new"}
    assert disk.restart().files() == {A: b"old"}


async def test_a_stalled_call_holds_back_later_ones_on_its_file_alone():
    go = asyncio.Event()

    async def stall(effect: Effect) -> None:
        if effect.operation == "sync":
            await go.wait()

    disk = disk_with_directory(before_effect=stall)
    file, other = await disk.open(A), await disk.open(B, create=True)
    sync = asyncio.ensure_future(file.sync())
    await asyncio.sleep(0)
    write = asyncio.ensure_future(file.write(0, b"new"))
    await other.write(0, b"other")
    assert disk.files() == {A: b"old", B: b"other"}
    assert not sync.done()
    go.set()
    await asyncio.gather(sync, write)
    assert disk.restart().files() == {A: b"old"}


async def test_a_full_disk():
    disk = disk_with_directory(capacity_bytes=10)
    file = await disk.open(A)
    assert await disk.space(DIR) == DiskSpace(10, 7)
    await file.write(3, b"1234567")
    with pytest.raises(OSError, match="No space left"):
        await file.write(10, b"8")
    with pytest.raises(OSError, match="No space left"):
        await disk.write_file(B, b"8")
    await file.write(0, b"new")
    assert disk.files() == {A: b"new1234567"}


async def test_put_tree_copies_a_real_directory(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "f").write_bytes(b"1")
    disk = MemoryDisk()
    disk.put_tree(tmp_path, DIR)
    assert disk.restart().files(DIR) == {DIR / "x" / "f": b"1"}
