"""Seeds of quorums whose voters change: every row does something, and is dropped like any other action."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from tierfetch.sim.faults.actions import Action
from tierfetch.sim.faults.schedule import Schedule
from tierfetch.sim.machine.chance import derived
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.operations.voters import VOTER_ROWS
from tierfetch.sim.scenarios.quorum import QuorumOptions, QuorumScenario

BEGINS_STATIC = replace(
    QuorumOptions.drawn(partial(derived, 2)),
    voters=3,
    trims=False,
    spares=1,
    is_static_at_first=True,
    auto_join=False,
    change_gap_ms=1_000,
    fetch_timeout_ms=700,
    election_timeout_ms=300,
)


def run(options: QuorumOptions, *names: str) -> QuorumScenario:
    """One run with these actions, two seconds apart, and no fault."""
    actions = tuple(Action(2_000 * number, number, name) for number, name in enumerate(names, 1))
    with World(1) as world:
        scenario = QuorumScenario(world, Schedule(2_000 * len(names) + 2_000, (), actions), options)
        scenario.run()
        assert not scenario.findings()
        assert world.loop.failures == []
    return scenario


def test_seeds_have_each_kind_of_quorum() -> None:
    drawn = [QuorumOptions.drawn(partial(derived, seed)) for seed in range(60)]
    assert 10 < sum(options.spares > 0 for options in drawn) < 35
    assert {(options.is_static_at_first, options.auto_join) for options in drawn if options.spares} == {
        (True, False),
        (False, False),
        (False, True),
    }
    assert {bool(options.spares) for options in drawn if not options.schedule(partial(derived, 1)).actions} == {False}


@pytest.mark.slow
def test_every_row_changes_the_voters() -> None:
    assert {row.name for row in VOTER_ROWS} == {
        "raise kraft.version",
        "add voter",
        "remove voter",
        "move voter",
        "wipe voter",
    }
    scenario = run(BEGINS_STATIC, "raise kraft.version", "add voter", "remove voter", "move voter", "add voter")
    assert scenario.tallies().changed == {
        "kraft.version raised": 1,
        "voters added": 2,
        "voters removed": 1,
        "controllers moved": 1,
    }
    assert scenario._voters_judge.changes == 4, "kraft.version 1 gives voters their directories"


@pytest.mark.slow
def test_what_is_not_possible_is_left_out() -> None:
    scenario = run(BEGINS_STATIC, "add voter", "remove voter", "move voter")
    assert Counter(scenario.tallies().changed) == Counter()


@pytest.mark.slow
def test_with_auto_join_controllers_add_themselves() -> None:
    joins = replace(BEGINS_STATIC, is_static_at_first=False, auto_join=True)
    scenario = run(joins, "remove voter")
    assert scenario._voters_judge.voter_ids == list(joins.controller_ids)
    assert scenario._voters_judge.changes >= 3
