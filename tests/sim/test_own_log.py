"""A log that a program keeps has what its calls have returned, whatever its machine loses."""

from __future__ import annotations

import pytest

from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.looks.own_log import OwnLog, wrong_log
from tierfetch.tests.sim.planted.look_bugs import returned_before_flushed

CALLS = [[b"a", b"b"], [b"c"], [b"d", b"e"]]
FOUND = list(enumerate((b"a", b"b", b"c", b"d", b"e")))


@pytest.mark.parametrize("kept", [3, 5])
def test_what_has_returned_is_there_and_the_next_call_may_be(kept: int) -> None:
    assert not wrong_log(FOUND[:kept], CALLS, 2)


@pytest.mark.parametrize("found", [FOUND[:2], FOUND[:4], FOUND[1:], [*FOUND, (5, b"f")], []])
def test_less_than_has_returned_and_half_a_call_are_wrong(found: list[tuple[int, bytes]]) -> None:
    assert wrong_log(found, CALLS, 2)


def test_offsets_rise_by_one() -> None:
    assert wrong_log([(0, b"a"), (2, b"b"), (3, b"c")], CALLS, 2) == ["its offsets do not rise by one"]


def looked(seed: int) -> list[str]:
    with World(seed) as world:
        return world.run(OwnLog(world).look())


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_machine_that_loses_its_power_loses_nothing_that_was_returned(seed: int) -> None:
    assert looked(seed) == []


def test_a_log_that_returns_before_it_has_flushed_is_convicted() -> None:
    with returned_before_flushed():
        assert any(looked(seed) for seed in range(1, 6))
