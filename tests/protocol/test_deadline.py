"""A future that is waited for for a limited time: done in time, too late, cancelled; no timer is left."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.protocol.net.deadline import done_within

pytestmark = pytest.mark.virtual_time


async def test_a_result_in_time_is_returned() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[str] = loop.create_future()
    loop.call_later(0.9, future.set_result, "done")
    assert await done_within(future, 1.0) == "done"


async def test_an_error_in_time_is_raised() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.call_later(0.9, future.set_exception, OSError("lost"))
    with pytest.raises(OSError, match="lost"):
        await done_within(future, 1.0)


async def test_a_future_that_is_late_fails_for_all_who_wait() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    began_s = loop.time()
    with pytest.raises(TimeoutError):
        await done_within(future, 1.0)
    assert loop.time() == began_s + 1.0
    assert isinstance(future.exception(), TimeoutError)


async def test_a_caller_that_is_cancelled_cancels_the_future() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(done_within(future, 1.0))
    await asyncio.sleep(0.5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert future.cancelled()
    await asyncio.sleep(1.0)  # a timer that was left would fail it again
