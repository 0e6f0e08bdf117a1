"""Starting and stopping as one."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.protocol.net.service import Service, cancelled


class Parts(Service):
    """Two parts; `failure` is met when the second is to start."""

    def __init__(self, failure: BaseException | None = None) -> None:
        super().__init__()
        self.said: list[str] = []
        self._failure = failure

    async def _start(self) -> None:
        for name in ("first", "second"):
            if self._failure is not None and name == "second":
                raise self._failure
            self.said.append(f"{name} starts")
            self._stack.callback(self.said.append, f"{name} stops")


async def test_parts_stop_the_other_way_round() -> None:
    async with Parts() as parts:
        assert parts.said == ["first starts", "second starts"]
    assert parts.said[2:] == ["second stops", "first stops"]
    await parts.stop()
    assert len(parts.said) == 4


@pytest.mark.parametrize("failure", [OSError("no port"), asyncio.CancelledError()])
async def test_a_start_that_fails_stops_what_was_started(failure: BaseException) -> None:
    parts = Parts(failure)
    with pytest.raises(type(failure)):
        async with parts:
            raise AssertionError("it serves")
    assert parts.said == ["first starts", "first stops"]


async def test_cancelled_waits_for_the_end() -> None:
    said = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            said.append("ended")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancelled(task)
    assert said == ["ended"]
    assert task.cancelled()
