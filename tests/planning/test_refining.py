"""Moves that are taken back or exchanged: fewer bytes, and no broker further from its share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.bench.planner import made_up
from tierfetch.model.inventory_parts import Policy
from tierfetch.planning import planner
from tierfetch.planning.balancing import Band, disk_band, replica_band
from tierfetch.planning.goals import Goal, PlanOptions
from tierfetch.planning.placement import Placement
from tierfetch.planning.planner import plan_replicas
from tierfetch.planning.refining import refine
from tierfetch.tests.planning.clusters import GB, cluster, clusters


def placed(arrays, goal: Goal, cost) -> Placement:
    return Placement(arrays, goal, np.asarray(cost, dtype=np.float64))


def bands(placement: Placement, tolerance: float = 0.1):
    return replica_band(placement, tolerance), disk_band(placement, tolerance)


def nothing_fixed(placement: Placement) -> np.ndarray:
    return np.zeros(placement.replicas.shape, dtype=np.bool_)


def test_a_dear_replica_is_exchanged_for_a_cheap_one_of_the_same_weight() -> None:
    arrays = cluster([(1,), (1,), (1,), (2,)], brokers=3, sizes=[GB] * 4)
    placement = placed(arrays, Goal.add([2]), [GB, GB, 0.1 * GB, GB])
    numbers, disks = bands(placement)
    placement.move(np.array([0]), np.array([0]), 2)
    refine(placement, nothing_fixed(placement), numbers, disks)
    assert placement.replicas.ravel().tolist() == [0, 0, 2, 1]
    assert placement.counts.tolist() == [2, 1, 1]
    assert placement.disk.tolist() == [2 * GB, GB, GB]
    assert placement.is_moved.ravel().tolist() == [False, False, True, False]


def test_a_move_that_neither_side_needs_is_taken_back() -> None:
    arrays = cluster([(1,)] * 3 + [(2,)] * 3, brokers=2, sizes=[GB] * 6)
    placement = placed(arrays, Goal.rebalance(), [GB] * 6)
    numbers, disks = bands(placement, 0.5)
    placement.move(np.array([0]), np.array([0]), 1)
    refine(placement, nothing_fixed(placement), numbers, disks)
    assert not placement.is_moved.any()


def test_what_was_not_moved_for_balance_is_left_alone() -> None:
    arrays = cluster([(1,)] * 3 + [(2,)] * 3, brokers=2, sizes=[GB] * 6)
    placement = placed(arrays, Goal.rebalance(), [GB] * 6)
    numbers, disks = bands(placement, 0.5)
    placement.move(np.array([0]), np.array([0]), 1)
    refine(placement, placement.is_moved.copy(), numbers, disks)
    assert placement.is_moved.any()


def test_no_exchange_brings_a_replica_back_beside_another_one() -> None:
    """The other replica of the dear one has gone to another broker in the rack that it left."""
    arrays = cluster([(1, 2), (1,)], brokers=4, sizes=[GB] * 2)
    arrays = replace(arrays, racks=np.array([0, 1, 2, 0], dtype=np.int32), rack_names=("r0", "r1", "r2"))
    placement = placed(arrays, Goal.rebalance(), [GB, 0.1 * GB])
    numbers, disks = bands(placement)
    placement.move(np.array([0]), np.array([0]), 2)
    placement.move(np.array([0]), np.array([1]), 3)
    is_fixed = nothing_fixed(placement)
    is_fixed[0, 1] = True
    refine(placement, is_fixed, numbers, disks)
    assert placement.replicas[0].tolist() == [2, 3]


def test_no_exchange_costs_a_partition_a_rack() -> None:
    """The cheap one has its other replica in the rack of the new broker, and would lose the rack where it is."""
    arrays = cluster([(1,), (1, 2)], brokers=3, sizes=[GB] * 2)
    arrays = replace(arrays, racks=np.array([0, 1, 1], dtype=np.int32), rack_names=("r0", "r1"))
    placement = placed(arrays, Goal.add([2]), [GB, 0.0])
    numbers, disks = bands(placement, 0.9)
    placement.move(np.array([0]), np.array([0]), 2)
    numbers = replace(numbers, lo=np.array([0.0, 0.0, 1.0]))
    refine(placement, nothing_fixed(placement), numbers, disks)
    assert placement.replicas.tolist() == [[2, -1], [0, 1]]


def test_a_split_does_not_fill_a_broker_beyond_its_band_and_its_disk() -> None:
    """The cheap one is three times as large as the dear one that it would stand for."""
    arrays = cluster([(1,), (1,)], brokers=2, sizes=[10 * GB, 30 * GB])
    arrays = replace(arrays, disk_bytes=np.array([100.0, 20.0]) * GB)
    placement = placed(arrays, Goal.rebalance(), [10 * GB, GB])
    placement.move(np.array([0]), np.array([0]), 1)
    numbers = Band(np.ones(2), np.ones(2), np.ones(2))
    disks = Band(np.array([20.0, 10.0]) * GB, np.zeros(2), np.array([100.0, 15.0]) * GB)
    refine(placement, nothing_fixed(placement), numbers, disks)
    assert placement.disk.tolist() == [30 * GB, 10 * GB]
    refine(placement, nothing_fixed(placement), numbers, replace(disks, hi=disks.hi * 10))
    assert placement.disk.tolist() == [30 * GB, 10 * GB], "it would fit its band, but not its disk"


@settings(max_examples=100, deadline=None)
@given(data=st.data(), brokers=st.integers(2, 5), seed=st.integers(0, 2**32))
def test_refining_leaves_no_broker_beyond_its_band_or_its_disk(data, brokers, seed) -> None:
    """Small disks, wide bands below, and replicas of which the light ones are often dear."""
    random = np.random.default_rng(seed)
    count = data.draw(st.integers(2, 24))
    sizes = random.integers(1, 40, count) * GB
    arrays = cluster(
        [(int(each) + 1,) for each in random.integers(0, brokers, count)], brokers=brokers, sizes=sizes.tolist()
    )
    placement = placed(arrays, Goal.rebalance(), sizes * random.choice([0.01, 0.1, 1.0], count))
    for partition in np.flatnonzero(random.random(count) < 0.5).tolist():
        placement.put(partition, 0, int(random.integers(0, brokers)))
    disk_bytes = placement.disk + random.integers(0, 30, brokers) * GB
    placement.arrays = replace(arrays, disk_bytes=disk_bytes)
    counts, disk = placement.counts.astype(np.float64), placement.disk.copy()
    numbers = Band(counts, counts - random.integers(0, 2, brokers), counts + random.integers(0, 2, brokers))
    disks = Band(disk, disk * random.choice([0.0, 0.9]), disk + random.integers(0, 30, brokers) * GB)
    refine(placement, nothing_fixed(placement), numbers, disks)
    assert (placement.disk <= np.minimum(disks.hi, disk_bytes) + 1.0).all()
    assert (placement.disk >= disks.lo - 1.0).all()
    assert ((placement.counts >= numbers.lo) & (placement.counts <= numbers.hi)).all()


@settings(max_examples=40, deadline=None)
@given(arrays=clusters(), add=st.booleans(), last=st.integers(0, 8))
def test_S2_refined_plans_copy_no_more_and_leave_nobody_further_outside(arrays, add, last) -> None:
    goal = Goal.add([last % arrays.broker_count]) if add else Goal.rebalance()
    refined = plan_replicas(arrays, goal)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "refine", lambda *_: None)
        plain = plan_replicas(arrays, goal)
    assert refined.bound.bytes <= plain.bound.bytes + 1.0
    assert refined.bound.moves <= plain.bound.moves
    placement = placed(arrays, goal, np.zeros(arrays.partition_count))
    for band, found, without in (
        (replica_band(placement, 0.1), refined.after.replicas, plain.after.replicas),
        (disk_band(placement, 0.1), refined.after.disk_bytes, plain.after.disk_bytes),
    ):
        assert (found <= np.maximum(band.hi, without) + 1.0).all()
        assert (found >= np.minimum(band.lo, without) - 1.0).all()


@pytest.mark.parametrize("goal", ["add", "rebalance"])
def test_S2_few_replicas_a_broker_still_come_near_the_bound(goal: str) -> None:
    """A twentieth of the benchmark: 50 brokers of 300 replicas each, 5 of them new. (Without refining it is 14 to 19
    %.)
    """
    arrays = made_up(5_000, 50, empty=5)
    arrays = replace(arrays, policy=Policy.TIER_FIRST)
    plan = plan_replicas(arrays, Goal.add(range(45, 50)) if goal == "add" else Goal.rebalance(), PlanOptions())
    assert plan.bound.bytes <= 1.05 * plan.bound.bytes_min
    assert plan.bound.moves_gap <= 0.02
