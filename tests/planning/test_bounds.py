"""The bound that plans are measured by is below every choice there is, and near the best one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tierfetch.bench.planner import made_up
from tierfetch.planning.bounds import least_cost
from tierfetch.planning.goals import Goal
from tierfetch.planning.planner import plan_replicas


@st.composite
def replicas(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """What each copies, and what it weighs on disk: never less."""
    weight = np.array(draw(st.lists(st.integers(1, 50), min_size=1, max_size=8)), dtype=np.float64)
    share = draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=len(weight), max_size=len(weight)))
    return weight * np.array(share), weight


@settings(max_examples=60, deadline=None)
@given(found=replicas(), count=st.integers(0, 8), more=st.integers(0, 8), size=st.integers(0, 200))
def test_no_choice_costs_less_than_the_bound(found, count: int, more: int, size: int) -> None:
    cost, weight = found
    most = count + more
    costs = [
        float(cost[list(chosen)].sum())
        for number in range(count, min(most, len(cost)) + 1)
        for chosen in combinations(range(len(cost)), number)
        if weight[list(chosen)].sum() >= size
    ]
    assume(costs)
    assert least_cost(cost, weight, count, float(size), most) <= min(costs) + 1e-6


def test_with_few_moves_the_cheap_light_ones_are_not_enough() -> None:
    cost, weight = np.array([1.0] * 10 + [20.0] * 2), np.array([10.0] * 10 + [40.0] * 2)
    assert least_cost(cost, weight, 1, 80.0) == pytest.approx(8.0, rel=0.01)
    assert least_cost(cost, weight, 1, 80.0, 2) == pytest.approx(40.0, rel=0.01)


def test_where_no_replica_can_leave_its_rack_each_rack_has_its_own_bound() -> None:
    plan = plan_replicas(made_up(3000, 10, empty=2), Goal.add([8, 9]))  # two of three racks get a broker
    assert plan.bound.moves_gap < 0.02
    assert plan.bound.bytes_gap < 0.05
