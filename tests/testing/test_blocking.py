"""The conformance suite finds a store that blocks the event loop."""

from __future__ import annotations

import socket
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.testing import RemoteStorageConformance
from tierfetch.testing.blocking import watched


class SleepingStorage(LocalTieredStorage):
    """Blocks the loop in one call."""

    async def fetch_index(self, *arguments: Any) -> bytes:
        time.sleep(0)  # noqa: ASYNC251 - the defect
        return await super().fetch_index(*arguments)


class FileStorage(LocalTieredStorage):
    """Reads a file on the loop."""

    async def log_segment_size(self, metadata: Any) -> int | None:
        Path(__file__).read_bytes()
        return await super().log_segment_size(metadata)


class OpenFileStorage(LocalTieredStorage):
    """Reads a file that it has opened before, on the loop: no call is long, and nothing is opened."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._file = Path(__file__).open("rb", buffering=0)  # noqa: SIM115 - `close` closes it

    async def log_segment_size(self, metadata: Any) -> int | None:
        self._file.read(10)
        return await super().log_segment_size(metadata)

    async def close(self) -> None:
        self._file.close()
        await super().close()


class DatabaseStorage(LocalTieredStorage):
    """Does its SQL on the loop, with a connection that was opened before."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._database = sqlite3.connect(":memory:")

    async def fetch_index(self, *arguments: Any) -> bytes:
        self._database.execute("select 1")
        return await super().fetch_index(*arguments)

    async def close(self) -> None:
        self._database.close()
        await super().close()


class SyncingStorage(LocalTieredStorage):
    """Looks a file up on the loop."""

    async def fetch_index(self, *arguments: Any) -> bytes:
        Path(__file__).exists()
        return await super().fetch_index(*arguments)


class SocketStorage(LocalTieredStorage):
    """Talks to a server over a socket that blocks."""

    async def fetch_index(self, *arguments: Any) -> bytes:
        one, other = socket.socketpair()
        with one, other:
            one.sendall(b"x")
        return await super().fetch_index(*arguments)


async def check(storage: LocalTieredStorage) -> None:
    try:
        await RemoteStorageConformance().test_no_call_blocks_the_event_loop(storage)
    finally:
        await storage.close()


@pytest.mark.parametrize(
    ("store", "what"),
    [
        (SleepingStorage, "time.sleep"),
        (FileStorage, "open"),
        (OpenFileStorage, "_io.FileIO.read"),
        (DatabaseStorage, "sqlite3.Connection.execute"),
        (SyncingStorage, "os.stat"),
        (SocketStorage, "socket.sendall, which blocks,"),
    ],
)
async def test_a_store_that_blocks_fails_with_the_place(tmp_path: Path, store: Any, what: str) -> None:
    storage = store(store.Config.model_validate({"dir": str(tmp_path)}))
    with pytest.raises(
        pytest.fail.Exception, match=f"(?s)run blocking calls on a thread.*{what} on the event loop.*test_blocking.py"
    ):
        await check(storage)


async def test_a_store_on_threads_passes(tmp_path: Path) -> None:
    await check(LocalTieredStorage(LocalTieredStorage.Config.model_validate({"dir": str(tmp_path)})))


async def test_a_long_computation_is_seen_by_the_clock() -> None:
    async with watched(0.05) as seen:
        ends_s = time.monotonic() + 0.5
        while time.monotonic() < ends_s:
            sum(range(1000))
    assert "more than 0.05 s" in seen[0]
    assert "test_blocking.py" in seen[0]
