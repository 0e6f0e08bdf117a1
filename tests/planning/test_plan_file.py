"""The JSON of kafka-reassign-partitions, ours and Kafka's, and everything that can be wrong with it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.model.arrays import NO_BROKER
from tierfetch.planning.cluster_state import ClusterState, PartitionState, Placement
from tierfetch.planning.goals import Goal, PlanError, PlanOptions
from tierfetch.planning.plan_arrays import plan_file_of, planned_replicas
from tierfetch.planning.plan_file import PlanFile, PlanFileError
from tierfetch.planning.planner import plan_replicas
from tierfetch.planning.preflight import entries_of
from tierfetch.planning.throttling import VALUE_LENGTH_MAX, throttle_configs
from tierfetch.tests.planning.clusters import cluster, clusters
from tierfetch.tests.planning.fake_cluster import FakeCluster, Run, T, entry


def rows(*each: tuple[str, int, list[int]], **more: object) -> str:
    partitions = [{"topic": topic, "partition": number, "replicas": brokers} for topic, number, brokers in each]
    return json.dumps({"version": 1, "partitions": partitions, **more})


def test_a_file_of_kafkas_is_a_plan() -> None:
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3],"log_dirs":["any","any"]}]}'
    plan = PlanFile.parse(text, "plan.json")
    assert plan.partitions[0].key == ("t", 0)
    assert plan.waves == ((0,),)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(arrays=clusters(), tier_first=st.booleans())
def test_what_is_written_is_read_back(arrays, tier_first) -> None:
    plan = plan_replicas(arrays, Goal.rebalance(), PlanOptions(tier_first=tier_first))
    if not len(plan.changed):
        return
    file = PlanFile.parse(plan_file_of(arrays, plan).to_text(), "plan.json")
    assert sum(len(wave) for wave in file.waves) == len(plan.changed)
    found = planned_replicas(arrays, file)
    assert [[each for each in row if each != NO_BROKER] for row in found.tolist()] == [
        [each for each in row if each != NO_BROKER] for row in plan.replicas.tolist()
    ]
    assert sum(file.details.size_bytes) == pytest.approx(plan.bound.bytes, abs=len(plan.moves) + 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plan.json: is not JSON"),
        ("{}", "plan.json: partitions: is missing"),
        (rows(("t", 0, [1])).replace('"version": 1', '"version": 2'), "plan.json: version: expected 1; it is 2"),
        (rows(("t", -1, [1])), "plan.json: partitions.0.partition: "),
        (rows(("../t", 0, [1])), "plan.json: partitions.0.topic: "),
        (rows(("t", 0, [])), "plan.json: partitions.0.replicas: "),
        (rows(("t", 0, [1, 1])), "plan.json: t-0: broker 1 twice in [1, 1]"),
        (rows(("t", 0, [1]), ("t", 0, [2])), "plan.json: t-0 is there 2 times"),
        (rows(("t", 0, [1]), tierfetch={"waves": [[1]]}), "expected each of the numbers 0 to 0 once"),
        (rows(("t", 0, [1]), tierfetch={"size_bytes": [1, 2]}), "2 numbers for 1 partitions"),
        (
            rows(("t", 0, [1, 2]), tierfetch={"leaders": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}),
            "t-0 has other replicas than in partitions",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(PlanFileError) as refusal:
        PlanFile.parse(text, "plan.json")
    assert message in str(refusal.value)


def test_what_the_model_does_not_know_is_named() -> None:
    arrays = cluster([(1, 2)], brokers=3)
    plan = PlanFile.parse(rows(("t", 0, [1, 9]), ("t", 5, [1, 2]), ("u", 0, [1])), "plan.json")
    with pytest.raises(PlanError) as refusal:
        planned_replicas(arrays, plan)
    assert str(refusal.value).splitlines() == [
        "t-0: there is no broker 9",
        "t-5: the topic has no partition 5",
        "u-0: there is no topic u",
    ]


def test_more_replicas_than_before_are_taken() -> None:
    arrays = cluster([(1, 2), (2, 3)], brokers=3)
    found = planned_replicas(arrays, PlanFile.parse(rows(("t", 0, [1, 2, 3])), "plan.json"))
    assert found.tolist() == [[0, 1, 2], [1, 2, NO_BROKER]]
    assert found.dtype == np.int32


# --- before it is carried out --------------------------------------------------------------------------------


def part(*replicas: int, leader: int | None = None, **fields: tuple[int, ...]) -> PartitionState:
    return PartitionState(T, replicas, replicas, replicas[0] if leader is None else leader, **fields)


def problems(text: str, partition: PartitionState, **options: bool) -> list[str]:
    state = ClusterState(frozenset({1, 2, 3}), {("t", 0): partition})
    return entries_of(PlanFile.parse(text, "plan.json"), state, **options)[1]


@pytest.mark.parametrize(
    ("text", "partition", "message"),
    [
        (rows(("u", 0, [1])), part(1), "u-0: there is no topic u"),
        (rows(("t", 1, [1])), part(1), "t-1: the topic has no partition 1"),
        (rows(("t", 0, [4, 2])), part(1, 2), "t-0: broker 4 will hold a replica, and is not alive"),
        (rows(("t", 0, [1])), part(1, 2), "t-0: 1 replicas are planned where 2 are"),
        (rows(("t", 0, [3, 2])), part(1, 2, leader=-1), "t-0: it has no leader"),
        (rows(("t", 0, [3, 2])), part(3, 2, 1, adding=(3,), removing=(1,)), "t-0: it is being reassigned to [3, 2]"),
        (
            rows(("t", 0, [3])).replace('"replicas"', '"log_dirs": ["/data"], "replicas"'),
            part(1),
            "t-0: log_dirs names /data of broker 3, which does not say what log directories it has",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_named(text: str, partition: PartitionState, message: str) -> None:
    assert any(found.startswith(message) for found in problems(text, partition)), problems(text, partition)


def test_D4_log_directories_are_checked_and_what_is_in_place_is_left_out() -> None:
    text = rows(*(("t", number, [1, 2]) for number in range(3)))
    for number, path in enumerate(("/a", "/b", "/c")):
        text = text.replace(f'"partition": {number},', f'"partition": {number}, "log_dirs": ["{path}/", "any"],')
    placements = {(("t", number), broker): Placement("/a") for number in range(3) for broker in (1, 2)}
    state = ClusterState(
        frozenset({1, 2}),
        {("t", number): part(1, 2) for number in range(3)},
        log_dirs={1: frozenset({"/a", "/b"}), 2: frozenset({"/a"})},
        placements=placements,
    )
    plan = PlanFile.parse(text, "plan.json")
    assert entries_of(plan, state)[1] == [
        "t-2: log_dirs names /c, and broker 1 has no such log directory in use; it has /a, /b"
    ]
    (found,) = entries_of(plan.model_copy(update={"partitions": plan.partitions[:2]}), state)[0]
    assert (found.partition, found.directories) == (1, ((1, "/b"),))
    assert found.directories_before == ((1, "/a"), (2, "/a"))


def test_a_dead_broker_may_keep_what_it_has_and_the_factor_may_change_if_allowed() -> None:
    assert problems(rows(("t", 0, [4, 3])), part(4, 2)) == []
    assert problems(rows(("t", 0, [1])), part(1, 2), changes_factor=True) == []


def test_what_is_there_already_is_left_out_and_the_rest_divided_into_waves() -> None:
    state = ClusterState(frozenset({1, 2, 3}), {("t", number): part(1, 2) for number in range(5)})
    plan = PlanFile.parse(rows(("t", 0, [1, 2]), *(("t", number, [1, 3]) for number in range(1, 5))), "plan.json")
    entries, found = entries_of(plan, state, partitions_per_broker=2)
    assert found == []
    assert [(each.partition, each.wave) for each in entries] == [(1, 0), (2, 0), (3, 1), (4, 1)]


# --- its throttle --------------------------------------------------------------------------------


def test_senders_receivers_and_their_brokers_are_throttled() -> None:
    entries = [entry(0, (1, 2), (3, 2)), entry(1, (2, 1), (1, 2), wave=1)]
    cluster_ = FakeCluster.of(entries)
    header = Run(cluster_, entries).journal.header
    values = throttle_configs(header, entries, cluster_.partitions, 5000, returns=False)
    assert {(each.name, each.key): each.value for each in values} == {
        ("t", "leader.replication.throttled.replicas"): "0:1,0:2",
        ("t", "follower.replication.throttled.replicas"): "0:3",
        **{
            (broker, f"{side}.replication.throttled.rate"): "5000"
            for broker in "123"
            for side in ("leader", "follower")
        },
    }


def test_a_list_that_is_too_long_becomes_all_replicas() -> None:
    entries = [entry(number, (1, 2), (3, 2)) for number in range(6000)]
    cluster_ = FakeCluster.of(entries)
    header = Run(cluster_, entries).journal.header
    values = throttle_configs(header, entries, cluster_.partitions, 5000, returns=False)
    lists = {each.key: each.value for each in values if each.kind == "topic"}
    assert lists["leader.replication.throttled.replicas"] == "*"
    assert all(len(text or "") <= VALUE_LENGTH_MAX for text in lists.values())
