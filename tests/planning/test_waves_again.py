"""A plan that is resumed with another number of partitions at a time: decisions only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.planning.cluster_state import Placement
from tierfetch.planning.execution import Finish
from tierfetch.planning.journal import Entry, Outcome
from tierfetch.planning.preflight import waves_again
from tierfetch.tests.planning.fake_cluster import FakeCluster, Run, entry

SIX = [entry(number, (1, 2), (3, 2)) for number in range(6)]
"""All in one wave, from broker 1 to broker 3."""


def again(run: Run, per_broker: int) -> dict[int, int]:
    """Return the new wave of each partition that gets one."""
    return {partition: wave for _, partition, wave in waves_again(run.journal, run.cluster.state(), per_broker)}


def resume(run: Run, per_broker: int) -> None:
    run.ask("resume", waves=waves_again(run.journal, run.cluster.state(), per_broker))


def paused(entries: list[Entry], at: int = 1) -> Run:
    run = Run(FakeCluster.of(entries), entries)
    assert run.process(ask_at=(at, "pause")).outcome is Outcome.PAUSED
    run.cluster.most_moving = 0
    return run


@pytest.mark.parametrize(("per_broker", "most"), [(1, 1), (2, 2), (4, 4), (50, 6)])
def test_a_resumed_plan_moves_as_many_at_a_time_as_it_is_given(per_broker: int, most: int) -> None:
    run = paused(SIX, at=0)
    resume(run, per_broker)
    assert run.process().outcome is Outcome.DONE
    assert run.cluster.most_moving == most
    assert {part.replicas for part in run.cluster.partitions.values()} == {(3, 2)}
    assert run.journal.changed == ("what had not begun was divided into other waves",)


def test_what_has_begun_keeps_its_wave_and_comes_first() -> None:
    waves = [entry(number, (1, 2), (3, 2), wave=number // 2) for number in range(6)]
    run = paused(waves)
    assert [part.replicas for part in run.cluster.partitions.values()].count((3, 2)) == 2
    assert again(run, 1) == {2: 1, 3: 2, 4: 3, 5: 4}
    run.cluster.reassign(("t", 2), (3, 2))
    assert again(run, 1) == {3: 2, 4: 3, 5: 4}, "t-2 is under way, in wave 1"


def test_a_rollback_is_divided_too_and_its_last_wave_is_the_first() -> None:
    run = Run(FakeCluster.of(SIX), SIX)
    assert run.process().outcome is Outcome.DONE
    run.ask("roll_back")
    assert run.process(ask_at=(0, "pause")).outcome is Outcome.PAUSED
    run.cluster.most_moving = 0
    assert again(run, 2) == {0: 2, 1: 2, 2: 1, 3: 1, 4: 0, 5: 0}
    resume(run, 2)
    assert run.process() == Finish(Outcome.ROLLED_BACK)
    assert run.cluster.most_moving == 2
    assert {part.replicas for part in run.cluster.partitions.values()} == {(1, 2)}


def test_what_is_taken_back_or_skipped_or_deleted_gets_no_wave() -> None:
    run = paused(SIX, at=0)
    run.ask("resume", skipped=[("t", 0)])
    del run.cluster.partitions["t", 1]
    assert set(again(run, 3)) == {2, 3, 4, 5}
    run.ask("cancel")
    assert again(run, 3) == {}


def test_a_move_between_log_directories_that_has_not_begun_is_divided_again() -> None:
    entries = [
        entry(number, (1,), (1,), directories=[(1, "/b")], directories_before=[(1, "/a")]) for number in range(3)
    ]
    run = Run(FakeCluster.of(entries), entries)
    assert again(run, 2) == {0: 0, 1: 0, 2: 1}
    run.cluster.placements[("t", 0), 1] = Placement("/a", "/b")
    assert again(run, 2) == {1: 1, 2: 1}


def test_other_plans_are_not_waited_for_from_a_resume_on_that_says_so() -> None:
    run = paused(SIX, at=0)
    run.cluster.others["other", 0] = frozenset({1, 9})
    run.ask("resume")
    assert run.step() is None
    assert "to end" in run.waits[-1] or "other-0" in run.waits[-1]
    assert run.cluster.most_moving == 0
    run.ask("resume", shares_brokers=True)
    assert run.process().outcome is Outcome.DONE


@given(
    moved=st.sets(st.integers(0, 9)),
    moving=st.sets(st.integers(0, 9)),
    waves=st.lists(st.integers(0, 4), min_size=10, max_size=10),
    per_broker=st.integers(1, 12),
)
def test_new_waves_never_have_more_than_was_asked_for_and_follow_all_that_has_begun(
    moved: set[int], moving: set[int], waves: list[int], per_broker: int
) -> None:
    entries = [entry(number, (1, 2), (3 + number % 2, 2), wave=wave) for number, wave in enumerate(waves)]
    run = Run(FakeCluster.of(entries), entries)
    for number in moved | moving:
        run.cluster.reassign(entries[number].key, entries[number].target)
        if number in moved:
            part = run.cluster.partitions[entries[number].key]
            run.cluster.partitions[entries[number].key] = replace(
                part, replicas=part.toward, isr=part.toward, adding=(), removing=()
            )
    found = again(run, per_broker)
    begun = moved | moving
    assert set(found) == set(range(10)) - begun
    assert min(found.values(), default=99) > max((waves[number] for number in begun), default=-1)
    for wave in set(found.values()):
        of_wave = [number for number, each in found.items() if each == wave]
        assert len(of_wave) <= per_broker, "all leave broker 1"
    resume(run, per_broker)
    assert run.process().outcome is Outcome.DONE
