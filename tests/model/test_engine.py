"""The engine: times that can be worked out by hand, and all others against a slow reference."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.model.calibration import Calibrations
from tierfetch.model.engine import simulate
from tierfetch.model.inventory_parts import Policy
from tierfetch.model.moves import Moves, moves_between, replacement_moves
from tierfetch.model.results import Obstacle
from tierfetch.model.synthetic import Shape, synthetic_cluster
from tierfetch.tests.model.builders import GB, MB, PLAIN, broker, cluster, partition
from tierfetch.tests.model.reference import Replica, resources_of, run

TIER_FIRST, LOCAL = Policy.TIER_FIRST, Policy.LOCAL_LOG_START


def tiered(index, replicas, size_gb, local_gb, pending_gb, **keys):
    sizes = {"local_bytes": local_gb * GB, "tiered_bytes": (size_gb - pending_gb) * GB}
    return partition(index, replicas, size_gb, **sizes, **keys)


def replaced(arrays, broker_id=1, policy=TIER_FIRST, calibration=PLAIN, **keys):
    moves = replacement_moves(arrays, arrays.broker_index(broker_id))
    return simulate(arrays, moves, policy, calibration, **keys)


@pytest.mark.parametrize(
    ("policy", "expected_gb", "gets"),
    [
        (Policy.LOG_START, 40.0, 2),
        (Policy.LOCAL_LOG_START, 40.0, 2),
        (Policy.EARLIEST_PENDING_UPLOAD, 2.0, 2),
        (Policy.TIER_FIRST, 2.0, 2),
        (Policy.BOUNDED_LOCAL, 8.0, 2),
        (Policy.KAFKA, 40.0, 2),
        (Policy.KAFKA_LAST_TIERED, 2.0, 2),
    ],
)
def test_S1_replacement_takes_the_time_of_the_bytes_that_the_policy_leaves(policy, expected_gb, gets) -> None:
    arrays = cluster(
        2,
        [tiered(0, [2, 1], 100.0, 20.0, 1.0), tiered(1, [1, 2], 100.0, 20.0, 1.0)],
        topic={"tiered": True, "segment_bytes": GB},
        bounded_local={"bytes_min": 2.5 * GB},
        tier={"latency_ms": 0},
    )
    result = replaced(arrays, policy=policy, calibration=PLAIN.model_copy(update={"aux_gets": 1, "aux_bytes": 500}))
    assert result.leader_bytes == pytest.approx(expected_gb * GB)
    assert result.joined_s == pytest.approx([expected_gb, expected_gb], rel=1e-3)
    assert (int(result.tier_gets.sum()), float(result.tier_bytes.sum())) == (gets, gets * 500)
    assert result.thin_bytes.sum() == pytest.approx((40.0 - expected_gb) * GB)
    assert result.urp_minutes == pytest.approx(2 * expected_gb / 60, rel=1e-3)


def test_S1_a_replacement_from_one_leader_takes_what_the_calibration_says() -> None:
    """The formula of `model.calibration`, which its constants are fitted to."""
    count, latency_s = 10, 0.1
    rows = [tiered(index, [2, 1], 10.0, 5.0, 0.5, produce_bytes_per_s=1 * MB) for index in range(count)]
    arrays = cluster(2, rows, topic={"tiered": True}, tier={"latency_ms": latency_s * 1000})
    pace = PLAIN.model_copy(
        update={
            "start_s": 2.0,
            "setup_s": 0.3,
            "setup_parallel": 4,
            "aux_s": 0.2,
            "aux_gets": 3,
            "retry_s": 1.5,
            "fetch_bytes_per_s": 300 * MB,
            "fetchers": 2,
            "produce_weight": 2.0,
            "isr_expansion_s": 0.25,
        }
    )
    setup_s = count / 4 * 0.5 + 1.5 + 3 * 3 * latency_s
    produced = count * MB
    pending = count * 0.5 * GB + produced * (2.0 + setup_s)
    expected_s = 2.0 + setup_s + pending / (600 * MB - 2 * produced) + 0.25
    assert replaced(arrays, calibration=pace).duration_s == pytest.approx(expected_s, rel=1e-3)


def test_S2_a_rebalance_is_simulated_wave_by_wave() -> None:
    """Broker 3 takes one replica of each of two partitions; the second wave waits for the first."""
    arrays = cluster(3, [partition(0, [1, 2], 4.0), partition(1, [2, 1], 2.0)])
    moves = moves_between(arrays, np.array([[0, 2], [1, 2]], dtype=np.int32))
    together = simulate(arrays, moves, LOCAL, PLAIN)
    assert together.joined_s == pytest.approx([6.0, 4.0], rel=2e-3)
    one_by_one = simulate(arrays, replace(moves, wave=np.array([0, 1], dtype=np.int32)), LOCAL, PLAIN)
    assert one_by_one.joined_s == pytest.approx([4.0, 6.0], rel=2e-3)
    assert one_by_one.began_s == pytest.approx([0.0, 4.0], rel=2e-3)
    assert one_by_one.leader_bytes == pytest.approx(6 * GB)
    assert one_by_one.urp_minutes == 0.0
    into = next(each for each in one_by_one.resources if (each.kind, each.owner) == ("nic in", "3"))
    assert (into.peak, into.peak_share) == pytest.approx((GB, 1.0))
    assert one_by_one.timeline.moving[0] == 1
    assert one_by_one.timeline.into[:-2, 2] == pytest.approx(GB, rel=2e-3)


def test_the_next_wave_waits_for_the_isr_and_uses_what_the_last_one_freed() -> None:
    """Broker 2 follows 0.25 GB/s until partition 0 has moved to broker 3; then its NIC is free for partition 1."""
    rows = [partition(0, [1, 2], 0.5, produce_bytes_per_s=0.25 * GB), partition(1, [4, 3])]
    arrays = cluster(4, rows)
    moves = moves_between(arrays, np.array([[0, 2], [3, 1]], dtype=np.int32))
    waves = replace(moves, wave=np.array([0, 1], dtype=np.int32))
    result = simulate(arrays, waves, LOCAL, PLAIN.model_copy(update={"isr_expansion_s": 3.0}))
    assert result.joined_s == pytest.approx([1.0 + 3.0, 4.0 + 1.0 + 3.0])


def test_a_replaced_broker_starts_once() -> None:
    arrays = cluster(2, [partition(0, [2, 1]), partition(1, [2, 1])])
    moves = replace(replacement_moves(arrays, 0), wave=np.array([0, 1], dtype=np.int32))
    result = simulate(arrays, moves, LOCAL, PLAIN.model_copy(update={"start_s": 7.0}))
    assert result.joined_s == pytest.approx([8.0, 9.0])


def test_live_produce_of_joined_replicas_takes_its_weight_of_the_connection() -> None:
    """1 GB/s for one connection. Both fetch: 0.9 are left, 0.45 each; partition 0 nears by 0.35. Then 0.8 are left."""
    fast = {key: 100 * GB for key in broker(1) if key.endswith("_per_s")}
    rows = [partition(0, [2, 1], 0.3, produce_bytes_per_s=0.1 * GB), partition(1, [2, 1], 1.4)]
    pace = PLAIN.model_copy(update={"fetch_bytes_per_s": GB, "fetch_response_bytes": 1 << 20, "produce_weight": 2.0})
    result = replaced(cluster([broker(1, **fast), broker(2, **fast)], rows), calibration=pace, resolution=0.0)
    first_s = 0.3 / 0.35
    assert result.joined_s == pytest.approx([first_s, first_s + (1.4 - 0.45 * first_s) / 0.8])


def test_min_insync_replicas_need_as_many_as_are_missing() -> None:
    arrays = cluster(3, [partition(0, [3, 1, 2])], topic={"min_insync_replicas": 3})
    moves = replacement_moves(arrays, 0, 1)
    waves = replace(moves, wave=np.array([0, 1], dtype=np.int32))
    result = simulate(arrays, waves, LOCAL, PLAIN)
    assert result.joined_s == pytest.approx([1.0, 2.0])
    assert result.below_min_isr_longest_s == pytest.approx(2.0)


def test_nothing_moves() -> None:
    arrays = cluster(2, [partition(0, [1])])
    result = simulate(arrays, moves_between(arrays, arrays.replicas), TIER_FIRST, PLAIN)
    assert (result.duration_s, result.leader_bytes, result.urp_minutes) == (0.0, 0.0, 0.0)


def test_the_slowest_resource_decides() -> None:
    for key, value in (
        ("nic_in_bytes_per_s", 100 * MB),
        ("disk_write_bytes_per_s", 100 * MB),
        ("nic_out_bytes_per_s", 100 * MB),
        ("disk_read_bytes_per_s", 100 * MB),
    ):
        slow = 1 if key in ("nic_in_bytes_per_s", "disk_write_bytes_per_s") else 2
        brokers = [broker(number, **({key: value} if number == slow else {})) for number in (1, 2)]
        assert replaced(cluster(brokers, [partition(0, [2, 1])])).duration_s == pytest.approx(10.0), key


def test_cpu_a_throttle_and_a_link_hold_back_as_well() -> None:
    rows = [partition(0, [2, 1])]
    cores = cluster([broker(1, cores=0.5), broker(2)], rows)
    busy = PLAIN.model_copy(update={"follower_cpu_s_per_gb": 5.0})
    assert replaced(cores, calibration=busy).duration_s == pytest.approx(10.0)
    assert replaced(cluster(2, rows, throttle_bytes_per_s=100 * MB)).duration_s == pytest.approx(10.0)
    racks = [broker(1, "a"), broker(2, "b")]
    link = {"from_rack": "b", "to_rack": "a", "bandwidth_bytes_per_s": 100 * MB}
    assert replaced(cluster(racks, rows, links=[link])).duration_s == pytest.approx(10.0)


def test_a_fetch_is_a_round_trip() -> None:
    """One replica: 4 MB in 40 ms. Two: 6 MB, a whole response, in 40 ms, then one alone again."""
    racks = [broker(1, "a"), broker(2, "b")]
    links = [{"from_rack": each[0], "to_rack": each[1], "latency_ms": 15} for each in ("ab", "ba")]
    limits = {"fetch_s": 0.01, "fetch_partition_bytes": 4 * MB, "fetch_response_bytes": 6 * MB}
    pace = PLAIN.model_copy(update=limits)
    alone = cluster(racks, [partition(0, [2, 1])], links=links)
    assert replaced(alone, calibration=pace).duration_s == pytest.approx(10.0, rel=1e-4)
    both = cluster(racks, [partition(0, [2, 1]), partition(1, [2, 1], 2.0)], links=links)
    found = replaced(both, calibration=pace, resolution=0.0).joined_s
    assert found == pytest.approx([2 * 1000 / 150, 2 * 1000 / 150 + 10.0], rel=1e-3)
    two = pace.model_copy(update={"fetchers": 2})
    assert replaced(both, calibration=two, resolution=0.0).joined_s[0] == pytest.approx(10.0, rel=1e-4)


def test_a_throttle_lets_the_debt_of_one_fetch_through() -> None:
    arrays = cluster(2, [partition(0, [2, 1])], throttle_bytes_per_s=100 * MB)
    burst = PLAIN.model_copy(update={"throttle_burst_bytes": 200 * MB})
    result = replaced(arrays, calibration=burst)
    assert result.duration_s == pytest.approx(0.2 + 8.0)
    peaks = {use.kind: use.peak for use in result.resources if use.peak}
    assert peaks["throttle in"] == peaks["nic in"] == pytest.approx(100 * MB), "not that of the burst"


def test_a_throttle_that_has_rested_lets_through_what_it_was_not_used_for() -> None:
    """Before each wave 2 s pass, of which one counts: 100 MB of credit last for as long as 1 GB/s exceed 100 MB/s."""
    rest = PLAIN.model_copy(update={"throttle_rest_s": 1.0, "wave_s": 2.0})
    arrays = cluster(3, [partition(each, [1, 2], 0.3) for each in (0, 1)], throttle_bytes_per_s=100 * MB)
    moves = moves_between(arrays, np.array([[0, 2], [0, 2]], dtype=np.int32))
    waves = replace(moves, wave=np.array([0, 1], dtype=np.int32))
    over_s = 100 * MB / (GB - 100 * MB)
    copies_s = over_s + (300 * MB - GB * over_s) / (100 * MB)
    result = simulate(arrays, waves, LOCAL, rest, resolution=0.0)
    assert result.joined_s == pytest.approx([2 + copies_s, 2 * (2 + copies_s)])


def test_a_throttle_rests_while_a_wave_waits_for_the_isr() -> None:
    rest = PLAIN.model_copy(update={"throttle_rest_s": 1.0, "isr_expansion_s": 2.0})
    arrays = cluster(3, [partition(each, [1, 2], 0.3) for each in (0, 1)], throttle_bytes_per_s=100 * MB)
    moves = moves_between(arrays, np.array([[0, 2], [0, 2]], dtype=np.int32))
    waves = replace(moves, wave=np.array([0, 1], dtype=np.int32))
    over_s = 100 * MB / (GB - 100 * MB)
    copies_s = over_s + (300 * MB - GB * over_s) / (100 * MB)
    result = simulate(arrays, waves, LOCAL, rest, resolution=0.0)
    assert result.joined_s == pytest.approx([3 + 2, 3 + 2 + copies_s + 2])


def test_the_throttle_of_a_broker_that_comes_back_has_not_rested() -> None:
    rest = PLAIN.model_copy(update={"throttle_rest_s": 1.0, "start_s": 5.0})
    arrays = cluster(2, [partition(0, [2, 1], 1.0)], throttle_bytes_per_s=100 * MB)
    assert replaced(arrays, calibration=rest).duration_s == pytest.approx(5.0 + 10.0)


def test_one_brokers_burst_makes_no_others_peak_smaller() -> None:
    """1 from 2 at 1 GB/s in a burst, while 3 gets 50 MB/s of 4 over its slow network card."""
    brokers = [broker(1), broker(2), broker(3, nic_in_bytes_per_s=50 * MB), broker(4)]
    rows = [partition(0, [2, 1], 1.0), partition(1, [4, 3], 0.05)]
    arrays = cluster(brokers, rows, throttle_bytes_per_s=100 * MB)
    burst = PLAIN.model_copy(update={"throttle_burst_bytes": 2 * GB})
    moves = replacement_moves(arrays, 0, 2)
    result = simulate(arrays, moves, LOCAL, burst)
    peaks = {(use.kind, use.owner): use.peak for use in result.resources if use.peak}
    assert peaks["nic in", "1"] == pytest.approx(100 * MB)
    assert peaks["nic in", "3"] == pytest.approx(50 * MB)


def test_who_waits_for_a_throttle_looks_again_too_late() -> None:
    lag = PLAIN.model_copy(update={"throttle_lag_s": 0.5, "throttle_burst_bytes": 1.5 * GB})
    rows = [partition(0, [2, 1], 2.0)]
    held = cluster(2, rows, throttle_bytes_per_s=100 * MB)
    assert replaced(held, calibration=lag).duration_s == pytest.approx(1.5 + 5.0 + 0.5)
    assert replaced(cluster(2, rows), calibration=lag).duration_s == pytest.approx(2.0)
    within_burst = cluster(2, [partition(0, [2, 1], 1.0)], throttle_bytes_per_s=100 * MB)
    assert replaced(within_burst, calibration=lag).duration_s == pytest.approx(1.0)


def test_live_bytes_slow_a_fetch_down_by_the_time_they_take() -> None:
    """1 MB in 1 ms on the way and 9 ms for the round trip: 100 MB/s, and half the time goes to live bytes."""
    rows = [partition(0, [2, 1], 0.0, produce_bytes_per_s=250 * MB), partition(1, [2, 1])]
    limits = {"fetch_s": 0.009, "fetch_partition_bytes": MB, "fetch_bytes_per_s": GB, "produce_weight": 2.0}
    result = replaced(cluster(2, rows), calibration=PLAIN.model_copy(update=limits))
    assert result.joined_s == pytest.approx([0.0, 20.0], abs=1e-6)


def test_leaders_with_less_do_not_hold_back_the_others() -> None:
    """Each leader's connection gets a third of the NIC; what the small ones leave goes to the large one."""
    rows = [partition(0, [2, 1], 6.0), partition(1, [3, 1], 1.0), partition(2, [4, 1], 1.0)]
    result = replaced(cluster(4, rows), resolution=0.0)
    assert result.joined_s == pytest.approx([8.0, 3.0, 3.0])


def test_what_is_produced_meanwhile_is_copied_too() -> None:
    arrays = cluster(2, [partition(0, [2, 1], 8.0, produce_bytes_per_s=0.2 * GB)])
    result = replaced(arrays)
    assert result.duration_s == pytest.approx(10.0)
    assert (result.bulk_bytes[0], result.catch_up_bytes[0]) == pytest.approx((8 * GB, 2 * GB))


def test_a_replica_that_has_joined_needs_its_share_of_the_network() -> None:
    """Broker 1 has 1 GB/s. The small one joins at 2 s, then takes 0.2 GB/s as a follower: 0.8 are left for the rest."""
    rows = [partition(0, [2, 1], 0.6, produce_bytes_per_s=0.2 * GB), partition(1, [3, 1], 9.0)]
    result = replaced(cluster(3, rows), resolution=0.0)
    assert result.joined_s[0] == pytest.approx(2.0)
    assert result.joined_s[1] == pytest.approx(2.0 + 8.0 / 0.8)


def test_the_foreground_comes_first_but_never_takes_all() -> None:
    busy = partition(1, [2, 3], 0.0, consume_bytes_per_s=0.9 * GB)
    arrays = cluster(3, [partition(0, [2, 1]), busy])
    assert replaced(arrays).duration_s == pytest.approx(10.0)
    full = cluster(3, [partition(0, [2, 1]), busy | {"consume_bytes_per_s": 5 * GB}])
    assert replaced(full).duration_s == pytest.approx(20.0)


def test_replicas_that_never_join() -> None:
    arrays = cluster(2, [partition(0, [2, 1], produce_bytes_per_s=0.2 * GB)], throttle_bytes_per_s=0.1 * GB)
    result = replaced(arrays)
    assert result.obstacle.tolist() == [Obstacle.OVERTAKEN]
    assert (result.duration_s, result.urp_minutes) == (np.inf, np.inf)
    alone = replaced(cluster(2, [partition(0, [1]), partition(1, [2, 1])]))
    assert alone.obstacle.tolist() == [Obstacle.NO_LEADER, Obstacle.NONE]
    assert np.isfinite(alone.joined_s).tolist() == [False, True]


def test_waves_behind_one_that_never_ends_do_not_begin() -> None:
    rows = [partition(0, [1, 2], produce_bytes_per_s=0.2 * GB), partition(1, [1, 2])]
    arrays = cluster(3, rows, throttle_bytes_per_s=0.1 * GB)
    moves = moves_between(arrays, np.array([[0, 2], [0, 2]], dtype=np.int32))
    result = simulate(arrays, replace(moves, wave=np.array([0, 1], dtype=np.int32)), LOCAL, PLAIN)
    assert result.obstacle.tolist() == [Obstacle.OVERTAKEN, Obstacle.WAVE_BEFORE]


def test_kafkas_traps() -> None:
    """All local from offset 0: everything is copied. Idle and tiered to its end: the replica never joins."""
    keys = {"topic": {"tiered": True}}
    whole = cluster(2, [tiered(0, [2, 1], 10.0, 10.0, 1.0, log_start_offset=0)], **keys)
    assert replaced(whole, policy=Policy.KAFKA_LAST_TIERED).leader_bytes == pytest.approx(10 * GB)
    assert replaced(whole, policy=Policy.EARLIEST_PENDING_UPLOAD).leader_bytes == pytest.approx(10 * GB)
    assert replaced(whole, policy=TIER_FIRST).leader_bytes == pytest.approx(GB)
    trimmed = cluster(2, [tiered(0, [2, 1], 10.0, 10.0, 1.0, log_start_offset=7)], **keys)
    assert replaced(trimmed, policy=Policy.KAFKA_LAST_TIERED).leader_bytes == pytest.approx(GB)
    idle = cluster(2, [tiered(0, [2, 1], 10.0, 1.0, 0.0)], **keys)
    assert replaced(idle, policy=Policy.KAFKA_LAST_TIERED).obstacle.tolist() == [Obstacle.NOTHING_PENDING]
    assert replaced(idle, policy=TIER_FIRST).joins.all()


@pytest.mark.parametrize(("log_start_offset", "expected_gb"), [(0, 2.0), (9, 1.0)])
def test_a_log_grows_until_the_replica_asks_unless_retention_trims_it(log_start_offset, expected_gb) -> None:
    row = partition(0, [2, 1], 1.0, produce_bytes_per_s=0.1 * GB, log_start_offset=log_start_offset)
    assert replaced(cluster(2, [row]), down_s=10.0).bulk_bytes[0] == pytest.approx(expected_gb * GB)


def test_down_time_delays_everything_and_risk_is_told() -> None:
    arrays = cluster(2, [partition(0, [2, 1])], topic={"min_insync_replicas": 2})
    result = replaced(arrays, down_s=60.0)
    assert result.duration_s == pytest.approx(61.0)
    assert result.below_min_isr_longest_s == pytest.approx(61.0)
    assert result.below_min_isr_minutes == result.urp_minutes == pytest.approx(61.0 / 60)
    assert result.timeline.below_min_isr[[0, -1]].tolist() == [1, 0]


def test_headroom_before_and_during() -> None:
    rows = [partition(0, [2, 1], 1.0), partition(1, [2, 3], 0.0, produce_bytes_per_s=0.25 * GB)]
    arrays = cluster(3, rows, throttle_bytes_per_s=0.5 * GB)
    result = replaced(arrays)
    assert result.produce_headroom_before[1] == pytest.approx(3.0)
    assert result.produce_headroom[1] == pytest.approx(1.0)
    assert result.produce_headroom[0] == np.inf


def test_two_brokers_at_once() -> None:
    arrays = cluster(3, [partition(0, [1, 2, 3]), partition(1, [1, 2])])
    result = simulate(arrays, replacement_moves(arrays, 0, 1), LOCAL, PLAIN)
    assert result.obstacle.tolist() == [Obstacle.NONE, Obstacle.NONE, Obstacle.NO_LEADER, Obstacle.NO_LEADER]
    assert result.joined_s[:2] == pytest.approx([2.0, 2.0])


rates = st.integers(50, 400).map(lambda each: each * MB)


@st.composite
def clusters(draw: st.DrawFn):
    count = draw(st.integers(2, 5))
    keys = ("nic_in_bytes_per_s", "nic_out_bytes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s")
    brokers = [
        broker(number, draw(st.sampled_from("abc")), **{key: draw(rates) for key in keys})
        for number in range(1, count + 2)
    ]
    rows = [
        partition(
            index,
            [draw(st.integers(2, count + 1)), 1],
            draw(st.integers(1, 50)) / 10,
            produce_bytes_per_s=draw(st.integers(0, 3)) * MB,
        )
        for index in range(draw(st.integers(1, 10)))
    ]
    throttle = draw(st.none() | rates)
    racks = [
        {"name": name, **{f"uplink_{way}_bytes_per_s": draw(st.none() | rates) for way in ("out", "in")}}
        for name in sorted({each["rack"] for each in brokers})
    ]
    return cluster(brokers, rows, racks=racks, **({"throttle_bytes_per_s": throttle} if throttle else {}))


@settings(max_examples=40)
@given(clusters())
def test_the_engine_agrees_with_the_reference(arrays) -> None:
    moves = replacement_moves(arrays, 0)
    replicas = [
        Replica(int(arrays.leader[each]), 0, float(arrays.size_bytes[each]), float(arrays.produce[each]))
        for each in moves.partition
    ]
    racks = arrays.racks.tolist()
    racks_of_leaders = arrays.racks[arrays.leader]
    available = {name: np.inf for each in replicas for name in resources_of(each.source, each.target, racks)}
    for number in range(arrays.broker_count):
        led = arrays.leader == number
        out = arrays.nic_out[number]
        available |= {("out", number): out, ("in", number): arrays.nic_in[number] - arrays.produce[led].sum()}
        available |= {("read", number): arrays.disk_read[number]}
        available |= {("write", number): arrays.disk_write[number] - arrays.produce[led].sum()}
        available |= {(f"throttle {way}", number): arrays.throttle_bytes_per_s for way in ("in", "out")}
    for number in range(len(arrays.rack_names)):
        led = racks_of_leaders == number
        available |= {("uplink out", number): arrays.uplink_out[number]}
        available |= {("uplink in", number): arrays.uplink_in[number] - arrays.produce[led].sum()}
    run(replicas, available, racks)
    expected = np.array([each.joined_s for each in replicas])
    exact = simulate(arrays, moves, LOCAL, PLAIN, resolution=0.0)
    assert np.allclose(exact.joined_s, expected, rtol=1e-6)
    coarse = simulate(arrays, moves, LOCAL, PLAIN)
    assert np.allclose(coarse.joined_s, expected, rtol=5e-3)
    charted = exact.timeline.into[:, 0].sum() * np.diff(exact.timeline.at_s)[0]
    assert charted == pytest.approx(exact.leader_bytes, rel=1e-6)


@settings(max_examples=40)
@given(clusters())
def test_no_uplink_lets_more_through_than_it_can(arrays) -> None:
    """Whatever shares it: at no time more than its capacity, and so no sooner than all bytes fit through."""
    moves = replacement_moves(arrays, 0)
    result = simulate(arrays, moves, LOCAL, PLAIN, resolution=0.0)
    for use in result.resources:
        assert use.foreground + use.peak <= use.capacity * (1 + 1e-6), use
    home, there = arrays.racks[arrays.leader[moves.partition]], arrays.racks[0]
    copied = result.bulk_bytes + result.catch_up_bytes
    crosses = home != there
    assert result.duration_s >= copied[crosses].sum() / arrays.uplink_in[there] * (1 - 1e-6)
    for rack in range(len(arrays.rack_names)):
        assert result.duration_s >= copied[crosses & (home == rack)].sum() / arrays.uplink_out[rack] * (1 - 1e-6)


def test_flows_of_a_rack_share_its_uplink_and_what_stays_in_the_rack_does_not() -> None:
    """Through an uplink of 200 MB/s come 1 GB each from brokers 2 and 3 (b), beside 4 GB from broker 4 (a), whose own
    rate is then what the NIC has left: 800 MB/s; two live followers' 100 MB/s later slow it down.
    """
    brokers = [broker(1, "a"), broker(2, "b"), broker(3, "b"), broker(4, "a")]
    rows = [partition(0, [2, 1]), partition(1, [3, 1]), partition(2, [4, 1], 4.0)]
    for rack in ({"name": "a", "uplink_in_bytes_per_s": 200 * MB}, {"name": "b", "uplink_out_bytes_per_s": 200 * MB}):
        found = replaced(cluster(brokers, rows, racks=[rack]), resolution=0.0)
        assert found.joined_s == pytest.approx([10.0, 10.0, 5.0])


def test_a_replica_in_sync_takes_its_share_of_links_and_uplinks() -> None:
    """Partition 0 has joined after 1 s of 200 MB/s; its 50 MB/s of live bytes leave 150 to partition 1 from then on."""
    brokers = [broker(1, "a"), broker(2, "b"), broker(3, "b")]
    rows = [partition(0, [2, 1], 0.05, produce_bytes_per_s=50 * MB), partition(1, [3, 1], 1.0)]
    for limit in (
        {"racks": [{"name": "b", "uplink_out_bytes_per_s": 200 * MB}]},
        {"links": [{"from_rack": "b", "to_rack": "a", "bandwidth_bytes_per_s": 200 * MB}]},
    ):
        found = replaced(cluster(brokers, rows, **limit), resolution=0.0)
        assert found.joined_s == pytest.approx([1.0, 7.0])


@pytest.mark.slow
def test_S1_a_thousand_brokers_and_a_hundred_thousand_partitions() -> None:
    """One of a thousand brokers is replaced, and as a harder case, one of twenty that hold as many partitions: each in
    at most 5 s of CPU.
    """
    for brokers, racks in ((999, 3), (20, 1)):
        shape = Shape(
            brokers=brokers,
            racks=racks,
            partitions=100_000,
            produce_bytes_per_s=20e9 if brokers > 20 else 1e9,
            retention_h=72,
            local_retention_h=4,
        )
        arrays = synthetic_cluster(shape)
        began_s = time.process_time()
        result = replaced(arrays, policy=TIER_FIRST, calibration=Calibrations.default().of(TIER_FIRST))
        assert time.process_time() - began_s <= 5.0
        assert result.joins.all()
        assert len(result.moves) >= 300


def test_moves_must_not_be_mutated() -> None:
    arrays = cluster(2, [partition(0, [2, 1])])
    moves = replacement_moves(arrays, 0)
    before = Moves(*(each.copy() for each in (moves.partition, moves.slot, moves.source, moves.target, moves.wave)))
    leaders = arrays.leader.copy()
    simulate(arrays, moves, LOCAL, PLAIN)
    assert (moves.target == before.target).all()
    assert (arrays.leader == leaders).all()
