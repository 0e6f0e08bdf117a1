"""`open_log` and `verify_log`, as an impatient stranger uses them: on real files, wrongly, and interrupted."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tierfetch.log import EmbeddedLog, open_log, verify_log
from tierfetch.log.core import LogConfig
from tierfetch.log.disk import LogDirectoryLockedError, lock_directory
from tierfetch.log.disk.open_file import OsFile
from tierfetch.log.segment.scan import CorruptLogError
from tierfetch.protocol.errors import CorruptRecordError, ErrorCode, KafkaError, OperatorError
from tierfetch.tests import samples

LENGTH_LOW_BYTE = 11
"""Where a batch has the last byte of its length."""


async def values_of(log: EmbeddedLog, offset: int | None = None) -> list[bytes | None]:
    return [record.value async for record in log.read(offset)]


def files_below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_what_was_appended_is_read_also_after_a_reopening(tmp_path: Path) -> None:
    async with open_log(tmp_path / "a") as log:
        assert await log.append(b"zero", None, key=b"k") == 0
        assert await log.append(b"two") == 2
        assert await values_of(log) == [b"zero", None, b"two"]
    async with open_log(tmp_path / "a", create=False) as log:
        assert (log.start_offset, log.end_offset) == (0, 3)
        assert await values_of(log, 1) == [None, b"two"]
        assert await values_of(log, 3) == []
        with pytest.raises(KafkaError, match="offset 4 is not in the local log") as raised:
            await values_of(log, 4)
        assert raised.value.code is ErrorCode.offset_out_of_range


async def test_a_damaged_length_is_said_to_who_reads(tmp_path: Path) -> None:
    """Where its batch is, is still remembered: each read gives the bytes of no complete batch."""
    async with open_log(tmp_path / "a") as log:
        for number in range(3):
            await log.append(b"%d" % number)
        [path] = (tmp_path / "a/log-0").glob("*.log")
        data = bytearray(path.read_bytes())
        data[len(data) // 3 + LENGTH_LOW_BYTE] ^= 0x80
        path.write_bytes(data)
        records = log.read()
        assert (await anext(records)).value == b"0"
        with pytest.raises(CorruptRecordError, match="no complete batch at offset 1"):
            await asyncio.wait_for(anext(records), 10)


async def test_deleted_records_stay_deleted_and_free_their_segments(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=100)
    async with open_log(tmp_path / "a", config=config) as log:
        for number in range(6):
            await log.append(b"%d" % number)
        await log.delete_before(5)
        assert await values_of(log) == [b"5"]
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            await log.delete_before(7)
    assert len(list((tmp_path / "a/log-0").glob("*.log"))) == 1
    async with open_log(tmp_path / "a", config=config) as log:
        assert (log.start_offset, log.end_offset) == (5, 6)


async def test_an_append_is_flushed_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = OsFile.sync

    async def recorded(file: OsFile) -> None:
        await sync(file)
        synced.append(file.path.suffix)

    monkeypatch.setattr(OsFile, "sync", recorded)
    async with open_log(tmp_path / "a") as log:
        synced.clear()
        await log.append(b"one")
        assert ".log" in synced
    async with open_log(tmp_path / "b", fsync=False) as log:
        synced.clear()
        await log.append(b"one")
        assert synced == []


async def test_a_batch_that_is_too_large_is_refused_and_the_log_goes_on(tmp_path: Path) -> None:
    async with open_log(tmp_path / "a", config=LogConfig(max_message_bytes=100)) as log:
        with pytest.raises(KafkaError) as raised:
            await log.append(bytes(200))
        assert raised.value.code is ErrorCode.message_too_large
        assert await log.append(b"small") == 0


def lock_elsewhere(directory: Path) -> str:
    """Return what another process gets as its error."""
    code = "import pathlib, sys; from tierfetch.log.disk import lock_directory as f; f(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stderr


async def test_a_log_is_open_once_in_a_process_and_stays_locked_after_the_attempt(tmp_path: Path) -> None:
    async with open_log(tmp_path / "a") as log:
        for _ in range(2):
            with pytest.raises(LogDirectoryLockedError, match="in use in this process"):
                async with open_log(tmp_path / "a"):
                    raise AssertionError
        locked = await asyncio.to_thread(lock_elsewhere, tmp_path / "a")
        assert "in use by another process" in locked
        await log.append(b"still")
    lock_directory(tmp_path / "a").release()


META = "version=1\nnode.id=3\ncluster.id=4L6g3nShT-eMCtK--X86sw\ndirectory.id=4L6g3nShT-eMCtK--X86sw\n"


async def test_a_brokers_directory_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    directory = tmp_path / "kafka"
    shutil.copytree(samples.BROKER, directory)
    before = files_below(directory)
    for path in (directory, directory / "s-none-0"):
        with pytest.raises(OperatorError, match="verify_log reads a broker's partition"):
            async with open_log(path):
                raise AssertionError
    assert files_below(directory) == before
    (directory / "meta.properties").write_text(META)
    with pytest.raises(OperatorError, match="is a log directory of node 3 in cluster 4L6g3nShT-eMCtK--X86sw"):
        async with open_log(directory):
            raise AssertionError
    assert files_below(directory) == before | {"meta.properties": META.encode()}


async def test_a_wrong_path_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for path, create, expected in [
        ("file", True, "is a file: expected the directory of a log"),
        ("no/such", True, "no does not exist: correct the path"),
        ("absent", False, "absent does not exist: correct the path"),
        ("empty", False, "is empty: correct the path"),
    ]:
        with pytest.raises(OperatorError, match=expected):
            async with open_log(tmp_path / path, create=create):
                raise AssertionError
    for path, expected in [("absent", "is no directory"), ("empty", "holds no segment")]:
        with pytest.raises(OperatorError, match=expected):
            await verify_log(tmp_path / path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "file"]


async def test_verify_reads_a_partition_of_apache_kafka_without_writing() -> None:
    directory = samples.partition_directory("s-none")
    before = files_below(directory)
    summary = await verify_log(directory)
    assert summary.size_bytes == sum(path.stat().st_size for path in directory.glob("*.log"))
    assert summary.segments == len(list(directory.glob("*.log")))
    assert summary.records > 0
    assert files_below(directory) == before


@pytest.mark.parametrize("damage", ["flip", "cut", "overlap"])
async def test_verify_names_the_file_and_byte_of_damage(tmp_path: Path, damage: str) -> None:
    async with open_log(tmp_path / "a") as log:
        await log.append(b"one")
        await log.append(b"two")
    path = tmp_path / "a/log-0/00000000000000000000.log"
    data = path.read_bytes()
    second = len(data) // 2
    if damage == "flip":
        path.write_bytes(data[:-1] + b"\xff")
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        path.write_bytes(data[:second] + data[:second])
    with pytest.raises(CorruptLogError, match=f"{path}: byte {second}: ") as raised:
        await verify_log(path.parent)
    assert (raised.value.path, raised.value.position) == (path, second)


APPENDING = """
import asyncio, signal, sys, tierfetch.log
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test in the background inherits that it is ignored
async def main():
    async with tierfetch.log.open_log(sys.argv[1]) as log:
        while True:
            print(await log.append(b"v"), flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_acknowledged_outlives_an_interruption(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", APPENDING, str(tmp_path / "a")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(20):
            process.stdout.readline()
        process.send_signal(number)
        rest, errors = process.communicate(timeout=60)
    acknowledged = max([19, *map(int, rest.split())])
    if number is signal.SIGINT:
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    end_offset, count = asyncio.run(reopened(tmp_path / "a"))
    assert count == end_offset > acknowledged


async def reopened(directory: Path) -> tuple[int, int]:
    """Return the end offset, and the number of records that can be read."""
    async with open_log(directory) as log:
        return log.end_offset, len(await values_of(log))
