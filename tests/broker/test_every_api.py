"""SPEC A4: what a listener offers, it answers, in every version, with content and through a real connection.

Broker and controller are one process; the question to each API is in `api_requests`, what they speak of in `api_scene`.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from tierfetch.broker.cluster.view import NO_LEADER
from tierfetch.broker.combined import CombinedNode, open_combined, parse_combined
from tierfetch.broker.environment import NodeEnvironment, wall_clock_ms
from tierfetch.cli.local.processes import free_ports
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import DescribeGroupsRequest
from tierfetch.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tierfetch.protocol.messages.producers import InitProducerIdRequest
from tierfetch.protocol.net.client import Address
from tierfetch.quorum.core.state import ReplicaKey
from tierfetch.quorum.storage.formatting import FormatOrder, format_directories, new_directory_id
from tierfetch.security.client import ClientIdentity
from tierfetch.tests.broker import api_requests
from tierfetch.tests.broker.api_answers import CLOSED, answers_of, empty_places, offered
from tierfetch.tests.broker.api_requests import unasked
from tierfetch.tests.broker.api_scene import (
    BROKER,
    GHOST,
    LIVE,
    MOVING,
    TOPIC,
    Member,
    Scene,
    make_scene,
    new_topic,
    scene_client,
    syncing,
)

pytestmark = pytest.mark.slow
NO_OPERATIONS = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
    "include_cluster_authorized_operations": False,
}
CLUSTER_ID = "ZXZlcnktYXBpLWFuc3dlcg"


@asynccontextmanager
async def combined_node(base: Path, more: Mapping[str, str] = MappingProxyType({})) -> AsyncIterator[CombinedNode]:
    """With a tier, on ports that the system chooses; `more` configuration."""
    broker_port, controller_port = free_ports(2)
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(BROKER),
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{BROKER}@127.0.0.1:{controller_port}",
        "log.dirs": str(base / "data"),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.plugin": "local",
        "rsm.config.dir": str(base / "tier"),
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        **more,
    }
    config, warnings = parse_combined(properties, "test")
    assert warnings == []
    machine = NodeEnvironment()
    order = FormatOrder(CLUSTER_ID, ReplicaKey(BROKER, new_directory_id(machine.rng)), config.controller.directories)
    await format_directories(machine.disk, order, ignore_formatted=True, rng=random.Random(1), now_ms=wall_clock_ms)
    await machine.disk.close()
    async with open_combined(config) as node:
        yield node


@asynccontextmanager
async def scene_of(node: CombinedNode, identity: ClientIdentity | None = None) -> AsyncIterator[Scene]:
    client = scene_client(identity)
    try:
        yield await make_scene(client, node.broker.address, Address("127.0.0.1", node.controller.quorum.server.port))
    finally:
        await client.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with combined_node(tmp_path) as node, scene_of(node) as scene:
        yield scene


EMPTY = {
    "broker": {
        "PRODUCE topics.partitions.record_errors": "3-13",  # a batch is refused as a whole
        "PRODUCE node_endpoints": "3-13",  # nobody else leads
        "FETCH node_endpoints": "4-18",
        "CONSUMER_GROUP_HEARTBEAT assignment.topic_partitions": "0-1",  # of a topic that is not there
        "CONSUMER_GROUP_DESCRIBE groups.members": "0-1",  # of a group of the classic protocol
        "SHARE_GROUP_DESCRIBE groups.members": "1-1",
        "DESCRIBE_SHARE_GROUP_OFFSETS groups.topics": "0-1",
        "ALTER_SHARE_GROUP_OFFSETS responses": "0-0",
        "DELETE_SHARE_GROUP_OFFSETS responses": "0-0",
        "SHARE_GROUP_HEARTBEAT assignment.topic_partitions": "1-1",  # its partitions are initialized first
        "SHARE_FETCH responses": "1-2",  # no share session is open
        "SHARE_FETCH node_endpoints": "1-2",
        "SHARE_ACKNOWLEDGE responses": "1-2",
        "SHARE_ACKNOWLEDGE node_endpoints": "1-2",
        "DESCRIBE_USER_SCRAM_CREDENTIALS results.credential_infos": "0-0",  # a user without any
        "DESCRIBE_ACLS resources": "1-3",  # there is no authorizer
        "DELETE_ACLS filter_results.matching_acls": "1-3",
    },
    "controller": {
        "FETCH topics": "4-11",  # KRaft needs the last fetched epoch, which came with version 12
        "FETCH node_endpoints": "4-18",
        "FETCH_SNAPSHOT node_endpoints": "1-1",
        "DESCRIBE_ACLS resources": "1-3",
        "DELETE_ACLS filter_results.matching_acls": "1-3",
    },
}
"""The arrays of answers that hold nothing here, with versions."""


def versions_by_place(places: list[tuple[str, int]]) -> dict[str, str]:
    found: dict[str, list[int]] = {}
    for place, version in places:
        found.setdefault(place, []).append(version)
    return {place: f"{min(versions)}-{max(versions)}" for place, versions in found.items()}


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_A4_every_api_in_every_version_answers_with_content(
    scene: Scene, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_controller = listener == "controller"
    ranges = await offered(scene, controller=is_controller)
    assert unasked(ranges) == set(), "APIs without a question in api_requests"
    assert {api: tuple(versions) for api, versions in ranges.items()} == {
        api: (api.min_version, api.max_version) for api in ranges
    }
    answers = await answers_of(scene, controller=is_controller)
    assert len(answers) == sum(api.max_version - api.min_version + 1 for api in ranges)
    assert [str(asked) for asked, given in answers.items() if not given or CLOSED in given] == []
    empty = [
        (f"{api.name} {place}", version) for (api, version), given in answers.items() for place in empty_places(given)
    ]
    assert versions_by_place(empty) == EMPTY[listener]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_A4_the_longest_name_has_an_answer_in_every_version(
    scene: Scene, listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused is named in the response, which holds no longer strings than the request."""
    monkeypatch.setattr(api_requests, "UNKNOWN", "x" * 32_767)
    answers = await answers_of(scene, controller=listener == "controller")
    assert [str(asked) for asked, given in answers.items() if not given or CLOSED in given] == []


ROUNDS = 20


async def first_answers_of_new_leaders(scene: Scene) -> Counter[str]:
    """For each of some new topics: what the leader that Metadata names says when it is asked at once."""
    answers: Counter[str] = Counter()
    for number in range(ROUNDS):
        name = f"new-{number}"
        made = {"topics": [new_topic(name)], "timeout_ms": 10_000, "validate_only": False}
        await scene.ask(ApiKey.CREATE_TOPICS, made)
        wanted = {"topics": [{"name": name, "topic_id": None}], **NO_OPERATIONS}
        leader = NO_LEADER
        while leader == NO_LEADER:
            (topic,) = (await scene.ask(ApiKey.METADATA, wanted)).topics
            leader = topic.partitions[0].leader_id if topic.partitions else NO_LEADER
        answers[(await scene.end_of(name, 0)).name] += 1
    return answers


async def test_A4_a_leader_that_metadata_names_answers_as_one(scene: Scene) -> None:
    assert await first_answers_of_new_leaders(scene) == {"none": ROUNDS}


async def test_A4_authorized_operations_are_those_of_a_cluster_without_an_authorizer(scene: Scene) -> None:
    """KIP-430: the numbers are Apache Kafka's."""
    asked = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    topics = [{"name": name, "topic_id": None} for name in (TOPIC, "absent")]
    body = {"topics": topics, "allow_auto_topic_creation": False, **asked}
    for version in (8, 13):
        metadata = await scene.ask(ApiKey.METADATA, body, version=version)
        assert [topic.topic_authorized_operations for topic in metadata.topics] == [3576, 3576]
    assert (await scene.ask(ApiKey.METADATA, body, version=10)).cluster_authorized_operations == 8096
    cluster = {"include_cluster_authorized_operations": True, "include_fenced_brokers": False}
    for controller in (False, True):
        found = await scene.ask(ApiKey.DESCRIBE_CLUSTER, cluster, controller=controller)
        assert found.cluster_authorized_operations == 8096
    described = DescribeGroupsRequest(groups=(LIVE, "absent"), include_authorized_operations=True)
    groups = (await scene.send(described)).groups
    assert [group.authorized_operations for group in groups] == [3400, -(2**31)]


async def test_A4_authorized_operations_are_told_to_those_who_ask(scene: Scene) -> None:
    metadata = await scene.ask(ApiKey.METADATA, {"topics": None, **NO_OPERATIONS})
    assert {topic.topic_authorized_operations for topic in metadata.topics} == {-(2**31)}
    cluster = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    assert (await scene.ask(ApiKey.DESCRIBE_CLUSTER, cluster)).cluster_authorized_operations == -(2**31)
    described = DescribeGroupsRequest(groups=(LIVE,))
    assert (await scene.send(described)).groups[0].authorized_operations == -(2**31)


async def test_A4_wrong_requests_have_kafkas_codes(scene: Scene) -> None:
    stranger = replace(syncing(Member(LIVE, "stranger", 1)), protocol_name=None)
    assert (await scene.send(stranger)).error_code is ErrorCode.inconsistent_group_protocol
    assert (await scene.send(stranger, version=4)).error_code is ErrorCode.unknown_member_id
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    forgotten = OffsetDeleteRequest(group_id="", topics=(OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions),))
    assert (await scene.send(forgotten)).error_code is ErrorCode.invalid_group_id
    nameless = DescribeGroupsRequest(groups=("",))
    for version, code in ((5, ErrorCode.none), (6, ErrorCode.group_id_not_found)):
        (group,) = (await scene.send(nameless, version=version)).groups
        assert (group.error_code, group.group_state) == (code, "Dead")
    for transactional_id, timeout_ms, code in (
        ("", 1000, ErrorCode.invalid_request),
        ("t", 0, ErrorCode.invalid_transaction_timeout),
        ("t", 900_001, ErrorCode.invalid_transaction_timeout),
    ):
        transactional = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        assert (await scene.send(transactional)).error_code is code
    controllers = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False, "endpoint_type": 2}
    assert (await scene.ask(ApiKey.DESCRIBE_CLUSTER, controllers)).error_code is ErrorCode.mismatched_endpoint_type
    nobody = {"client_software_name": " ", "client_software_version": ""}
    refused = await scene.ask(ApiKey.API_VERSIONS, nobody)
    assert (refused.error_code, refused.api_keys) == (ErrorCode.invalid_request, ())


async def test_A4_metadata_v0_names_no_replica_that_is_down(scene: Scene) -> None:
    wanted = {"topics": [{"name": MOVING, "topic_id": None}], **NO_OPERATIONS}
    found = {}
    for version in (0, 1):
        (partition,) = (await scene.ask(ApiKey.METADATA, wanted, version=version)).topics[0].partitions
        found[version] = (partition.error_code, set(partition.replica_nodes))
    assert found == {0: (ErrorCode.replica_not_available, {BROKER}), 1: (ErrorCode.none, {BROKER, GHOST})}


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_A4_no_feature_level_is_offered_whose_apis_are_missing(scene: Scene, listener: str) -> None:
    software = {"client_software_name": "test", "client_software_version": "1"}
    answer = await scene.ask(ApiKey.API_VERSIONS, software, controller=listener == "controller")
    offered_levels = {item.name: (item.min_version, item.max_version) for item in answer.supported_features}
    served = {
        "metadata.version": (25, 30),
        "kraft.version": (0, 1),
        "group.version": (0, 1),
        "share.version": (0, 1),
        "transaction.version": (0, 2),
        "tierfetch.version": (0, 1),
    }
    if listener == "controller":
        del served["tierfetch.version"]  # no level that the ghost does not support can be asked for
    assert offered_levels == served
