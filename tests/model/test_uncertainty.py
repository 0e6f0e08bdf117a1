"""Predictions with their range, and where their seconds go."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.model.calibration import Calibration, Calibrations, Spread
from tierfetch.model.core import Cause
from tierfetch.model.engine import simulate
from tierfetch.model.inventory import Inventory, InventoryError
from tierfetch.model.inventory_parts import Policy
from tierfetch.model.moves import moves_between, replacement_moves
from tierfetch.model.replicas.joining import MODEL, RUNS
from tierfetch.model.synthetic import Shape, synthetic_cluster
from tierfetch.model.uncertainty import Prediction, outlook_of, predict
from tierfetch.tests.model.builders import EXAMPLE, GB, MB, PLAIN, broker, cluster, document, partition

LOCAL = Policy.LOCAL_LOG_START


def predicted(arrays, calibration: Calibration = PLAIN, policy: Policy = LOCAL, **options) -> Prediction:
    return predict(arrays, replacement_moves(arrays, 0), policy, calibration, **options)


def spread(**factors: float) -> Calibration:
    return PLAIN.model_copy(update={"spread": Spread(**factors)})


# --- where the time goes ----------------------------------------------------------------------------------------------


def seconds(arrays, calibration: Calibration = PLAIN, policy: Policy = LOCAL) -> dict[Cause, float]:
    return dict(predicted(arrays, calibration, policy).result.seconds.longest_first())


@pytest.mark.parametrize(
    ("limit", "cause"),
    [
        ({"nic_in_bytes_per_s": 100 * MB}, Cause.FOLLOWER_LINK),
        ({"disk_write_bytes_per_s": 100 * MB}, Cause.FOLLOWER_DISK),
    ],
)
def test_the_resource_that_is_full_on_the_new_broker_is_named(limit: dict[str, float], cause: Cause) -> None:
    found = seconds(cluster([broker(1, **limit), broker(2)], [partition(0, [2, 1])]))
    assert found == {cause: pytest.approx(10.0)}


@pytest.mark.parametrize(
    ("limit", "cause"),
    [
        ({"nic_out_bytes_per_s": 100 * MB}, Cause.LEADER_LINK),
        ({"disk_read_bytes_per_s": 100 * MB}, Cause.LEADER_DISK),
    ],
)
def test_the_resource_that_is_full_on_the_leader_is_named(limit: dict[str, float], cause: Cause) -> None:
    found = seconds(cluster([broker(1), broker(2, **limit)], [partition(0, [2, 1])]))
    assert found == {cause: pytest.approx(10.0)}


def test_throttle_link_pace_and_cpu_are_named() -> None:
    rows = [partition(0, [2, 1])]
    assert seconds(cluster(2, rows, throttle_bytes_per_s=50 * MB)) == {Cause.THROTTLE: pytest.approx(20.0)}
    slow = PLAIN.model_copy(update={"fetch_bytes_per_s": 100 * MB})
    assert seconds(cluster(2, rows), slow) == {Cause.FETCHES: pytest.approx(10.0)}
    busy = PLAIN.model_copy(update={"follower_cpu_s_per_gb": 80.0})
    assert seconds(cluster(2, rows), busy) == {Cause.FOLLOWER_CPU: pytest.approx(10.0)}
    racks = [broker(1, "a"), broker(2, "b")]
    link = [{"from_rack": "b", "to_rack": "a", "bandwidth_bytes_per_s": 100 * MB}]
    assert seconds(cluster(racks, rows, links=link)) == {Cause.RACK_LINK: pytest.approx(10.0)}
    for uplink in ({"name": "b", "uplink_out_bytes_per_s": 100 * MB}, {"name": "a", "uplink_in_bytes_per_s": 100 * MB}):
        assert seconds(cluster(racks, rows, racks=[uplink])) == {Cause.UPLINK: pytest.approx(10.0)}


def test_start_replay_set_up_tier_and_isr_are_named() -> None:
    row = partition(0, [2, 1], 10.0, local_bytes=5 * GB, tiered_bytes=10 * GB)
    arrays = cluster(2, [row], topic={"tiered": True}, tier={"latency_ms": 500})
    slow = PLAIN.model_copy(
        update={
            "start_s": 2.0,
            "replay_partition_s": 0.5,
            "setup_s": 0.25,
            "aux_gets": 2,
            "retry_s": 1.0,
            "isr_expansion_s": 0.125,
        }
    )
    assert seconds(arrays, slow, Policy.TIER_FIRST) == {
        Cause.START: 2.0,
        Cause.REPLAY: 0.5,
        Cause.SETUP: 0.25,
        Cause.TIER: pytest.approx(2.0),
        Cause.ISR: 0.125,
    }


def test_the_last_replica_waits_for_a_slot_and_the_whole_does_not() -> None:
    arrays = cluster(3, [partition(0, [1, 2], 4.0), partition(1, [2, 1], 2.0)])
    moves = moves_between(arrays, np.array([[0, 2], [1, 2]], dtype=np.int32))
    result = simulate(arrays, replace(moves, wave=np.array([0, 1], dtype=np.int32)), LOCAL, PLAIN)
    assert result.last_seconds.of(Cause.WAITING) == pytest.approx(4.0, rel=2e-3)
    assert result.seconds.of(Cause.WAITING) == 0.0
    assert result.last_seconds.total == pytest.approx(result.duration_s)
    assert result.seconds.total == pytest.approx(result.duration_s)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    policy=st.sampled_from([each for each in Policy if each is not Policy.KAFKA_LAST_TIERED]),
    throttle=st.sampled_from([np.inf, 20e6]),
    down_s=st.sampled_from([0.0, 12.0]),
)
def test_seconds_by_cause_add_up_to_the_time_of_joining(seed, policy, throttle, down_s) -> None:
    shape = Shape(
        brokers=6,
        partitions=40,
        produce_bytes_per_s=2e6,
        retention_h=8,
        local_retention_h=1,
        tiered_share=0.5,
        throttle_bytes_per_s=throttle,
        seed=seed,
    )
    arrays = synthetic_cluster(shape)
    calibration = Calibrations.default().of(policy)
    result = simulate(arrays, replacement_moves(arrays, 0), policy, calibration, down_s=down_s)
    joins = result.joins
    assert (result.cause_s >= 0).all()
    assert result.cause_s[joins].sum(axis=1) == pytest.approx(result.joined_s[joins])
    if joins.all():
        assert result.seconds.total == pytest.approx(result.duration_s)
        assert result.seconds.of(Cause.DOWN) == down_s


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_without_anything_unknown_a_prediction_is_exact() -> None:
    found = predicted(cluster(2, [partition(0, [2, 1])]))
    assert found.range.low == found.range.high == found.range.median == pytest.approx(1.0)
    assert found.range.widest == ""


def test_machines_widen_what_they_decide_and_a_throttle_does_not() -> None:
    rows = [partition(0, [2, 1])]
    paced = spread(runs=1.2, model=1.5).model_copy(update={"fetch_bytes_per_s": 100 * MB})
    found = predicted(cluster(2, rows), paced)
    assert found.range.widest == MODEL
    assert found.range.high == pytest.approx(10 * math.exp(math.hypot(math.log(1.2), math.log(1.5))))
    held = predicted(cluster(2, rows, throttle_bytes_per_s=50 * MB), paced)
    assert held.range.high == held.range.low == pytest.approx(20.0)
    measured = predicted(cluster(2, rows, throttle_bytes_per_s=50 * MB), spread(throttle=1.1))
    assert measured.range.high == pytest.approx(22.0)


def test_first_runs_and_load_make_it_longer_only() -> None:
    found = predicted(
        cluster(2, [partition(0, [2, 1])]),
        spread(first=1.5, load=1.2).model_copy(update={"fetch_bytes_per_s": 100 * MB}),
    )
    assert found.range.low == found.range.median
    assert found.range.high > 15.0


def test_a_rate_that_the_inventory_gives_as_a_range_is_simulated_at_both_ends() -> None:
    brokers = [broker(1, nic_in_bytes_per_s="100 MB/s to 400 MB/s"), broker(2)]
    arrays = cluster(brokers, [partition(0, [2, 1])])
    found = predicted(arrays, spread(runs=1.1))
    assert found.range.median == pytest.approx(5.0)
    assert (found.range.low, found.range.high) == pytest.approx((2.5, 10.0))
    assert found.range.widest == "nic_in_bytes_per_s of broker 1"


def joining(found: Prediction) -> list[tuple[float, float]]:
    return list(zip(found.joining.low_s.tolist(), found.joining.high_s.tolist(), strict=True))


def test_each_replica_is_as_sure_as_what_it_waits_for() -> None:
    """From broker 2 one fetch comes after the other, from broker 3 the link limits: only the first is a machine's."""
    brokers = [broker(1), broker(2), broker(3, nic_out_bytes_per_s=20 * MB)]
    paced = spread(runs=1.2).model_copy(update={"fetch_bytes_per_s": 100 * MB})
    found = predicted(cluster(brokers, [partition(0, [2, 1]), partition(1, [3, 1])]), paced)
    first, second = joining(found)
    assert first == pytest.approx((10 / 1.2, 12.0), rel=1e-3)
    assert second == pytest.approx((50.0, 50.0))


def test_the_last_replica_has_the_range_of_the_whole_also_in_waves_and_with_unknown_rates() -> None:
    brokers = [broker(1), broker(2), broker(3, nic_in_bytes_per_s="100 MB/s to 400 MB/s")]
    arrays = cluster(brokers, [partition(0, [1, 2], 4.0), partition(1, [2, 1], 2.0)])
    moves = moves_between(arrays, np.array([[0, 2], [1, 2]], dtype=np.int32))
    waves = replace(moves, wave=np.array([0, 1], dtype=np.int32))
    paced = spread(runs=1.2, model=1.3).model_copy(update={"fetch_bytes_per_s": 250 * MB, "wave_s": 3.0})
    found = predict(arrays, waves, LOCAL, paced)
    assert joining(found)[1] == pytest.approx((found.range.low, found.range.high), rel=1e-6)
    assert found.range.low < joining(found)[0][1] < found.range.high


def test_what_never_joins_has_no_range() -> None:
    row = partition(0, [2, 1], produce_bytes_per_s=200 * MB)
    found = predicted(cluster(2, [row], throttle_bytes_per_s=100 * MB), spread(runs=1.2))
    assert joining(found) == [(math.inf, math.inf)]


def test_a_range_of_what_never_limits_changes_nothing() -> None:
    brokers = [broker(1, disk_write_bytes_per_s="2 GB/s to 9 GB/s"), broker(2)]
    found = predicted(cluster(brokers, [partition(0, [2, 1])]))
    assert found.range.low == found.range.high


@pytest.mark.parametrize("ratio", [1.0, 1.5, 3.0, 8.0])
def test_a_wider_range_of_a_rate_gives_a_wider_range_of_the_time(ratio: float) -> None:
    def width(factor: float) -> float:
        text = f"{200 / factor} MB/s to {200 * factor} MB/s"
        return predicted(cluster([broker(1, nic_in_bytes_per_s=text), broker(2)], [partition(0, [2, 1])])).range.width

    assert width(ratio) <= width(ratio * 1.2)


def test_a_rate_so_low_that_it_never_ends_has_no_upper_end() -> None:
    brokers = [broker(1), broker(2)]
    row = partition(0, [2, 1], produce_bytes_per_s="1 MB/s to 900 MB/s")
    arrays = cluster(brokers, [row], throttle_bytes_per_s=100 * MB)
    found = predicted(arrays)
    assert found.range.median < math.inf
    assert found.range.high == math.inf
    assert found.range.widest == "produce_bytes_per_s of t-0"


def test_links_and_the_tier_may_be_ranges_too() -> None:
    row = partition(0, [2, 1], 10.0, local_bytes=5 * GB, tiered_bytes=9 * GB)
    arrays = cluster(
        [broker(1, "a"), broker(2, "b")],
        [row],
        topic={"tiered": True},
        tier={"latency_ms": "0 to 1000"},
        links=[{"from_rack": "b", "to_rack": "a", "bandwidth_bytes_per_s": "100 MB/s to 1 GB/s"}],
    )
    found = predicted(arrays, PLAIN.model_copy(update={"aux_gets": 1}), Policy.TIER_FIRST)
    assert {each.name for each in found.range.effects} == {
        "latency_ms of the tier",
        "bandwidth_bytes_per_s of the link b -> a",
    }
    assert found.range.widest == "bandwidth_bytes_per_s of the link b -> a"


def test_an_uplink_may_be_a_range() -> None:
    racks = [{"name": "a", "uplink_in_bytes_per_s": "100 MB/s to 400 MB/s"}]
    found = predicted(cluster([broker(1, "a"), broker(2, "b")], [partition(0, [2, 1], 2.0)], racks=racks))
    assert found.range.median == pytest.approx(10.0)
    assert found.range.widest == "uplink_in_bytes_per_s of rack a"
    assert (found.range.low, found.range.high) == pytest.approx((5.0, 20.0))


def test_a_range_is_written_and_read_back() -> None:
    written = document(2, [partition(0, [2, 1])], broker_defaults={"cores": "8 to 16"})
    for each in written["brokers"]:
        del each["cores"]
    found = Inventory.from_document(written)
    assert found.brokers[0].cores == pytest.approx(math.sqrt(8 * 16))
    assert [(each.key, each.broker, each.low, each.high) for each in found.unsure] == [
        ("cores", 1, 8.0, 16.0),
        ("cores", 2, 8.0, 16.0),
    ]
    assert Inventory.from_yaml(found.to_yaml()) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"nic_in_bytes_per_s": "2 GB/s to 1 GB/s"},
            "nic_in_bytes_per_s: from 2e+09 to 1e+09: the lower end comes first",
        ),
        ({"nic_in_bytes_per_s": "1 GB/s to much"}, "nic_in_bytes_per_s: 'much' is not a quantity"),
        ({"disk_bytes": "1 TB to 2 TB"}, "disk_bytes: '1 TB to 2 TB' is not a quantity"),
    ],
)
def test_a_range_that_is_none_is_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(InventoryError) as error:
        Inventory.from_document(document([broker(1, **change), broker(2)], [partition(0, [2, 1])]))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("unsure", "message"),
    [
        ({"key": "cores", "broker": 7, "low": 1, "high": 2}, "unsure cores: there is no broker 7"),
        ({"key": "uplink_in_bytes_per_s", "rack": "z", "low": 1, "high": 2}, "there is no rack z under racks"),
        ({"key": "latency_ms", "from_rack": "x", "to_rack": "y", "low": 1, "high": 2}, "there is no link x -> y"),
        (
            {"key": "produce_bytes_per_s", "topic": "t", "partition": 9, "low": 1, "high": 2},
            "there is no partition t-9",
        ),
        ({"key": "size_bytes", "broker": 1, "low": 1, "high": 2}, "size_bytes cannot be a range"),
    ],
)
def test_a_range_of_what_is_not_there_contradicts_the_inventory(unsure: dict[str, object], message: str) -> None:
    with pytest.raises(InventoryError, match=message):
        Inventory.from_document(document(2, [partition(0, [2, 1])], unsure=[unsure]))


def test_the_example_says_how_sure_it_is() -> None:
    arrays = cluster_of_example()
    found = predict(arrays, replacement_moves(arrays, 2), arrays.policy, Calibrations.default().of(arrays.policy))
    assert found.range.low < found.range.median < found.range.high
    assert found.range.median == found.result.duration_s
    assert {each.name for each in found.range.effects} >= {RUNS, MODEL}


def cluster_of_example():
    from tierfetch.model.arrays import ClusterArrays

    return ClusterArrays.from_inventory(Inventory.read(EXAMPLE))


def test_an_outlook_follows_the_course_of_its_moves() -> None:
    arrays = cluster(2, [partition(0, [2, 1], 1.0), partition(1, [2, 1], 3.0)])
    prediction = predicted(arrays)
    outlook = outlook_of(arrays, prediction, np.array([1.0, 3.0]))
    assert outlook is not None
    shares = [share for _, share in outlook.course]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert outlook.median_s == prediction.result.duration_s
    stuck = predicted(replace(arrays, leader=np.full(2, -1, dtype=np.int32)))
    assert outlook_of(arrays, stuck, np.array([1.0, 3.0])) is None
