"""Calls that outlive who asked for them: what they still write is deleted behind them, and waiting has an end."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tierfetch.plugins import object_storage
from tierfetch.plugins.fsspec import FsspecRemoteStorage
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.plugins.s3 import S3RemoteStorage
from tierfetch.plugins.threads import Abandoned, BlockingCalls
from tierfetch.remote import RemoteStorageTimeoutError
from tierfetch.testing.remote_storage import listed, make_data, make_metadata, pattern
from tierfetch.tests.turns import turns

WAIT_S = 10.0


class Held:
    """In place of a blocking call: begins, waits until it is let go, then does what it is to do."""

    def __init__(self, call) -> None:
        self.call = call
        self.began = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, *args, **kwargs):
        self.began.set()
        assert self.go_on.wait(WAIT_S)
        return self.call(*args, **kwargs)


async def began(held: Held) -> None:
    assert await asyncio.to_thread(held.began.wait, WAIT_S)


async def cancelled(task: asyncio.Task) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_that_was_abandoned_is_waited_for_by_its_key() -> None:
    calls = BlockingCalls("test", 4)
    held = Held(lambda abandoned: None)
    task = asyncio.create_task(calls.run("key", held))
    await began(held)
    await cancelled(task)
    await calls.settled(["another"])
    settling = asyncio.create_task(calls.settled(["another", "key"]))
    await turns()
    assert not settling.done()
    held.go_on.set()
    await settling
    await calls.close()


async def test_a_call_that_had_not_begun_never_does() -> None:
    calls = BlockingCalls("test", 1)
    held = Held(lambda abandoned: None)
    first = asyncio.create_task(calls.run("a", held))
    await began(held)
    never: list[Abandoned] = []
    second = asyncio.create_task(calls.run("b", never.append))
    await asyncio.sleep(0)
    await cancelled(second)
    await calls.settled(["b"])
    held.go_on.set()
    await first
    assert never == []
    await calls.close()


async def test_s3_put_that_ends_after_its_deadline_leaves_nothing_behind_a_delete(s3_options: dict[str, str]) -> None:
    storage = S3RemoteStorage(S3RemoteStorage.Config.model_validate(s3_options))
    metadata = make_metadata(3)
    client, ended = storage._store._client, list[str]()
    put = client.put_object

    def late_put(**kwargs):
        put(**kwargs)
        ended.append("put")

    held = client.put_object = Held(late_put)
    task = asyncio.create_task(storage.copy_log_segment_data(metadata, make_data(b"abc")))
    await began(held)
    await cancelled(task)
    deleting = asyncio.create_task(storage.delete_log_segment_data(metadata))
    deleting.add_done_callback(lambda _: ended.append("delete"))
    await turns()
    held.go_on.set()
    await deleting
    assert ended == ["put", "delete"]
    assert await listed(storage) == []
    await storage.close()


async def test_delete_behind_a_call_that_never_ends_runs_out_of_time(s3_options: dict[str, str]) -> None:
    storage = S3RemoteStorage(S3RemoteStorage.Config.model_validate({**s3_options, "request.timeout.ms": "100"}))
    metadata = make_metadata(3)
    client = storage._store._client
    held = client.put_object = Held(client.put_object)
    with pytest.raises(RemoteStorageTimeoutError):
        await storage.copy_log_segment_data(metadata, make_data(b""))
    with pytest.raises(RemoteStorageTimeoutError):
        await storage.delete_log_segment_data(metadata)
    held.go_on.set()
    storage._timeout_s = WAIT_S
    await storage.delete_log_segment_data(metadata)
    assert await listed(storage) == []
    await storage.close()


async def test_local_rename_that_ends_late_leaves_nothing_behind_a_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalTieredStorage(LocalTieredStorage.Config(dir=tmp_path))
    metadata = make_metadata(3)
    held = Held(os.rename)
    monkeypatch.setattr(os, "rename", held)
    task = asyncio.create_task(storage.copy_log_segment_data(metadata, make_data(b"abc")))
    await began(held)
    held_path = next((tmp_path / ".unfinished").iterdir())
    monkeypatch.setattr("tierfetch.plugins.local._remove", never_removes(held_path))
    await cancelled(task)
    monkeypatch.undo()
    deleting = asyncio.create_task(storage.delete_log_segment_data(metadata))
    await turns()
    held.go_on.set()
    await deleting
    assert await listed(storage) == []
    await storage.close()


def never_removes(path: Path):
    """As where the file is busy: the rename finds it still."""

    def remove(_: Path) -> None:
        assert path.exists()

    return remove


async def test_clean_up_of_an_upload_has_an_end(s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The store hangs in the upload, and again when the upload is to be aborted."""
    monkeypatch.setattr(object_storage, "CLEAN_UP_S_MAX", 0.05)
    options = {**s3_options, "request.timeout.ms": "100", "copy.min.bytes.per.second": str(1 << 30)}
    storage = S3RemoteStorage(S3RemoteStorage.Config.model_validate(options))
    client = storage._store._client
    part = client.upload_part = Held(client.upload_part)
    abort = client.abort_multipart_upload = Held(client.abort_multipart_upload)
    log = pattern(storage._store._config.part_bytes + 1)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(RemoteStorageTimeoutError):
            await storage.copy_log_segment_data(make_metadata(len(log)), make_data(log))
    part.go_on.set()
    abort.go_on.set()
    await storage.close()


async def test_clean_up_of_a_file_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "CLEAN_UP_S_MAX", 0.05)
    config = {"url": f"file://{tmp_path}/tier", "request.timeout.ms": "100", "copy.min.bytes.per.second": str(1 << 30)}
    storage = FsspecRemoteStorage(FsspecRemoteStorage.Config.model_validate(config))
    move = Held(storage._store._fs.mv)
    remove = Held(storage._store._fs.rm_file)
    monkeypatch.setattr(storage._store._fs, "mv", move)
    monkeypatch.setattr(storage._store._fs, "rm_file", remove)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(RemoteStorageTimeoutError):
            await storage.copy_log_segment_data(make_metadata(3), make_data(b"abc"))
    move.go_on.set()
    remove.go_on.set()
    storage._timeout_s = WAIT_S
    await storage.delete_log_segment_data(make_metadata(3))
    assert await listed(storage) == []
    await storage.close()
