"""Plans are valid, move what they must and no more, and leave a cluster as even as was asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tierfetch.bench.planner import made_up
from tierfetch.model.arrays import NO_BROKER, ClusterArrays
from tierfetch.model.calibration import Calibrations
from tierfetch.model.engine import simulate
from tierfetch.model.inventory_parts import BYTES_TOLERANCE, Policy
from tierfetch.planning.goals import Goal, PlanError, PlanOptions
from tierfetch.planning.planner import ReplicaPlan, plan_replicas
from tierfetch.planning.waves import CATCH_UP, WHOLE, assign_waves
from tierfetch.tests.planning.clusters import GB, cluster, clusters

QUICK = settings(max_examples=60, deadline=None)
GOALS = st.sampled_from(["replace", "remove", "add", "rebalance"])


def goal_of(name: str, arrays: ClusterArrays, broker: int) -> Goal:
    broker %= arrays.broker_count
    match name:
        case "replace":
            return Goal.replace({broker: (broker + 1) % arrays.broker_count})
        case "remove":
            return Goal.remove([broker])
        case "add":
            return Goal.add([broker])
        case _:
            return Goal.rebalance()


def racks_of(arrays: ClusterArrays, row: np.ndarray) -> int:
    return len(set(arrays.racks[row[row != NO_BROKER]].tolist()))


def check_valid(arrays: ClusterArrays, goal: Goal, plan: ReplicaPlan) -> None:
    """Whatever the plan is for."""
    before, after = arrays.replicas, plan.replicas
    assert ((before != NO_BROKER).sum(axis=1) == (after != NO_BROKER).sum(axis=1)).all(), "the replication factor stays"
    for row in after:
        held = row[row != NO_BROKER].tolist()
        assert len(set(held)) == len(held), "no broker holds two replicas of a partition"
        assert not goal.leaving & set(held)
    is_changed = (before != after).any(axis=1)
    assert set(np.flatnonzero(is_changed).tolist()) == set(plan.changed.tolist())
    for number, partition in enumerate(plan.changed):
        assert set(plan.first[number].tolist()) == set(after[partition].tolist())
    rebuilt = before.copy()
    rebuilt[plan.moves.partition, plan.moves.slot] = plan.moves.target
    assert [set(row) for row in rebuilt.tolist()] == [set(row) for row in after.tolist()], "moves lead there"
    assert (plan.moves.source == before[plan.moves.partition, plan.moves.slot]).all()


def check_racks(arrays: ClusterArrays, goal: Goal, plan: ReplicaPlan) -> None:
    """No partition lies in fewer racks than it did, but where too few are left."""
    staying = [broker for broker in range(arrays.broker_count) if broker not in goal.leaving]
    left = Counter(arrays.racks[staying].tolist())
    for partition in plan.changed.tolist():
        before, after = arrays.replicas[partition], plan.replicas[partition]
        kept = [broker for broker in before[before != NO_BROKER].tolist() if broker not in goal.leaving]
        possible = min(len(left), int((before != NO_BROKER).sum()))
        taken = racks_of(arrays, after)
        assert taken >= min(racks_of(arrays, before), possible, len(set(arrays.racks[kept].tolist())) + 1) or not kept


@pytest.mark.slow
@QUICK
@given(arrays=clusters(), name=GOALS, broker=st.integers(0, 8), repairs=st.booleans())
def test_S2_plans_are_valid_and_racks_are_kept(arrays, name, broker, repairs) -> None:
    goal = goal_of(name, arrays, broker)
    assume(not goal.leaving or (arrays.replicas != NO_BROKER).sum(axis=1).max() < arrays.broker_count)
    plan = plan_replicas(arrays, goal, PlanOptions(repairs_racks=repairs))
    check_valid(arrays, goal, plan)
    check_racks(arrays, goal, plan)
    assert plan.bound.moves >= plan.bound.moves_min
    assert plan.bound.bytes >= plan.bound.bytes_min * (1 - 1e-9) - BYTES_TOLERANCE


@pytest.mark.slow
@QUICK
@given(arrays=clusters(), name=st.sampled_from(["replace", "remove"]), broker=st.integers(0, 8))
def test_S2_replacing_and_removing_move_exactly_what_they_must(arrays, name, broker) -> None:
    assume((arrays.replicas != NO_BROKER).sum(axis=1).max() < arrays.broker_count)
    goal = goal_of(name, arrays, broker)
    plan = plan_replicas(arrays, goal)
    (leaving,) = goal.leaving
    assert plan.bound.moves == plan.bound.moves_min == (arrays.replicas == leaving).sum()
    assert plan.bound.bytes == pytest.approx(plan.bound.bytes_min)


@pytest.mark.slow
@QUICK
@given(arrays=clusters(), name=st.sampled_from(["add", "rebalance"]), broker=st.integers(0, 8))
def test_S2_balance_never_gets_worse(arrays, name, broker) -> None:
    plan = plan_replicas(arrays, goal_of(name, arrays, broker))

    def outside(values: np.ndarray, tolerance: float = 0.1) -> float:
        share = values.mean()
        return float(np.maximum(values - max(np.ceil(share), share * (1 + tolerance)), 0).sum())

    assert outside(plan.after.replicas) <= outside(plan.before.replicas)
    assert plan.bound.moves <= (arrays.replicas != NO_BROKER).sum()


@pytest.mark.slow
@QUICK
@given(
    arrays=clusters(), name=GOALS, broker=st.integers(0, 8), per_broker=st.integers(1, 5), per_wave=st.integers(1, 9)
)
def test_S2_waves_never_exceed_their_limits(arrays, name, broker, per_broker, per_wave) -> None:
    assume((arrays.replicas != NO_BROKER).sum(axis=1).max() < arrays.broker_count)
    options = PlanOptions(
        partitions_per_broker=per_broker, partitions_per_wave=per_wave, throttle_bytes_per_s=10e6, wave_s=100
    )
    plan = plan_replicas(arrays, goal_of(name, arrays, broker), options)
    moves = plan.moves
    moving = {int(partition): int(wave) for partition, wave in zip(moves.partition, moves.wave, strict=True)}
    assert all(count <= per_wave for count in Counter(moving.values()).values())
    for side in (moves.target, arrays.leader[moves.partition]):
        seen = {}
        for partition, at, wave, size in zip(moves.partition, side, moves.wave, plan.move_bytes, strict=True):
            seen.setdefault((int(at), int(wave)), {})[int(partition)] = (float(size), arrays.produce[partition])
        for parts in seen.values():
            assert len(parts) <= per_broker
            if len(parts) > 1:
                assert sum(size for size, _ in parts.values()) <= 10e6 * 100 * 1.001
                assert sum(produce for _, produce in parts.values()) <= 10e6 * CATCH_UP * 1.001


def test_S2_added_brokers_take_their_share_and_no_more_moves_than_that() -> None:
    arrays = made_up(6000, 12, empty=3)
    plan = plan_replicas(arrays, Goal.add(range(9, 12)))
    assert plan.bound.moves_gap < 0.02
    assert plan.bound.bytes_gap < 0.06
    share = plan.after.replicas.mean()
    assert (plan.after.replicas[9:] >= 0.89 * share).all()
    assert (plan.after.disk_bytes[9:] >= 0.88 * plan.after.disk_bytes.mean()).all()
    assert (plan.moves.target >= 9).all()
    assert plan.after.leaders.max() <= 1.1 * plan.after.leaders.mean() + 1


def test_S2_a_rebalance_evens_numbers_disks_and_leaders_out() -> None:
    arrays = made_up(6000, 12, empty=3)
    plan = plan_replicas(arrays, Goal.rebalance())
    for values in (plan.after.replicas, plan.after.disk_bytes, plan.after.leaders):
        assert values.max() <= 1.13 * values.mean()
        assert values.min() >= 0.87 * values.mean()
    again = plan_replicas(replace(arrays, replicas=plan.replicas), Goal.rebalance())
    assert again.bound.moves <= 0.01 * plan.bound.moves, "what is even stays"


def test_cheap_replicas_move_first() -> None:
    """Four that are tiered, four that are not, all alike on disk: one of each broker goes to the new one."""
    replicas = [(1,), (1,), (2,), (2,), (1,), (1,), (2,), (2,)]
    arrays = cluster(replicas, brokers=3, sizes=[1.0 * GB] * 8, tiered=[1.0] * 4 + [0.0] * 4)
    arrays = replace(arrays, local_bytes=np.full(8, GB), policy=Policy.TIER_FIRST)
    plan = plan_replicas(arrays, Goal.add([2]))
    assert plan.bound.moves == plan.bound.moves_min == 2
    assert set(plan.moves.partition.tolist()) <= {0, 1, 2, 3}
    assert plan.bound.bytes == 0


def test_leaders_become_even_without_a_byte() -> None:
    arrays = cluster([(1, 2, 3)] * 9, brokers=3)
    plan = plan_replicas(arrays, Goal.rebalance())
    assert len(plan.moves) == 0
    assert plan.after.leaders.tolist() == [3, 3, 3]


def test_F11_a_thin_replica_is_last_until_it_is_warm() -> None:
    arrays = cluster([(1, 2, 3)], brokers=4, tiered=[0.5], sizes=[GB])
    plan = plan_replicas(arrays, Goal.replace({0: 3}))
    assert plan.replicas.tolist() == [[3, 1, 2]]
    assert plan.first.tolist() == [[1, 2, 3]]
    full = plan_replicas(arrays, Goal.replace({0: 3}), PlanOptions(policy=Policy.LOCAL_LOG_START))
    assert full.first.tolist() == [[3, 1, 2]]


def test_tiering_first_says_what_it_saves() -> None:
    arrays = cluster([(1, 2, 3)] * 4, brokers=4, tiered=[0.5] * 4, sizes=[10 * GB] * 4, produce=1e6)
    plan = plan_replicas(arrays, Goal.remove([0]), PlanOptions(tier_first=True, roll_s=60))
    assert plan.tier_step is not None
    assert plan.bound.bytes == pytest.approx(4 * 1e6 * 90), "what is produced between two uploads"
    assert plan.tier_step.saved_bytes == pytest.approx(4 * (5 * GB - 90e6))
    assert plan.tier_step.puts >= 4 * 6, "each leader rolls once at least, and puts a log with its indexes"
    assert plan.tier_step.put_cost == 0.0
    priced = replace(arrays, tier=arrays.tier.model_copy(update={"price_per_put": 0.5}))
    dear = plan_replicas(priced, Goal.remove([0]), PlanOptions(tier_first=True, roll_s=60)).tier_step
    assert dear is not None
    assert dear.put_cost == pytest.approx(dear.puts * 0.5)
    assert plan_replicas(arrays, Goal.remove([0])).tier_step is None
    idle = replace(arrays, produce=np.zeros(4))
    assert plan_replicas(idle, Goal.remove([0]), PlanOptions(tier_first=True)).tier_step is None, "nobody rolls"


def test_replicas_that_share_a_rack_are_moved_if_asked_and_named_if_not() -> None:
    arrays = cluster([(1, 3), (2, 4)], brokers=4, racks=2)
    assert plan_replicas(arrays, Goal.rebalance()).warnings == (
        "t-0, t-1: replicas share a rack though there is another (--repair-racks moves them)",
    )
    plan = plan_replicas(arrays, Goal.rebalance(), PlanOptions(repairs_racks=True))
    assert plan.warnings == ()
    assert racks_of(arrays, plan.replicas[0]) == 2


def test_replicas_stay_together_where_the_free_rack_has_no_room_for_them() -> None:
    """Nor do they move within their rack, which repairs nothing."""
    arrays = cluster([(1, 3), (2, 4)], brokers=4, racks=2, sizes=[10 * GB, GB])
    arrays = replace(arrays, disk_bytes=np.array([1000, 5, 1000, 5]) * GB)
    plan = plan_replicas(arrays, Goal.rebalance(), PlanOptions(repairs_racks=True))
    assert plan.replicas[0].tolist() == arrays.replicas[0].tolist()
    assert racks_of(arrays, plan.replicas[1]) == 2
    assert plan.warnings == ("t-0: replicas share a rack though there is another without room for them",)
    assert plan.bound.moves_min == len(plan.moves.partition) == 1


def test_a_replica_that_shares_a_rack_moves_to_a_full_free_rack_once_another_one_has_made_room() -> None:
    """Rack r1 has room for nothing more, so one of its replicas goes where the other one was, or elsewhere in r0."""
    arrays = cluster([(1, 3), (2,), (2,)], brokers=3, racks=2, sizes=[4 * GB, 4 * GB, GB])
    arrays = replace(arrays, disk_bytes=np.array([100, 5, 100]) * GB)
    plan = plan_replicas(
        arrays, Goal.rebalance(), PlanOptions(repairs_racks=True, replica_tolerance=9, disk_tolerance=99)
    )
    assert racks_of(arrays, plan.replicas[0]) == 2
    assert plan.warnings == ()
    assert len(plan.moves) == 2
    held = [arrays.local_bytes[(plan.replicas == broker).any(axis=1)].sum() for broker in range(3)]
    assert held[1] <= 5 * GB
    assert sorted(plan.moves.partition.tolist()) == [0, 1]


def test_no_replica_makes_room_whose_partition_would_lose_a_rack_by_it() -> None:
    arrays = cluster([(1, 3), (2, 1)], brokers=3, racks=2, sizes=[4 * GB, 4 * GB])
    arrays = replace(arrays, disk_bytes=np.array([100, 5, 100]) * GB)
    options = PlanOptions(repairs_racks=True, replica_tolerance=9, disk_tolerance=99)
    plan = plan_replicas(arrays, Goal.rebalance(), options)
    assert len(plan.moves) == 0
    assert plan.warnings == ("t-0: replicas share a rack though there is another without room for them",)


def test_dead_brokers_keep_their_racks() -> None:
    """Broker 3 is dead, and its replica in rack r2 counts: what leaves broker 1 goes to r0 again, not to r2."""
    arrays = cluster([(1, 2, 3)] * 4, brokers=6, racks=3)
    plan = plan_replicas(arrays, replace(Goal.remove([0]), closed=frozenset({2})))
    assert {racks_of(arrays, row) for row in plan.replicas} == {3}
    assert plan.replicas[:, 2].tolist() == [2] * 4


def test_S2_a_replica_that_the_emptiest_broker_has_no_room_for_goes_to_one_that_has() -> None:
    arrays = cluster([(1,), (3,), (3,)], brokers=3, sizes=[10 * GB, GB, GB])
    arrays = replace(arrays, disk_bytes=np.array([20 * GB, 5 * GB, 1000 * GB]))
    assert plan_replicas(arrays, Goal.remove([0])).replicas[0].tolist() == [2]


def test_what_cannot_be_planned_is_named() -> None:
    arrays = cluster([(1, 2, 3)], brokers=3)
    with pytest.raises(PlanError, match=r"t-0 has 3 replicas, and only 2 brokers may hold one"):
        plan_replicas(arrays, Goal.remove([0]))
    with pytest.raises(PlanError, match="all brokers would leave"):
        plan_replicas(arrays, Goal.remove([0, 1, 2]))
    with pytest.raises(PlanError, match="cannot replace another one"):
        plan_replicas(arrays, Goal.replace({0: 1, 1: 2}))
    full = cluster([(1,), (1,)], brokers=2, sizes=[GB, GB])
    full = replace(full, disk_bytes=np.array([1e15, 1.5 * GB]))
    with pytest.raises(PlanError, match=r"t-\d: no broker has room for its 1,000,000,000 bytes"):
        plan_replicas(full, Goal.remove([0]))
    busy = cluster([(1, 2)], brokers=3, produce=2 * GB)
    with pytest.raises(PlanError, match=r"broker \d has no capacity to spare: 1\.9 GiB/s"):
        plan_replicas(busy, Goal.remove([0]))


def test_a_partition_that_never_catches_up_is_named() -> None:
    arrays = cluster([(1, 2)], brokers=3, produce=5e6)
    plan = plan_replicas(arrays, Goal.remove([0]), PlanOptions(throttle_bytes_per_s=4e6))
    assert plan.warnings[0] == "t-0: producers write faster than the throttle of 3.8 MiB/s, so it never catches up"


def test_a_broker_that_is_not_alive_takes_nothing() -> None:
    arrays = cluster([(1,), (1,), (2,), (2,)], brokers=4)
    plan = plan_replicas(arrays, replace(Goal.rebalance(), closed=frozenset({3})))
    assert plan.after.replicas[3] == 0
    assert plan.after.replicas[2] >= 1
    with pytest.raises(PlanError, match="not alive"):
        plan_replicas(arrays, replace(Goal.replace({0: 3}), closed=frozenset({3})))


def test_the_throttle_leaves_producers_their_headroom() -> None:
    arrays = cluster([(1, 2)], brokers=3, produce=100e6)
    plan = plan_replicas(arrays, Goal.remove([1]), PlanOptions(headroom=0.5))
    assert plan.throttle_bytes_per_s == pytest.approx(GB - 1.5 * 100e6)


@pytest.mark.parametrize("headroom", [0.25, 2.0])
def test_S2_the_model_sees_the_headroom_that_the_plan_leaves(headroom: float) -> None:
    arrays = made_up(300, 12, empty=0)
    arrays = replace(arrays, produce=arrays.produce * 200)
    plan = plan_replicas(arrays, Goal.remove([0]), PlanOptions(headroom=headroom))
    calibration = Calibrations.default().of(arrays.policy)
    throttled = replace(arrays, throttle_bytes_per_s=plan.throttle_bytes_per_s)
    result = simulate(throttled, plan.moves, arrays.policy, calibration)
    assert result.joins.all()
    assert result.produce_headroom.min() >= 0.99 * headroom
    free = simulate(replace(arrays, throttle_bytes_per_s=np.inf), plan.moves, arrays.policy, calibration)
    assert free.produce_headroom.min() < headroom, "it is the throttle that leaves it"


def test_waves_are_filled_in_order() -> None:
    half = WHOLE // 2
    assert assign_waves([0, 0, 1, 1], [2, 2, 2, 3], [half] * 4, 100) == [0, 0, 1, 1]
    assert assign_waves([0, 1, 2], [3, 4, 5], [half] * 3, 2) == [0, 0, 1]
    assert assign_waves([0, 1], [2, 3], [5 * WHOLE, half], 100, {1: [2]}) == [0, 1], "a large one is alone"
    assert assign_waves([], [], [], 1) == []
