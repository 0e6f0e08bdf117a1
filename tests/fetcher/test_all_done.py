"""Several tasks as one."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.fetcher.all_done import all_done


async def number(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def failure() -> None:
    await asyncio.sleep(0)
    raise OSError("no")


async def test_returns_once_all_have_succeeded() -> None:
    one, two = asyncio.create_task(number(1)), asyncio.create_task(number(2))
    await all_done(one, two)
    assert (one.result(), two.result()) == (1, 2)


async def test_the_first_failure_ends_the_others_and_is_raised_as_it_is() -> None:
    waiting = asyncio.create_task(asyncio.Event().wait())
    with pytest.raises(OSError, match="no"):
        await all_done(waiting, asyncio.create_task(failure()))
    assert waiting.cancelled()
    me = asyncio.current_task()
    assert me is not None
    assert not me.cancelling()


async def test_a_cancellation_ends_all_of_them() -> None:
    waiting = asyncio.create_task(asyncio.Event().wait())
    outer = asyncio.create_task(all_done(waiting))
    await asyncio.sleep(0)
    outer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await outer
    assert waiting.cancelled()
