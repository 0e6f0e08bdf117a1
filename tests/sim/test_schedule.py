"""Schedules: the same for the same seed, whole in JSON, and shrunk to what matters."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.sim.faults.schedule import (
    DIRECTORY_KINDS,
    HARDWARE_KINDS,
    QUORUM_KINDS,
    SCENE_KINDS,
    STORE_KINDS,
    TABLE_KINDS,
    Fault,
    FaultKind,
    Schedule,
    Targets,
    generate,
)
from tierfetch.sim.faults.shrink import shrink_schedule

NODES = ("broker-1", "broker-2", "broker-3")
ALL = Targets(nodes=NODES, wiped=NODES[:2], clients=("client-1",), has_store=True, has_quorum=True)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_generated_schedules_are_valid_repeatable_and_whole_in_json(seed: int, store: bool, quorum: bool) -> None:
    targets = replace(ALL, has_store=store, has_quorum=quorum)
    schedule = generate(Random(seed), targets, 20_000)
    assert schedule == generate(Random(seed), targets, 20_000)
    assert Schedule.from_json(schedule.to_json()) == schedule
    kinds = {fault.kind for fault in schedule.faults}
    assert store or not STORE_KINDS & kinds
    assert quorum or not QUORUM_KINDS & kinds


def test_only_disks_that_may_be_lost_are_wiped() -> None:
    faults = [fault for seed in range(60) for fault in generate(Random(seed), ALL, 20_000).faults]
    assert {fault.targets for fault in faults if fault.kind is FaultKind.WIPE} == {NODES[:1], NODES[1:2]}


def test_every_kind_is_generated() -> None:
    kinds = {fault.kind for seed in range(60) for fault in generate(Random(seed), ALL, 20_000).faults}
    drawn_elsewhere = SCENE_KINDS | HARDWARE_KINDS | DIRECTORY_KINDS | TABLE_KINDS | {FaultKind.MOVE_DIRECTORY}
    assert kinds == set(FaultKind) - drawn_elsewhere


def test_a_partition_has_two_sides() -> None:
    for seed in range(60):
        for fault in generate(Random(seed), ALL, 20_000).faults:
            if fault.kind is FaultKind.PARTITION:
                assert 0 < len(fault.targets) < 4, fault


def test_faults_outside_the_safety_phase_are_refused() -> None:
    with pytest.raises(ValueError, match="outside the safety phase"):
        Schedule(100, (Fault(50, FaultKind.PAUSE, ("broker-1",), 51),))
    with pytest.raises(ValueError, match="order"):
        Schedule(100, (Fault(50, FaultKind.PAUSE), Fault(20, FaultKind.PAUSE)))
    with pytest.raises(ValueError, match="kind"):
        Schedule.from_json('{"safety_ms": 10, "faults": [{"at_ms": 1, "kind": "earthquake"}]}')


def test_more_faults_are_sorted_in_as_far_as_there_is_time() -> None:
    early, late = Fault(10, FaultKind.PAUSE, ("broker-1",), 5), Fault(90, FaultKind.PAUSE, ("broker-1",), 20)
    schedule = Schedule(100, (Fault(50, FaultKind.PAUSE),))
    assert [fault.at_ms for fault in schedule.with_more([late, early]).faults] == [10, 50]


def test_shrinking_keeps_what_fails_and_little_else() -> None:
    schedule = generate(Random(5), ALL, 60_000)
    crash = Fault(30_000, FaultKind.POWER_FAILURE, NODES, 4_000)
    move = Fault(31_000, FaultKind.MOVE_LEADER)
    faults = sorted([*schedule.faults, crash, move], key=lambda fault: fault.at_ms)

    def fails(candidate: Schedule) -> bool:
        moved = [fault for fault in candidate.faults if fault.kind is FaultKind.MOVE_LEADER and fault.at_ms == 31_000]
        return bool(moved) and any(fault.at_ms == 30_000 and fault.duration_ms >= 300 for fault in candidate.faults)

    shrunk = shrink_schedule(Schedule(60_000, tuple(faults)), fails, runs_max=200)
    assert shrunk is not None
    assert shrunk.schedule.faults == (Fault(30_000, FaultKind.PROCESS_CRASH, NODES[:1], 500), move)
    assert shrunk.schedule.safety_ms == 32_000
    assert shrunk.runs <= 200


def test_shrinking_stops_at_its_budget() -> None:
    schedule = generate(Random(5), ALL, 60_000)
    runs = []

    def fails_as_it_is(candidate: Schedule) -> bool:
        runs.append(candidate)
        return candidate == schedule

    shrunk = shrink_schedule(schedule, fails_as_it_is, runs_max=7)
    assert shrunk is not None
    assert len(runs) == shrunk.runs == 7
    assert shrunk.schedule == schedule


def test_what_does_not_fail_again_is_not_shrunk() -> None:
    schedule = generate(Random(5), ALL, 60_000)
    runs = []

    def fails_only_shortened(candidate: Schedule) -> bool:
        runs.append(candidate)
        return candidate != schedule

    assert shrink_schedule(schedule, fails_only_shortened) is None
    assert runs == [schedule]
