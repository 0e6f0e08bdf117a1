"""What brokers and operators get wrong: Kafka's error code, and a sentence that helps; nothing is written.

Some answers have no room for the sentence: then it is in the controller's log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.messages import plain, request_of

from .harness import CLUSTER_ID, CONFIG, Harness, directory

E = ErrorCode


@pytest.fixture
def cluster() -> Harness:
    harness = Harness(replace(CONFIG, partitions_per_request_max=100))
    harness.start(1, 2, 3)
    harness.create("old", [1, 2], [2, 3])
    return harness


def refused(cluster: Harness, api: ApiKey, values: dict[str, Any]) -> tuple[Any, str]:
    """The plain response, and the sentence that goes to the log."""
    before = len(cluster.log)
    result = cluster.core.handle(request_of(api, values), cluster.moment)
    assert not result.records
    assert len(cluster.log) == before
    return plain(result.response), result.refusal


def registration(broker_id: int, **values: Any) -> dict[str, Any]:
    feature = {"name": "metadata.version", "min_supported_version": 25, "max_supported_version": 30}
    return {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=4711),
        "listeners": [{"name": "PLAINTEXT", "host": "host9", "port": 9092, "security_protocol": 0}],
        "features": [feature],
        "rack": None,
        "log_dirs": [directory(9)],
        "previous_broker_epoch": -1,
        **values,
    }


def of_broker(broker_id: int, epoch: int) -> dict[str, Any]:
    return {"broker_id": broker_id, "broker_epoch": epoch}


BEAT = {"current_metadata_offset": 0, "want_fence": False, "want_shut_down": False}


@pytest.mark.parametrize(
    ("api", "values", "code", "said"),
    [
        (ApiKey.BROKER_REGISTRATION, registration(1), E.duplicate_broker_registration, "is registered and alive"),
        (
            ApiKey.BROKER_REGISTRATION,
            registration(9, cluster_id="x"),
            E.inconsistent_cluster_id,
            "belongs to cluster",
        ),
        (
            ApiKey.BROKER_REGISTRATION,
            registration(9, log_dirs=[directory(1)]),
            E.invalid_registration,
            "are those of broker 1: was a disk copied?",
        ),
        (ApiKey.BROKER_HEARTBEAT, of_broker(9, 1) | BEAT, E.stale_broker_epoch, "broker 9 is not registered"),
        (ApiKey.BROKER_HEARTBEAT, of_broker(1, 0) | BEAT, E.stale_broker_epoch, "it must register again"),
        (ApiKey.ALTER_PARTITION, of_broker(9, 1) | {"topics": []}, E.stale_broker_epoch, "is not registered"),
        (ApiKey.ALTER_PARTITION, of_broker(1, 0) | {"topics": []}, E.stale_broker_epoch, "it must register again"),
        (ApiKey.ALLOCATE_PRODUCER_IDS, of_broker(9, 1), E.stale_broker_epoch, "is not registered"),
        (ApiKey.ALLOCATE_PRODUCER_IDS, of_broker(1, 0), E.stale_broker_epoch, "it must register again"),
        (
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            of_broker(1, 0) | {"directories": []},
            E.stale_broker_epoch,
            "it must register again",
        ),
    ],
)
def test_unknown_duplicate_and_stale_brokers(
    cluster: Harness, api: ApiKey, values: dict[str, Any], code: ErrorCode, said: str
) -> None:
    response, refusal = refused(cluster, api, values)
    assert response["error_code"] is code
    assert said in refusal


def topic(name: str = "new", partitions: int = 1, replicas: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [],
        **values,
    }


def assigned(*replica_lists: list[int]) -> dict[str, Any]:
    lists = [{"partition_index": number, "broker_ids": ids} for number, ids in enumerate(replica_lists)]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": lists}


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (topic(**assigned([1, 9])), E.invalid_replica_assignment, "names brokers [9], which are not registered"),
        (topic(**assigned([1, 1])), E.invalid_replica_assignment, "names [1] more than once"),
        (topic(replicas=4), E.invalid_replication_factor, "4"),
        (topic(replicas=0), E.invalid_replication_factor, "at least 1"),
        (topic(configs=[{"name": "retention.ms", "value": "soon"}]), E.invalid_config, "retention.ms"),
        (topic(configs=[{"name": "no.such.key", "value": "1"}]), E.invalid_config, "no.such.key"),
        (topic(""), E.invalid_topic_exception, "empty"),
        (topic("../etc"), E.invalid_topic_exception, "'../etc'"),
        (topic("x" * 250), E.invalid_topic_exception, "249"),
        (topic("__cluster_metadata"), E.invalid_request, "own log"),
        (topic("old"), E.topic_already_exists, "exists already"),
        (topic(partitions=0), E.invalid_partitions, "at least 1"),
        (topic(partitions=-7), E.invalid_partitions, "at least 1"),
        (topic(partitions=101), E.policy_violation, "at most 100 partitions: use several requests"),
    ],
)
def test_topics_that_cannot_be_made(cluster: Harness, asked: dict[str, Any], code: ErrorCode, said: str) -> None:
    response, _ = refused(cluster, ApiKey.CREATE_TOPICS, {"topics": [asked], "timeout_ms": 1})
    (answer,) = response["topics"]
    assert answer["error_code"] is code
    assert said in answer["error_message"]


@pytest.mark.parametrize(
    ("count", "assignments", "code", "said"),
    [
        (2, None, E.invalid_partitions, "has 2 partitions already"),
        (1, None, E.invalid_partitions, "would be fewer"),
        (-1, None, E.invalid_partitions, "would be fewer"),
        (500, None, E.policy_violation, "use several requests"),
        (3, [{"broker_ids": [1, 9]}], E.invalid_replica_assignment, "not registered"),
        (3, [{"broker_ids": [1]}], E.invalid_replica_assignment, "has 1 replicas where other partitions have 2"),
    ],
)
def test_partition_counts_out_of_range(
    cluster: Harness, count: int, assignments: Any, code: ErrorCode, said: str
) -> None:
    asked = {"name": "old", "count": count, "assignments": assignments}
    response, _ = refused(
        cluster, ApiKey.CREATE_PARTITIONS, {"topics": [asked], "timeout_ms": 1, "validate_only": False}
    )
    (answer,) = response["results"]
    assert answer["error_code"] is code
    assert said in answer["error_message"]


@pytest.mark.parametrize(
    ("resource_type", "name", "key", "value", "code", "said"),
    [
        (2, "old", "retention.ms", "soon", E.invalid_config, "retention.ms"),
        (2, "old", "no.such.key", "1", E.invalid_config, "no.such.key"),
        (2, "none", "retention.ms", "1", E.unknown_topic_or_partition, "does not exist"),
        (4, "one", "log.retention.ms", "1", E.invalid_request, "its id is needed"),
        (8, "x", "y", "1", E.invalid_request, "cannot be altered here"),
    ],
)
def test_invalid_configs(
    cluster: Harness, resource_type: int, name: str, key: str, value: str, code: ErrorCode, said: str
) -> None:
    configs = [{"name": key, "config_operation": 0, "value": value}]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
    response, _ = refused(cluster, ApiKey.INCREMENTAL_ALTER_CONFIGS, {"validate_only": False, "resources": [resource]})
    (answer,) = response["responses"]
    assert answer["error_code"] is code
    assert said in answer["error_message"]


def reassign(*moves: tuple[int, list[int] | None]) -> dict[str, Any]:
    partitions = [{"partition_index": number, "replicas": replicas} for number, replicas in moves]
    return {"timeout_ms": 1, "topics": [{"name": "old", "partitions": partitions}]}


@pytest.mark.parametrize(
    ("move", "code", "said"),
    [
        ((0, [1, 9]), E.invalid_replica_assignment, "names brokers [9], which are not registered"),
        ((0, [1, 1]), E.invalid_replica_assignment, "names [1] more than once"),
        ((0, []), E.invalid_replica_assignment, "is empty"),
        ((9, [1]), E.unknown_topic_or_partition, "old-9 does not exist"),
        ((0, None), E.no_reassignment_in_progress, "is not being reassigned"),
    ],
)
def test_reassignments_to_nowhere(
    cluster: Harness, move: tuple[int, list[int] | None], code: ErrorCode, said: str
) -> None:
    response, _ = refused(cluster, ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign(move))
    (answer,) = response["responses"][0]["partitions"]
    assert answer["error_code"] is code
    assert said in answer["error_message"]


def test_two_reassignments_of_one_partition(cluster: Harness) -> None:
    """In one request the second is refused; a later one replaces the first, and says so in what is listed."""
    response = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign((0, [3, 2]), (0, [1, 3])))
    first, second = response["responses"][0]["partitions"]
    assert first["error_code"] is E.none
    assert second["error_code"] is E.invalid_request
    assert "is given twice" in second["error_message"]
    assert cluster.partition("old").adding_replicas == (3,)
    assert cluster.reassign("old", [2, 1])["error_code"] is E.none
    assert not cluster.partition("old").is_reassigning
    listed = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, {"timeout_ms": 1, "topics": None})
    assert listed["topics"] == []


def test_an_operator_who_removes_too_many_brokers(cluster: Harness) -> None:
    cluster.create("wide", [1, 2, 3])
    response, _ = refused(cluster, ApiKey.UNREGISTER_BROKER, {"broker_id": 3})
    assert response["error_code"] is E.policy_violation
    assert "wide-0" in response["error_message"]
    assert "add a broker" in response["error_message"]
    cluster.start(4)
    assert cluster.ask(ApiKey.UNREGISTER_BROKER, {"broker_id": 3})["error_code"] is E.none
    assert cluster.partition("wide").isr == (1, 2)
    cluster.create("single", [2])
    response, _ = refused(cluster, ApiKey.UNREGISTER_BROKER, {"broker_id": 2})
    assert response["error_code"] is E.policy_violation
    assert "only in-sync replica of 2 partitions, such as old-1" in response["error_message"]
