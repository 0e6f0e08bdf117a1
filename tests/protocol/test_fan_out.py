"""Many small pieces of work: bounded at the same time, and in each iteration of the loop."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.protocol.net.fan_out import for_each
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION

pytestmark = pytest.mark.virtual_time


async def test_no_more_than_allowed_are_under_way_and_all_are_done() -> None:
    under_way, most, done = 0, 0, []

    async def do(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1)
        under_way -= 1
        done.append(item)

    await for_each(range(10), do, at_once=4)
    assert (most, sorted(done)) == (4, list(range(10)))


async def test_work_that_never_waits_is_spread_over_iterations() -> None:
    """A thousand logs that are open already are not gone through in one go."""
    iteration, seen = 0, []

    async def count() -> None:
        nonlocal iteration
        while True:
            await asyncio.sleep(0)
            iteration += 1

    async def do(_: int) -> None:
        seen.append(iteration)

    counting = asyncio.create_task(count())
    await for_each(range(1_000), do, at_once=256, weight=100)
    counting.cancel()
    each_iteration = [seen.count(number) for number in sorted(set(seen))]
    assert max(each_iteration) <= ELEMENTS_PER_ITERATION // 100
    assert sum(each_iteration) == 1_000


async def test_a_failure_ends_the_others_and_is_raised() -> None:
    done: list[int] = []

    async def do(item: int) -> None:
        if item == 1:
            raise OSError("disk")
        await asyncio.sleep(1)
        done.append(item)

    with pytest.raises(ExceptionGroup, match="unhandled errors") as caught:
        await for_each(range(10), do, at_once=2)
    assert [str(error) for error in caught.value.exceptions] == ["disk"]
    assert done == []


async def test_one_item_needs_no_task_and_fails_in_the_same_way() -> None:
    tasks = []

    async def do(item: int) -> None:
        tasks.append(asyncio.current_task())
        if item:
            raise OSError("disk")

    await for_each([0], do, at_once=2)
    with pytest.raises(ExceptionGroup, match="unhandled errors") as caught:
        await for_each([1], do, at_once=2)
    assert [str(error) for error in caught.value.exceptions] == ["disk"]
    assert set(tasks) == {asyncio.current_task()}


async def test_nothing_to_do() -> None:
    await for_each([], asyncio.sleep, at_once=2)
