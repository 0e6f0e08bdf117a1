"""Which calls run in the worker, and what holds while it starts, dies or cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from tierfetch.plugins.fsspec import FsspecRemoteStorage
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.remote import LogSegmentData, RemoteStorageError, RemoteStorageManager
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.rlm.core.view import CopyDeadline
from tierfetch.rlm.deadlines import WatchedStorage
from tierfetch.rlm.worker import StorageRecipe, WorkerStorage, may_copy_in_worker, storage
from tierfetch.rlm.worker.process import CopyWorker, WorkerStartError
from tierfetch.testing.remote_storage import make_data
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.rlm.views import STARTED, remote
from tierfetch.tests.turns import turns

pytestmark = pytest.mark.virtual_time

SEGMENT = remote(1, 0, 10, state=STARTED)
OTHER = remote(2, 10, 20, state=STARTED)
RECIPE = StorageRecipe("some", {"secret": "hidden"}, "rsm.config.")


class FileLog:
    """A log with a path, which nothing here opens."""

    path = Path("segment.log")
    size = 100

    async def read(self, offset: int, count: int) -> bytes:
        return bytes(min(count, self.size - offset))


class FakeWorker:
    """A `CopyWorker` without a process."""

    pid = 4711

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_open = True
        self.is_ended = asyncio.Event()
        self.dies = False
        self.slow_s = 0.0

    async def copy(
        self,
        metadata: RemoteLogSegmentMetadata,
        path: str,
        size: int,
        indexes: Mapping[str, bytes],
        *,
        is_checked: bool,
    ) -> bytes | None:
        self.calls.append(f"copy {Path(path).name} {size} {sorted(indexes)} {is_checked}")
        await asyncio.sleep(self.slow_s)
        if self.dies:
            self.is_open = False
            raise RemoteStorageError("worker process 4711 has ended")
        return b"custom"

    async def delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.calls.append("delete")

    async def ended(self) -> None:
        await self.is_ended.wait()

    def stop(self, reason: str) -> None:
        self.is_open = False
        self.is_ended.set()

    async def close(self) -> None:
        self.stop("")


class Starts:
    """Starts fake workers, slowly, or not at all."""

    def __init__(self) -> None:
        self.workers: list[FakeWorker] = []
        self.attempts = 0
        self.failing = False

    async def __call__(self, recipe: StorageRecipe) -> CopyWorker:
        self.attempts += 1
        await asyncio.sleep(1)
        if self.failing:
            raise WorkerStartError("no worker process can be started: no memory")
        self.workers.append(FakeWorker())
        return cast(CopyWorker, self.workers[-1])


class Scene:
    """A storage in front of a fake one."""

    def __init__(self) -> None:
        self.inner = MemoryRemoteStorage()
        self.starts = Starts()
        self.storage = WorkerStorage(self.inner, RECIPE, self.starts)

    @property
    def by_broker(self) -> list[str]:
        return [name for name, _ in self.inner.calls]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def file_data() -> LogSegmentData:
    return LogSegmentData(FileLog(), make_data(b"").indexes)


async def test_R1_copies_run_in_the_worker_and_reads_in_the_broker(scene: Scene) -> None:
    assert await scene.storage.copy_log_segment_data(SEGMENT, file_data()) == b"custom"
    assert await scene.storage.copy_checked(SEGMENT, file_data()) == b"custom"
    assert await scene.storage.log_segment_size(SEGMENT) is None
    kinds = "['index', 'leader_epoch_checkpoint', 'snapshot', 'timeindex']"
    assert scene.starts.workers[0].calls == [f"copy segment.log 100 {kinds} {checked}" for checked in (False, True)]
    assert scene.by_broker == ["log_segment_size"]


async def test_R1_a_watched_storage_leaves_the_check_to_the_worker(scene: Scene) -> None:
    watched = WatchedStorage(scene.storage, copy_deadline=CopyDeadline(5_000, 1 << 20), request_timeout_ms=5_000)
    await watched.copy_checked(SEGMENT, file_data())
    assert scene.starts.workers[0].calls[0].endswith("True")


async def test_one_worker_serves_all_copies_that_wait_for_it(scene: Scene) -> None:
    await asyncio.gather(*(scene.storage.copy_checked(SEGMENT, file_data()) for _ in range(5)))
    assert scene.starts.attempts == 1
    assert len(scene.starts.workers[0].calls) == 5


async def test_a_copy_that_leaves_does_not_end_the_start_for_the_others(scene: Scene) -> None:
    first = asyncio.create_task(scene.storage.copy_checked(SEGMENT, file_data()))
    second = asyncio.create_task(scene.storage.copy_checked(SEGMENT, file_data()))
    await turns()
    first.cancel()
    assert await second == b"custom"
    assert scene.starts.attempts == 1


async def test_a_log_without_a_path_is_copied_by_the_broker_and_starts_nothing(scene: Scene) -> None:
    await scene.storage.copy_log_segment_data(SEGMENT, make_data(bytes(100)))
    assert scene.by_broker == ["copy_log_segment_data"]
    assert scene.starts.attempts == 0


async def test_indexes_too_large_for_a_message_are_copied_by_the_broker(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "BODY_BYTES_MAX", storage.ENVELOPE_BYTES_MAX + 10)
    await scene.storage.copy_log_segment_data(SEGMENT, file_data())
    assert scene.by_broker == ["copy_log_segment_data"]


async def test_R1_deletions_run_where_copies_have_run(scene: Scene) -> None:
    await scene.storage.delete_log_segment_data(SEGMENT)
    assert (scene.by_broker, scene.starts.attempts) == (["delete_log_segment_data"], 0)
    await scene.storage.copy_checked(SEGMENT, file_data())
    await scene.storage.delete_log_segment_data(SEGMENT)
    assert scene.by_broker == ["delete_log_segment_data"]
    assert scene.starts.workers[0].calls[-1] == "delete"


async def test_R1_a_copy_of_the_broker_that_broke_off_is_deleted_by_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There alone is it known which of its steps still run."""
    await scene.storage.copy_checked(SEGMENT, file_data())
    copying = asyncio.create_task(scene.storage.copy_checked(OTHER, make_data(bytes(100))))
    monkeypatch.setattr(scene.inner, "copy_log_segment_data", lambda *_: asyncio.sleep(100))
    await turns()
    copying.cancel()
    await asyncio.wait([copying])
    await scene.storage.delete_log_segment_data(SEGMENT)
    assert scene.by_broker == []
    await scene.storage.delete_log_segment_data(OTHER)
    assert scene.by_broker == ["delete_log_segment_data"]
    await scene.storage.delete_log_segment_data(OTHER)
    assert scene.by_broker == ["delete_log_segment_data"]
    assert scene.starts.workers[0].calls[1:] == ["delete"] * 2


@pytest.mark.parametrize("call", ["copy", "delete"])
async def test_R1_after_a_death_nothing_runs_before_the_process_has_ended(scene: Scene, call: str) -> None:
    await scene.storage.copy_checked(SEGMENT, file_data())
    dead = scene.starts.workers[0]
    dead.dies = True
    with pytest.raises(RemoteStorageError, match="4711 has ended"):
        await scene.storage.copy_checked(SEGMENT, file_data())
    assert scene.storage.worker_pid is None
    work = scene.storage.copy_checked(SEGMENT, file_data())
    following = asyncio.create_task(work if call == "copy" else scene.storage.delete_log_segment_data(SEGMENT))
    await asyncio.sleep(30)
    assert (len(scene.starts.workers), scene.by_broker) == (1, [])
    dead.is_ended.set()
    await following
    assert (len(scene.starts.workers), scene.by_broker) == (
        (2, []) if call == "copy" else (1, ["delete_log_segment_data"])
    )
    if call == "delete":
        work.close()


async def test_a_worker_without_calls_is_stopped_and_the_next_copy_has_another(scene: Scene) -> None:
    for _ in range(3):
        await scene.storage.copy_checked(SEGMENT, file_data())
        await asyncio.sleep(storage.IDLE_S - 1)
    assert scene.storage.worker_pid is not None
    await asyncio.sleep(2)
    assert scene.storage.worker_pid is None
    await scene.storage.copy_checked(SEGMENT, file_data())
    assert [len(worker.calls) for worker in scene.starts.workers] == [3, 1]


async def test_a_call_that_takes_long_keeps_its_worker(scene: Scene) -> None:
    await scene.storage.copy_checked(SEGMENT, file_data())
    worker = scene.starts.workers[0]
    worker.slow_s = 2 * storage.IDLE_S
    await scene.storage.copy_checked(SEGMENT, file_data())
    assert worker.is_open


async def test_R1_without_a_worker_the_broker_copies_and_tries_again_later(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.starts.failing = True
    for _ in range(3):
        await scene.storage.copy_log_segment_data(SEGMENT, file_data())
    assert (scene.starts.attempts, len(scene.by_broker)) == (1, 3)
    assert "no memory: the broker copies to the tier by itself" in caplog.text
    scene.starts.failing = False
    await asyncio.sleep(storage.START_AGAIN_S)
    assert await scene.storage.copy_log_segment_data(SEGMENT, file_data()) == b"custom"


async def test_the_end_of_a_broker_ends_a_worker_that_serves_and_one_that_starts(scene: Scene) -> None:
    await scene.storage.copy_checked(SEGMENT, file_data())
    await scene.storage.close()
    assert not scene.starts.workers[0].is_open

    other = Scene()
    copying = asyncio.create_task(other.storage.copy_checked(SEGMENT, file_data()))
    await turns()
    await other.storage.close()
    with pytest.raises(RemoteStorageError, match="the tier is closed"):
        await copying
    assert other.starts.workers == []


@pytest.mark.parametrize(
    ("url", "may"),
    [("file:///srv/tier", True), ("memory://tier", False), ("simplecache::memory://tier", False)],
)
def test_a_plugin_says_whether_another_process_reaches_what_it_stores(url: str, may: bool, tmp_path: Path) -> None:
    assert may_copy_in_worker(FsspecRemoteStorage(FsspecRemoteStorage.Config(url=url))) is may
    assert may_copy_in_worker(LocalTieredStorage(LocalTieredStorage.Config(dir=tmp_path)))
    assert not may_copy_in_worker(cast(RemoteStorageManager, MemoryRemoteStorage()))
