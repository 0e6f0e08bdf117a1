"""Intervals: they contain the median, widen with what is not known, and are always the same."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.model.core import Effect, Range, combined

SHORTER = st.floats(0.01, 1.0)
LONGER = st.floats(1.0, 100.0)
EFFECTS = st.lists(st.builds(Effect, st.sampled_from("abcdef"), SHORTER, LONGER), max_size=6)
MEDIANS = st.floats(1e-3, 1e7)


@given(median=MEDIANS, effects=EFFECTS)
def test_the_interval_contains_the_median_and_is_always_the_same(median: float, effects: list[Effect]) -> None:
    found = combined(median, effects)
    assert 0 < found.low <= found.median <= found.high
    assert found.median == median
    assert combined(median, effects) == found
    assert combined(median, effects[::-1]).width == pytest.approx(found.width)


@given(median=MEDIANS, effects=EFFECTS, at=st.integers(0, 5), more=st.floats(1.0, 5.0))
def test_it_widens_with_what_is_not_known(median: float, effects: list[Effect], at: int, more: float) -> None:
    found = combined(median, effects)
    added = combined(median, [*effects, Effect("z", 1 / more, more)])
    assert added.low <= found.low * (1 + 1e-9)
    assert added.high >= found.high * (1 - 1e-9)
    if effects:
        one = effects[at % len(effects)]
        wider = Effect(one.name, one.shorter / more, one.longer * more)
        grown = combined(median, [wider if each is one else each for each in effects])
        assert grown.low <= found.low * (1 + 1e-9)
        assert grown.high >= found.high * (1 - 1e-9)


def test_effects_that_are_independent_add_up_as_variances() -> None:
    found = combined(100.0, [Effect("a", 1 / 1.3, 1.3), Effect("b", 1.0, 1.4)])
    assert found.high == pytest.approx(100 * math.exp(math.hypot(math.log(1.3), math.log(1.4))))
    assert found.low == pytest.approx(100 / 1.3)


def test_the_input_that_widens_it_most_is_named_and_what_has_no_effect_is_not() -> None:
    found = combined(1.0, [Effect("small", 0.99, 1.01), Effect("none"), Effect("large", 0.5, 1.5)])
    assert found.widest == "large"
    assert [each.name for each in found.effects] == ["large", "small"]
    assert combined(5.0, [Effect("none")]) == Range(5.0, 5.0, 5.0)
    assert combined(5.0, []).widest == ""


def test_what_may_never_end_has_no_upper_end() -> None:
    assert combined(5.0, [Effect.between("rate", 5.0, 4.0, math.inf)]).high == math.inf
    assert combined(math.inf, [Effect("a", 0.5, 2.0)]) == Range(math.inf, math.inf, math.inf)
    assert combined(0.0, [Effect("a", 0.5, 2.0)]) == Range(0.0, 0.0, 0.0)


def test_other_times_of_a_prediction_are_as_sure() -> None:
    found = combined(100.0, [Effect("a", 0.5, 2.0)]).scaled_to(10.0)
    assert (found.low, found.median, found.high) == pytest.approx((5.0, 10.0, 20.0))
    assert found.holds(5.0)
    assert not found.holds(4.9)
