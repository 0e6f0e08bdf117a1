"""Tiering over time, moves between placements, failover, growth, made-up clusters, sweeps."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.model.arrays import NO_BROKER, ClusterArrays
from tierfetch.model.calibration import Calibrations
from tierfetch.model.failures import Death, fail_over, predict_failover, unavailable_s
from tierfetch.model.growth import with_new_brokers
from tierfetch.model.inventory import Inventory
from tierfetch.model.inventory_parts import Policy
from tierfetch.model.moves import moves_between, replacement_moves
from tierfetch.model.recorder import SAMPLES_MAX, Recorder
from tierfetch.model.resources import resources_of
from tierfetch.model.sweep import CASE_FIELDS, RESULT_FIELDS, run_case, sweep_cases
from tierfetch.model.synthetic import Shape, synthetic_cluster, total_by_broker
from tierfetch.model.tiering import pending_at
from tierfetch.model.warming import warming_s
from tierfetch.tests.model.builders import EXAMPLE, GB, MB, PLAIN, broker, cluster, partition

TYPES = {"int": int, "float": float, "str": str}


def pending(at_s: float, **rlm: float) -> float:
    """Of a partition with 1.5 of its 1 GB segments pending, to which 10 MB/s are produced."""
    row = partition(0, [1], 10.0, local_bytes=3 * GB, tiered_bytes=8.5 * GB, produce_bytes_per_s=10 * MB)
    arrays = cluster(1, [row], topic={"tiered": True, "segment_bytes": GB}, rlm={"interval_s": 20.0, **rlm})
    return float(pending_at(arrays, np.array([0]), np.array([at_s]))[0]) / GB


def test_pending_bytes_saw_up_and_down() -> None:
    assert pending(0.0) == 1.5
    assert pending(9.9) == pytest.approx(1.599)
    assert pending(10.0) == pytest.approx(0.6)
    assert pending(59.0) == pytest.approx(1.09)
    assert pending(61.0) == pytest.approx(0.11)


def test_a_slow_copy_keeps_bytes_pending() -> None:
    assert pending(10.0, copy_bytes_per_s=20 * MB) == pytest.approx(1.4)
    assert pending(100.0, copy_bytes_per_s=1 * MB) == pytest.approx(2.4)


@given(st.floats(0, 1e6), st.floats(1e5, 1e9))
def test_pending_bytes_are_never_negative_nor_more_than_there_is(at_s: float, quota: float) -> None:
    assert 0 <= pending(at_s, copy_bytes_per_s=quota) <= 1.5 + at_s * 0.01 + 1e-9


def test_what_is_not_tiered_only_grows() -> None:
    arrays = cluster(1, [partition(0, [1], 2.0, produce_bytes_per_s=GB)])
    assert pending_at(arrays, np.array([0]), np.array([3.0])).tolist() == [5 * GB]


def rows_of(moves) -> list[tuple[int, ...]]:
    return sorted(zip(*(each.tolist() for each in (moves.partition, moves.source, moves.target)), strict=True))


def test_moves_between_two_placements() -> None:
    arrays = cluster(4, [partition(0, [1, 2]), partition(1, [2, 3]), partition(2, [1, 2])])
    target = np.array([[3, 2, NO_BROKER], [2, 1, NO_BROKER], [0, 1, 2]], dtype=np.int32)
    moves = moves_between(arrays, target)
    assert rows_of(moves) == [(0, 0, 2), (0, 1, 3), (2, NO_BROKER, 2)] or rows_of(moves) == [
        (0, 0, 3),
        (0, 1, 2),
        (2, NO_BROKER, 2),
    ]
    assert not moves.is_replacement.any()
    assert len(moves_between(arrays, arrays.replicas[:, ::-1].copy())) == 0


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_moves_lead_from_one_placement_to_the_other(random) -> None:
    old = [random.sample(range(1, 7), random.randint(1, 3)) for _ in range(8)]
    new = [random.sample(range(6), random.randint(1, 4)) for _ in range(8)]
    arrays = cluster(6, [partition(index, replicas) for index, replicas in enumerate(old)])
    wanted = np.full((8, 4), NO_BROKER, dtype=np.int32)
    for index, replicas in enumerate(new):
        wanted[index, : len(replicas)] = replicas
    moves = moves_between(arrays, wanted)
    for index, replicas in enumerate(new):
        held = {each - 1 for each in old[index]}
        mine = moves.partition == index
        came, went = set(moves.target[mine].tolist()), set(moves.source[mine].tolist()) - {NO_BROKER}
        assert came == set(replicas) - held
        assert went <= held - set(replicas)
        assert len(went) == min(len(came), len(held - set(replicas)))


@pytest.mark.parametrize(("tier_mb_per_s", "expected_s"), [(1000, 100.0), (100, 150.0)])
def test_warming_up_shares_the_tier(tier_mb_per_s: float, expected_s: float) -> None:
    """Two brokers need 10 and 5 GB at 100 MB/s each; from a slow tier each gets a half until one is done."""
    arrays = cluster(3, [partition(0, [3])], tier={"bandwidth_bytes_per_s": tier_mb_per_s * MB})
    resources = resources_of(arrays, PLAIN)
    thin = np.array([4.0, 6.0, 5.0, 0.0]) * GB
    racks = arrays.racks
    assert warming_s(resources, racks, np.array([0, 0, 1, 2]), thin, 100 * MB) == pytest.approx(expected_s)
    assert warming_s(resources, racks, np.array([0]), np.zeros(1), 100 * MB) == 0.0


def test_brokers_of_a_rack_share_its_uplink_when_they_warm_up() -> None:
    """Brokers 1 and 2 need 10 and 5 GB through an uplink of 100 MB/s; broker 3, in another rack, has its own way."""
    arrays = cluster(
        [broker(1, "a"), broker(2, "a"), broker(3, "b")],
        [partition(0, [3])],
        racks=[{"name": "a", "uplink_in_bytes_per_s": 100 * MB}],
    )
    resources = resources_of(arrays, PLAIN)
    thin = np.array([10.0, 5.0, 5.0]) * GB
    assert warming_s(resources, arrays.racks, np.arange(3), thin, 100 * MB) == pytest.approx(150.0)
    assert warming_s(resources, arrays.racks, np.arange(2, 3), thin[2:], 100 * MB) == pytest.approx(50.0)


def test_who_leads_after_a_failure() -> None:
    rows = [
        partition(0, [1, 2, 3]),
        partition(1, [1, 2, 3], isr=[1, 3]),
        partition(2, [1, 2], isr=[1]),
        partition(3, [2, 1]),
    ]
    after = fail_over(cluster(3, rows), [0])
    assert after.leader.tolist() == [1, 2, NO_BROKER, 1]
    assert after.in_sync.sum(axis=1).tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize(
    ("refusal_s", "process_s"),
    [(0.5, 1.5), (None, 10.0), (60.0, 10.0)],
)
def test_a_process_that_dies_is_noticed_by_its_listener_and_a_host_by_its_silence(
    refusal_s: float | None, process_s: float
) -> None:
    calibration = PLAIN.model_copy(update={"refusal_s": refusal_s})
    assert unavailable_s(Death.PROCESS, calibration) == process_s
    assert unavailable_s(Death.HOST, calibration) == 10.0
    arrays = cluster(2, [partition(0, [1, 2])])
    assert predict_failover(arrays, [0], calibration, Death.PROCESS).unavailable_s == 10.0, "one of two is half"
    arrays = cluster(5, [partition(0, [1, 2])])
    assert predict_failover(arrays, [0, 1], calibration, Death.PROCESS).unavailable_s == process_s
    assert predict_failover(arrays, [0, 1, 2], calibration, Death.PROCESS).unavailable_s == 10.0


def test_what_a_failure_comes_to() -> None:
    rows = [
        partition(0, [1, 2], produce_bytes_per_s=100 * MB, consume_bytes_per_s=200 * MB),
        partition(1, [1, 2], isr=[1]),
        partition(2, [2, 3]),
    ]
    arrays = cluster(3, rows, topic={"min_insync_replicas": 2})
    result = predict_failover(arrays, [0], PLAIN)
    assert result.unavailable_s == 10.0
    assert result.lost_leader.tolist() == [True, True, False]
    assert result.is_leaderless.tolist() == [False, True, False]
    assert result.below_min_isr.tolist() == [True, False, False]
    assert result.leaders_after.tolist() == [0, 2, 0]
    assert result.nic_share_before.tolist() == pytest.approx([0.3, 0.1, 0.0])
    assert result.nic_share_after.tolist() == pytest.approx([0.0, 0.2, 0.0])
    assert result.headroom_after[1] == pytest.approx(4.0)


def test_what_the_foreground_takes() -> None:
    keys = {"produce_bytes_per_s": 10 * MB, "consume_bytes_per_s": 5 * MB}
    arrays = cluster([broker(1, "a"), broker(2, "b")], [partition(0, [1, 2], **keys)], topic={"tiered": True})
    pace = PLAIN.model_copy(update={"leader_cpu_s_per_gb": 1.0, "follower_cpu_s_per_gb": 2.0})
    resources = resources_of(arrays, pace)
    taken = {name: use for name, use in zip(resources.names(arrays), resources.foreground, strict=True) if use}
    assert taken == pytest.approx(
        {
            ("nic in", "1"): 10 * MB,
            ("nic in", "2"): 10 * MB,
            ("disk write", "1"): 10 * MB,
            ("disk write", "2"): 10 * MB,
            ("nic out", "1"): (10 + 10 + 5) * MB,
            ("CPU", "1"): 0.010 * 2 + 0.025 * 1,
            ("CPU", "2"): 0.010 * 2,
            ("link", "a -> b"): 10 * MB,
            ("uplink out", "a"): (10 + 10 + 5) * MB,
            ("uplink in", "a"): 10 * MB,
            ("uplink in", "b"): 10 * MB,
            ("tier", ""): 10 * MB,
        }
    )


def test_what_the_foreground_takes_of_uplinks() -> None:
    """Clients and the tier are outside; the follower of partition 1 is in its leader's rack."""
    keys = {"produce_bytes_per_s": 10 * MB, "consume_bytes_per_s": 5 * MB}
    racks = [broker(1, "a"), broker(2, "b"), broker(3, "a")]
    arrays = cluster(racks, [partition(0, [1, 2], **keys), partition(1, [1, 3], **keys)], topic={"tiered": True})
    resources = resources_of(arrays, PLAIN)
    taken = dict(zip(resources.names(arrays), resources.foreground.tolist(), strict=True))
    assert {owner: taken[each] for each in taken for kind, owner in [each] if kind == "uplink out"} == pytest.approx(
        {"a": (10 + 2 * 10 + 2 * 5) * MB, "b": 0.0}
    )
    assert {owner: taken[each] for each in taken for kind, owner in [each] if kind == "uplink in"} == pytest.approx(
        {"a": 2 * 10 * MB, "b": 10 * MB}
    )


def test_new_brokers_go_where_racks_are_short() -> None:
    arrays = cluster([broker(1, "a"), broker(2, "a"), broker(5, "b", cores=2)], [partition(0, [1, 5])])
    grown = with_new_brokers(arrays, 3)
    assert grown.broker_ids.tolist() == [1, 2, 5, 6, 7, 8]
    assert [grown.rack_names[rack] for rack in grown.racks[3:]] == ["b", "a", "b"]
    assert grown.cores.tolist() == [8, 8, 2, 2, 8, 2]
    Inventory.from_document(grown.to_inventory().model_dump(exclude_none=True))


def test_no_byte_is_lost_when_a_recorder_thins_its_samples() -> None:
    recorder = Recorder(1, 1)
    for step in range(5 * SAMPLES_MAX):
        recorder.interval(step, step + 1, np.array([step]), np.array([step % 7]), np.array([1]))
    edges = np.linspace(0, 5 * SAMPLES_MAX, 50)
    into, out_of = recorder.rates(edges)
    assert (into[:, 0] * np.diff(edges)).sum() == pytest.approx(sum(step % 7 for step in range(5 * SAMPLES_MAX)))
    assert out_of[:, 0] == pytest.approx(1.0)
    assert len(recorder._samples) <= 2 * SAMPLES_MAX
    assert (recorder.peak[0], recorder.peak_at_s[0]) == (5 * SAMPLES_MAX - 1, 5 * SAMPLES_MAX - 1)


SHAPE = Shape(
    brokers=12, partitions=300, produce_bytes_per_s=1e9, retention_h=72, local_retention_h=4, tiered_share=0.5, seed=3
)


def test_a_made_up_cluster_is_a_sound_inventory() -> None:
    arrays = synthetic_cluster(SHAPE)
    inventory = Inventory.from_document(arrays.to_inventory().model_dump(exclude_none=True))
    assert not [line for line in inventory.warnings() if "share a rack" in line]
    assert arrays.produce.sum() == pytest.approx(1e9)
    assert np.count_nonzero(arrays.tiered[arrays.topic]) == 150
    assert arrays.replica_counts.tolist() == [75] * 12
    held = total_by_broker(arrays, arrays.local_bytes)
    assert held.max() < 3 * held.mean()
    again = synthetic_cluster(SHAPE)
    assert (again.size_bytes == arrays.size_bytes).all()


@pytest.mark.parametrize("keys", [{"racks": 5}, {"replication_factor": 4}, {"racks": 1, "replication_factor": 13}])
def test_a_shape_that_cannot_be(keys) -> None:
    with pytest.raises(ValueError, match=r"racks|replication_factor"):
        replace(SHAPE, **keys)


def test_P2_a_sweep_is_plain_values_and_repeatable() -> None:
    small = [case for case in sweep_cases(12, seed=5) if case["partitions"] < 5_000]
    assert small
    for case in small[:4]:
        assert [(name, type(case[name])) for name, _ in CASE_FIELDS] == [
            (name, TYPES[kind]) for name, kind in CASE_FIELDS
        ]
        row = pickle.loads(pickle.dumps(run_case))(pickle.loads(pickle.dumps(case)))
        assert list(row) == [name for name, _ in RESULT_FIELDS]
        for name, kind in RESULT_FIELDS:
            assert row[name] is None or type(row[name]) is TYPES[kind], (name, row[name])
        assert row == run_case(json.loads(json.dumps(case)))
    assert list(sweep_cases(3, seed=5)) == list(sweep_cases(3, seed=5)) != list(sweep_cases(3, seed=6))


def test_P2_the_tier_takes_less_from_leaders_than_their_disks() -> None:
    by_cluster: dict[int, dict[str, float]] = {}
    for case in sweep_cases(12, seed=5):
        if case["partitions"] < 5_000:
            by_cluster.setdefault(case["cluster_id"], {})[case["policy"]] = run_case(case)["leader_bytes"]
    assert by_cluster
    assert all(row["tier-first"] <= row["local-log-start"] * 1.001 for row in by_cluster.values()), by_cluster


def test_a_case_must_be_whole() -> None:
    case = next(sweep_cases(1))
    del case["brokers"], case["seed"]
    with pytest.raises(KeyError, match="seed, brokers"):
        run_case(case)


def test_what_ships_covers_both_systems() -> None:
    calibrations = Calibrations.default()
    assert {calibrations.of(policy).system for policy in Policy} == {"tierfetch", "kafka"}


def test_replacing_is_what_the_example_is_for() -> None:
    arrays = ClusterArrays.from_inventory(Inventory.read(EXAMPLE))
    assert len(replacement_moves(arrays, arrays.broker_index(3))) == 15
    with pytest.raises(KeyError, match="no broker 9 in shop"):
        arrays.broker_index(9)
