"""A prediction while its moves run: where the end is now, and when it no longer holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.model.core import Effect, Range, Sight, combined, corrected

PREDICTED = combined(100.0, [Effect("runs", 1 / 1.2, 1.2)])
COURSE = [Sight(20.0, 0.0), Sight(60.0, 0.5)]


def test_as_predicted_it_stays_as_it_was_and_gets_surer() -> None:
    found = corrected(PREDICTED, COURSE, Sight(60.0, 0.5))
    assert (found.pace, found.broken) == (1.0, "")
    assert found.end.median == pytest.approx(100.0)
    assert PREDICTED.low < found.end.low < found.end.high < PREDICTED.high


def test_what_is_slower_ends_later_and_the_more_is_done_the_more_that_counts() -> None:
    early = corrected(PREDICTED, [], Sight(23.0, 0.2))
    late = corrected(PREDICTED, [], Sight(92.0, 0.8))
    assert early.pace == pytest.approx(late.pace)
    assert 103 < early.end.median < 23 + 80 * 1.15
    assert 92 + 20 * 1.1 < late.end.median < 92 + 20 * 1.15
    assert early.broken == late.broken == ""


def test_a_pace_outside_the_range_breaks_it_and_what_was_seen_counts() -> None:
    found = corrected(PREDICTED, [], Sight(100.0, 0.5))
    assert found.broken == "it is 2.0 times as slow as predicted, and 1.2 was the most"
    assert found.end.median == pytest.approx(200.0)
    assert found.end.width > PREDICTED.width
    quick = corrected(PREDICTED, [], Sight(25.0, 0.5))
    assert quick.broken.startswith("it is 2.0 times as fast as predicted")
    assert quick.end.median == pytest.approx(50.0)


@pytest.mark.parametrize("event", ["broker 3 is not alive", "the throttle was changed while it ran"])
def test_what_it_did_not_know_of_breaks_it_and_widens_the_range(event: str) -> None:
    calm = corrected(PREDICTED, [], Sight(50.0, 0.5))
    found = corrected(PREDICTED, [], Sight(50.0, 0.5), [event])
    assert (calm.broken, found.broken) == ("", event)
    assert found.end.low < calm.end.low
    assert found.end.high > calm.end.high
    assert found.end.widest == event


def test_nothing_that_moves_is_said_once_the_first_part_was_due_long_ago() -> None:
    assert corrected(PREDICTED, COURSE, Sight(70.0, 0.0)).broken == ""
    found = corrected(PREDICTED, COURSE, Sight(260.0, 0.0))
    assert found.broken == "nothing has moved, though the first part was due long ago"
    assert found.end.median >= 260.0


def test_at_the_end_there_is_nothing_left_to_say() -> None:
    assert corrected(PREDICTED, [], Sight(77.0, 1.0)).end == Range(77.0, 77.0, 77.0)


def test_without_an_end_nothing_is_corrected() -> None:
    never = Range(math.inf, math.inf, math.inf)
    assert corrected(never, [], Sight(5.0, 0.5)).end == Range(5.0, math.inf, math.inf)


LONG = combined(1000.0, [Effect("runs", 1 / 1.2, 1.2)])
ON_TIME = [Sight(10.0 * at, at / 100) for at in range(51)]
"""A half, in half of the time."""


def test_a_rate_that_changes_late_shows_long_before_the_pace_of_the_whole_does() -> None:
    slow = Sight(700.0, 0.52)
    assert corrected(LONG, [], Sight(520.0, 0.5), (), ON_TIME[:-1]).broken == "", "not yet"
    unseen = corrected(LONG, [], Sight(660.0, 0.56))
    assert unseen.broken == ""
    found = corrected(LONG, [], slow, (), ON_TIME)
    assert found.broken == "for 200 s it has been 10.0 times as slow as predicted: a rate changed"
    assert found.pace == pytest.approx(0.1)
    assert found.end.median == pytest.approx(700 + 480 / 0.1), "what is left, at the pace of late"
    assert found.end.width > LONG.width
    fast = corrected(LONG, [], Sight(620.0, 0.98), (), ON_TIME)
    assert "times as fast as predicted: a rate changed" in fast.broken


def test_a_course_that_rests_is_not_slow() -> None:
    """Nothing shall be done between 500 and 800 s."""
    rests = [Sight(500.0, 0.5), Sight(800.0, 0.5)]
    assert corrected(LONG, rests, Sight(790.0, 0.5), (), ON_TIME).broken == ""
    assert corrected(LONG, rests, Sight(1000.0, 0.5), (), ON_TIME).broken != ""


def test_a_rate_that_never_changed_is_never_said_to_have() -> None:
    for at in range(1, 100):
        trail = [Sight(10.0 * each, each / 100) for each in range(at)]
        assert corrected(LONG, [], Sight(10.0 * at, at / 100), (), trail).broken == ""


@given(
    median=st.floats(1.0, 1e6),
    factor=st.floats(1.0, 10.0),
    at=st.floats(0.0, 1e7),
    share=st.floats(0.0, 1.0),
    events=st.lists(st.sampled_from("ab"), max_size=2, unique=True),
    trail=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=3),
)
def test_the_end_is_never_in_the_past_and_inside_its_range(median, factor, at, share, events, trail) -> None:
    predicted = combined(median, [Effect("x", 1 / factor, factor)])
    seen = [Sight(part * at, each) for part, each in sorted(trail)]
    found = corrected(predicted, [Sight(median / 2, 0.4)], Sight(at, share), events, seen)
    assert at <= found.end.median
    assert found.end.low <= found.end.median * (1 + 1e-9)
    assert found.end.median <= found.end.high * (1 + 1e-9)
