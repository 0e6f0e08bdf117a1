"""SPEC A4: every API in every version that both offer is answered as Apache Kafka answers it.

The questions are those of `tests/broker/api_requests`, the scene is made over the wire on both sides. Compared is what
does not depend on when and where it was asked; lists are compared without their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tierfetch.bench.lab.kafka import CONTROLLER_ID as KAFKAS_CONTROLLER
from tierfetch.bench.lab.kafka import SHORT_LIVED_JVM, KafkaCluster
from tierfetch.cli.local.cluster import CONTROLLER_ID, LocalCluster, TierSettings
from tierfetch.protocol.api import ApiKey, VersionRange
from tierfetch.protocol.net.client import Address
from tierfetch.tests.broker.api_answers import Asked, answers_of, offered
from tierfetch.tests.broker.api_scene import make_scene, scene_client
from tierfetch.tests.process.test_cluster_command import tierfetch

pytestmark = pytest.mark.plaintext

LISTENERS = ("broker", "controller")
BROKER_RESOURCE = 4
VOLATILE = frozenset(
    {
        *(
            "broker_epoch",
            "client_host",
            "cluster_id",
            "epoch",
            "host",
            "port",
            "id_",
            "incarnation_id",
            "last_timestamp",
            "leader_epoch",
        ),
        *("leader", "log_dir", "member_id", "producer_id", "producer_id_start", "replica_directory_id", "topic_id"),
        *("high_watermark", "log_end_offset", "partition_size", "records", "response_data", "total_bytes"),
        *("last_caught_up_timestamp", "last_fetch_timestamp", "log_append_time_ms", "timestamp", "usable_bytes"),
        *("error_message", "throttle_time", "throttle_time_ms", "documentation", "transaction_start_time"),
        *("api_keys", "supported_features", "finalized_features", "finalized_features_epoch"),  # judged by themselves
    }
)
NO_NODE_ID = frozenset({"controller_id", "broker_id", "leader_id", "node_id", "replica_id"})
"""Where the nodes' numbers differ: the controllers'."""

KNOWN = {
    "broker CONSUMER_GROUP_HEARTBEAT heartbeat_interval": "a member comes again sooner while its group settles",
    "broker FETCH topics.partitions.log_start_offset": "told with OFFSET_OUT_OF_RANGE",
    "broker CONSUMER_GROUP_HEARTBEAT member_epoch": "a group begins at epoch 1, Kafka's at 2",
    "broker DESCRIBE_CONFIGS results.broker_configs": "keys that one of both does not know; see the types below",
    "broker INITIALIZE_SHARE_GROUP_STATE results": "at share.version 0 a share coordinator of Kafka's answers too",
    "broker INITIALIZE_SHARE_GROUP_STATE results.partitions.error_code": "the same",
    "broker READ_SHARE_GROUP_STATE results.partitions.error_code": "the same",
    "broker READ_SHARE_GROUP_STATE_SUMMARY results.partitions.error_code": "the same",
    "broker WRITE_SHARE_GROUP_STATE results.partitions.error_code": "the same",
    "broker DELETE_SHARE_GROUP_STATE results.partitions.error_code": "the same",
    "broker DESCRIBE_SHARE_GROUP_OFFSETS groups": "the same",
    "controller DESCRIBE_CONFIGS results.broker_configs": "keys that one of both does not know",
    "controller DESCRIBE_CONFIGS results.configs.synonyms": "a controller does not know brokers' keys",
    "controller DESCRIBE_CONFIGS results.configs.synonyms.name": "the same",
    "controller FETCH error_code": "version 12 names the metadata topic, which Kafka wants by id",
    "controller FETCH topics": "the same",
    "controller FETCH node_endpoints": "told where the fetcher is to go elsewhere",
    "controller VOTE topics.partitions.error_code": "a stranger is no voter of a static quorum",
    "controller BEGIN_QUORUM_EPOCH topics.partitions.error_code": "the same",
    "controller END_QUORUM_EPOCH topics.partitions.error_code": "the same",
    "controller ALTER_PARTITION topics.partitions.partition_epoch": "-1 beside an error, Kafka 0",
    "controller FETCH_SNAPSHOT error_code": "SNAPSHOT_NOT_FOUND, where Kafka fails",
    "controller FETCH_SNAPSHOT topics": "the same",
    "controller DESCRIBE_CLUSTER brokers": "a controller knows the brokers too",
    "controller DESCRIBE_CLUSTER cluster_authorized_operations": "the same",
    "controller DESCRIBE_CLUSTER error_code": "the same",
    "controller CONTROLLER_REGISTRATION error_code": "without the levels that the cluster runs at nobody is let in",
}
"""Listener, API and field, with the reason; all of them are in docs/divergence.md or beside an error."""

Answers = Mapping[Asked, list[Any]]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    base = tmp_path_factory.mktemp("tierfetch")
    with LocalCluster(base, (1,), tier=TierSettings("local", {"dir": str(base / "tier")})) as cluster:
        tierfetch(cluster.bootstrap_servers, "features", "set", "group.version", "1")
        yield cluster


@pytest.fixture(scope="module")
def theirs(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One of its own: groups and topics of other tests would be among the answers."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), (1,), heap="512m", jvm=SHORT_LIVED_JVM) as running:
        yield running


Side = dict[str, tuple[Mapping[ApiKey, VersionRange], Answers]]


async def everything(
    broker_port: int, controller_port: int
) -> dict[str, tuple[Mapping[ApiKey, VersionRange], Answers]]:
    """What is offered and what is answered, by listener."""
    client = scene_client()
    try:
        broker, controller = Address("127.0.0.1", broker_port), Address("127.0.0.1", controller_port)
        scene = await make_scene(client, broker, controller, has_shares=False)
        found: Side = {}
        for name in LISTENERS:
            is_controller = name == "controller"
            answers = await answers_of(scene, controller=is_controller)
            found[name] = (await offered(scene, controller=is_controller), answers)
        return found
    finally:
        await client.close()


def normal(value: Any) -> Any:
    """Without what depends on time and place, and without order; null and the empty list are one."""
    if isinstance(value, Mapping):
        dropped = VOLATILE | NO_NODE_ID
        kept = {name: normal(item) for name, item in value.items() if name not in dropped}
        if value.get("resource_type") == BROKER_RESOURCE and "configs" in value:
            del kept["configs"]
            kept["broker_configs"] = sorted(
                (config["name"], config.get("config_type", 0)) for config in value["configs"]
            )
        elif value.get("name") == "min.insync.replicas":  # with eligible leader replicas Kafka keeps it for all brokers
            kept = {"name": "min.insync.replicas", "config_type": value.get("config_type", 0)}
        return kept
    if isinstance(value, list):
        return sorted((normal(item) for item in value), key=repr)
    return [] if value is None else value


def differences(theirs: Any, ours: Any, place: str = "") -> Iterator[str]:
    """The places that differ, without indices."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for name in sorted(set(theirs) | set(ours)):
            yield from differences(theirs.get(name), ours.get(name), f"{place}.{name}" if place else name)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from differences(one, other, place)
    elif theirs != ours:
        yield place


def config_types(answers: Answers) -> dict[str, int]:
    """Of the broker's own configs, as DescribeConfigs tells them."""
    results = answers[Asked(ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CONFIGS.max_version)][0]["results"]
    return {
        config["name"]: config["config_type"]
        for result in results
        if (result["resource_type"], result["resource_name"]) == (BROKER_RESOURCE, "1")
        for config in result["configs"]
    }


def test_A4_every_api_is_answered_as_by_apache_kafka(theirs: KafkaCluster, ours: LocalCluster) -> None:
    assert ours.quorum is not None
    kafka = asyncio.run(everything(theirs.port(1), theirs.port(KAFKAS_CONTROLLER)))
    tierfetch = asyncio.run(everything(ours.port(1), ours.quorum.port(CONTROLLER_ID)))
    found: dict[str, list[Any]] = {}
    for listener in LISTENERS:
        (their_ranges, their_answers), (our_ranges, our_answers) = kafka[listener], tierfetch[listener]
        ranges = {api: (their_ranges[api], our_ranges[api]) for api in our_ranges}
        # Theirs says 0 to 2 of Produce for an old librdkafka and serves none.
        different = {ApiKey.PRODUCE: ((0, 13), (3, 13))}
        wanted = different if listener == "broker" else {}
        assert {api: pair for api, pair in ranges.items() if pair[0] != pair[1]} == wanted
        assert set(our_answers) <= set(their_answers)
        for asked, answers in our_answers.items():
            for place in differences(normal(their_answers[asked]), normal(answers)):
                found.setdefault(f"{listener} {asked.api.name} {place}", []).append(asked.version)
    assert found.keys() == KNOWN.keys(), {key: found.get(key) for key in found.keys() ^ KNOWN.keys()}
    their_types, our_types = (config_types(side["broker"][1]) for side in (kafka, tierfetch))
    assert {
        name: (their_types[name], kind)
        for name, kind in our_types.items()
        if name in their_types and their_types[name] != kind
    } == {}
