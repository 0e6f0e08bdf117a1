"""What a history of moves says of a calibration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tierfetch.model.core import Effect, Outlook, Past, Sight, combined, history_of, learned, parse_history
from tierfetch.model.core.outlook import PAST_MAX


def past(measured_s: float, *, median_s: float = 100.0, machine_s: float = 50.0, broken: str = "") -> Past:
    return Past(
        at_ms=1,
        cluster_id="c",
        what="reassign plan.json",
        system="tierfetch",
        low_s=median_s / 2,
        median_s=median_s,
        high_s=median_s * 2,
        machine_s=machine_s,
        measured_s=measured_s,
        broken=broken,
    )


def test_only_what_machines_decide_is_learned() -> None:
    """Half of the 100 s were the throttle's: 150 s mean that machines took twice as long."""
    assert learned([past(150.0)] * 100).scale == pytest.approx(2.0, rel=0.02)


def test_few_moves_count_for_less() -> None:
    scales = [learned([past(150.0)] * count).scale for count in (1, 2, 8)]
    assert 1 < scales[0] < scales[1] < scales[2] < 2


def test_moves_that_say_nothing_are_left_out() -> None:
    assert learned([]).scale == 1.0
    assert learned([past(500.0, broken="broker 3 is not alive")]).scale == 1.0
    assert learned([past(500.0, machine_s=5.0)]).scale == 1.0


def test_with_enough_moves_the_error_that_is_left_is_known() -> None:
    assert learned([past(100.0)] * 4).model is None
    assert learned([past(100.0)] * 5).model == pytest.approx(1.0)
    spread = learned([past(seconds) for seconds in (60.0, 80.0, 100.0, 125.0, 165.0)])
    assert spread.scale == pytest.approx(1.0)
    assert spread.model is not None
    assert 1.3 < spread.model < 1.7


@given(st.lists(st.floats(0.0, 1e6), max_size=20))
def test_whatever_was_measured_the_lesson_is_a_factor(seconds: list[float]) -> None:
    found = learned([past(each) for each in seconds])
    assert 0.1 <= found.scale <= 10
    assert found.model is None or 1 <= found.model <= 10


def test_a_history_is_read_back_and_keeps_the_newest() -> None:
    found = [past(float(number)) for number in range(PAST_MAX + 7)]
    data = history_of(found)
    assert parse_history(data) == found[7:]
    assert parse_history(data + b'{"torn') == found[7:]
    with pytest.raises(ValidationError):
        parse_history(b'{"a": 1}\n')


def test_an_outlook_is_what_was_predicted_after_what_it_waits_for() -> None:
    within = combined(100.0, [Effect("runs", 0.8, float("inf"))])
    found = Outlook.of(within, [Sight(50.0, 0.5)], system="kafka", machine_s=10.0, waits_s=30.0)
    again = Outlook.model_validate_json(found.model_dump_json())
    assert again == found
    assert (again.low_s, again.median_s, again.high_s) == (110.0, 130.0, None)
    assert again.range.high == float("inf")
    assert again.course == ((80.0, 0.5),)
    assert again.corrected(Sight(80.0, 0.5)).end.median == pytest.approx(130.0)
