"""The bound that plans are measured by is below every choice there is, and near the best one."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tierfetch.bench.planner import made_up
from tierfetch.model import bootstraps_of
from tierfetch.planning.balancing import Band, disk_band, replica_band
from tierfetch.planning.bounds import bound, least_cost
from tierfetch.planning.goals import Goal, PlanOptions
from tierfetch.planning.placement import Placement
from tierfetch.planning.planner import plan_replicas
from tierfetch.tests.planning.clusters import GB, cluster


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


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    brokers=st.integers(2, 4),
    count=st.integers(3, 6),
    tolerance=st.sampled_from([0.1, 0.4]),
    goal=st.sampled_from(["add", "rebalance", "remove"]),
)
def test_no_plan_that_ends_as_evenly_in_as_many_moves_copies_less(
    seed: int, brokers: int, count: int, tolerance: float, goal: str
) -> None:
    """Every placement of a small cluster is tried."""
    random = np.random.default_rng(seed)
    holders = random.integers(1, brokers + (goal != "add"), count)
    arrays = cluster(
        [(int(each),) for each in holders],
        brokers=brokers,
        sizes=(random.choice([1, 2, 5, 20], count) * GB).tolist(),
        tiered=random.choice([0.0, 0.5, 1.0], count).tolist(),
    )
    last = brokers - 1
    asked = {
        "add": Goal.add([last]),
        "rebalance": Goal.rebalance(),
        "remove": Goal(leaving=frozenset([last]), balances=True),
    }
    found = plan_replicas(arrays, asked[goal], PlanOptions(replica_tolerance=tolerance, disk_tolerance=tolerance))
    placement = Placement(arrays, asked[goal], np.zeros(count))
    all_ = np.stack(np.meshgrid(*[np.arange(brokers)] * count, indexing="ij"), axis=-1).reshape(-1, count)
    held = all_[:, :, None] == np.arange(brokers)
    is_even = held.sum(axis=1)[:, last] == 0 if goal == "remove" else np.ones(len(all_), dtype=bool)
    for values, now, band in (
        (held.sum(axis=1), found.after.replicas, replica_band(placement, tolerance)),
        ((held * placement.weight[:, None]).sum(axis=1), found.after.disk_bytes, disk_band(placement, tolerance)),
    ):
        within = (values >= np.minimum(band.lo, now) - 1e-3) & (values <= np.maximum(band.hi, now) + 1e-3)
        is_even &= within[:, placement.stays].all(axis=1)
    copied = bootstraps_of(arrays, np.arange(count, dtype=np.int32), np.zeros(count), arrays.policy).leader_bytes
    moved = all_ != arrays.replicas[:, 0]
    is_even &= moved.sum(axis=1) <= found.bound.moves
    assert is_even.any(), "the plan itself is one"
    assert found.bound.bytes_min <= (moved[is_even] * copied).sum(axis=1).min() + 1
    assert found.bound.moves_min <= moved[is_even].sum(axis=1).min()


def test_a_broker_that_has_to_keep_its_cheap_replicas_gives_dear_ones() -> None:
    """Broker 0 is 3.6 GB above its band and can spare one replica. Four of 1 GB copy half, that of 4 GB all of it."""
    arrays = cluster([(1,)] * 5 + [(2,)] * 9 + [(3,)], brokers=3, sizes=[4 * GB] + [GB] * 4 + [1.0] * 10)
    placement = Placement(arrays, Goal.rebalance(), np.array([4 * GB] + [0.5 * GB] * 4 + [1.0] * 10))
    moved, none = np.array([0, 5, 6, 7]), np.zeros(0, dtype=np.int64)
    placement.move(moved, np.zeros(4, dtype=np.int64), 2)
    numbers = Band(np.full(3, 5.0), np.array([4.0, 5.0, 5.0]), np.array([6.0, 10.0, 6.0]))
    disks = Band(np.full(3, 4 * GB), np.zeros(3), np.array([4.4, 10.0, 10.0]) * GB)
    assert 3 * GB < bound(placement, none, numbers, disks, moved).bytes_min <= 4 * GB
    wide = replace(numbers, lo=np.array([0.0, 5.0, 5.0]))
    assert bound(placement, none, wide, disks, moved).bytes_min <= 2 * GB + 4


def test_a_broker_that_may_take_others_in_return_can_give_its_cheap_replicas() -> None:
    """As above, with three moves more: four of 1 GB leave broker 0, and three tiny ones come."""
    arrays = cluster([(1,)] * 5 + [(2,)] * 9 + [(3,)], brokers=3, sizes=[4 * GB] + [GB] * 4 + [1.0] * 10)
    placement = Placement(arrays, Goal.rebalance(), np.array([4 * GB] + [0.5 * GB] * 4 + [1.0] * 10))
    moved, none = np.array([0, 5, 6, 7, 8, 9, 10]), np.zeros(0, dtype=np.int64)
    placement.move(moved[:4], np.zeros(4, dtype=np.int64), 2)
    placement.move(moved[4:], np.zeros(3, dtype=np.int64), 0)
    numbers = Band(np.full(3, 5.0), np.array([4.0, 3.0, 5.0]), np.array([7.0, 10.0, 6.0]))
    disks = Band(np.full(3, 4 * GB), np.zeros(3), np.array([4.4, 10.0, 10.0]) * GB)
    assert bound(placement, none, numbers, disks, moved).bytes_min <= 2 * GB + 3
