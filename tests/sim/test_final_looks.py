"""Looks at a cluster at rest: what is wrong only at first is looked at again, and what hangs ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from unittest.mock import patch

from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.cluster import RUN_LIMIT_S
from tierfetch.sim.scenarios.looks.asker import TIMEOUT_S
from tierfetch.sim.scenarios.looks.final_looks import SETTLED_S, FinalLooks
from tierfetch.tests.sim.test_truth import truth


def final_looks() -> FinalLooks:
    return FinalLooks(truth(), dict, Random(1), lambda _: False, tuple)


def settled(look: Callable[[], Awaitable[list[str]]]) -> tuple[list[str], float]:
    """Return what is wrong in the end, and after how many seconds."""
    with World(1) as world:
        began_s = world.now_s
        return world.run(final_looks()._settled(look)), world.now_s - began_s


def test_what_is_wrong_at_first_is_looked_at_again() -> None:
    answers = iter((["wrong"], ["wrong"], []))

    async def look() -> list[str]:
        return next(answers)

    assert settled(look) == ([], 1.0)


def test_looks_at_a_broker_that_hangs_end_before_the_run_does() -> None:
    async def hang() -> list[str]:
        await asyncio.sleep(TIMEOUT_S)
        raise TimeoutError("no answer")

    wrong, took_s = settled(hang)
    assert wrong == ["TimeoutError: no answer"]
    assert SETTLED_S <= took_s <= SETTLED_S + TIMEOUT_S


def test_what_a_look_finds_is_said_at_once() -> None:
    """Where a broker hangs each look would, and all of them together for longer than a run may last."""
    calls: list[str] = []

    async def hang() -> list[str]:
        calls.append("hang")
        await asyncio.sleep(TIMEOUT_S)
        raise TimeoutError("no answer")

    looks = {"first": hang, "second": hang}
    with World(1) as world, patch.object(FinalLooks, "looks", looks):
        found = world.run(final_looks().anomalies())
        assert [(each.partition, each.detail) for each in found] == [("first", "TimeoutError: no answer")]
        assert len(calls) * TIMEOUT_S <= world.now_s < 0.1 * RUN_LIMIT_S
