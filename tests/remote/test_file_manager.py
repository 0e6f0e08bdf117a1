"""Remote log metadata in files: the port's suite, and crashes, damage and rivals."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tierfetch.protocol.records import iter_records
from tierfetch.remote import FileMetadataConfig, FileRemoteLogMetadataManager, RemoteLogMetadataError
from tierfetch.remote.core.records import decode_event
from tierfetch.testing.remote_log_metadata import (
    FINISHED,
    PARTITION,
    RemoteLogMetadataConformance,
    copy,
    make_segment,
    make_update,
    ready,
)


@asynccontextmanager
async def following(directory: Path, **options) -> AsyncIterator[FileRemoteLogMetadataManager]:
    manager = FileRemoteLogMetadataManager(FileMetadataConfig(dir=directory, poll_ms=5, **options))
    await manager.start()
    try:
        await manager.assign([PARTITION])
        yield manager
    finally:
        await manager.close()


def events_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


class TestFiles(RemoteLogMetadataConformance):
    @pytest.fixture
    async def managers(self, tmp_path: Path):
        config = FileMetadataConfig(dir=tmp_path / "metadata", poll_ms=5)
        first, second = FileRemoteLogMetadataManager(config), FileRemoteLogMetadataManager(config)
        await first.start()
        await second.start()
        yield first, second
        await first.close()
        await second.close()


async def test_what_was_written_is_there_for_the_next_process(tmp_path: Path) -> None:
    async with following(tmp_path) as manager:
        for number in range(50):
            await copy(manager, number)
    async with following(tmp_path) as manager:
        ledger = await ready(manager)
        assert [each.start_offset for each in ledger.finished()] == [100 * number for number in range(50)]


async def test_a_file_holds_record_batches_with_kafkas_events(tmp_path: Path) -> None:
    async with following(tmp_path) as manager:
        await manager.add_segment(make_segment(0))
    (record,) = iter_records(events_file(tmp_path).read_bytes())
    assert decode_event(record.value) == make_segment(0)


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
async def test_what_a_crash_left_of_a_write_is_cut_off(tmp_path: Path, cut: int) -> None:
    async with following(tmp_path) as manager:
        await copy(manager, 0)
        whole = events_file(tmp_path).stat().st_size
        await copy(manager, 1)
    path = events_file(tmp_path)
    os.truncate(path, whole + cut)
    async with following(tmp_path) as manager:
        assert len(await ready(manager)) == 1
        await copy(manager, 2)
    async with following(tmp_path) as manager:
        assert [each.start_offset for each in (await ready(manager)).finished()] == [0, 200]


async def test_a_tail_of_other_bytes_is_what_a_crash_left_too(tmp_path: Path) -> None:
    async with following(tmp_path) as manager:
        await copy(manager, 0)
    path = events_file(tmp_path)
    path.write_bytes(path.read_bytes() + bytes(200))
    async with following(tmp_path) as manager:
        assert len(await ready(manager)) == 1
        await copy(manager, 1)
        assert len(await ready(manager)) == 2


@pytest.mark.parametrize("at", [9, 10, 16, 100], ids=["length", "shorter", "magic", "record"])
async def test_damage_before_the_end_keeps_the_ledger_from_getting_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    async with following(tmp_path) as manager:
        await copy(manager, 0)
        await copy(manager, 1)
    path = events_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    caplog.set_level(logging.WARNING)
    async with following(tmp_path, request_timeout_ms=100) as manager:
        with pytest.raises(RemoteLogMetadataError):
            await manager.add_segment(make_segment(2))
        assert manager.ledger(PARTITION) is None
        assert path.read_bytes() == data
    assert "is damaged" in caplog.text
    assert len(caplog.records) == 1


async def test_a_lock_that_is_never_released_ends_the_write(tmp_path: Path) -> None:
    async with following(tmp_path, request_timeout_ms=100) as manager:
        await copy(manager, 0)
        descriptor = os.open(events_file(tmp_path), os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with pytest.raises(RemoteLogMetadataError):
                await manager.add_segment(make_segment(1))
        finally:
            os.close(descriptor)
        await manager.add_segment(make_segment(1))


async def test_an_event_is_durable_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with following(tmp_path) as manager:
        await ready(manager)

        def fails(_: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(RemoteLogMetadataError, match="Input/output error"):
                await manager.add_segment(make_segment(0))
        await manager.add_segment(make_segment(0))


WRITER = """
import asyncio, sys
from pathlib import Path
from tierfetch.remote import FileMetadataConfig, FileRemoteLogMetadataManager
from tierfetch.testing.remote_log_metadata import PARTITION, copy

async def main(first):
    manager = FileRemoteLogMetadataManager(FileMetadataConfig(dir=Path(sys.argv[1])))
    await manager.start()
    await manager.assign([PARTITION])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(first, first + 20):
        await copy(manager, number)
    await manager.close()

asyncio.run(main(int(sys.argv[2])))
"""


@pytest.mark.slow
async def test_processes_write_one_after_another(tmp_path: Path) -> None:
    async with following(tmp_path) as manager:
        commands = [[sys.executable, "-c", WRITER, str(tmp_path), str(first)] for first in (0, 20)]
        pipe = asyncio.subprocess.PIPE
        writers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for command in commands]
        for writer in writers:
            await writer.stdout.readline()
        for writer in writers:
            writer.stdin.write(b"go\n")
        for number in range(40, 60):
            await copy(manager, number)
        for writer in writers:
            await writer.communicate()
        assert [writer.returncode for writer in writers] == [0, 0]
        ledger = await manager.wait_newer(PARTITION, 119)
        assert [each.start_offset for each in ledger.finished()] == [100 * number for number in range(60)]


async def test_writes_that_wait_when_it_closes_fail_and_are_not_cancelled(tmp_path: Path) -> None:
    async with following(tmp_path) as manager:
        await copy(manager, 0)
        descriptor = os.open(events_file(tmp_path), os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # it keeps all threads, so that some writes wait for one
            writes = [asyncio.create_task(manager.add_segment(make_segment(number))) for number in range(1, 20)]
            while manager._threads._work_queue.qsize() < 10:  # noqa: ASYNC110 - of threads
                await asyncio.sleep(0.005)
            await manager.close()
        finally:
            os.close(descriptor)
        async with asyncio.timeout(10):
            ended = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(each) for each in ended} == {RemoteLogMetadataError}


async def test_a_cancelled_write_leaves_the_manager_as_it_was(tmp_path: Path) -> None:
    async with following(tmp_path) as manager:
        await copy(manager, 0)
        task = asyncio.create_task(manager.add_segment(make_segment(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await manager.add_segment(make_segment(1))
        await manager.update_segment(make_update(1, FINISHED))
        assert len((await ready(manager)).finished()) == 2


async def test_what_a_writer_could_not_sync_is_gone_and_what_a_reader_believes_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def fails(_: int) -> None:
        raise OSError("no such luck")

    async with following(tmp_path) as manager:
        await ready(manager)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            with pytest.raises(RemoteLogMetadataError, match="no such luck"):
                await manager.add_segment(make_segment(0))
        assert events_file(tmp_path).stat().st_size == 0
        await manager.add_segment(make_segment(0))
    monkeypatch.setattr(os, "fsync", noted)
    async with following(tmp_path) as manager:
        await ready(manager)
        assert synced[-2:] == [str(events_file(tmp_path)), str(tmp_path)]
