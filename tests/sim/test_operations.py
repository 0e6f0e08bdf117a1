"""The grammar of actions: drawn by weight of what is possible, named, replayed, left out where it no longer fits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from tierfetch.sim.faults.actions import Action, moments
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule, UnfitScheduleError
from tierfetch.sim.faults.shrink import shrink_schedule
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.operations.grammar import Act, Operations, Row, check_actions, draw
from tierfetch.sim.scenarios.operations.rows import ROWS
from tierfetch.sim.scenarios.runner import run_seed

SAFETY_MS = 15_000


@dataclass
class Door:
    """It is opened, and closed again; whoever knocks has to wait."""

    is_open: bool = False
    said: list[str] = field(default_factory=list)

    async def open(self, rng: Random) -> None:
        self.is_open = True
        self.said.append(f"open {rng.random():.3f}")

    async def close(self, rng: Random) -> None:
        self.is_open = False
        self.said.append("close")

    async def knock(self, rng: Random) -> None:
        await asyncio.sleep(2.0)
        self.said.append("knocked")


DOORS: Sequence[Row[Door]] = (
    Row(name="open", weight=3, is_possible=lambda door: not door.is_open, act=lambda door, rng: door.open(rng)),
    Row(name="close", is_possible=lambda door: door.is_open, act=lambda door, rng: door.close(rng)),
    Row(name="knock", act=lambda door, rng: door.knock(rng), is_beside=True),
)


def done(actions: Sequence[Action], rows: Sequence[Row[Door]] = DOORS) -> tuple[Door, Operations[Door]]:
    """Do them on a door, in a world of their own."""
    door, beside = Door(), list[asyncio.Task[None]]()

    def spawn(act: Act) -> None:
        beside.append(asyncio.get_running_loop().create_task(act()))

    operations = Operations(rows, door, spawn, lambda *_: None)

    async def run() -> None:
        await operations.run(actions)
        await asyncio.gather(*beside)

    with World(1) as world:
        world.run(run())
    return door, operations


def test_moments_are_the_same_for_a_seed_and_within_the_safety_phase() -> None:
    drawn = moments(Random(3), 400, SAFETY_MS)
    assert drawn == moments(Random(3), 400, SAFETY_MS) != moments(Random(4), 400, SAFETY_MS)
    assert 20 < len(drawn) < 60
    assert Schedule.from_json(Schedule(SAFETY_MS, (), drawn).to_json()).actions == drawn
    with pytest.raises(ValueError, match="outside the safety phase"):
        Schedule(100, (), (Action(100, 1),))
    with pytest.raises(ValueError, match="order"):
        Schedule(100, (), (Action(50, 1), Action(20, 1)))


def test_what_is_possible_is_drawn_by_weight() -> None:
    drawn = Counter(row.name for seed in range(400) if (row := draw(DOORS, Door(), Random(seed))) is not None)
    assert set(drawn) == {"open", "knock"}
    assert drawn["open"] > 2 * drawn["knock"]
    assert draw(DOORS[1:2], Door(), Random(1)) is None


def test_what_was_drawn_has_a_name_and_is_done_again_just_so() -> None:
    drawn = moments(Random(7), 500, SAFETY_MS)
    door, operations = done(drawn)
    assert {action.name for action in operations.performed} == {"open", "close", "knock"}
    again, replayed = done(operations.performed)
    assert again.said == door.said
    assert replayed.performed == operations.performed
    assert replayed.counts == operations.counts


def test_a_shorter_list_changes_nothing_but_what_it_leaves_out() -> None:
    actions = [Action(10, 1, "open"), Action(20, 2, "close"), Action(30, 3, "open"), Action(40, 4, "close")]
    whole, _ = done(actions)
    shorter, operations = done(actions[1:])
    assert shorter.said == whole.said[2:], "the first close is no longer possible"
    assert operations.performed == actions[1:]
    assert operations.counts == {"open": 1, "close": 1}


def test_what_takes_long_does_not_hold_up_the_others() -> None:
    door, _ = done([Action(10, 1, "knock"), Action(20, 2, "open"), Action(30, 3, "close")])
    assert door.said[1:] == ["close", "knocked"]


def test_an_action_that_no_row_knows_is_refused() -> None:
    schedule = Schedule(100, (), (Action(1, 1, "paint"),))
    with pytest.raises(UnfitScheduleError, match="paint"):
        check_actions(schedule, ("open",))
    with pytest.raises(UnfitScheduleError, match="any action"):
        check_actions(Schedule(100, (), (Action(1, 1),)))
    check_actions(Schedule(100, (), (Action(1, 1), Action(2, 1, "open"))), ("open",))


def test_actions_are_shortened_with_the_faults() -> None:
    schedule = Schedule(
        SAFETY_MS,
        tuple(Fault(at_ms, FaultKind.PAUSE, ("broker-1",), 100) for at_ms in range(0, 4_000, 500)),
        tuple(Action(at_ms, at_ms, "close" if at_ms % 300 else "open") for at_ms in range(0, 6_000, 100)),
    )

    def fails(candidate: Schedule) -> bool:
        return any(action.at_ms == 2_400 for action in candidate.actions) and any(
            fault.at_ms == 1_500 for fault in candidate.faults
        )

    shrunk = shrink_schedule(schedule, fails, runs_max=100)
    assert shrunk is not None
    assert shrunk.schedule.actions == (Action(2_400, 2_400, "open"),)
    assert [fault.at_ms for fault in shrunk.schedule.faults] == [1_500]
    assert shrunk.schedule.safety_ms == 3_400
    nothing = shrink_schedule(replace(schedule, faults=()), lambda candidate: True, runs_max=10)
    assert nothing is not None
    assert not nothing.schedule.actions


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.slow
def test_the_schedule_of_a_report_is_the_same_run_again() -> None:
    """What the seed drew as it went along is in its schedule."""
    report = run_seed(2, "cluster")
    assert report.schedule.actions
    assert all(action.name for action in report.schedule.actions)
    assert run_seed(2, "cluster", schedule=report.schedule).digest == report.digest
