"""What moves leave to producers where brokers share something: racks' uplinks, and links between racks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tierfetch.bench.planner import made_up
from tierfetch.model.arrays import NO_BROKER, ClusterArrays
from tierfetch.model.calibration import Calibrations
from tierfetch.model.engine import simulate
from tierfetch.model.resources import MOVES_SHARE_MIN
from tierfetch.model.unsure import Unsure
from tierfetch.planning.goals import Goal, PlanError, PlanOptions
from tierfetch.planning.planner import ReplicaPlan, plan_replicas
from tierfetch.planning.waves import CATCH_UP, WHOLE, assign_waves
from tierfetch.tests.planning.clusters import GB, cluster, clusters

MB = 1e6
ODD = [(1, 3), (3, 5), (5, 1), (1, 2), (3, 2), (5, 2)]
"""Brokers 1, 3 and 5 are in rack r0 and lead; 2, 4 and 6 are in r1. Broker 2 has three followers."""


def with_uplinks(arrays: ClusterArrays, *, out: float = np.inf, into: float = np.inf) -> ClusterArrays:
    """Of rack r0 what leaves it, of r1 what comes in."""
    return replace(arrays, uplink_out=np.array([out, np.inf]), uplink_in=np.array([np.inf, into]).astype(np.float64))


def test_brokers_that_send_through_an_uplink_at_once_share_it() -> None:
    """Three leaders send to two brokers of the other rack: at most two throttles pass the uplink at once."""
    arrays = cluster(ODD, brokers=6, racks=2)
    assert plan_replicas(arrays, Goal.remove([1])).throttle_bytes_per_s == GB
    for limited in (with_uplinks(arrays, out=100 * MB), with_uplinks(arrays, into=100 * MB)):
        plan = plan_replicas(limited, Goal.remove([1]))
        assert len(set(plan.moves.target.tolist())) == 2
        assert plan.throttle_bytes_per_s == pytest.approx(50 * MB)
    one = plan_replicas(with_uplinks(arrays, out=100 * MB), Goal.replace({1: 3}))
    assert one.throttle_bytes_per_s == pytest.approx(100 * MB), "one broker receives all"


def test_a_link_between_racks_is_shared_too() -> None:
    arrays = cluster(ODD, brokers=6, racks=2)
    links = np.array([[np.inf, 60 * MB], [np.inf, np.inf]])
    assert plan_replicas(replace(arrays, link_bytes_per_s=links), Goal.remove([1])).throttle_bytes_per_s == 30 * MB
    other = links.T.copy()
    assert plan_replicas(replace(arrays, link_bytes_per_s=other), Goal.remove([1])).throttle_bytes_per_s == GB


def test_what_producers_need_of_an_uplink_is_left_to_them() -> None:
    """Three partitions with 10 MB/s each have their follower in the other rack: 37.5 MB/s, once they have grown."""
    arrays = with_uplinks(cluster(ODD, brokers=6, racks=2, produce=10 * MB), out=100 * MB)
    plan = plan_replicas(arrays, Goal.replace({1: 3}))
    assert plan.throttle_bytes_per_s == pytest.approx(100 * MB - 1.25 * 30 * MB)
    full = with_uplinks(cluster(ODD, brokers=6, racks=2, produce=10 * MB), out=30 * MB)
    with pytest.raises(
        PlanError, match=r"the uplink out of rack r0 has no capacity to spare: 28\.6 MiB/s now, and 25%"
    ):
        plan_replicas(full, Goal.replace({1: 3}))
    given_one = plan_replicas(full, Goal.replace({1: 3}), PlanOptions(throttle_bytes_per_s=MB))
    assert given_one.throttle_bytes_per_s == MB, "a throttle that is given is kept"


def test_the_throttle_leaves_headroom_wherever_in_their_ranges_rates_are() -> None:
    """An uplink of 60 to 150 MB/s, producers of 5 to 20 MB/s: what is planned fits the worst of both."""
    inventory = with_uplinks(cluster(ODD, brokers=6, racks=2, produce=10 * MB), out=95 * MB).to_inventory()
    unsure = [Unsure(key="uplink_out_bytes_per_s", rack="r0", low=60 * MB, high=150 * MB)]
    unsure += [Unsure(key="produce_bytes_per_s", topic="t", partition=3, low=5 * MB, high=20 * MB)]
    arrays = ClusterArrays.from_inventory(inventory.model_copy(update={"unsure": tuple(unsure)}))
    plan = plan_replicas(arrays, Goal.replace({1: 3}))
    assert plan.throttle_bytes_per_s == pytest.approx(60 * MB - 1.25 * (10 + 10 + 20) * MB)


def test_moves_within_a_rack_take_nothing_of_its_uplink() -> None:
    arrays = with_uplinks(cluster([(1, 3), (3, 1)], brokers=6, racks=2), out=1.0)
    plan = plan_replicas(arrays, Goal.replace({2: 4}))
    assert len(plan.moves)
    assert plan.throttle_bytes_per_s == GB


def test_a_wave_is_as_long_on_an_uplink_as_on_a_broker() -> None:
    """Each of ten brokers could send its 1 GB within a wave; the uplink that they share needs ten waves for all."""
    rows = [(1 + 2 * number, 2) for number in range(10)]
    arrays = with_uplinks(cluster(rows, brokers=24, racks=2), out=100 * MB)
    options = PlanOptions(throttle_bytes_per_s=100 * MB, wave_s=10.0)
    assert plan_replicas(arrays, Goal.remove([1]), options).wave_count == 10
    assert plan_replicas(with_uplinks(arrays), Goal.remove([1]), options).wave_count == 1


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    arrays=clusters(),
    broker=st.integers(0, 8),
    adds=st.booleans(),
    throttle=st.none() | st.sampled_from([10 * MB, 500 * MB]),
    limits=st.lists(st.sampled_from([300 * MB, GB, np.inf]), min_size=8, max_size=8),
)
def test_S2_no_wave_takes_more_of_what_is_shared_than_there_is(arrays, broker, adds, throttle, limits) -> None:
    """Counted again from the moves: by rack and way, as a person would."""
    racks = len(arrays.rack_names)
    arrays = replace(arrays, uplink_out=np.array(limits[:racks]), uplink_in=np.array(limits[4 : 4 + racks]))
    assume((arrays.replicas != NO_BROKER).sum(axis=1).max() < arrays.broker_count)
    goal = Goal.add([broker % arrays.broker_count]) if adds else Goal.remove([broker % arrays.broker_count])
    options = PlanOptions(throttle_bytes_per_s=throttle, wave_s=20.0, headroom=0.0)
    plan = plan_replicas(arrays, goal, options)
    for rack in range(racks):
        for way, capacity in (("out", arrays.uplink_out[rack]), ("in", arrays.uplink_in[rack])):
            if np.isfinite(capacity):
                check_shared(arrays, plan, options, rack, way, float(capacity))


def check_shared(
    arrays: ClusterArrays, plan: ReplicaPlan, options: PlanOptions, rack: int, way: str, capacity: float
) -> None:
    needed = 0.0
    for partition, row in enumerate(arrays.replicas.tolist()):
        leader = int(arrays.leader[partition])
        followers = [each for slot, each in enumerate(row) if arrays.in_sync[partition, slot] and each != leader]
        crossing = [each for each in followers if arrays.racks[each] != arrays.racks[leader]]
        if way == "out" and arrays.racks[leader] == rack:
            needed += (len(crossing) + bool(arrays.tiered[arrays.topic[partition]])) * arrays.produce[partition]
        if way == "in":
            needed += (arrays.racks[leader] == rack) * arrays.produce[partition]
            needed += sum(arrays.racks[each] == rack for each in crossing) * arrays.produce[partition]
    crossings = []
    for partition, target, wave, size in zip(
        plan.moves.partition.tolist(),
        plan.moves.target.tolist(),
        plan.moves.wave.tolist(),
        plan.move_bytes,
        strict=True,
    ):
        source = int(arrays.leader[partition])
        ends = int(arrays.racks[source]), int(arrays.racks[target])
        if ends[0] != ends[1] and ends[0 if way == "out" else 1] == rack:
            crossings.append((partition, source, target, wave, float(size)))
    if not crossings:
        return
    at_once = min(len({each[1] for each in crossings}), len({each[2] for each in crossings}))
    throttle = plan.throttle_bytes_per_s
    if options.throttle_bytes_per_s is None:
        assert throttle * at_once <= (capacity - needed) * (1 + 1e-9)
    rate = min(max(capacity - needed, MOVES_SHARE_MIN * capacity), throttle * at_once)
    for wave in {each[3] for each in crossings}:
        parts = [each for each in crossings if each[3] == wave]
        if len({each[0] for each in parts}) > 1:
            assert sum(each[4] for each in parts) <= rate * options.wave_s * 1.001
            assert sum(arrays.produce[each[0]] for each in parts) <= rate * CATCH_UP * 1.001


def test_S2_the_model_sees_the_headroom_that_the_plan_leaves_uplinks() -> None:
    arrays = made_up(300, 12, empty=0)
    arrays = replace(arrays, produce=arrays.produce * 50)
    count = len(arrays.rack_names)
    arrays = replace(arrays, uplink_out=np.full(count, 400 * MB), uplink_in=np.full(count, 400 * MB))
    plan = plan_replicas(arrays, Goal.remove([0]), PlanOptions(headroom=0.25))
    calibration = Calibrations.default().of(arrays.policy)

    def fullest(throttle: float) -> float:
        found = simulate(replace(arrays, throttle_bytes_per_s=throttle), plan.moves, arrays.policy, calibration)
        uplinks = [each for each in found.resources if each.kind.startswith("uplink")]
        return max((each.foreground * 1.25 + each.peak) / each.capacity for each in uplinks)

    assert fullest(plan.throttle_bytes_per_s) <= 1.01
    assert fullest(np.inf) > 1.01, "it is the throttle that leaves it"


def test_waves_have_room_for_what_brokers_share() -> None:
    half, part = WHOLE // 2, WHOLE // 10
    shared = {place: [(7, half)] for place in range(4)}
    assert assign_waves([0, 1, 2, 3], [4, 5, 6, 8], [part] * 4, 100, shared=shared) == [0, 0, 1, 1]
    assert assign_waves([0, 1, 2], [4, 5, 6], [part] * 3, 100, shared={0: [(7, WHOLE)], 2: [(7, part)]}) == [0, 0, 1]
    assert assign_waves([0, 0], [4, 5], [WHOLE, part], 100, shared={1: [(7, part)]}) == [0, 1]
