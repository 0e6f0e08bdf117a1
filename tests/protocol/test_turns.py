"""Turns: the limit, the order of those who wait, and who gives up waiting."""

from __future__ import annotations

import asyncio

from tierfetch.protocol.net.turns import Turns


async def test_who_waits_gets_a_turn_in_order() -> None:
    turns, order = Turns(2), list[int]()

    async def wait(number: int) -> None:
        await turns.take()
        order.append(number)

    assert turns.try_take()
    await turns.take()
    waiting = [asyncio.create_task(wait(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert (order, turns.try_take(), turns.taken) == ([], False, 2)
    for expected in ([0], [0, 1], [0, 1, 2]):
        turns.give_back()
        assert not turns.try_take(), "nobody gets in before those who wait"
        await asyncio.sleep(0)
        assert order == expected
    await asyncio.gather(*waiting)
    turns.give_back()
    turns.give_back()
    assert turns.taken == 0


async def test_who_gives_up_takes_no_turn_from_others() -> None:
    turns = Turns(1)
    assert turns.try_take()
    waiting = [asyncio.create_task(turns.take()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    turns.give_back()
    waiting[1].cancel()  # it has been given the turn, and does not know it yet
    await asyncio.wait(waiting)
    assert [each.cancelled() for each in waiting] == [True, True, False]
    turns.give_back()
    assert turns.taken == 0
    assert turns.try_take()
