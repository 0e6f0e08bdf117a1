"""Dynamic configs, producer ids, DescribeCluster."""

from __future__ import annotations

from typing import Any

import pytest

from tierfetch.controller.core.cluster import Asked, describe_cluster
from tierfetch.controller.core.describe_configs import NodeConfigs, describe_configs
from tierfetch.controller.records import BrokerEndpoint
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import DescribeClusterRequest
from tierfetch.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from tierfetch.protocol.requests import cluster_of

from .harness import CLUSTER_ID, Harness

SET, DELETE, APPEND, SUBTRACT = range(4)
GROUP = 32
TOPIC, BROKER = 2, 4


CONTROLLER = BrokerEndpoint(name="CONTROLLER", host="controller", port=9093, security_protocol=0)
ASKED = Asked(cluster_id=CLUSTER_ID, listener_name="CONTROLLER", leader_id=100, voters={100: [CONTROLLER]})


@pytest.fixture
def cluster() -> Harness:
    harness = Harness()
    harness.start(1, 2)
    harness.create("t", [1, 2], configs={"retention.ms": "1000"})
    return harness


def alter(cluster: Harness, *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t") -> Any:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    response = cluster.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"validate_only": False, "resources": [resource]})
    return response["responses"][0]


def test_configs_are_set_deleted_and_lists_changed(cluster: Harness) -> None:
    assert alter(cluster, ("flush.ms", SET, "5"), ("retention.ms", DELETE, None))["error_code"] is ErrorCode.none
    assert cluster.image.config(TOPIC, "t") == {"flush.ms": "5"}
    assert alter(cluster, ("cleanup.policy", APPEND, "compact,compact"))["error_code"] is ErrorCode.none
    assert cluster.image.config(TOPIC, "t")["cleanup.policy"] == "delete,compact", "the default was delete"
    assert alter(cluster, ("cleanup.policy", SUBTRACT, "delete"))["error_code"] is ErrorCode.none
    assert cluster.image.config(TOPIC, "t")["cleanup.policy"] == "compact"


def test_G1_a_group_has_configs_of_its_own(cluster: Harness) -> None:
    session = "consumer.session.timeout.ms"
    assert alter(cluster, (session, SET, "50000"), kind=GROUP, name="g")["error_code"] is ErrorCode.none
    assert cluster.image.config(GROUP, "g") == {session: "50000"}
    for key, value, name, code in [
        ("retention.ms", "5", "g", ErrorCode.invalid_config),
        (session, "soon", "g", ErrorCode.invalid_config),
        (session, "0", "g", ErrorCode.invalid_config),
        (session, "5", "", ErrorCode.invalid_request),
    ]:
        assert alter(cluster, (key, SET, value), kind=GROUP, name=name)["error_code"] is code
    assert alter(cluster, (session, DELETE, None), kind=GROUP, name="g")["error_code"] is ErrorCode.none
    assert cluster.image.config(GROUP, "g") == {}


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("share.session.timeout.ms", ["50000"], ["0", "x"]),
        ("share.record.lock.duration.ms", ["20000", "1000"], ["-1", "999"]),
        ("share.delivery.count.limit", ["3", "2"], [str(1 << 31), "1"]),
        ("share.partition.max.record.locks", ["100"], ["99"]),
        ("share.assignment.interval.ms", ["1", "0"], ["-1"]),
        ("consumer.assignment.interval.ms", ["1", "0"], ["-1"]),
        ("share.renew.acknowledge.enable", ["true", "False"], ["1", ""]),
        ("share.isolation.level", ["read_committed", "read_uncommitted"], ["committed", ""]),
        (
            "share.auto.offset.reset",
            ["earliest", "latest", "by_duration:P1DT2H", "by_duration:PT0.5S"],
            ["none", "by_duration:", "by_duration:5", "by_duration:-P1D", "by_duration:P-1D"],
        ),
    ],
)
def test_a_share_group_has_configs_of_its_own(cluster: Harness, key: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert alter(cluster, (key, SET, value), kind=GROUP, name="g")["error_code"] is ErrorCode.none
    for value in bad:
        assert alter(cluster, (key, SET, value), kind=GROUP, name="g")["error_code"] is ErrorCode.invalid_config
    assert cluster.image.config(GROUP, "g") == {key: good[-1]}


def test_a_list_grows_no_longer_than_a_record_can_hold(cluster: Harness) -> None:
    first, second = (",".join(f"{number}:1" for number in range(base, base + 3000)) for base in (10_000, 20_000))
    key = "leader.replication.throttled.replicas"
    assert alter(cluster, (key, SET, first))["error_code"] is ErrorCode.none
    refused = alter(cluster, (key, APPEND, second))
    assert refused["error_code"] is ErrorCode.invalid_config
    assert "more than 32767 characters" in refused["error_message"]
    assert cluster.image.config(TOPIC, "t")[key] == first


def test_what_changes_nothing_is_not_written(cluster: Harness) -> None:
    before = len(cluster.log)
    alter(cluster, ("retention.ms", SET, "1000"), ("flush.ms", DELETE, None))
    assert len(cluster.log) == before


@pytest.mark.parametrize("operation", [SET, DELETE])
def test_a_topic_is_not_untiered_without_a_word_on_what_is_tiered(cluster: Harness, operation: int) -> None:
    tiered, off = "remote.storage.enable", "false" if operation == SET else None
    alter(cluster, (tiered, SET, "true"))
    refused = alter(cluster, (tiered, operation, off))
    assert refused["error_code"] is ErrorCode.invalid_config
    assert "remote.log.delete.on.disable=true" in refused["error_message"]
    assert cluster.image.config(TOPIC, "t")[tiered] == "true"
    accepted = alter(cluster, (tiered, operation, off), ("remote.log.delete.on.disable", SET, "true"))
    assert accepted["error_code"] is ErrorCode.none


@pytest.mark.parametrize(
    ("changes", "values", "code"),
    [
        ([("retention.ms", SET, "x")], {}, ErrorCode.invalid_config),
        ([("no.such", SET, "1")], {}, ErrorCode.invalid_config),
        ([("retention.ms", SET, None)], {}, ErrorCode.invalid_request),
        ([("retention.ms", 9, "1")], {}, ErrorCode.invalid_request),
        ([("retention.ms", APPEND, "1")], {}, ErrorCode.invalid_config),
        ([("flush.ms", SET, "1"), ("flush.ms", SET, "2")], {}, ErrorCode.invalid_request),
        ([("flush.ms", SET, "1")], {"name": "x"}, ErrorCode.unknown_topic_or_partition),
        ([("flush.ms", SET, "1")], {"name": "a/b"}, ErrorCode.invalid_topic_exception),
        ([("flush.ms", SET, "1")], {"kind": BROKER, "name": "one"}, ErrorCode.invalid_request),
        ([("flush.ms", SET, "1")], {"kind": 8, "name": "1"}, ErrorCode.invalid_request),
        ([("remote.storage.enable", SET, "true"), ("cleanup.policy", SET, "compact")], {}, ErrorCode.invalid_config),
        ([("local.retention.ms", SET, "2000"), ("remote.storage.enable", SET, "true")], {}, ErrorCode.invalid_config),
    ],
)
def test_configs_that_are_refused_change_nothing(
    cluster: Harness, changes: Any, values: dict[str, Any], code: ErrorCode
) -> None:
    before = len(cluster.log)
    answer = alter(cluster, *changes, **values)
    assert answer["error_code"] is code
    assert len(answer["error_message"]) > 15
    assert len(cluster.log) == before


def test_the_old_request_replaces_all_configs(cluster: Harness) -> None:
    values = {
        "validate_only": False,
        "resources": [
            {"resource_type": TOPIC, "resource_name": "t", "configs": [{"name": "flush.ms", "value": "7"}]},
            {"resource_type": TOPIC, "resource_name": "u", "configs": []},
            {"resource_type": TOPIC, "resource_name": "u", "configs": []},
        ],
    }
    codes = [answer["error_code"] for answer in cluster.ask(ApiKey.ALTER_CONFIGS, values)["responses"]]
    assert codes == [ErrorCode.none, ErrorCode.invalid_request, ErrorCode.invalid_request]
    assert cluster.image.config(TOPIC, "t") == {"flush.ms": "7"}
    values["resources"] = [
        {"resource_type": TOPIC, "resource_name": "t", "configs": [{"name": "flush.ms", "value": None}]}
    ]
    assert cluster.ask(ApiKey.ALTER_CONFIGS, values)["responses"][0]["error_code"] is ErrorCode.invalid_request


def test_nobody_is_given_the_same_producer_ids(cluster: Harness) -> None:
    blocks = []
    for broker_id in (1, 2, 1):
        values = {"broker_id": broker_id, "broker_epoch": cluster.epochs[broker_id]}
        answer = cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, values)
        blocks.append((answer["producer_id_start"], answer["producer_id_len"]))
        cluster.failover()
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    refused = cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, {"broker_id": 1, "broker_epoch": 99})
    assert (refused["error_code"], refused["producer_id_len"]) == (ErrorCode.stale_broker_epoch, 0)


def test_the_cluster_is_described(cluster: Harness) -> None:
    cluster.expire(2, alive=[1])
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    response = describe_cluster(cluster.core.state, request, ASKED)
    assert response.cluster_id == CLUSTER_ID
    assert [(broker.broker_id, broker.host) for broker in response.brokers] == [(1, "host1")]


def test_fenced_brokers_and_controllers_are_described_where_they_are_asked_for(cluster: Harness) -> None:
    cluster.expire(2, alive=[1])
    found = {
        kind: describe_cluster(cluster.core.state, cluster_of(kind, include_fenced_brokers=True), ASKED)
        for kind in (1, 2, 3)
    }
    assert [(broker.broker_id, broker.is_fenced) for broker in found[1].brokers] == [(1, False), (2, True)]
    assert [(node.broker_id, node.port) for node in found[2].brokers] == [(100, 9093)]
    assert found[3].error_code is ErrorCode.unsupported_endpoint_type


NODE = NodeConfigs(100, {"node.id": "100", "num.partitions": "1"}, {"node.id": "100"})


def described(cluster: Harness, resource_type: int, name: str, *keys: str) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys or None)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    (result,) = describe_configs(cluster.core.state, request, NODE).results
    return result


def test_configs_of_a_topic_are_told_with_where_they_come_from(cluster: Harness) -> None:
    result = described(cluster, TOPIC, "t", "retention.ms", "flush.ms")
    told = {item.name: (item.value, item.config_source, item.read_only) for item in result.configs}
    assert told == {"retention.ms": ("1000", 1, False), "flush.ms": ("9223372036854775807", 5, False)}
    synonyms = [(each.value, each.source) for each in result.configs[1].synonyms]
    assert synonyms == [("1000", 1), ("604800000", 5)]


def test_configs_of_all_brokers_and_of_this_node(cluster: Harness) -> None:
    alter(cluster, ("log.retention.ms", SET, "5000"), kind=BROKER, name="")
    (default,) = described(cluster, BROKER, "").configs
    assert (default.name, default.value, default.config_source) == ("log.retention.ms", "5000", 3)
    own = {
        item.name: (item.value, item.config_source, item.read_only)
        for item in described(cluster, BROKER, "100").configs
    }
    assert own == {"node.id": ("100", 4, True), "num.partitions": ("1", 5, True)}


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "said"),
    [
        (TOPIC, "none", ErrorCode.unknown_topic_or_partition, "does not exist"),
        (BROKER, "1", ErrorCode.invalid_request, "ask broker 1"),
        (8, "x", ErrorCode.invalid_request, "resource type 8"),
    ],
)
def test_configs_that_a_controller_does_not_know(
    cluster: Harness, resource_type: int, name: str, code: ErrorCode, said: str
) -> None:
    result = described(cluster, resource_type, name)
    assert (result.error_code, result.configs) == (code, ())
    assert said in (result.error_message or "")
