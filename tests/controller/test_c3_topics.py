"""C3: topics come and go; C8: they grow and shrink; limits of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.controller.core.config import SUPPORTED_FEATURES
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.controller.records import RemovePartitionsRecord
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode

from .harness import CONFIG, JAVA_FEATURES, Harness


@pytest.fixture
def cluster() -> Harness:
    harness = Harness()
    harness.start(1, 2, 3)
    return harness


def create(cluster: Harness, name: str = "t", *, validate_only: bool = False, version: int = 7, **values: Any) -> Any:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} | values
    response = cluster.ask(
        ApiKey.CREATE_TOPICS, {"topics": [topic], "timeout_ms": 1000, "validate_only": validate_only}, version
    )
    return response["topics"][0]


def assignment(*replica_lists: list[int]) -> dict[str, Any]:
    return {
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": number, "broker_ids": replicas} for number, replicas in enumerate(replica_lists)
        ],
    }


@pytest.mark.parametrize("version", range(2, 8))
def test_C3_a_new_topic_has_leaders_and_full_isrs(cluster: Harness, version: int) -> None:
    answer = create(cluster, num_partitions=6, replication_factor=2, version=version)
    assert (answer["error_code"], answer["num_partitions"], answer["replication_factor"]) == (ErrorCode.none, 6, 2)
    leaders = [cluster.partition("t", number).leader for number in range(6)]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3], "evenly spread"
    for number in range(6):
        partition = cluster.partition("t", number)
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_C3_fenced_brokers_begin_outside_of_the_isr(cluster: Harness) -> None:
    cluster.expire(3, alive=[1, 2])
    assert create(cluster, num_partitions=4, replication_factor=3)["error_code"] is ErrorCode.none
    for number in range(4):
        partition = cluster.partition("t", number)
        assert partition.replicas[-1] == 3, "fenced ones come last"
        assert set(partition.isr) == {1, 2}
        assert partition.leader in (1, 2)


def test_C3_replicas_are_spread_over_racks() -> None:
    cluster = Harness()
    for broker_id, rack in [(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c")]:
        cluster.start(broker_id, rack=rack)
    create(cluster, num_partitions=60, replication_factor=3)
    racks = {broker_id: broker.rack for broker_id, broker in cluster.image.brokers.items()}
    for number in range(60):
        assert {racks[replica] for replica in cluster.partition("t", number).replicas} == {"a", "b", "c"}
    leaders = [cluster.partition("t", number).leader for number in range(60)]
    assert all(8 <= leaders.count(broker_id) <= 12 for broker_id in range(1, 7))


def test_C3_cordoned_and_stopping_brokers_get_nothing(cluster: Harness) -> None:
    cluster.heartbeat(1, cordoned_log_dirs=list(cluster.image.brokers[1].directories))
    create(cluster, num_partitions=6, replication_factor=2)
    assert all(1 not in cluster.partition("t", number).replicas for number in range(6))
    assert create(cluster, "u", replication_factor=3)["error_code"] is ErrorCode.invalid_replication_factor


def test_C3_defaults_are_the_controllers() -> None:
    cluster = Harness(replace(CONFIG, num_partitions=4, default_replication_factor=2))
    cluster.start(1, 2)
    answer = create(cluster, num_partitions=-1, replication_factor=-1)
    assert (answer["num_partitions"], answer["replication_factor"]) == (4, 2)


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("", {}, ErrorCode.invalid_topic_exception),
        ("a/b", {}, ErrorCode.invalid_topic_exception),
        ("x" * 250, {}, ErrorCode.invalid_topic_exception),
        ("old", {}, ErrorCode.topic_already_exists),
        ("a_b", {}, ErrorCode.invalid_topic_exception),
        ("t", {"num_partitions": 0}, ErrorCode.invalid_partitions),
        ("t", {"num_partitions": -2}, ErrorCode.invalid_partitions),
        ("t", {"num_partitions": 10_001}, ErrorCode.policy_violation),
        ("t", {"num_partitions": 2**31 - 1}, ErrorCode.policy_violation),
        ("t", {"replication_factor": 0}, ErrorCode.invalid_replication_factor),
        ("t", {"replication_factor": 4}, ErrorCode.invalid_replication_factor),
        ("t", {"configs": [{"name": "retention.ms", "value": "soon"}]}, ErrorCode.invalid_config),
        ("t", {"configs": [{"name": "no.such.key", "value": "1"}]}, ErrorCode.invalid_config),
        ("t", {"configs": [{"name": "unclean.leader.election.enable", "value": "?"}]}, ErrorCode.invalid_config),
        ("t", {"configs": [{"name": "flush.ms", "value": "1"}] * 2}, ErrorCode.invalid_config),
        ("t", {"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, ErrorCode.invalid_request),
        ("t", assignment([1, 9]), ErrorCode.invalid_replica_assignment),
        ("t", assignment([1, 1]), ErrorCode.invalid_replica_assignment),
        ("t", assignment([]), ErrorCode.invalid_replica_assignment),
        ("t", assignment([1, 2], [1]), ErrorCode.invalid_replica_assignment),
        (
            "t",
            assignment([1]) | {"assignments": [{"partition_index": 1, "broker_ids": [1]}]},
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
def test_C3_topics_that_are_refused(cluster: Harness, name: str, values: dict[str, Any], code: ErrorCode) -> None:
    create(cluster, "old")
    create(cluster, "a.b")
    before = len(cluster.log)
    answer = create(cluster, name, **values)
    assert answer["error_code"] is code
    assert len(answer["error_message"]) > 20, "a sentence that helps"
    assert len(cluster.log) == before


def test_C3_a_live_broker_is_needed() -> None:
    cluster = Harness()
    answer = create(cluster)
    assert answer["error_code"] is ErrorCode.invalid_replication_factor
    assert "none is registered" in answer["error_message"]
    cluster.register(1)
    answer = create(cluster)
    assert answer["error_code"] is ErrorCode.invalid_replication_factor
    assert "all of the 1 that may are fenced" in answer["error_message"]
    assert create(cluster, **assignment([1]))["error_code"] is ErrorCode.invalid_replica_assignment


def test_C3_validation_creates_nothing(cluster: Harness) -> None:
    assert create(cluster, validate_only=True)["error_code"] is ErrorCode.none
    assert not cluster.image.topics


def test_C3_one_request_is_limited_as_a_whole_and_names_come_once(cluster: Harness) -> None:
    topic = {"num_partitions": 6_000, "replication_factor": 1, "assignments": [], "configs": []}
    names = ["a", "b", "c", "c"]
    response = cluster.ask(
        ApiKey.CREATE_TOPICS,
        {"topics": [{"name": name, **topic} for name in names], "timeout_ms": 1, "validate_only": True},
    )
    codes = [answer["error_code"] for answer in response["topics"]]
    assert codes == [ErrorCode.none, ErrorCode.policy_violation, *[ErrorCode.invalid_request] * 2]


@pytest.mark.parametrize("version", [1, 5, 6])
def test_C3_a_deleted_topic_is_gone_with_its_configs(cluster: Harness, version: int) -> None:
    topic_id = cluster.create("t", [1, 2], configs={"retention.ms": "1000"})
    cluster.create("u", [1, 2])
    values: dict[str, Any] = (
        {"topic_names": ["t"]} if version < 6 else {"topics": [{"name": None, "topic_id": topic_id}]}
    )
    response = cluster.ask(ApiKey.DELETE_TOPICS, {**values, "timeout_ms": 1000}, version)
    (answer,) = response["responses"]
    assert (answer["name"], answer["error_code"]) == ("t", ErrorCode.none)
    assert list(cluster.image.topic_ids) == ["u"]
    assert not cluster.image.configs
    assert cluster.create("t", [1, 2]) != topic_id, "another incarnation"


def test_C3_deletions_that_are_refused(cluster: Harness) -> None:
    topic_id = cluster.create("t", [1])
    asked = [
        {"name": "x", "topic_id": None},
        {"name": None, "topic_id": UUID(int=99)},
        {"name": None, "topic_id": None},
        {"name": "t", "topic_id": topic_id},
        {"name": "t", "topic_id": None},
        {"name": "t", "topic_id": None},
    ]
    response = cluster.ask(ApiKey.DELETE_TOPICS, {"topics": asked, "timeout_ms": 1000})
    assert [answer["error_code"] for answer in response["responses"]] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]


def change_count(
    cluster: Harness, count: int, *, name: str = "t", assignments: Any = None, remove: bool = False
) -> Any:
    topic = {"name": name, "count": count, "assignments": assignments, "remove_last_partitions": remove}
    values = {"topics": [topic], "timeout_ms": 1000, "validate_only": False}
    return cluster.ask(ApiKey.CREATE_PARTITIONS, values)["results"][0]


def test_C8_a_topic_grows(cluster: Harness) -> None:
    cluster.create("t", [1, 2])
    assert change_count(cluster, 4)["error_code"] is ErrorCode.none
    assert [len(cluster.partition("t", number).replicas) for number in range(4)] == [2] * 4
    answer = change_count(cluster, 6, assignments=[{"broker_ids": [3, 1]}, {"broker_ids": [2, 3]}])
    assert answer["error_code"] is ErrorCode.none
    assert [cluster.partition("t", number).replicas for number in (4, 5)] == [(3, 1), (2, 3)]


def test_C8_a_topic_that_grows_while_it_is_moved_keeps_its_replication_factor(cluster: Harness) -> None:
    cluster.create("t", [1])
    cluster.reassign("t", [2, 3])
    assert len(cluster.partition("t").replicas) == 3, "both sides of the move"
    assert change_count(cluster, 2)["error_code"] is ErrorCode.none
    assert len(cluster.partition("t", 1).replicas) == 1


@pytest.mark.parametrize(
    ("count", "values", "code"),
    [
        (2, {}, ErrorCode.invalid_partitions),
        (1, {}, ErrorCode.invalid_partitions),
        (0, {}, ErrorCode.invalid_partitions),
        (3, {"name": "x"}, ErrorCode.unknown_topic_or_partition),
        (20_000, {}, ErrorCode.policy_violation),
        (4, {"assignments": [{"broker_ids": [1, 2]}]}, ErrorCode.invalid_replica_assignment),
        (3, {"assignments": [{"broker_ids": [1]}]}, ErrorCode.invalid_replica_assignment),
        (3, {"assignments": [{"broker_ids": [1, 9]}]}, ErrorCode.invalid_replica_assignment),
    ],
)
def test_C8_growth_that_is_refused(cluster: Harness, count: int, values: dict[str, Any], code: ErrorCode) -> None:
    cluster.create("t", [1, 2], [2, 1])
    before = len(cluster.log)
    assert change_count(cluster, count, **values)["error_code"] is code
    assert len(cluster.log) == before


def test_C8_last_partitions_are_removed_at_our_own_feature_level_only(cluster: Harness) -> None:
    cluster.create("t", [1], [2], [3])
    refused = change_count(cluster, 1, remove=True)
    assert refused["error_code"] is ErrorCode.unsupported_version
    assert "tierfetch.version" in refused["error_message"]
    assert cluster.set_feature("tierfetch.version", 1)["error_code"] is ErrorCode.none
    assert change_count(cluster, 0, remove=True)["error_code"] is ErrorCode.invalid_partitions
    assert change_count(cluster, 1, remove=True)["error_code"] is ErrorCode.none
    assert sorted(cluster.image.topic("t").partitions) == [0]
    assert change_count(cluster, 2)["error_code"] is ErrorCode.none, "it may grow again"
    assert not any(isinstance(record, RemovePartitionsRecord) for record in snapshot_records(cluster.image))


def test_C8_what_is_added_again_is_above_every_epoch_of_what_was_removed(cluster: Harness) -> None:
    """Or a replica that was away meanwhile would take its old log for a part of the new one."""
    cluster.create("t", [1, 2], [1, 2])
    cluster.set_feature("tierfetch.version", 1)
    for _ in range(3):
        cluster.expire(1, alive=(2, 3))
        cluster.start(1)
        cluster.expire(2, alive=(1, 3))
        cluster.start(2)
        removed = cluster.partition("t", 1).leader_epoch
        assert change_count(cluster, 1, remove=True)["error_code"] is ErrorCode.none
        assert change_count(cluster, 2, assignments=[{"broker_ids": [1, 2]}])["error_code"] is ErrorCode.none
        assert cluster.partition("t", 1).leader_epoch > removed


def test_C8_what_is_added_again_is_above_what_was_removed_also_at_a_lower_feature_level(cluster: Harness) -> None:
    cluster.create("t", [1, 2], [1, 2])
    cluster.set_feature("tierfetch.version", 1)
    removed = cluster.partition("t", 1).leader_epoch
    change_count(cluster, 1, remove=True)
    assert cluster.set_feature("tierfetch.version", 0, upgrade_type=2)["error_code"] is ErrorCode.none
    assert change_count(cluster, 2, assignments=[{"broker_ids": [1, 2]}])["error_code"] is ErrorCode.none
    assert cluster.partition("t", 1).leader_epoch > removed


def test_C8_the_remote_log_metadata_keep_their_count_of_partitions(cluster: Harness) -> None:
    """Every broker would look for the tier's segments where their events are not."""
    cluster.create("__remote_log_metadata", [1, 2], [2, 1])
    cluster.set_feature("tierfetch.version", 1)
    for count, remove in ((3, False), (1, True)):
        answer = change_count(cluster, count, name="__remote_log_metadata", remove=remove)
        assert answer["error_code"] is ErrorCode.policy_violation, count
    assert len(cluster.image.topic("__remote_log_metadata").partitions) == 2


def test_C8_partitions_of_a_tiered_topic_stay(cluster: Harness) -> None:
    """Nobody would delete what the tier holds of them, and what is added again would find it."""
    cluster.create("t", [1], [2], configs={"remote.storage.enable": "true"})
    cluster.set_feature("tierfetch.version", 1)
    refused = change_count(cluster, 1, remove=True)
    assert refused["error_code"] is ErrorCode.policy_violation
    assert "remote.log.delete.on.disable=true" in refused["error_message"]
    cluster.configure(2, "t", remote_storage_enable="false", remote_log_delete_on_disable="true")
    assert change_count(cluster, 1, remove=True)["error_code"] is ErrorCode.none


def test_C8_our_feature_level_and_java_nodes_exclude_each_other(cluster: Harness) -> None:
    cluster.start(4, features=JAVA_FEATURES)
    assert "tierfetch.version" in SUPPORTED_FEATURES
    refused = cluster.set_feature("tierfetch.version", 1)
    assert refused["error_code"] is ErrorCode.invalid_update_version
    assert "broker 4" in refused["error_message"]
    cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 4})
    assert cluster.set_feature("tierfetch.version", 1)["error_code"] is ErrorCode.none
    assert cluster.register(4, features=JAVA_FEATURES)["error_code"] is ErrorCode.unsupported_version
