"""`OsDisk` on real files: order, group commit, poisoning, sending, names in errors."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tierfetch.log.disk import OsDisk
from tierfetch.log.disk import os_disk as disk_os
from tierfetch.log.disk import sending as disk_send
from tierfetch.log.disk import threads as disk_threads
from tierfetch.log.disk.open_file import OsFile
from tierfetch.tests.broker.waiting import until


@pytest.fixture
async def disk() -> AsyncIterator[OsDisk]:
    disk = OsDisk()
    yield disk
    await disk.close()


class Gate:
    """Holds the threads of a patched system call until opened, and counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls = 0
        self._entered = threading.Semaphore(0)
        self._open = threading.Event()
        real = getattr(os, name)

        def held(*arguments: object) -> object:
            self.calls += 1
            self._entered.release()
            assert self._open.wait(10)
            return real(*arguments)

        monkeypatch.setattr(disk_os.os, name, held)

    async def entered(self, calls: int = 1) -> None:
        """Until that many more calls have come."""
        for _ in range(calls):
            assert await asyncio.to_thread(self._entered.acquire, timeout=10)

    def open(self) -> None:
        self._open.set()


def is_unused(buffer: bytearray) -> bool:
    """Return whether no view of it is left: only then can its length be changed."""
    try:
        buffer.append(0)
    except BufferError:
        return False
    return True


@pytest.mark.parametrize("hang_s", [None, 3600.0])
async def test_a_write_that_has_ended_holds_no_buffer(disk: OsDisk, tmp_path: Path, hang_s: float | None) -> None:
    disk.separate(tmp_path, hang_s=hang_s)
    file = await disk.open(tmp_path / "f", create=True)
    buffer = bytearray(100)
    gc.disable()  # what is left in a cycle is left for a long time
    try:
        await file.begin_write(0, memoryview(buffer))
        await file.close()
        await disk.close()  # the thread lets go of it a moment after its answer
        assert is_unused(buffer)
    finally:
        gc.enable()


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
    await gate.entered()
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(file.write(number, b"x"))
            group.create_task(file.sync())
        for _ in range(20):  # until all of them wait
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
    with pytest.raises(OSError, match="rejected: an earlier fsync of this file failed"):
        await file.write(0, b"x")
    with pytest.raises(OSError, match="rejected: an earlier fsync of this file failed"):
        await file.sync()
    await file.close()


def nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is cold, as far as can be seen without waiting."""

    def cold(*_: object) -> int:
        raise BlockingIOError

    monkeypatch.setattr(disk_os.os, "preadv", cold)


async def test_reads_do_not_queue_behind_reads(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    file = await disk.open(tmp_path / "f")
    nothing_in_memory(monkeypatch)
    gate = Gate(monkeypatch, "pread")
    reads = [asyncio.create_task(file.read(0, 3)) for _ in range(2)]
    await gate.entered(2)
    gate.open()
    assert await asyncio.gather(*reads) == [b"abc", b"abc"]
    await file.close()


async def test_what_is_in_memory_is_read_without_a_thread(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    await file.write(0, b"abc")
    if file.read_on_loop(0, 1) is None:
        pytest.skip("this file system cannot say what is in memory (RWF_NOWAIT)")
    Gate(monkeypatch, "pread")  # never opened
    assert await file.read(0, 3) == b"abc"
    assert await file.read(1, 100) == b"bc"
    assert await file.read(3, 1) == b""
    await file.close()


async def test_a_stalled_fsync_holds_up_neither_writes_nor_reads(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "fdatasync")
    file = await disk.open(tmp_path / "f", create=True)
    sync = asyncio.create_task(file.sync())
    await gate.entered()
    await file.write(0, b"abc")
    assert await file.read(0, 3) == b"abc"
    assert await file.size() == 3
    await file.truncate(1)
    assert not sync.done()
    gate.open()
    await sync
    await file.close()


async def test_a_sync_waits_for_the_writes_before_it(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, syncing = Gate(monkeypatch, "pwrite"), Gate(monkeypatch, "fdatasync")
    syncing.open()
    file = await disk.open(tmp_path / "f", create=True)
    write = asyncio.create_task(file.write(0, b"abc"))
    sync = asyncio.create_task(file.sync())
    await writing.entered()
    assert syncing.calls == 0
    writing.open()
    await asyncio.gather(write, sync)
    assert syncing.calls == 1
    await file.close()


async def test_a_truncation_waits_for_readers_above_the_cut_alone(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    file = await disk.open(tmp_path / "f")
    nothing_in_memory(monkeypatch)
    gate = Gate(monkeypatch, "pread")
    read = asyncio.create_task(file.read(2, 6))
    await gate.entered()
    await file.truncate(8)
    cut = asyncio.create_task(file.truncate(7))
    late = asyncio.create_task(file.read(2, 6))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (tmp_path / "f").stat().st_size == 8
    gate.open()
    assert await read == b"234567"
    await cut
    assert await late == b"23456"
    await file.close()


async def test_a_failed_write_fails_what_was_queued_behind_it_and_no_more(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    real = os.pwrite

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        if offset >= 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(disk_os.os, "pwrite", full)
    calls = [file.write(0, b"good"), file.write(4, b"bad"), file.write(0, b"late"), file.sync(), file.truncate(0)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert outcomes[0] is None
    assert isinstance(outcomes[1], OSError)
    assert (outcomes[1].errno, outcomes[1].filename) == (errno.ENOSPC, str(tmp_path / "f"))
    for outcome in outcomes[2:]:
        assert isinstance(outcome, OSError)
        assert outcome.errno == errno.ECANCELED
        assert "an earlier write failed" in str(outcome)
    assert await file.read(0, 10) == b"good"
    await file.write(0, b"next")
    await file.sync()
    assert (tmp_path / "f").read_bytes() == b"next"
    await file.close()


async def test_an_error_that_is_no_os_error_reaches_its_caller(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await disk.open(tmp_path / "f", create=True)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        for name in ("pwrite", "fdatasync"):
            patch.setattr(disk_os.os, name, fail)
        with pytest.raises(ZeroDivisionError):
            await file.write(0, b"bytes")
        with pytest.raises(ZeroDivisionError):
            await file.sync()
    await file.close()
    assert disk.queue_depth == 0


async def test_a_cancelled_write_still_takes_effect_in_its_turn(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "pwrite")
    file = await disk.open(tmp_path / "f", create=True)
    writes = [asyncio.create_task(file.write(0, data)) for data in (b"1", b"2")]
    await gate.entered()
    for write in writes:
        write.cancel()
    await asyncio.wait(writes)
    gate.open()
    assert await file.read(0, 10) == b"2"
    await file.close()
    assert disk.queue_depth == 0


async def test_calls_beyond_the_limit_wait_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_threads, "CALLS_MAX", 2)
    disk = OsDisk()
    file = await disk.open(tmp_path / "f", create=True)
    gate = Gate(monkeypatch, "pwrite")
    writes = [asyncio.create_task(file.write(0, b"%d" % number)) for number in range(5)]
    await gate.entered()
    assert disk.queue_depth == 2
    gate.open()
    await asyncio.gather(*writes)
    assert disk.queue_depth == 0
    assert await file.read(0, 1) == b"4"
    await file.close()
    await disk.close()


async def test_close_waits_for_what_is_under_way(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    gate = Gate(monkeypatch, "pwrite")
    write = asyncio.create_task(file.write(0, b"late"))
    await gate.entered()
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


async def test_an_open_whose_caller_is_cancelled_leaves_no_descriptor(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await disk.write_file(tmp_path / "f", b"")
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        gate = Gate(patch, "open")
        opening = asyncio.create_task(disk.open(tmp_path / "f"))
        await gate.entered()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.open()
        assert await disk.exists(tmp_path / "f")  # in its turn, behind the open
    assert os.listdir("/proc/self/fd") == before


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
        with pytest.raises(OSError, match=r"No space left.*checkpoint'"):
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
    usage = shutil.disk_usage(tmp_path)
    space = await disk.space(tmp_path)
    assert space.total_bytes == usage.total
    assert 0 < space.usable_bytes <= usage.total


class Peer:
    """A connection whose sending end, a transport, is `transport`; the other is `reader` and `writer`."""

    async def __aenter__(self) -> Peer:
        connected: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
        self.server = await asyncio.start_server(lambda _, writer: connected.set_result(writer), "127.0.0.1", 0)
        self.reader, self.writer = await asyncio.open_connection(*self.server.sockets[0].getsockname())
        self.transport = (await connected).transport
        return self

    async def __aexit__(self, *_: object) -> None:
        self.transport.abort()
        self.writer.transport.abort()
        self.server.close()
        await asyncio.sleep(0)


def no_sendfile(*_: object) -> int:
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize(("is_cold", "has_sendfile"), [(False, True), (True, True), (True, False)])
async def test_send_is_exact(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cold: bool, has_sendfile: bool
) -> None:
    data = os.urandom(3_000_001)
    (tmp_path / "f").write_bytes(data)
    file = await disk.open(tmp_path / "f")
    if is_cold:
        nothing_in_memory(monkeypatch)
    if not has_sendfile:
        monkeypatch.setattr(disk_os.os, "sendfile", no_sendfile)
    async with Peer() as peer:
        peer.transport.write(b"before")
        send = asyncio.create_task(file.send(17, 2_900_000, peer.transport))
        assert await peer.reader.readexactly(6) == b"before"
        assert await peer.reader.readexactly(2_900_000) == data[17:2_900_017]
        await send
        await file.send(17, 0, peer.transport)
        peer.transport.write(b"after")
        assert await peer.reader.readexactly(5) == b"after"
    await file.close()


async def test_a_send_that_is_cancelled_leaves_its_thread_a_descriptor_until_the_device_answers(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(bytes(100_000))
    file = await disk.open(tmp_path / "f")
    nothing_in_memory(monkeypatch)
    gate = Gate(monkeypatch, "sendfile")
    async with Peer() as peer:
        before = len(os.listdir("/proc/self/fd"))
        send = asyncio.create_task(file.send(0, 100_000, peer.transport))
        await gate.entered()
        send.cancel()
        with pytest.raises(asyncio.CancelledError):
            await send
        assert len(os.listdir("/proc/self/fd")) == before + 1
        gate.open()
        await until(lambda: len(os.listdir("/proc/self/fd")) == before)
    await file.close()


async def test_what_the_transport_has_buffered_goes_out_first(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"file")
    file = await disk.open(tmp_path / "f")
    real = disk_send._write
    async with Peer() as peer:

        def write(descriptor: int, data: memoryview) -> int:
            assert peer.transport.get_write_buffer_size() == 0
            return real(descriptor, data)

        monkeypatch.setattr(disk_send, "_write", write)
        before = bytes(8_000_000)
        peer.transport.write(before)
        assert peer.transport.get_write_buffer_size()
        send = asyncio.create_task(file.send(0, 4, peer.transport))
        assert await peer.reader.readexactly(8_000_004) == before + b"file"
        await send
    await file.close()


async def test_send_of_a_short_file_is_an_error(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    file = await disk.open(tmp_path / "f")
    async with Peer() as peer:
        with pytest.raises(OSError, match=r"bytes \[2, 12\) expected, but the file ended after 3"):
            await file.send(2, 10, peer.transport)
    await file.close()


async def stalled_send(disk: OsDisk, file: OsFile, peer: Peer) -> asyncio.Task[None]:
    """A send whose peer reads nothing, once it waits for the socket."""
    send = asyncio.create_task(file.send(0, 50_000_000, peer.transport))
    peer.reader._transport.pause_reading()  # type: ignore[attr-defined]  # streams cannot be asked to stop
    for _ in range(300):
        await asyncio.sleep(0)
    assert not send.done()
    return send


async def test_a_connection_that_is_aborted_during_a_send_leaves_the_loop_intact(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_send, "CLOSED_CHECK_S", 0.01)
    file = await disk.open(tmp_path / "f", create=True)
    await file.truncate(50_000_000)
    descriptors = set(os.listdir("/proc/self/fd"))
    for is_cancelled in (False, True):
        async with Peer() as peer:
            send = await stalled_send(disk, file, peer)
            peer.transport.abort()
            if is_cancelled:
                send.cancel()
            with pytest.raises(asyncio.CancelledError if is_cancelled else ConnectionResetError):
                await send
    async with Peer() as peer:  # with the same descriptors
        await file.send(0, 1000, peer.transport)
        assert await peer.reader.readexactly(1000) == bytes(1000)
    await asyncio.sleep(0)
    assert set(os.listdir("/proc/self/fd")) <= descriptors
    await file.close()


async def test_a_truncation_waits_until_a_send_above_the_cut_has_ended(disk: OsDisk, tmp_path: Path) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    await file.truncate(50_000_000)
    async with Peer() as peer:
        send = await stalled_send(disk, file, peer)
        cut = asyncio.create_task(file.truncate(10))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (tmp_path / "f").stat().st_size == 50_000_000
        send.cancel()
        await cut
    assert (tmp_path / "f").stat().st_size == 10
    await file.close()


async def test_close_waits_for_a_send(disk: OsDisk, tmp_path: Path) -> None:
    file = await disk.open(tmp_path / "f", create=True)
    await file.truncate(50_000_000)
    async with Peer() as peer:
        send = await stalled_send(disk, file, peer)
        close = asyncio.create_task(file.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert os.fstat(file.fileno()).st_size == 50_000_000
        send.cancel()
        await close
    assert file.fileno() == -1


class CopiedTo(asyncio.Transport):
    """A transport that is no plain socket; it wants to be waited for after each write."""

    def __init__(self) -> None:
        super().__init__()
        self.received = bytearray()
        self.drains = 0

    def is_closing(self) -> bool:
        return False

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self  # type: ignore[return-value]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += data

    async def drain(self) -> None:
        self.drains += 1


@pytest.mark.parametrize("is_cold", [False, True])
async def test_send_copies_where_the_bytes_cannot_go_as_they_are(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_cold: bool
) -> None:
    data = os.urandom(600_000)
    (tmp_path / "f").write_bytes(data)
    file = await disk.open(tmp_path / "f")
    if is_cold:
        nothing_in_memory(monkeypatch)
    transport = CopiedTo()
    await file.send(5, 590_000, transport)
    assert transport.received == data[5:590_005]
    assert transport.drains == 3
    with pytest.raises(OSError, match="the file ended after 1"):
        await file.send(599_999, 2, CopiedTo())
    await file.close()


SYNCS = disk_threads.THREADS * disk_threads.SYNCS_EACH


async def test_syncs_wait_for_the_device_together(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system commits at once what is under way at once: a failover of thousands of partitions relies on it."""
    together = threading.Barrier(16, timeout=10)
    monkeypatch.setattr(os, "fsync", lambda _: together.wait())
    for number in range(16):
        (tmp_path / str(number)).mkdir()
    await asyncio.gather(*(disk.write_file(tmp_path / str(number) / "file", b"a") for number in range(16)))
    assert not together.broken


# A device that hangs.


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_threads, "LOOK_INTERVAL_S", 0.001)


async def test_a_directory_is_written_with_one_sync_for_each_content_and_two_for_its_names(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(disk_os.os, "fsync", noted)
    made = tmp_path / "new" / "made"
    await disk.write_directory(made, {"a": b"one", "empty": b"", "b": b"two"})
    assert synced == [str(made / "a"), str(made / "b"), str(made), str(made.parent)]


async def test_syncs_of_a_directory_that_wait_together_are_one(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "fsync")
    first = asyncio.create_task(disk.sync_directory(tmp_path))
    await gate.entered()
    others = [asyncio.create_task(disk.sync_directory(tmp_path)) for _ in range(10)]
    await asyncio.sleep(0)
    others[0].cancel()  # the one that the rest has joined
    await asyncio.wait([others[0]])
    gate.open()
    await asyncio.gather(first, *others[1:])
    assert gate.calls == 2, "the one under way may have begun before what the others are to make durable"
    await disk.sync_directory(tmp_path)
    assert gate.calls == 3


async def test_an_error_of_a_sync_is_that_of_all_that_joined_it(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, "fsync")
    first = asyncio.create_task(disk.sync_directory(tmp_path))
    await gate.entered()
    others = [asyncio.create_task(disk.sync_directory(tmp_path)) for _ in range(3)]
    await asyncio.sleep(0)

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(disk_os.os, "fsync", failing)
    gate.open()
    await first
    errors = await asyncio.gather(*others, return_exceptions=True)
    assert [error.errno for error in errors if isinstance(error, OSError)] == [errno.EIO] * 3


async def test_a_sync_of_a_directory_does_not_overtake_another_call_on_it(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it come before one: after a rename there is no directory of that name to be synced."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    gate = Gate(monkeypatch, "fsync")
    first = asyncio.create_task(disk.sync_directory(old))
    await gate.entered()
    calls = [disk.sync_directory(old), disk.rename(old, new), disk.sync_directory(old), disk.sync_directory(new)]
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    gate.open()
    await first
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), type(None), FileNotFoundError, type(None)]


async def test_a_hanging_device_holds_up_no_separate_directory(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many calls as the directory has threads hang: the other one has threads of its own."""
    for name in ("ill", "well"):
        (tmp_path / name).mkdir()
        disk.separate(tmp_path / name, hang_s=None)
    ill = [await disk.open(tmp_path / "ill" / str(number), create=True) for number in range(SYNCS + 1)]
    well = await disk.open(tmp_path / "well" / "0", create=True)
    gate = Gate(monkeypatch, "fdatasync")
    hanging = [asyncio.create_task(file.sync()) for file in ill]
    await gate.entered(SYNCS)
    monkeypatch.undo()
    await well.write(0, b"a")
    await well.sync()
    gate.open()
    await asyncio.gather(*hanging)


@pytest.mark.usefixtures("soon")
async def test_a_device_that_hangs_is_given_up(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls fail, those that wait for a thread too, and all to come. What its threads still do is not looked at."""
    ill = tmp_path / "ill"
    ill.mkdir()
    disk.separate(ill, hang_s=3600)
    files = [await disk.open(ill / str(number), create=True) for number in range(SYNCS + 1)]
    gate = Gate(monkeypatch, "fdatasync")
    assert not disk.has_hung(ill)
    syncing = [asyncio.create_task(file.sync()) for file in files]
    await gate.entered(SYNCS)
    disk._separate[ill]._hang_s = 0
    outcomes = await asyncio.gather(*syncing, return_exceptions=True)
    assert [getattr(outcome, "errno", None) for outcome in outcomes] == [errno.ETIMEDOUT] * len(files)
    assert disk.has_hung(ill)
    with pytest.raises(OSError, match="the disk hangs"):
        await files[0].read(0, 1 << 20)
    with pytest.raises(OSError, match="the disk hangs"):
        await disk.read_file(ill / "0")
    gate.open()
    await (await disk.open(tmp_path / "other", create=True)).write(0, b"a")
    assert (ill / "0").read_bytes() == b""


@pytest.mark.usefixtures("soon")
async def test_a_call_that_waits_for_a_thread_does_not_hang(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one in a directory that is never given up."""
    disk.separate(tmp_path, hang_s=None)
    file = await disk.open(tmp_path / "f", create=True)
    gate = Gate(monkeypatch, "fdatasync")
    syncing = asyncio.create_task(file.sync())
    await gate.entered()
    gate.open()
    await syncing
    assert not disk.has_hung(tmp_path)


@pytest.mark.usefixtures("soon")
async def test_a_device_that_hangs_does_not_keep_the_disk_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that hangs is given up while the disk is being closed, as it is at any other time."""
    disk = OsDisk()
    disk.separate(tmp_path, hang_s=3600)
    file = await disk.open(tmp_path / "f", create=True)
    gate = Gate(monkeypatch, "fdatasync")
    syncing = asyncio.create_task(file.sync())
    await gate.entered()
    closing = asyncio.create_task(disk.close())
    await asyncio.sleep(0)
    disk._separate[tmp_path]._hang_s = 0
    async with asyncio.timeout(5):
        await closing
    with pytest.raises(OSError, match="the disk hangs"):
        await syncing
    gate.open()
