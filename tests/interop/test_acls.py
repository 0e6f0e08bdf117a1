"""Java's `kafka-acls.sh` sets, lists and removes ACLs of a cluster of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.kafka import run_tool
from tierfetch.tests.interop.test_secure_clients import client_file
from tierfetch.tests.process.secure_servers import SecureServers
from tierfetch.tests.process.test_authorizer import AUTHORIZER

pytestmark = pytest.mark.plaintext


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, kafka: Path) -> Iterator[SecureServers]:
    with SecureServers(tmp_path_factory.mktemp("acls"), configs=AUTHORIZER) as servers:
        yield servers


def kafka_acls(servers: SecureServers, *arguments: str, credentials: tuple[str, ...] = ()) -> str:
    server = ("--bootstrap-server", servers.external, "--command-config", client_file(servers, *credentials))
    return run_tool("org.apache.kafka.tools.AclCommand", *server, *arguments)


def test_kafka_acls_works_unchanged(servers: SecureServers) -> None:
    chosen = ("--topic", "pre", "--resource-pattern-type", "prefixed", "--allow-principal", "User:bob")
    assert "Adding ACLs for resource" in kafka_acls(servers, "--add", "--producer", *chosen)
    listed = kafka_acls(servers, "--list", "--topic", "prefix", "--resource-pattern-type", "match")
    assert "ResourcePattern(resourceType=TOPIC, name=pre, patternType=PREFIXED)" in listed
    assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    kafka_acls(servers, "--remove", "--force", "--topic", "pre", "--resource-pattern-type", "prefixed")
    assert "User:bob" not in kafka_acls(servers, "--list")


def test_kafka_acls_says_that_it_is_denied(servers: SecureServers) -> None:
    with pytest.raises(Exception, match="ClusterAuthorizationException"):
        kafka_acls(servers, "--list", credentials=("PLAIN", "bob", "pen"))
