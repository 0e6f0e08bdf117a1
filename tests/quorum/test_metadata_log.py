"""The metadata log on a fake disk: durability, snapshots under it, what is refused when it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.log.core import RECOVERY_POINT_CHECKPOINT, CorruptFileError
from tierfetch.log.disk import OsDisk
from tierfetch.protocol.errors import KafkaError
from tierfetch.protocol.fetch.messages import SnapshotId
from tierfetch.protocol.records import Record, build_batch, iter_batches
from tierfetch.quorum.core.config import MetadataLogConfig
from tierfetch.quorum.storage.election_file import QUORUM_STATE
from tierfetch.quorum.storage.metadata_log import RECOVERY_POINT_EVERY, MetadataLog
from tierfetch.quorum.storage.snapshot_file import STATIC_SETUP, snapshot_batches, snapshot_name
from tierfetch.quorum.storage.vote_keeper import UNPROVEN_VOTER
from tierfetch.tests import samples
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures

LOG_DIR = Path("/data")
DIRECTORY = LOG_DIR / "__cluster_metadata-0"
NOW_MS = 1_700_000_000_000
SMALL = MetadataLogConfig(segment_bytes=300, retention_bytes=1)


def batch(offset: int, count: int = 1, epoch: int = 1) -> bytes:
    records = [Record(offset + at, NOW_MS, None, b"record %d" % (offset + at)) for at in range(count)]
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch)


def new_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.put(LOG_DIR / "meta.properties", b"")
    return disk


async def open_log(disk: MemoryDisk, config: MetadataLogConfig | None = None) -> MetadataLog:
    return await MetadataLog.open(disk, LOG_DIR, config or MetadataLogConfig(), lambda: NOW_MS)


async def cut_snapshot(log: MetadataLog, offset: int, epoch: int = 1) -> SnapshotId:
    snapshot_id = SnapshotId(offset, epoch)
    batches = snapshot_batches(snapshot_id, [b"s"], setup=STATIC_SETUP, last_append_time_ms=1, now_ms=NOW_MS)
    await log.snapshots.create(snapshot_id, batches)
    return snapshot_id


async def test_Q7_what_was_flushed_survives_what_was_not_does_not() -> None:
    disk = new_disk()
    log = await open_log(disk)
    assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (0, 0, 0)
    assert await log.append(batch(0, 3)) == 3
    assert log.flushed_end_offset == 0
    assert await log.flush() == 3
    await log.append(batch(3, 2))
    again = await open_log(disk.restart("lost"))
    assert (again.log_end_offset, again.flushed_end_offset) == (3, 3)
    assert (await open_log(disk.restart("kept"))).log_end_offset == 5


async def test_the_quorums_own_files_beside_the_log_are_not_strange(caplog: pytest.LogCaptureFixture) -> None:
    disk = new_disk()
    await (await open_log(disk)).close()
    for name in (QUORUM_STATE, UNPROVEN_VOTER, snapshot_name(SnapshotId(0, 0))):
        disk.put(DIRECTORY / name, b"")
    await open_log(disk)
    assert "is left alone" not in caplog.text


async def test_a_real_log_is_opened_and_read(tmp_path: Path) -> None:
    disk = new_disk()
    disk.put_tree(samples.CONTROLLER / "__cluster_metadata-0", DIRECTORY)
    original = disk.files()[DIRECTORY / f"{0:020d}.log"]
    log = await open_log(disk)
    assert (log.log_end_offset, log.last_epoch) == (663, 1)
    data = await log.read_bytes(0, max_offset=log.log_end_offset)
    assert data == original
    assert len(list(iter_batches(data))) > 100
    await log.close()


async def test_batches_are_read_whole_and_below_the_limit() -> None:
    log = await open_log(new_disk())
    for offset in (0, 3, 6):
        await log.append(batch(offset, 3))
    assert await log.read_bytes(4, max_offset=6) == batch(3, 3)
    assert await log.read_bytes(0, max_offset=9) == batch(0, 3) + batch(3, 3) + batch(6, 3)
    assert await log.read_bytes(6, max_offset=6) == b""


async def test_Q5_a_truncation_never_cuts_what_is_committed() -> None:
    log = await open_log(new_disk())
    await log.append(batch(0, 3) + batch(3, 3, epoch=2))
    log.update_high_watermark(3)
    assert await log.truncate_to(3) == 3
    assert (log.last_epoch, log.log_end_offset) == (1, 3)
    with pytest.raises(AssertionError, match="cuts committed 3"):
        await log.truncate_to(2)


async def test_Q9_a_log_begins_anew_behind_a_fetched_snapshot() -> None:
    disk = new_disk()
    log = await open_log(disk)
    await log.append(batch(0, 3))
    await log.flush()
    snapshot_id = await cut_snapshot(log, 50, epoch=7)
    await log.begin_at_snapshot(snapshot_id)
    assert (log.log_start_offset, log.log_end_offset, log.last_epoch) == (50, 50, 7)
    assert log.start_id == snapshot_id
    await log.append(batch(50, 2, epoch=8))
    await log.flush()
    again = await open_log(disk.restart("lost"))
    assert (again.log_start_offset, again.log_end_offset, again.start_id) == (50, 52, snapshot_id)


async def test_Q9_a_crash_between_a_fetched_snapshot_and_its_log_is_mended() -> None:
    disk = new_disk()
    log = await open_log(disk)
    await log.append(batch(0, 3))
    await log.flush()
    snapshot_id = await cut_snapshot(log, 50, epoch=7)
    again = await open_log(disk.restart("lost"))
    assert (again.log_start_offset, again.log_end_offset, again.start_id) == (50, 50, snapshot_id)


@pytest.mark.parametrize(
    "end_offset", [3, 90], ids=["a log that ends below", "a log that parts from it below, and is longer"]
)
async def test_Q9_every_crash_in_an_installation_leaves_the_old_log_or_the_snapshot(end_offset: int) -> None:
    seen = set()
    for fault in failures(crash=True):
        disk = new_disk()
        log = await open_log(disk, SMALL)
        for offset in range(0, end_offset, 3):
            await log.append(batch(offset, 3))
        await log.flush()
        disk.faults = fault
        try:
            await log.begin_at_snapshot(await cut_snapshot(log, 50, epoch=7))
            done = True
        except DiskCrash:
            done = False
        for unsynced in ("lost", "kept"):
            again = await open_log(disk.restart(unsynced), SMALL)
            seen.add((again.log_start_offset, again.log_end_offset))
        if done:
            break
    assert seen == {(0, end_offset), (50, 50)}


async def test_Q9_a_log_that_its_own_snapshot_was_cut_from_stays() -> None:
    disk = new_disk()
    log = await open_log(disk)
    await log.append(batch(0, 3) + batch(3, 3, epoch=2))
    await log.flush()
    for offset, epoch in ((3, 1), (4, 2), (6, 2)):
        await cut_snapshot(log, offset, epoch)
        again = await open_log(disk.restart("lost"))
        assert (again.log_start_offset, again.log_end_offset) == (0, 6)


async def test_Q9_the_log_start_follows_snapshots_and_segments_go() -> None:
    disk = new_disk()
    log = await open_log(disk, SMALL)
    for offset in range(0, 40, 2):
        await log.append(batch(offset, 2))
    await log.flush()
    log.update_high_watermark(40)
    assert not await log.clean()
    first = await cut_snapshot(log, 10)
    assert await log.clean()
    assert (log.log_start_offset, log.start_id) == (10, first)
    second = await cut_snapshot(log, 30)
    assert await log.clean()
    assert (log.log_start_offset, log.snapshots.ids) == (30, (second,))
    names = [path.name for path in disk.files() if path.suffix == ".log"]
    assert f"{0:020d}.log" not in names
    with pytest.raises(KafkaError):
        await log.read_bytes(10, max_offset=40)
    again = await open_log(disk.restart("lost"), SMALL)
    assert (again.log_start_offset, again.log_end_offset, again.start_id) == (30, 40, second)


async def test_retention_keeps_what_it_is_told_to_keep() -> None:
    log = await open_log(new_disk(), MetadataLogConfig(segment_bytes=300, retention_bytes=10_000_000))
    for offset in range(0, 20, 2):
        await log.append(batch(offset, 2))
    await log.flush()
    log.update_high_watermark(20)
    await cut_snapshot(log, 10)
    assert not await log.clean()
    assert log.log_start_offset == 0


async def test_a_log_without_its_snapshot_is_refused() -> None:
    disk = new_disk()
    log = await open_log(disk)
    snapshot_id = await cut_snapshot(log, 50, epoch=7)
    await log.begin_at_snapshot(snapshot_id)
    await disk.remove(DIRECTORY / snapshot_name(snapshot_id))
    disk.settle()
    with pytest.raises(CorruptFileError, match="begins at offset 50, and no snapshot covers"):
        await open_log(disk.restart("kept"))


async def test_damage_below_the_recovery_point_is_refused_not_cut() -> None:
    disk = new_disk()
    log = await open_log(disk)
    await log.append(batch(0, RECOVERY_POINT_EVERY))
    await log.append(batch(RECOVERY_POINT_EVERY, 3))
    await log.flush()
    path = DIRECTORY / f"{0:020d}.log"
    data = bytearray(disk.files()[path])
    data[100] ^= 1
    disk.put(path, bytes(data))
    with pytest.raises(KafkaError, match=r"damaged|flushed"):
        await open_log(disk.restart("kept"))


async def test_a_torn_recovery_point_means_that_nothing_is_known() -> None:
    disk = new_disk()
    log = await open_log(disk)
    await log.append(batch(0, 3))
    await log.flush()
    for content in (b"", b"0\n1\n__clus"):
        disk.put(DIRECTORY / RECOVERY_POINT_CHECKPOINT, content)
        assert (await open_log(disk.restart("kept"))).log_end_offset == 3


async def test_a_failed_fsync_closes_the_log_for_good() -> None:
    disk = new_disk()
    log = await open_log(disk)
    await log.append(batch(0, 3))
    for fault in failures():
        disk.faults = fault
        with pytest.raises(KafkaError, match="write failed"):
            await log.flush()
        break
    disk.faults = None
    assert log.failure is not None
    with pytest.raises(KafkaError):
        await log.append(batch(3))
    await log.close()


async def test_on_the_machines_own_disk(tmp_path: Path) -> None:
    disk = OsDisk()
    log = await MetadataLog.open(disk, tmp_path, MetadataLogConfig(), lambda: NOW_MS)
    await log.append(batch(0, 3))
    await log.close()
    again = await MetadataLog.open(disk, tmp_path, MetadataLogConfig(), lambda: NOW_MS)
    assert again.log_end_offset == 3
    await again.close()
    await disk.close()


async def test_Q9_a_snapshot_that_is_here_is_read_though_the_limit_was_lowered() -> None:
    disk = new_disk()
    log = await open_log(disk)
    snapshot_id = await cut_snapshot(log, 0)
    await log.close()
    log = await open_log(disk, MetadataLogConfig(snapshot_bytes_max=1))
    assert (await log.snapshots.read(snapshot_id)).setup == STATIC_SETUP
    await log.close()
