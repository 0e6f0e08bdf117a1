"""`OsDisk` on real files: order, group commit, poisoning, sending, names in errors."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tierfetch.log import disk_os
from tierfetch.log.disk_os import OsDisk


@pytest.fixture
async def disk() -> AsyncIterator[OsDisk]:
    disk = OsDisk()
    yield disk
    await disk.close()


class Gate:
    """Holds the threads of a patched system call until opened, and counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls = 0
        self.entered = threading.Event()
        self._open = threading.Event()
        real = getattr(os, name)

        def held(*arguments: object) -> object:
            self.calls += 1
            self.entered.set()
            assert self._open.wait(10)
            return real(*arguments)

        monkeypatch.setattr(disk_os.os, name, held)

    def open(self) -> None:
        self._open.set()


async def test_calls_on_one_file_take_effect_in_order(disk: OsDisk, tmp_path: Path) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(file.write(0, b"%03d" % number))
        last = group.create_task(file.read(0, 3))
    assert last.result() == b"199"
    await file.close()


async def test_syncs_that_wait_together_are_one_fsync(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "fdatasync")
    file = await disk.open(tmp_path / "f", create=True)
    first = asyncio.create_task(file.sync())
    await asyncio.to_thread(gate.entered.wait, 10)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(file.write(number, b"x"))
            group.create_task(file.sync())
        await asyncio.sleep(0)
        gate.open()
    await first
    assert gate.calls == 2
    await file.close()


async def test_a_failed_fsync_poisons_the_file(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = await disk.open(tmp_path / "f", create=True)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(disk_os.os, "fdatasync", fail)
        with pytest.raises(OSError, match="Input/output error") as caught:
            await file.sync()
        assert caught.value.filename == str(tmp_path / "f")
    with pytest.raises(OSError, match="refused after a failed fsync"):
        await file.write(0, b"x")
    with pytest.raises(OSError, match="refused after a failed fsync"):
        await file.sync()
    await file.close()


async def test_reads_do_not_queue_behind_reads(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    file = await disk.open(tmp_path / "f")
    gate = Gate(monkeypatch, "pread")
    reads = [asyncio.create_task(file.read(0, 3)) for _ in range(2)]
    while gate.calls < 2:
        await asyncio.to_thread(gate.entered.wait, 10)
    gate.open()
    assert await asyncio.gather(*reads) == [b"abc", b"abc"]
    await file.close()


async def test_close_waits_for_what_is_under_way(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    gate = Gate(monkeypatch, "pwrite")
    write = asyncio.create_task(file.write(0, b"late"))
    await asyncio.to_thread(gate.entered.wait, 10)
    close = asyncio.create_task(file.close())
    await asyncio.sleep(0)
    assert not close.done()
    gate.open()
    await asyncio.gather(write, close)
    assert (tmp_path / "f").read_bytes() == b"late"
    with pytest.raises(OSError, match="the file is closed"):
        await file.write(0, b"x")
    await file.close()


async def test_short_reads_only_at_the_end(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    file = await disk.open(tmp_path / "f")
    assert await file.read(7, 100) == b"789"
    assert await file.read(10, 1) == b""
    await file.truncate(4)
    assert await file.size() == 4
    await file.close()


async def test_absent_file_is_named(disk: OsDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await disk.open(tmp_path / "absent")
    assert caught.value.filename == str(tmp_path / "absent")


async def test_write_file_replaces_whole_or_not_at_all(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    await disk.write_file(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk_os.os, "fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            await disk.write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in await disk.list_directory(tmp_path)] == ["checkpoint"]


async def test_directory_calls(disk: OsDisk, tmp_path: Path) -> None:
    await disk.make_directory(tmp_path / "a" / "b")
    await disk.make_directory(tmp_path / "a" / "b")
    await disk.write_file(tmp_path / "a" / "f", b"12", sync=False)
    await disk.sync_directory(tmp_path / "a")
    assert [(e.name, e.is_directory, e.size) for e in await disk.list_directory(tmp_path / "a")] == [
        ("b", True, 0),
        ("f", False, 2),
    ]
    await disk.rename(tmp_path / "a", tmp_path / "c")
    assert await disk.exists(tmp_path / "c" / "f")
    await disk.remove(tmp_path / "c" / "f")
    await disk.remove(tmp_path / "c" / "f")
    await disk.remove_tree(tmp_path / "c")
    await disk.remove_tree(tmp_path / "c")
    assert not await disk.exists(tmp_path / "c")
    assert await disk.free_bytes(tmp_path) > 0


async def send_over_loopback(disk: OsDisk, path: Path, offset: int, count: int) -> bytes:
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        file = await disk.open(path)
        try:
            await file.send(offset, count, writer.transport)
            outcome.set_result(None)
        except OSError as error:
            outcome.set_exception(error)
        finally:
            await file.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    received = await reader.read(-1)
    writer.close()
    server.close()
    await outcome
    return received


async def test_send_is_exact(disk: OsDisk, tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    (tmp_path / "f").write_bytes(data)
    assert await send_over_loopback(disk, tmp_path / "f", 17, 2_900_000) == data[17:2_900_017]
    assert await send_over_loopback(disk, tmp_path / "f", 17, 0) == b""


async def test_send_of_a_short_file_is_an_error(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    with pytest.raises(OSError, match=r"bytes \[2, 12\) were to be sent, the file ended after 3"):
        await send_over_loopback(disk, tmp_path / "f", 2, 10)
