"""The event loop's share: what runs in one iteration, and who continues first."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION, SLICE_ELEMENTS, Portions, Slices, exhausted, pace
from tierfetch.protocol.wire.stepping import Steps


class Iterations:
    """Counts the iterations of the loop."""

    def __init__(self) -> None:
        self.count = 0
        self._tick()

    def _tick(self) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._tick)


async def work(name: str, slices: int, iterations: Iterations, log: list[tuple[int, str]]) -> None:
    async for _ in Slices(range(slices * SLICE_ELEMENTS)):
        log.append((iterations.count, name))


async def test_one_iteration_performs_its_share_of_all_work_together() -> None:
    iterations, log = Iterations(), list[tuple[int, str]]()
    await asyncio.gather(*[work(str(number), 5, iterations, log) for number in range(20)])
    assert len(log) == 20 * 5
    per_iteration = [sum(1 for count, _ in log if count == each) for each in {count for count, _ in log}]
    assert max(per_iteration) <= ELEMENTS_PER_ITERATION // SLICE_ELEMENTS


async def test_work_that_has_had_least_continues_first() -> None:
    iterations, log = Iterations(), list[tuple[int, str]]()
    large = asyncio.create_task(work("large", 50, iterations, log))
    for _ in range(10):
        await asyncio.sleep(0)
    before = len(log)
    assert 0 < before < 50
    await work("small", 2, iterations, log)
    names = [name for _, name in log]
    assert names.count("small") == 2
    assert len(names) <= before + 4 * ELEMENTS_PER_ITERATION // SLICE_ELEMENTS
    large.cancel()


async def test_free_items_are_had_at_once_and_in_order() -> None:
    for _ in range(10):
        await pace().spend(ELEMENTS_PER_ITERATION)
    slices = Slices(range(5), free=3)
    with pytest.raises(StopIteration) as first:  # it does not wait
        slices.__anext__().send(None)
    assert first.value.value == [0, 1, 2]
    assert [some async for some in slices] == [[3, 4]]


@pytest.mark.parametrize("items", [[], [0, 1, 2]])
async def test_a_list_within_the_free_items_takes_no_turn_to_its_end(items: list[int]) -> None:
    for _ in range(10):
        await pace().spend(ELEMENTS_PER_ITERATION)

    async def read() -> list[int]:
        return [item async for some in Slices(items, free=4) for item in some]

    with pytest.raises(StopIteration) as end:  # it does not wait
        read().send(None)
    assert end.value.value == items


async def test_heavy_items_come_in_fewer_at_a_time() -> None:
    assert [len(some) async for some in Slices(range(5), weight=SLICE_ELEMENTS // 2)] == [2, 2, 1]


@pytest.mark.parametrize("free", [0, 5, 10_000])
async def test_items_that_differ_in_cost_come_in_portions_of_a_slice(free: int) -> None:
    costs = [1, SLICE_ELEMENTS - 1, 1, 3 * SLICE_ELEMENTS, 7, 8, 0]
    portions = [some async for some in Portions(costs, lambda cost: cost, free=free)]
    assert [cost for some in portions for cost in some] == costs
    assert all(len(some) == 1 or sum(some) <= max(SLICE_ELEMENTS, free) for some in portions)
    assert len(portions) == (1 if free == 10_000 else 4)


async def test_portions_take_their_share_and_no_more() -> None:
    iterations, log = Iterations(), list[tuple[int, int]]()
    async for some in Portions(range(5_000), lambda number: 1 + number % 7):
        log.append((iterations.count, sum(1 + number % 7 for number in some)))
    per_iteration = [sum(cost for count, cost in log if count == each) for each in {count for count, _ in log}]
    assert sum(per_iteration) == sum(1 + number % 7 for number in range(5_000))
    assert max(per_iteration) <= ELEMENTS_PER_ITERATION + SLICE_ELEMENTS


@pytest.mark.parametrize("items", [[], [1, 2]])
async def test_portions_within_the_free_elements_take_no_turn(items: list[int]) -> None:
    for _ in range(10):
        await pace().spend(ELEMENTS_PER_ITERATION)

    async def read() -> list[int]:
        return [item async for some in Portions(items, lambda item: item, free=3) for item in some]

    with pytest.raises(StopIteration) as end:  # it does not wait
        read().send(None)
    assert end.value.value == items


async def test_work_that_is_cancelled_while_it_waits_takes_no_share() -> None:
    for _ in range(3):
        await pace().spend(ELEMENTS_PER_ITERATION)
    waiting = [asyncio.create_task(pace().spend(ELEMENTS_PER_ITERATION)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in waiting[:4]:
        task.cancel()
    await waiting[4]


async def test_steps_are_run_to_their_end() -> None:
    seen = []

    def steps() -> Steps[str]:
        for number in range(7):
            seen.append(number)
            yield
        return "done"

    assert await exhausted(steps()) == "done"
    assert seen == list(range(7))
