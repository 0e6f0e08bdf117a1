"""Snapshots of a directory: crashes and failures at every effect, chunks out and in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from tierfetch.log.core import CorruptFileError
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.messages import SnapshotId
from tierfetch.quorum.storage import snapshot_file, snapshots
from tierfetch.quorum.storage.snapshot_file import (
    SLICE_BYTES,
    STATIC_SETUP,
    parse_snapshot,
    snapshot_batches,
    snapshot_name,
)
from tierfetch.quorum.storage.snapshots import SnapshotStore
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, MemoryFile, failures

DIRECTORY = Path("/data/__cluster_metadata-0")
OLD, NEW = SnapshotId(10, 1), SnapshotId(20, 2)


def content(snapshot_id: SnapshotId) -> list[bytes]:
    return list(
        snapshot_batches(
            snapshot_id, [b"r%d" % snapshot_id.end_offset], setup=STATIC_SETUP, last_append_time_ms=1, now_ms=2
        )
    )


def disk_with(*ids: SnapshotId) -> MemoryDisk:
    disk = MemoryDisk()
    disk.put(DIRECTORY / "quorum-state", b"{}")
    for snapshot_id in ids:
        disk.put(DIRECTORY / snapshot_name(snapshot_id), b"".join(content(snapshot_id)))
    return disk


async def store_of(disk: MemoryDisk) -> SnapshotStore:
    store = SnapshotStore(disk, DIRECTORY)
    await store.load()
    return store


async def test_what_is_there_is_found_and_parts_go() -> None:
    disk = disk_with(OLD, NEW)
    disk.put(DIRECTORY / (snapshot_name(SnapshotId(30, 2)) + ".part"), b"half")
    store = await store_of(disk)
    assert (store.ids, store.earliest, store.latest) == ((OLD, NEW), OLD, NEW)
    assert not [path for path in disk.files() if path.name.endswith(".part")]
    assert (await store.read(NEW)).batches == ((b"r20",),)


async def test_a_crash_leaves_the_whole_snapshot_or_none() -> None:
    outcomes = set()
    for fault in failures(crash=True):
        disk = disk_with(OLD)
        disk.faults = fault
        store = SnapshotStore(disk, DIRECTORY)
        try:
            await store.load()
            await store.create(NEW, content(NEW))
        except DiskCrash:
            done = False
        else:
            done = True
        for unsynced in ("lost", "kept"):
            after = disk.restart(unsynced)
            found = await store_of(after)
            outcomes.add(found.ids)
            assert found.ids in ((OLD,), (OLD, NEW))
            assert not done or NEW in found.ids
            for snapshot_id in found.ids:
                assert (await found.read(snapshot_id)).record_count == 1
        if done:
            break
    assert outcomes == {(OLD,), (OLD, NEW)}


async def test_a_failed_write_or_fsync_makes_no_snapshot() -> None:
    for fault in failures():
        disk = disk_with(OLD)
        store = await store_of(disk)
        disk.faults = fault
        try:
            await store.create(NEW, content(NEW))
        except OSError:
            assert store.ids == (OLD,)
            continue
        break


async def test_Q9_a_snapshot_goes_over_in_chunks() -> None:
    leader, follower = await store_of(disk_with(OLD, NEW)), await store_of(disk_with())
    whole = b"".join(content(NEW))
    position = 0
    while position < len(whole):
        chunk = await leader.chunk(NEW, position, max_bytes=50)
        assert (chunk.size, chunk.position) == (len(whole), position)
        position = await follower.store_chunk(NEW, position, chunk.data)
    assert not follower.ids
    assert await follower.finish_part(NEW) == STATIC_SETUP
    assert follower.ids == (NEW,)
    assert (await follower.chunk(NEW, 0, 10_000)).data == whole
    assert await follower.read(NEW) == parse_snapshot(whole, name="")


async def test_a_download_that_begins_anew_forgets_the_first() -> None:
    store = await store_of(disk_with())
    await store.store_chunk(OLD, 0, b"rubbish")
    whole = b"".join(content(NEW))
    await store.store_chunk(NEW, 0, whole)
    await store.finish_part(NEW)
    assert store.ids == (NEW,)


@pytest.mark.parametrize("damage", ["crc", "footer"])
async def test_Q9_a_damaged_download_is_refused_and_removed(damage: str) -> None:
    disk = disk_with(OLD)
    store = await store_of(disk)
    whole = bytearray(b"".join(content(NEW)))
    if damage == "crc":
        whole[-1] ^= 1
    else:
        del whole[-len(content(NEW)[-1]) :]
    await store.store_chunk(NEW, 0, bytes(whole))
    with pytest.raises(CorruptFileError, match=snapshot_name(NEW)):
        await store.finish_part(NEW)
    assert store.ids == (OLD,)
    assert [path.name for path in disk.files() if "checkpoint" in path.name] == [snapshot_name(OLD)]


async def test_chunks_that_cannot_be_given() -> None:
    store = await store_of(disk_with(OLD))
    with pytest.raises(KafkaError) as caught:
        await store.chunk(NEW, 0, 10)
    assert caught.value.code is ErrorCode.snapshot_not_found
    for position in (-1, 10_000):
        with pytest.raises(KafkaError) as caught:
            await store.chunk(OLD, position, 10)
        assert caught.value.code is ErrorCode.position_out_of_range


async def test_Q9_a_snapshot_that_is_removed_before_it_is_read_is_not_found() -> None:
    disk = disk_with(OLD, NEW)
    store = await store_of(disk)
    open_file = disk.open

    async def overtaken(path: Path, *, create: bool = False) -> MemoryFile:
        await store.remove_before(NEW)
        return await open_file(path, create=create)

    disk.open = overtaken  # type: ignore[method-assign]
    with pytest.raises(KafkaError) as caught:
        await store.chunk(OLD, 0, 10)
    assert caught.value.code is ErrorCode.snapshot_not_found


async def turns_of_others(while_running: Coroutine[Any, Any, Any]) -> int:
    task, turns = asyncio.create_task(while_running), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


@pytest.mark.parametrize("batch_bytes", [SLICE_BYTES, 8 * SLICE_BYTES], ids=["ours", "Kafka's batches are larger"])
async def test_Q9_the_loop_runs_on_while_a_large_snapshot_is_read(
    batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_file, "BATCH_BYTES_MAX", batch_bytes)
    records = [b"x" * 1024] * (16 * SLICE_BYTES // 1024)
    batches = list(snapshot_batches(NEW, records, setup=STATIC_SETUP, last_append_time_ms=1, now_ms=2))
    store = await store_of(disk_with())
    await store.store_chunk(NEW, 0, b"".join(batches))
    assert await turns_of_others(store.finish_part(NEW)) >= 16
    assert await turns_of_others(store.read(NEW)) >= 16
    assert (await store.read(NEW)).record_count == len(records)


@pytest.mark.parametrize("piece_bytes", [1, 60, 61, 100, 1000])
async def test_Q9_what_was_fetched_is_checked_in_pieces(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PIECE_BYTES", piece_bytes)
    store = await store_of(disk_with())
    whole = b"".join(content(NEW))
    for damaged in (whole[:-1], whole + b"\0", whole[:70] + bytes([whole[70] ^ 1]) + whole[71:]):
        await store.store_chunk(NEW, 0, damaged)
        with pytest.raises(CorruptFileError, match=snapshot_name(NEW)):
            await store.finish_part(NEW)
    await store.store_chunk(NEW, 0, whole)
    await store.finish_part(NEW)
    assert store.ids == (NEW,)


async def test_Q9_a_batch_that_claims_very_much_is_refused_before_it_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "PIECE_BYTES", 50)
    monkeypatch.setattr(snapshot_file, "ONE_BATCH_BYTES_MAX", 300)
    store = await store_of(disk_with())
    claims_more = bytearray(content(NEW)[0] + content(NEW)[1] + bytes(2_000))
    claims_more[len(content(NEW)[0]) + 8 : len(content(NEW)[0]) + 12] = (2**31 - 1).to_bytes(4, "big")
    await store.store_chunk(NEW, 0, bytes(claims_more))
    with pytest.raises(CorruptFileError, match="more than 300 bytes"):
        await store.finish_part(NEW)


async def test_older_ones_go() -> None:
    disk = disk_with(OLD, NEW)
    store = await store_of(disk)
    await store.chunk(OLD, 0, 10)
    assert await store.remove_before(NEW) == 1
    assert store.ids == (NEW,)
    with pytest.raises(KafkaError):
        await store.chunk(OLD, 0, 10)
    assert (await store_of(disk)).ids == (NEW,)
