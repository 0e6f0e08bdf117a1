"""Quorums whose log begins with the newest snapshot: who lags, or has lost its disk, fetches it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.quorum import SnapshotContent
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.machine.chance import derived
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.quorum import (
    SMALL_FETCH_BYTES,
    QuorumOptions,
    QuorumScenario,
    _StateMachine,
    encode,
)

TRIMS = replace(
    QuorumOptions.drawn(partial(derived, 2)),
    voters=3,
    trims=True,
    spares=0,
    is_static_at_first=True,
    auto_join=False,
    appenders=2,
    gap_ms=60,
    snapshot_every_records=40,
    fetch_max_bytes=SMALL_FETCH_BYTES,
    fetch_timeout_ms=700,
    election_timeout_ms=300,
)


def test_seeds_with_snapshots_trim_their_logs_at_times() -> None:
    drawn = [QuorumOptions.drawn(partial(derived, seed)) for seed in range(100)]
    assert 15 < sum(options.trims for options in drawn) < 40
    assert all(options.snapshot_every_records for options in drawn if options.trims)
    assert {options.overrides.get("metadata.max.retention.bytes") for options in drawn} == {None, "0"}


@pytest.mark.slow
def test_a_voter_that_was_away_and_an_observer_without_a_disk_fetch_snapshots() -> None:
    away = Fault(2_000, FaultKind.PROCESS_CRASH, ("controller-2",), 8_000)
    with World(1) as world:
        scenario = QuorumScenario(world, Schedule(12_000, (away,)), TRIMS)
        scenario.run()
        assert not scenario.findings()
        assert world.loop.failures == []
    assert scenario.tallies().changed["snapshots installed"] >= 2


def _machine(truth: dict[int, tuple[tuple[int, int], ...]]) -> _StateMachine:
    """A state machine of a run in which these records were applied."""
    run: Any = SimpleNamespace(_truth=truth)
    run.loaded = partial(QuorumScenario.loaded, run)
    return _StateMachine(run, "controller-1/1")


def _snapshot(end_offset: int, *records: tuple[int, int]) -> SnapshotContent:
    return SnapshotContent(end_offset, 3, 1_000, ((encode(*each) for each in records),))  # type: ignore[arg-type]


def test_a_snapshot_says_what_was_applied_below_its_end() -> None:
    truth = {0: ((0, 100), (1, 101)), 3: ((3, 103),)}
    machine = _machine(truth)
    machine.on_load_snapshot(_snapshot(3, (0, 100), (1, 101)))
    assert (machine.next_offset, machine.values) == (3, {0: 100, 1: 101})
    machine.on_load_snapshot(_snapshot(4, (0, 100), (1, 101), (3, 103)))
    for wrong in ([(0, 100)], [(0, 100), (1, 102)], [(0, 100), (1, 101), (2, 1)]):
        with pytest.raises(InvariantViolationError, match=r"same snapshot: .* other values at"):
            _machine(truth).on_load_snapshot(_snapshot(3, *wrong))


def test_no_snapshot_takes_a_node_back() -> None:
    machine = _machine({0: ((0, 100), (1, 101))})
    machine.next_offset = 5
    with pytest.raises(InvariantViolationError, match="loads one up to offset 2 after 4"):
        machine.on_load_snapshot(_snapshot(2, (0, 100), (1, 101)))
