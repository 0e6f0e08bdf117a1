"""Waiters of offsets, and fetches that sleep."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.broker.replicas.delayed import PURGE_SIZE_MIN, OffsetWaiters, Sleepers, Wakeup


async def test_waiters_are_done_in_the_order_of_their_offsets() -> None:
    waiters = OffsetWaiters()
    futures = {offset: waiters.wait_for(offset) for offset in (5, 3, 9)}
    waiters.advance(5)
    assert {offset: future.done() for offset, future in futures.items()} == {5: True, 3: True, 9: False}
    waiters.advance(8)
    assert len(waiters) == 1


async def test_failure_reaches_everybody_who_still_waits() -> None:
    waiters = OffsetWaiters()
    gone, waiting = waiters.wait_for(1), waiters.wait_for(2)
    gone.cancel()
    waiters.fail(RuntimeError("no leader any more"))
    with pytest.raises(RuntimeError, match="no leader any more"):
        await waiting
    assert len(waiters) == 0


async def test_who_gave_up_is_forgotten() -> None:
    waiters = OffsetWaiters()
    kept = waiters.wait_for(10)
    for _ in range(20 * PURGE_SIZE_MIN):
        waiters.wait_for(5).cancel()
        assert len(waiters) <= PURGE_SIZE_MIN + 1
    waiters.advance(10)
    assert kept.done()


async def test_sleepers_are_woken_once() -> None:
    sleepers, wakeup, other = Sleepers(), Wakeup(), Wakeup()
    sleepers.add(wakeup)
    sleepers.add(other)
    sleepers.discard(other)
    sleepers.wake()
    assert await wakeup.wait(0) is True
    assert await other.wait(0) is False
    assert len(sleepers) == 0


async def test_news_before_the_wait_is_not_missed() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    async with asyncio.timeout(1):
        assert await wakeup.wait(None) is True
