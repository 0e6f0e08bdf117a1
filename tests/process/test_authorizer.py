"""The authorizer over processes: librdkafka's admin client sets ACLs, clients learn what they may."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.secure_servers import SecureServers

pytestmark = [pytest.mark.plaintext, pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(180)]
TIMEOUT_S = 30.0
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice;User:node;User:CN=broker-1,C=DE;User:CN=broker-2,C=DE;User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServers]:
    with SecureServers(tmp_path_factory.mktemp("authorized"), (1, 2), configs=AUTHORIZER) as servers:
        create_topic(servers.bootstrap_servers, "t", replicas=2, configs={"min.insync.replicas": "2"})
        yield servers


def client(servers: SecureServers, user: str) -> dict[str, object]:
    mechanism, password = ("SCRAM-SHA-256", "pencil") if user == "alice" else ("PLAIN", "pen")
    return {
        "bootstrap.servers": servers.external,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(servers.ca),
        "log_level": 2,
        "message.timeout.ms": 10_000,
    }


def without_timeout(config: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in config.items() if key != "message.timeout.ms"}


def produced(servers: SecureServers, user: str) -> KafkaError | None:
    """The error of one record to `t`, acknowledged by both replicas."""
    errors: list[KafkaError | None] = []
    producer = Producer({**client(servers, user), "acks": "all", "enable.idempotence": False})
    producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    return errors[0]


def test_acls_decide_what_a_client_may(servers: SecureServers) -> None:
    admin = AdminClient(without_timeout(client(servers, "alice")))
    bob = AdminClient(without_timeout(client(servers, "bob")))
    assert produced(servers, "alice") is None
    denied = produced(servers, "bob")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "t" not in bob.list_topics(timeout=TIMEOUT_S).topics

    acl = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(Exception, match="CLUSTER_AUTHORIZATION_FAILED"):
        bob.create_acls([acl])[acl].result(TIMEOUT_S)
    admin.create_acls([acl])[acl].result(TIMEOUT_S)
    until_s = time.monotonic() + TIMEOUT_S
    while produced(servers, "bob") is not None:  # each broker learns of it from the metadata log
        assert time.monotonic() < until_s
    assert "t" in bob.list_topics(timeout=TIMEOUT_S).topics

    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(everything).result(TIMEOUT_S) == [acl]
    assert admin.delete_acls([everything])[everything].result(TIMEOUT_S) == [acl]
    while produced(servers, "bob") is None:
        assert time.monotonic() < until_s
    assert admin.describe_acls(everything).result(TIMEOUT_S) == []


def test_denials_are_audited(servers: SecureServers) -> None:
    text = "".join(servers.log_file(node).read_text() for node in (1, 2))
    denial = "Principal = User:bob is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:'t'"
    assert denial in text
    assert "Traceback" not in text
