"""Where the time of waves went: steps add up, whatever was seen too late."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.witness.case import Case, Kind, ask
from tierfetch.bench.witness.cluster import partition_bytes
from tierfetch.bench.witness.course import Course, compare_waves, predicted_steps, simulated_steps
from tierfetch.model import Calibrations

WAVES = Case(Kind.ADD, brokers=5, partitions=20, partition_kb=200, nic_mb_s=0.5, wave_partitions=3)


def test_a_wave_is_as_long_as_its_last_replica_and_begins_with_the_end_of_the_one_before() -> None:
    first = [Course(0, 0.0, 0.1, 0.3, 1.0, 1.2), Course(0, 0.0, 0.2, 0.3, 0.4, 0.5)]
    second = [Course(1, 1.5, 1.75, 2.0, 3.0, 3.25)]
    found = [astuple(each) for each in simulated_steps([*second, *first])]
    assert found == [pytest.approx((0.0, 0.1, 0.2, 0.7, 0.2)), pytest.approx((0.3, 0.25, 0.25, 1.0, 0.25))]


TIMES = st.tuples(*[st.floats(0, 10, allow_nan=False)] * 4)


@given(st.lists(st.tuples(st.integers(0, 3), TIMES), min_size=1, max_size=12))
def test_steps_are_never_negative_and_add_up(seen: list[tuple[int, tuple[float, ...]]]) -> None:
    courses = [Course(wave, 10.0 * wave, *(10.0 * wave + at_s for at_s in times)) for wave, times in seen]
    steps = simulated_steps(courses)
    assert len(steps) == len({each.wave for each in courses})
    assert sum(each.seconds for each in steps) == pytest.approx(max(each.joined_s for each in courses))
    for each in steps:
        assert min(each.order_s, each.begin_s, each.setup_s, each.copy_s, each.join_s) >= 0


def test_the_steps_of_a_prediction_add_up_to_its_time() -> None:
    calibration = Calibrations.default().systems["tierfetch"].model_copy(update={"isr_expansion_s": 0.1})
    result = ask(WAVES, partition_bytes(WAVES), calibration).prediction.result
    steps = predicted_steps(result)
    assert len(steps) > 2
    assert sum(each.seconds for each in steps) == pytest.approx(result.duration_s)
    assert {each.begin_s for each in steps} == {calibration.wave_s}
    assert {each.join_s for each in steps} == {0.1}
    ends = zip(result.moves.wave.tolist(), result.joined_s.tolist(), strict=True)
    courses = [Course(wave, 0.0, 0.0, 0.0, 0.0, joined_s) for wave, joined_s in ends]
    compared = compare_waves(result, courses)
    assert [each.simulated.seconds for each in compared] == pytest.approx([each.seconds for each in steps])
    assert sum(each.replicas for each in compared) == len(result.moves)
