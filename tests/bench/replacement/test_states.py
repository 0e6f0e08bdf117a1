"""Each replica is in one state at each moment, and CPU time is nowhere lost between two steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.model.traces import Said
from tierfetch.bench.replacement.session import Load
from tierfetch.bench.replacement.states import STEP_S, State, cores, counts, life_of, phases, steps_of

OURS = Said(
    up_s=100.5,
    replayed_s=100.75,
    asked_s={0: 101.0},
    settled_s={0: 101.5},
    waited_s={(0, "tier"): 0.25},
)
KAFKAS = Said(up_s=101.0, replayed_s=102.0, asked_s={0: 103.0}, settled_s={0: 103.5}, rebuilt_s={0: 104.0})
moments = st.none() | st.floats(0, 10)


def lengths(said: Said, joined_s: float | None, ended_s: float) -> dict[State, float]:
    return {span.step: span.until_s - span.from_s for span in life_of(said, 0, joined_s, 100.0, ended_s)}


def test_a_replica_of_ours_passes_through_all_states() -> None:
    assert lengths(OURS, 102.0, 104.0) == {
        State.STARTS: 0.5,
        State.METADATA: 0.25,
        State.WAITS: 0.25,
        State.ASKS: 0.25,
        State.REBUILDS: 0.25,
        State.FETCHES: 0.5,
        State.IN_ISR: 2.0,
    }


def test_what_kafka_rebuilds_begins_when_it_has_truncated() -> None:
    assert lengths(KAFKAS, 106.0, 106.0) == {
        State.STARTS: 1.0,
        State.METADATA: 1.0,
        State.WAITS: 1.0,
        State.ASKS: 0.5,
        State.REBUILDS: 0.5,
        State.FETCHES: 2.0,
    }


def test_a_replica_that_never_joins_fetches_to_the_end() -> None:
    assert lengths(OURS, None, 104.0)[State.FETCHES] == 2.5


def test_what_no_line_says_is_not_seen() -> None:
    assert lengths(Said(up_s=100.5), 102.0, 102.0) == {State.STARTS: 0.5, State.NOT_SEEN: 1.5}


def test_a_state_is_counted_where_the_middle_of_a_step_lies_in_it() -> None:
    said = Said(up_s=0.014, replayed_s=0.016, asked_s={0: 0.03}, settled_s={0: 0.03})
    found = counts([life_of(said, 0, 0.04, 0.0, 0.06)], 0.0, 0.06)
    assert found == {
        State.STARTS: [1, 0, 0, 0, 0, 0],
        State.METADATA: [0, 1, 0, 0, 0, 0],
        State.WAITS: [0, 0, 1, 0, 0, 0],
        State.FETCHES: [0, 0, 0, 1, 0, 0],
        State.IN_ISR: [0, 0, 0, 0, 1, 1],
    }


@given(
    st.lists(st.tuples(moments, moments, moments, moments, moments, st.floats(0, 5)), min_size=1, max_size=5),
    st.floats(0.001, 10),
)
def test_every_replica_is_in_one_state_at_each_moment(
    replicas: list[tuple[float | None, float | None, float | None, float | None, float | None, float]], ended_s: float
) -> None:
    lives = []
    for up_s, asked_s, settled_s, rebuilt_s, joined_s, tier_s in replicas:
        said = Said(up_s=up_s, replayed_s=up_s, waited_s={(0, "tier"): tier_s})
        for of_replica, at_s in ((said.asked_s, asked_s), (said.settled_s, settled_s), (said.rebuilt_s, rebuilt_s)):
            if at_s is not None:
                of_replica[0] = at_s
        lives.append(life_of(said, 0, joined_s, 0.0, ended_s))
    found = counts(lives, 0.0, ended_s)
    assert {len(of_state) for of_state in found.values()} == {steps_of(0.0, ended_s)}
    assert {sum(at_once) for at_once in zip(*found.values(), strict=True)} == {len(lives)}
    assert all(count >= 0 for of_state in found.values() for count in of_state)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=20))
def test_the_cores_of_all_steps_are_the_cpu_time(steps: list[tuple[float, float]]) -> None:
    moment_s, cpu_s, samples = 0.0, 0.0, [(0.0, 0.0)]
    for later_s, used_s in steps:
        moment_s, cpu_s = moment_s + later_s, cpu_s + used_s
        samples.append((moment_s, cpu_s))
    found = cores(samples, 0.0, moment_s + STEP_S)
    assert sum(found) * STEP_S == pytest.approx(cpu_s)


def test_before_the_first_sample_and_after_the_last_nothing_is_used() -> None:
    assert cores([(0.02, 5.0), (0.04, 5.01)], 0.0, 0.06) == pytest.approx([0.0, 0.0, 0.5, 0.5, 0.0, 0.0])
    assert cores([], 0.0, 0.02) == [0.0, 0.0]


def test_a_phase_has_its_mean_over_all_replicas_and_the_moment_of_the_last() -> None:
    later = Said(up_s=100.5, replayed_s=100.75, asked_s={0: 101.0}, settled_s={0: 101.0})
    found = phases([life_of(OURS, 0, 102.0, 100.0, 104.0), life_of(later, 0, 104.0, 100.0, 104.0)], 100.0)
    assert found[State.REBUILDS].mean_s == 0.125
    assert found[State.REBUILDS].last_s == 1.5
    assert found[State.FETCHES].mean_s == 1.75
    assert found[State.FETCHES].last_s == 4.0
    assert State.IN_ISR not in found


def test_a_partition_has_five_segments_of_any_size() -> None:
    configs = Load(partitions=1_000, size_mb=2_000, local_share=0.8, timeout_s=1.0).topic_configs()
    assert configs["internal.segment.bytes"] == "400000"
    assert configs["local.retention.bytes"] == "1600000"
