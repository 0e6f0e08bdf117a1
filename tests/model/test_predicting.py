"""What embedding programs ask of the model and the planner: figures as the commands have them, errors that help."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tierfetch.errors import OperatorError
from tierfetch.model import (
    Calibrations,
    ClusterArrays,
    Inventory,
    InventoryError,
    Policy,
    predict_death,
    predict_replacement,
    read_cluster,
    replacement_moves,
    simulate,
)
from tierfetch.planning import PlanError, PlanFile, plan_moves
from tierfetch.tests.test_tidy import ROOT


@pytest.fixture(scope="module")
def cluster() -> Inventory:
    return read_cluster(ROOT / "docs/examples/cluster.yaml")


def test_a_replacement_is_what_the_engine_says(cluster: Inventory) -> None:
    arrays = ClusterArrays.from_inventory(cluster)
    moves = replacement_moves(arrays, arrays.broker_index(3))
    expected = simulate(arrays, moves, Policy.LOG_START, Calibrations.default().of(Policy.LOG_START), down_s=60)
    found = predict_replacement(cluster, [3], policy="log-start", down_s=60)
    assert (found.policy, found.replicas) == ("log-start", len(moves))
    assert found.all_in_sync_s == expected.duration_s
    assert 60 < found.half_in_sync_s <= found.all_in_sync_s
    assert found.leader_bytes == round(expected.leader_bytes)
    assert found.obstacles == {}


def test_without_a_policy_it_is_the_clusters(cluster: Inventory) -> None:
    assert predict_replacement(cluster, [3]) == predict_replacement(cluster, [3], policy="tier-first")


def test_what_never_joins_is_named_with_the_reason(cluster: Inventory) -> None:
    alone = cluster.model_copy(deep=True)
    (found,) = (topic for topic in alone.topics if topic.name == "orders")
    partition = found.partitions[0]
    lonely = partition.model_copy(update={"isr": partition.replicas[:1], "leader": partition.replicas[0]})
    topic = found.model_copy(update={"partitions": (lonely, *found.partitions[1:])})
    alone = alone.model_copy(update={"topics": tuple(topic if each is found else each for each in alone.topics)})
    back = predict_replacement(alone, [partition.replicas[0]])
    assert back.all_in_sync_s == math.inf
    assert list(back.obstacles) == ["orders-0"]
    assert "no leader" in back.obstacles["orders-0"]
    dead = predict_death(alone, [partition.replicas[0]])
    assert dead.leaderless == ("orders-0",)


def test_a_dead_host_is_noticed_later_than_a_dead_process(cluster: Inventory) -> None:
    process, host = predict_death(cluster, [1]), predict_death(cluster, [1], death="host")
    assert process.unavailable_s < host.unavailable_s
    assert process.lost_leader == host.lost_leader > 0


@pytest.mark.parametrize("brokers", [[], [7], [1, 99]])
def test_a_broker_that_is_not_there_is_named_with_those_that_are(cluster: Inventory, brokers: list[int]) -> None:
    with pytest.raises(OperatorError, match=r"expected some of shop, which has 6: 1, 2, 3, 4, 5, 6"):
        predict_replacement(cluster, brokers)
    with pytest.raises(OperatorError, match="expected some of shop"):
        predict_death(cluster, brokers)


def test_unknown_words_are_named_with_the_known_ones(cluster: Inventory) -> None:
    with pytest.raises(OperatorError, match="policy 'fast': expected one of log-start"):
        predict_replacement(cluster, [1], policy="fast")
    with pytest.raises(OperatorError, match="death 'rack': expected one of process, host"):
        predict_death(cluster, [1], death="rack")


def test_a_file_that_is_no_cluster_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("brokers: 3")
    with pytest.raises(InventoryError, match=r"cluster\.yaml"):
        read_cluster(path)


def test_a_plan_is_a_file_that_execute_reads(cluster: Inventory) -> None:
    plan = plan_moves(cluster, remove=[6])
    file = PlanFile.parse(plan.json, "plan")
    assert {each.key: each.replicas for each in file.partitions} == plan.replicas
    assert all(6 not in replicas for replicas in plan.replicas.values())
    assert (plan.copied_bytes, plan.waves) == (sum(file.details.size_bytes), len(file.waves))


def test_a_plan_without_a_move_is_empty(cluster: Inventory) -> None:
    empty = cluster.model_copy(update={"topics": ()})
    plan = plan_moves(empty)
    assert (plan.replicas, plan.copied_bytes, plan.waves) == ({}, 0, 0)
    assert json.loads(plan.json)["partitions"] == []


def test_a_goal_that_cannot_be_is_refused(cluster: Inventory) -> None:
    with pytest.raises(PlanError, match="expected one of them"):
        plan_moves(cluster, remove=[1], add=[2])
    for goal in ({"replace": {1: 9}}, {"remove": [9]}, {"add": [9]}):
        with pytest.raises(PlanError, match="no broker 9 in shop"):
            plan_moves(cluster, **goal)
