"""A real worker: what it copies, how it fails, and that it never outlives its broker."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tierfetch.cli.local.processes import poll
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.protocol.records import Record, build_batch
from tierfetch.remote import IndexType, LogSegmentData, RemoteStorageError
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.rlm.checked_source import DamagedSegmentError
from tierfetch.rlm.worker import StorageRecipe, WorkerStorage, process
from tierfetch.rlm.worker.failures import PluginCrashError
from tierfetch.rlm.worker.process import CopyWorker
from tierfetch.testing.remote_storage import make_data, make_metadata
from tierfetch.tests.process.faulty_storage import install

TIMEOUT_S = 60.0
BATCHES = b"".join(build_batch([Record(n, 0, None, bytes(300))], base_offset=n) for n in range(50))
INDEXES = make_data(b"", transactions=b"t" * 34).indexes
SECRET = "not-to-be-shown"


class FileLog:
    """A segment's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size

    async def read(self, offset: int, count: int) -> bytes:
        return self.path.read_bytes()[offset : offset + count]


class Scene:
    """A tier in a directory, a worker that copies to it, and a log to be copied."""

    def __init__(self, directory: Path) -> None:
        self.tier = directory / "tier"
        self.fault = directory / "fault"
        self.log = directory / "00000000000000000100.log"
        self.log.write_bytes(BATCHES)
        options = {"dir": str(self.tier), "fault": str(self.fault), "subdirectory": SECRET}
        config = LocalTieredStorage.Config(dir=self.tier, subdirectory=SECRET)
        self.recipe = StorageRecipe("faulty", options, "rsm.config.")
        self.storage = WorkerStorage(LocalTieredStorage(config), self.recipe)
        self.segment = make_metadata(len(BATCHES))

    async def copy(self, segment: RemoteLogSegmentMetadata | None = None) -> None:
        await self.storage.copy_checked(segment or self.segment, LogSegmentData(FileLog(self.log), INDEXES))

    @property
    def worker(self) -> psutil.Process:
        assert self.storage.worker_pid is not None
        return psutil.Process(self.storage.worker_pid)

    async def hanging_copy(self, fault: str = "hang") -> asyncio.Task[None]:
        """Return a copy that hangs in the worker."""
        self.fault.write_text(f"copy {fault}")
        copying = asyncio.create_task(self.copy())
        calls = self.fault.with_suffix(".calls")
        async with asyncio.timeout(TIMEOUT_S):
            while not calls.exists():  # noqa: ASYNC110 - a file that another process writes
                await asyncio.sleep(0.01)
        self.fault.unlink()
        return copying


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    scene = Scene(tmp_path)
    yield scene
    await scene.storage.close()


async def test_R1_a_segment_is_copied_and_deleted_in_a_process_of_low_priority(scene: Scene) -> None:
    await scene.copy()
    assert await scene.storage.fetch_log_segment(scene.segment, 0, len(BATCHES)) == BATCHES
    for kind, source in INDEXES.items():
        assert await scene.storage.fetch_index(scene.segment, kind) == await source.read(0, source.size)
    assert set(INDEXES) == set(IndexType)
    worker = scene.worker
    assert (worker.ppid(), os.getsid(worker.pid)) == (os.getpid(), worker.pid)
    assert {os.getpriority(os.PRIO_PROCESS, thread.id) for thread in worker.threads()} == {19}
    seen = "".join(worker.cmdline()) + "".join(f"{key}{value}" for key, value in worker.environ().items())
    assert SECRET not in seen
    await scene.storage.delete_log_segment_data(scene.segment)
    assert await scene.storage.log_segment_size(scene.segment) is None


async def test_R1_errors_of_the_plugin_are_raised_in_the_broker(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.fault.write_text("copy raise")
    with pytest.raises(RemoteStorageError, match=r"^the store is not there$"):
        await scene.copy()
    scene.fault.write_text("copy crash")
    with pytest.raises(PluginCrashError, match="ZeroDivisionError: a fault of the plugin"):
        await scene.copy()
    assert "copy worker: internal error in the storage plugin" in caplog.text
    assert "faulty_storage.py" in caplog.text
    scene.fault.unlink()
    scene.log.write_bytes(BATCHES[:1000] + bytes([BATCHES[1000] ^ 1]) + BATCHES[1001:])
    with pytest.raises(DamagedSegmentError, match="damaged, and is not copied") as damaged:
        await scene.copy()
    assert damaged.value.filename == str(scene.log)


async def test_R1_a_log_that_has_lost_its_name_is_an_error_of_the_disk(scene: Scene) -> None:
    log = FileLog(scene.log)
    scene.log.rename(scene.log.with_suffix(".deleted"))
    with pytest.raises(FileNotFoundError):
        await scene.storage.copy_checked(scene.segment, LogSegmentData(log, INDEXES))


async def test_R1_a_copy_that_is_cancelled_ends_in_the_worker_which_serves_on(scene: Scene) -> None:
    copying = await scene.hanging_copy()
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    pid = scene.storage.worker_pid
    await scene.copy(make_metadata(len(BATCHES), number=2))
    assert scene.storage.worker_pid == pid


async def test_R1_a_worker_that_does_not_end_a_cancelled_copy_is_killed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CANCEL_S_MAX", 0.05)
    copying = await scene.hanging_copy()
    worker = scene.worker
    worker.suspend()
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await copying
    await scene.copy()
    assert not worker.is_running()


async def test_R1_a_copy_fails_with_its_worker_and_the_next_one_has_another(scene: Scene) -> None:
    copying = await scene.hanging_copy()
    worker = scene.worker
    worker.kill()
    with pytest.raises(RemoteStorageError, match=f"worker process {worker.pid} has ended"):
        await copying
    await scene.copy()
    assert scene.storage.worker_pid not in (None, worker.pid)


async def test_R1_signals_of_a_terminal_or_a_service_manager_leave_the_end_to_the_broker(scene: Scene) -> None:
    await scene.copy()
    worker = scene.worker
    for number in (signal.SIGINT, signal.SIGTERM):
        worker.send_signal(number)
    await scene.copy(make_metadata(len(BATCHES), number=2))
    assert worker.is_running()
    await scene.storage.close()
    assert not worker.is_running()


async def test_R1_a_plugin_that_cannot_be_built_in_the_worker_is_no_worker(scene: Scene) -> None:
    with pytest.raises(process.WorkerStartError, match=r"rsm\.config\.dir"):
        await CopyWorker.start(StorageRecipe("local", {}, "rsm.config."))


BROKER = """
import asyncio, sys
from pathlib import Path
from tierfetch.tests.rlm.worker.test_process import Scene

async def main():
    scene = Scene(Path(sys.argv[1]))
    copying = await scene.hanging_copy("linger")
    print(scene.storage.worker_pid, flush=True)
    await copying

asyncio.run(main())
"""


def test_R1_a_worker_ends_with_its_broker_at_kill_9_too(tmp_path: Path) -> None:
    """Whatever its calls do: what the next leader deletes must not come back."""
    install(tmp_path / "site")
    command, env = [sys.executable, "-c", BROKER, str(tmp_path)], os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    broker = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    with broker:
        assert broker.stdout is not None
        worker = psutil.Process(int(broker.stdout.readline()))
        broker.kill()
    for _ in poll(TIMEOUT_S, "the worker to end"):
        if not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE:
            return
