"""Every row of `docs/security-apis.md` over real connections: allowed with its rights alone, denied without, and what a
denied client learns: nothing that was not in its question.

The questions are those of `api_requests`. What they need beforehand is done by a super user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.authorization.rows import NOTHING, ROWS
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.security import AclCreation, CreateAclsRequest, DescribeAclsRequest
from tierfetch.security.client import ClientIdentity, open_client
from tierfetch.security.core.acl import CLUSTER, AclOperation, AclPermissionType, PatternType, ResourceType
from tierfetch.security.core.settings import client_settings
from tierfetch.tests.broker.api_answers import CLOSED, Asked, answers_to, offered
from tierfetch.tests.broker.api_scene import Scene, scene_client
from tierfetch.tests.broker.test_every_api import combined_node, scene_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
NOBODY = "mallory"
ANY_NAME = "*"


@dataclass(frozen=True)
class Case:
    """The rights of an API, as (operation, resource type), and the codes that one without them finds in its answers."""

    rights: tuple[tuple[AclOperation, ResourceType], ...]
    denied: frozenset[str]


def case(*rights: tuple[AclOperation, ResourceType], denied: str = "") -> Case:
    return Case(rights, frozenset(f"{kind}_authorization_failed" for kind in denied.split()))


def cluster(operation: AclOperation) -> Case:
    return case((operation, ResourceType.CLUSTER), denied="cluster")


def topic(operation: AclOperation) -> Case:
    return case((operation, ResourceType.TOPIC), denied="topic")


def group(operation: AclOperation) -> Case:
    return case((operation, ResourceType.GROUP), denied="group")


TOPIC_READ = (AclOperation.READ, ResourceType.TOPIC)
WRITE_ID = (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID)
TOPIC_DESCRIBE = (AclOperation.DESCRIBE, ResourceType.TOPIC)
CASES: Mapping[ApiKey, Case] = {
    ApiKey.PRODUCE: Case(
        ((AclOperation.WRITE, ResourceType.TOPIC),),
        frozenset({"topic_authorization_failed", "unknown_topic_id"}),  # as Kafka: an id that nobody has is no secret
    ),
    ApiKey.FETCH: case(TOPIC_READ, (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER), denied="topic"),
    ApiKey.LIST_OFFSETS: topic(AclOperation.DESCRIBE),
    ApiKey.METADATA: topic(AclOperation.DESCRIBE),
    ApiKey.OFFSET_COMMIT: case((AclOperation.READ, ResourceType.GROUP), TOPIC_READ, denied="group"),
    ApiKey.OFFSET_FETCH: case((AclOperation.DESCRIBE, ResourceType.GROUP), TOPIC_DESCRIBE, denied="group"),
    ApiKey.FIND_COORDINATOR: group(AclOperation.DESCRIBE),
    ApiKey.JOIN_GROUP: group(AclOperation.READ),
    ApiKey.HEARTBEAT: group(AclOperation.READ),
    ApiKey.LEAVE_GROUP: group(AclOperation.READ),
    ApiKey.SYNC_GROUP: group(AclOperation.READ),
    ApiKey.DESCRIBE_GROUPS: group(AclOperation.DESCRIBE),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: case((AclOperation.READ, ResourceType.GROUP), TOPIC_DESCRIBE, denied="group"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: group(AclOperation.DESCRIBE),
    ApiKey.SHARE_GROUP_HEARTBEAT: case((AclOperation.READ, ResourceType.GROUP), TOPIC_DESCRIBE, denied="group"),
    ApiKey.SHARE_GROUP_DESCRIBE: group(AclOperation.DESCRIBE),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: case(
        (AclOperation.DESCRIBE, ResourceType.GROUP), TOPIC_DESCRIBE, denied="group"
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: case((AclOperation.READ, ResourceType.GROUP), TOPIC_READ, denied="group"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: case((AclOperation.DELETE, ResourceType.GROUP), TOPIC_READ, denied="group"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.WRITE_SHARE_GROUP_STATE: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.DELETE_SHARE_GROUP_STATE: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.SHARE_FETCH: case((AclOperation.READ, ResourceType.GROUP), TOPIC_READ, denied="group"),
    ApiKey.SHARE_ACKNOWLEDGE: case((AclOperation.READ, ResourceType.GROUP), TOPIC_READ, denied="group"),
    ApiKey.LIST_GROUPS: case((AclOperation.DESCRIBE, ResourceType.GROUP)),
    ApiKey.ADD_PARTITIONS_TO_TXN: case(
        WRITE_ID,
        (AclOperation.WRITE, ResourceType.TOPIC),
        (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        denied="cluster",
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: case(WRITE_ID, (AclOperation.READ, ResourceType.GROUP), denied="transactional_id"),
    ApiKey.END_TXN: case(WRITE_ID, denied="transactional_id"),
    ApiKey.TXN_OFFSET_COMMIT: case(
        WRITE_ID, (AclOperation.READ, ResourceType.GROUP), TOPIC_READ, denied="transactional_id"
    ),
    ApiKey.DESCRIBE_PRODUCERS: topic(AclOperation.READ),
    ApiKey.DESCRIBE_TRANSACTIONS: case(
        (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID), TOPIC_DESCRIBE, denied="transactional_id"
    ),
    ApiKey.LIST_TRANSACTIONS: case((AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)),
    ApiKey.CREATE_TOPICS: topic(AclOperation.CREATE),
    ApiKey.DELETE_TOPICS: case((AclOperation.DELETE, ResourceType.TOPIC), TOPIC_DESCRIBE, denied="topic"),
    ApiKey.DELETE_RECORDS: topic(AclOperation.DELETE),
    ApiKey.INIT_PRODUCER_ID: cluster(AclOperation.IDEMPOTENT_WRITE),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topic(AclOperation.DESCRIBE),
    ApiKey.WRITE_TXN_MARKERS: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_CONFIGS: case(
        (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
        denied="topic cluster",
    ),
    ApiKey.ALTER_CONFIGS: topic(AclOperation.ALTER_CONFIGS),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: topic(AclOperation.ALTER_CONFIGS),
    ApiKey.CREATE_PARTITIONS: topic(AclOperation.ALTER),
    ApiKey.DELETE_GROUPS: group(AclOperation.DELETE),
    ApiKey.OFFSET_DELETE: case((AclOperation.DELETE, ResourceType.GROUP), TOPIC_READ, denied="group"),
    ApiKey.DESCRIBE_ACLS: cluster(AclOperation.DESCRIBE),
    ApiKey.CREATE_ACLS: cluster(AclOperation.ALTER),
    ApiKey.DELETE_ACLS: cluster(AclOperation.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: cluster(AclOperation.DESCRIBE),
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster(AclOperation.ALTER),
    ApiKey.ELECT_LEADERS: cluster(AclOperation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster(AclOperation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster(AclOperation.DESCRIBE),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster(AclOperation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster(AclOperation.ALTER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster(AclOperation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: cluster(AclOperation.ALTER_CONFIGS),
    ApiKey.VOTE: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.BEGIN_QUORUM_EPOCH: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.END_QUORUM_EPOCH: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.DESCRIBE_QUORUM: cluster(AclOperation.DESCRIBE),
    ApiKey.ALTER_PARTITION: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.UPDATE_FEATURES: cluster(AclOperation.ALTER),
    ApiKey.ENVELOPE: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.FETCH_SNAPSHOT: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.BROKER_REGISTRATION: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.BROKER_HEARTBEAT: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.UNREGISTER_BROKER: cluster(AclOperation.ALTER),
    ApiKey.ALLOCATE_PRODUCER_IDS: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.CONTROLLER_REGISTRATION: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: cluster(AclOperation.CLUSTER_ACTION),
    ApiKey.ADD_RAFT_VOTER: cluster(AclOperation.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: cluster(AclOperation.ALTER),
    ApiKey.UPDATE_RAFT_VOTER: cluster(AclOperation.CLUSTER_ACTION),
}
ON_CONTROLLER: Mapping[ApiKey, Case] = {ApiKey.FETCH: cluster(AclOperation.CLUSTER_ACTION)}
"""The rows that differ on a controller's listener."""
KNOWN_TO_ALL: Mapping[ApiKey, frozenset[str]] = {
    ApiKey.METADATA: frozenset({"brokers", "cluster_id", "controller_id"}),
}
"""The fields of answers that need no right: a client must find its brokers."""


def test_there_is_a_case_for_every_row() -> None:
    assert {api for api, row in ROWS.items() if row is not NOTHING and row.needs != "-"} == set(CASES)


def user(api: ApiKey) -> str:
    return f"may-{api.name}"


def login(name: str) -> ClientIdentity:
    jaas = f'{MODULE} username="{name}" password="{name}-secret";'
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    identity = open_client(client_settings(settings))
    assert identity is not None
    return identity


def security() -> dict[str, str]:
    """PLAIN on both listeners; `admin`, as which the node connects to itself, is the super user."""
    names = ("admin", NOBODY, *map(user, CASES))
    users = " ".join(f'user_{name}="{name}-secret"' for name in names)
    jaas = f'{MODULE} username="admin" password="admin-secret" {users};'
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }


async def allow(scene: Scene, api: ApiKey, rights: tuple[tuple[AclOperation, ResourceType], ...]) -> None:
    """Give the user of an API its rights, on all resources; returns once the broker knows them."""
    creations = tuple(
        AclCreation(
            resource_type=kind,
            resource_name=CLUSTER.name if kind is ResourceType.CLUSTER else ANY_NAME,
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:{user(api)}",
            host="*",
            operation=operation,
            permission_type=AclPermissionType.ALLOW,
        )
        for operation, kind in rights
    )
    answer = await scene.send(CreateAclsRequest(creations=creations))
    assert {result.error_code for result in answer.results} == {ErrorCode.none}
    mine = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=f"User:{user(api)}",
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermissionType.ANY,
    )
    async with asyncio.timeout(30):
        while sum(len(each.acls) for each in (await scene.send(mine)).resources) < len(rights):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the broker is asked, it tells nothing by itself


@asynccontextmanager
async def asking_as(scene: Scene, name: str) -> AsyncIterator[Scene]:
    client = scene_client(login(name))
    try:
        yield replace(scene, client=client)
    finally:
        await client.close()


def codes(value: Any) -> Iterator[str]:
    """The names of all error codes in an answer but `none`."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == "error_code" and item != "none":
                yield str(item)
            yield from codes(item)
    elif isinstance(value, list):
        for item in value:
            yield from codes(item)


WITHOUT_NEWS = {"error_code", "error_message", "throttle_time", "throttle_time_ms"}
EPOCH = "1970-01-01 00:00:00+00:00"
DEFAULTS: tuple[Any, ...] = (EPOCH, None, "", b"", -1, 0, False, -(2**31), "00000000-0000-0000-0000-000000000000")


def leaves(value: Any, passed_over: frozenset[str] = frozenset()) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name not in passed_over and name not in WITHOUT_NEWS:
                yield from leaves(item, passed_over)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, passed_over)
    else:
        yield value


def learned(api: ApiKey, asked: list[Any], answers: list[Any]) -> set[Any]:
    """What the answers say that the questions did not."""
    known = set(leaves(asked))
    news = leaves(answers, KNOWN_TO_ALL.get(api, frozenset()))
    return {item for item in news if item not in known and item not in DEFAULTS and item != CLOSED}


@pytest.mark.parametrize("listener", ["broker", "controller"])
async def test_every_row_of_the_table(tmp_path: Path, listener: str) -> None:
    is_controller = listener == "controller"
    wrong: list[str] = []
    async with (
        combined_node(tmp_path, security()) as node,
        scene_of(node, login("admin")) as scene,
        asking_as(scene, NOBODY) as nobody,
    ):
        for api in sorted(set(await offered(scene, controller=is_controller)) & set(CASES)):
            row = ON_CONTROLLER.get(api, CASES[api]) if is_controller else CASES[api]
            newest = Asked(api, api.max_version)
            asked, answers = await answers_to(scene, nobody, newest, controller=is_controller)
            if set(codes(answers)) != row.denied or CLOSED in answers:
                wrong.append(f"{api.name}, denied: {sorted(set(codes(answers)))}, expected {sorted(row.denied)}")
            if news := learned(api, asked, answers):
                wrong.append(f"{api.name}: a denied client learns {news}")
            await allow(scene, api, row.rights)
            async with asking_as(scene, user(api)) as allowed:
                _, answers = await answers_to(scene, allowed, newest, controller=is_controller)
            refused = {code for code in codes(answers) if code.endswith("authorization_failed")}
            if refused or CLOSED in answers:
                wrong.append(f"{api.name}, allowed: {sorted(refused)} {answers}")
    assert wrong == []
