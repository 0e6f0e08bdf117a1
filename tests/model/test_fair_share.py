"""Max-min rates against a slow exact reference, and by their own proof."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.model.arrays import Bools, Floats, Ints
from tierfetch.model.fair_share import max_min_rates, use_of


def bottlenecks(uses: Ints, weights: Floats, available: Floats, caps: Floats, rates: Floats) -> Bools:
    """[F], whether each flow has its cap, or a saturated resource where no flow is faster: true for max-min rates."""
    used = use_of(uses, weights, rates, len(available))
    is_full = used >= available * (1 - 1e-6) - 1e-9
    fastest = np.zeros(len(available))
    np.maximum.at(fastest, uses.ravel(), np.repeat(rates, uses.shape[1]))
    is_bottleneck = is_full[uses] & (weights[None, :] > 0) & (rates[:, None] >= fastest[uses] * (1 - 1e-6))
    return np.asarray(is_bottleneck.any(axis=1) | (rates >= caps * (1 - 1e-6)))


def filled(uses: list[list[int]], weights: list[int], available: list[int], caps: list[int]) -> list[Fraction]:
    """Progressive filling, one bottleneck after the other, in exact arithmetic."""
    rates = [Fraction(0)] * len(uses)
    left = [Fraction(amount) for amount in available]
    growing = set(range(len(uses)))
    while growing:
        load = [Fraction(0)] * len(left)
        for flow in growing:
            for resource, weight in zip(uses[flow], weights, strict=True):
                load[resource] += weight
        steps = [left[each] / load[each] for each in range(len(left)) if load[each]]
        step = min([*steps, *(caps[flow] - rates[flow] for flow in growing)])
        for flow in growing:
            rates[flow] += step
        left = [amount - step * taken for amount, taken in zip(left, load, strict=True)]
        full = {each for each in range(len(left)) if load[each] and left[each] == 0}
        growing -= {flow for flow in growing if rates[flow] == caps[flow] or full & set(uses[flow])}
    return rates


@st.composite
def problems(draw: st.DrawFn):
    resources = draw(st.integers(1, 7))
    width = draw(st.integers(1, 4))
    flows = draw(st.integers(1, 12))
    one = st.integers(0, resources - 1)
    return (
        [draw(st.lists(one, min_size=width, max_size=width)) for _ in range(flows)],
        draw(st.lists(st.integers(1, 3), min_size=width, max_size=width)),
        draw(st.lists(st.integers(1, 60), min_size=resources, max_size=resources)),
        draw(st.lists(st.integers(1, 40), min_size=flows, max_size=flows)),
    )


@settings(max_examples=30)
@given(problems())
def test_rates_are_those_of_progressive_filling(problem) -> None:
    uses, weights, available, caps = problem
    arrays = np.array(uses, dtype=np.int32), np.array(weights, float), np.array(available, float), np.array(caps, float)
    rates = max_min_rates(*arrays)
    assert np.allclose(rates, [float(rate) for rate in filled(*problem)], rtol=1e-6)


@settings(max_examples=30)
@given(problems())
def test_every_flow_has_a_bottleneck_and_no_resource_is_overdrawn(problem) -> None:
    uses, weights, available, caps = (np.array(each, float) for each in problem)
    uses = uses.astype(np.int32)
    rates = max_min_rates(uses, weights, available, caps)
    assert bottlenecks(uses, weights, available, caps, rates).all()
    assert (use_of(uses, weights, rates, len(available)) <= available * (1 + 1e-6)).all()


def test_the_proof_refuses_rates_that_are_not_fair() -> None:
    uses, weights = np.array([[0], [0]], dtype=np.int32), np.ones(1)
    available, caps = np.array([10.0]), np.full(2, 100.0)
    assert not bottlenecks(uses, weights, available, caps, np.array([6.0, 4.0])).all()
    assert not bottlenecks(uses, weights, available, caps, np.array([4.0, 4.0])).any()
    assert bottlenecks(uses, weights, available, caps, np.array([5.0, 5.0])).all()


def test_what_one_flow_cannot_use_goes_to_the_others() -> None:
    uses = np.array([[0, 1], [0, 2], [0, 2]], dtype=np.int32)
    rates = max_min_rates(uses, np.ones(2), np.array([9.0, 1.0, 100.0]), np.full(3, np.inf))
    assert rates.tolist() == [1.0, 4.0, 4.0]


def test_unlimited_resources_leave_the_caps() -> None:
    rates = max_min_rates(np.zeros((2, 1), dtype=np.int32), np.ones(1), np.array([np.inf]), np.array([3.0, 5.0]))
    assert rates.tolist() == [3.0, 5.0]


def test_no_flows() -> None:
    assert len(max_min_rates(np.zeros((0, 1), dtype=np.int32), np.ones(1), np.ones(1), np.zeros(0))) == 0
