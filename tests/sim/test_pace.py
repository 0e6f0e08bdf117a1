"""A cluster that runs in a circle is stopped early."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.pace import EVENTS_MAX, SECONDS_MAX, keep_pace
from tierfetch.sim.machine.world import World


def run_for(busy_s: float, every_s: float) -> None:
    """Something happens that often, and then nothing."""

    async def work() -> None:
        for _ in range(int(busy_s / every_s)):
            await asyncio.sleep(every_s)

    async def scenario(world: World) -> None:
        pace = asyncio.create_task(keep_pace(world.loop))
        await asyncio.gather(work(), return_exceptions=True)
        await asyncio.sleep(1.5)
        pace.cancel()
        await asyncio.gather(pace)

    with World(1) as world:
        world.run(scenario(world))


def test_what_is_busy_for_long_runs_in_a_circle() -> None:
    with pytest.raises(InvariantViolationError, match=r"keeps pace: .* events a second for 3 s"):
        run_for(SECONDS_MAX + 0.5, 0.5 / EVENTS_MAX)


@pytest.mark.parametrize(("busy_s", "every_s"), [(SECONDS_MAX - 1, 0.5 / EVENTS_MAX), (10.0, 5 / EVENTS_MAX)])
def test_what_is_busy_for_a_moment_or_a_little_does_not(busy_s: float, every_s: float) -> None:
    with pytest.raises(asyncio.CancelledError):
        run_for(busy_s, every_s)
