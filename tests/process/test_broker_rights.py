"""Brokers that are no super users: they forward for clients, and the controllers decide about the clients (KIP-590)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,  # type: ignore[attr-defined]
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tierfetch.cli.command_config import make_client
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.cli.local.security import LocalSecurity
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.security import AclCreation, CreateAclsRequest
from tierfetch.protocol.net.client import Address
from tierfetch.security.core import acl

pytestmark = [pytest.mark.plaintext, pytest.mark.timeout(180)]
TIMEOUT_S = 30.0
NO_BROKERS = {"super.users": "User:admin;User:controller"}


def allow_brokers(quorum: LocalQuorum, security: LocalSecurity) -> None:
    """Give brokers the rights that `docs/security.md` lists, before the first one starts."""

    async def ask() -> None:
        client = make_client("test", security.client_of_controllers())
        creations = tuple(
            AclCreation(
                resource_type=acl.ResourceType.CLUSTER,
                resource_name=acl.CLUSTER.name,
                resource_pattern_type=acl.PatternType.LITERAL,
                principal="User:broker",
                host="*",
                operation=operation,
                permission_type=acl.AclPermissionType.ALLOW,
            )
            for operation in (acl.AclOperation.CLUSTER_ACTION, acl.AclOperation.CREATE)
        )
        try:
            address = Address.parse(quorum.bootstrap_controllers)
            answer = await client.send(address, CreateAclsRequest(creations=creations), timeout_s=TIMEOUT_S)
        finally:
            await client.close()
        assert [result.error_code for result in answer.results] == [ErrorCode.none] * 2

    for _ in poll(TIMEOUT_S, "the controller to be active"):
        if quorum.leader() >= 0:
            break
    asyncio.run(ask())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    base: Path = tmp_path_factory.mktemp("rights")
    security = LocalSecurity(base / "secrets")
    with LocalQuorum(base, 1, first_id=100, configs=NO_BROKERS, security=security) as quorum:
        allow_brokers(quorum, security)
        with LocalCluster(
            base, (1, 2), configs=NO_BROKERS, controllers=quorum.bootstrap_controllers, security=security
        ) as cluster:
            yield cluster


def login(cluster: LocalCluster, user: str | None = None) -> dict[str, str]:
    assert cluster.security is not None
    known = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": "0", **cluster.security.librdkafka()}
    return known if user is None else {**known, "sasl.username": user, "sasl.password": f"{user}-secret"}


def test_a_client_may_what_it_may_and_not_what_its_broker_may(cluster: LocalCluster) -> None:
    admin = AdminClient(login(cluster))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users = [UserScramCredentialUpsertion(user, info, f"{user}-secret".encode()) for user in ("alice", "bob")]
    for future in admin.alter_user_scram_credentials(users).values():
        future.result(TIMEOUT_S)
    mine = AclBinding(
        ResourceType.TOPIC,
        "alice-",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([mine])[mine].result(TIMEOUT_S)
    alice, bob = AdminClient(login(cluster, "alice")), AdminClient(login(cluster, "bob"))
    for _ in poll(TIMEOUT_S, "alice to be allowed", 0.2):
        with contextlib.suppress(KafkaException):  # until the broker has heard of it
            alice.create_topics([NewTopic("alice-t", 1, 2)])["alice-t"].result(TIMEOUT_S)
        if "alice-t" in admin.list_topics(timeout=TIMEOUT_S).topics:
            break
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        bob.create_topics([NewTopic("bob-t", 1, 2)])["bob-t"].result(TIMEOUT_S)
    assert "bob-t" not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_brokers_replicate_and_keep_groups_with_these_rights(cluster: LocalCluster) -> None:
    admin = AdminClient(login(cluster))
    admin.create_topics([NewTopic("t", 1, 2, config={"min.insync.replicas": "2"})])["t"].result(TIMEOUT_S)
    errors: list[object] = []
    producer = Producer({**login(cluster), "acks": "all", "enable.idempotence": True})
    producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]
    consumer = Consumer({**login(cluster), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.value() == b"x"
    consumer.close()


def test_the_controller_decides_about_the_client_by_name(cluster: LocalCluster) -> None:
    """Nothing that a broker asked in its own name was denied, and no broker asked in its own name for a client."""
    said = (cluster.base / "controller-100.log").read_text()
    assert "User:broker is Denied" not in said
    assert "Traceback" not in said
