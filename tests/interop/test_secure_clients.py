"""Java's console tools against a cluster of ours with TLS and SASL, with the file that our commands take too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import javaproperties
import pytest

from tierfetch.bench.lab.kafka import run_tool
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.process.secure_servers import SecureServers

TOOLS = "org.apache.kafka.tools"

pytestmark = pytest.mark.plaintext


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, kafka: Path) -> Iterator[SecureServers]:
    with SecureServers(tmp_path_factory.mktemp("secure")) as servers:
        yield servers


def client_file(servers: SecureServers, *credentials: str) -> str:
    path = servers.base / f"{'-'.join(credentials[:2]) or 'client'}.properties"
    path.write_bytes(javaproperties.dumps(servers.client(*credentials)).encode())
    path.chmod(0o600)
    return str(path)


def tool(servers: SecureServers, name: str, *arguments: str, credentials: tuple[str, ...] = ()) -> str:
    server = ("--bootstrap-server", servers.external, "--command-config", client_file(servers, *credentials))
    return run_tool(name, *server, *arguments)


def test_javas_tools_create_topics_and_users(servers: SecureServers) -> None:
    tool(servers, f"{TOOLS}.TopicCommand", "--create", "--topic", "secure", "--partitions", "1")
    assert "secure" in tool(servers, f"{TOOLS}.TopicCommand", "--list").split()
    config = "SCRAM-SHA-512=[iterations=8192,password=rose]"
    entity = ("--entity-type", "users", "--entity-name", "carol")
    for change in (("--add-config", config), ("--delete-config", "SCRAM-SHA-512")):
        said = tool(servers, "kafka.admin.ConfigCommand", "--alter", *change, *entity)
        assert "Completed updating config for user carol" in said


def test_a_user_that_javas_tool_has_made_gets_in(servers: SecureServers) -> None:
    entity = ("--entity-type", "users", "--entity-name", "dave")
    config = "SCRAM-SHA-256=[password=tulip]"
    tool(servers, "kafka.admin.ConfigCommand", "--alter", "--add-config", config, *entity)
    dave = ("SCRAM-SHA-256", "dave", "tulip")
    tool(servers, f"{TOOLS}.TopicCommand", "--list", credentials=dave)
    command = [sys.executable, "-m", "tierfetch.cli.main", "topics", "list", "--bootstrap", servers.external]
    command += ["--command-config", client_file(servers, *dave)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr


def test_javas_tool_learns_that_its_password_is_wrong(servers: SecureServers) -> None:
    with pytest.raises(Exception, match=r"SaslAuthenticationException|invalid credentials"):
        tool(servers, f"{TOOLS}.TopicCommand", "--list", credentials=("SCRAM-SHA-256", "alice", "wrong"))
