"""Running a node as a process: what its log says while it waits, and how it ends on a disk that takes nothing."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
from pathlib import Path

import pytest

from tierfetch.cli import running
from tierfetch.cli.running import StopError, run_node, serving
from tierfetch.protocol.net.service import Service


class FullDisk(Service):
    """Two parts that stop, one of them not in order: what it does about its first failure fails too."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped: list[str] = []

    async def _start(self) -> None:
        self._stack.callback(self.stopped.append, "disk")
        self._stack.push_async_callback(self._close_logs)

    async def _close_logs(self) -> None:
        self.stopped.append("logs")
        try:
            raise OSError(errno.ENOSPC, "No space left on device", "7.snapshot")
        finally:
            raise OSError(errno.ENOSPC, "No space left on device", "checkpoint")


async def test_a_stop_that_fails_has_one_line_for_each_failure(caplog: pytest.LogCaptureFixture) -> None:
    node = FullDisk()
    with pytest.raises(StopError) as caught:
        async with serving(node, node.waits, asyncio.get_running_loop().create_future()) as serves:
            assert serves
    assert node.stopped == ["logs", "disk"]
    caught.value.report(logging.getLogger("test"), "broker 3")
    assert [record.getMessage() for record in caplog.records] == [
        "broker 3 could not stop in order, and recovers its logs at the next start:"
        f" [Errno 28] No space left on device: '{name}'"
        for name in ("7.snapshot", "checkpoint")
    ]


async def test_waits_are_reported_while_they_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "FIRST_REPORT_S", 0.001)
    monkeypatch.setattr(running, "REPORT_INTERVAL_S", 0.001)
    lines, asked_again = ["waiting for one", None, "waiting for two"], asyncio.Event()

    def line(_now_s: float) -> str | None:
        if lines:
            return lines.pop(0)
        asked_again.set()
        return None

    async with running.reporting(line), asyncio.timeout(10):
        await asked_again.wait()
    assert caplog.messages == ["waiting for one", "waiting for two"]


def test_a_node_that_has_ended_leaves_its_objects_to_the_process(tmp_path: Path) -> None:
    async def node(_: str) -> int:
        return 3

    config = tmp_path / "node.properties"
    config.write_text("node.id=1\n")
    try:
        with pytest.raises(SystemExit) as ended:
            run_node(config, "error", lambda _: ("config", []), node)
        assert ended.value.code == 3
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.freeze()  # as `tests/conftest.py` had left it
