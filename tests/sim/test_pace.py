"""A cluster that runs in a circle is stopped early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tierfetch.sim.judges.core.events import SecondPassed
from tierfetch.sim.judges.core.pace import EVENTS_MAX, SECONDS_MAX, PaceJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.machine.tasks import every_second
from tierfetch.sim.machine.world import World

BUSY, QUIET = EVENTS_MAX + 1, EVENTS_MAX


def judged(seconds: Sequence[int]) -> None:
    judge = PaceJudge()
    for events in seconds:
        judge.on(SecondPassed(events))


def test_what_is_busy_for_long_runs_in_a_circle() -> None:
    with pytest.raises(InvariantViolationError, match="keeps pace: 12001 events a second for 3 s"):
        judged([BUSY] * SECONDS_MAX)


@pytest.mark.parametrize(
    "seconds",
    [[BUSY] * (SECONDS_MAX - 1), [BUSY, BUSY, QUIET, BUSY, BUSY], [QUIET] * 10],
    ids=["not for long", "with a pause", "not much"],
)
def test_what_is_busy_for_a_moment_or_a_little_does_not(seconds: Sequence[int]) -> None:
    judged(seconds)


def test_each_second_has_its_own_events() -> None:
    ticks: list[int] = []

    async def scenario(world: World) -> None:
        ticking = asyncio.create_task(every_second(world.loop, ticks.append))
        await asyncio.sleep(0.5)
        for _ in range(50):
            await asyncio.sleep(0.001)
        await asyncio.sleep(2.0)
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)

    with World(1) as world:
        world.run(scenario(world))
    assert len(ticks) == 2
    assert ticks[0] > 50 > ticks[1]
