"""Clients of a place: they live while it pauses, and what fails is raised in the order in which they began."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.sim.scenarios.lives import Lives, live_on

pytestmark = pytest.mark.virtual_time


async def ended(after_s: float, failure: Exception | None = None) -> None:
    await asyncio.sleep(after_s)
    if failure is not None:
        raise failure


async def test_those_that_end_are_removed_and_the_others_live_on() -> None:
    short, killed, long = (asyncio.create_task(ended(each)) for each in (1, 100, 100))
    lives: Lives = {short: None, killed: None, long: None}
    killed.cancel()
    await live_on(lives, asyncio.sleep(10))
    assert list(lives) == [long]
    long.cancel()


async def test_of_several_failures_the_first_client_is_heard() -> None:
    tasks = [asyncio.create_task(ended(1, ValueError(str(number)))) for number in range(20)]
    lives: Lives = dict.fromkeys(reversed(tasks))
    with pytest.raises(ValueError, match=r"^19$"):
        await live_on(lives, asyncio.sleep(10))
    assert len(lives) == 19
    await asyncio.gather(*lives, return_exceptions=True)


async def test_a_place_that_ends_leaves_no_pause() -> None:
    place = asyncio.create_task(live_on({}, asyncio.sleep(1000)))
    await asyncio.sleep(1)
    place.cancel()
    await asyncio.wait([place])
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
