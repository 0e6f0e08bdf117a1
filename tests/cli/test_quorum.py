"""`tierfetch quorum` against a quorum in this process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tierfetch.cli.main import cli
from tierfetch.cli.quorum import admin
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tierfetch.protocol.net.dispatch import Handler, RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.requests import CONTROLLER_ENDPOINTS
from tierfetch.quorum.handlers import api_versions_handler
from tierfetch.tests.quorum.nodes import CLUSTER, Quorum


async def run(quorum: Quorum, *arguments: str) -> Result:
    servers = ",".join(f"{item.host}:{item.port}" for item in quorum.endpoints)
    return await asyncio.to_thread(CliRunner().invoke, cli, ["quorum", *arguments, "--bootstrap-controller", servers])


async def test_Q10_status_and_replication(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1, observers=1, dynamic=True) as quorum:
        await quorum.start()
        leader = await quorum.leader()
        await quorum.replicas[2].start(observer=True)
        last = await leader.node.append_and_commit(1, [b"a"])
        await quorum.until(lambda: quorum.replicas[2].node.applied_offset > last)
        status = json.loads((await run(quorum, "describe", "--status", "--json")).output)
        assert status["ClusterId"] == CLUSTER
        assert (status["LeaderId"], status["LeaderEpoch"], status["HighWatermark"]) == (1, 1, last + 1)
        assert [item["id"] for item in status["CurrentVoters"]] == [1]
        assert [item["id"] for item in status["CurrentObservers"]] == [2]
        rows = json.loads((await run(quorum, "describe", "--replication", "--json")).output)
        assert [(row["NodeId"], row["LogEndOffset"], row["Lag"], row["Status"]) for row in rows] == [
            (1, last + 1, 0, "Leader"),
            (2, last + 1, 0, "Observer"),
        ]
        text = (await run(quorum, "describe", "--status")).output
        assert "LeaderId:               1\n" in text
        table = (await run(quorum, "describe", "--replication")).output
        assert "LastCaughtUpTimestamp" in table
        assert "Observer" in table


async def test_a_question_must_be_asked(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        result = await run(quorum, "describe")
        assert result.exit_code == 2
        assert "--status or --replication" in result.output


async def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "TIMEOUT_S", 0.1)
    async with Quorum(tmp_path, 1) as quorum:
        result = await run(quorum, "describe", "--status")
        assert result.exit_code == 1
        assert "could not be reached" in result.output or "cannot be reached" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe", "--status", "--bootstrap-controller", ","), "--bootstrap-controller names no controller"),
        (("describe", "--status", "--bootstrap-controller", "here"), "expected host:port, found 'here'"),
        (("remove", "--controller-id", "1", "--controller-directory-id", "x"), "--controller-directory-id: 'x' is not"),
    ],
)
def test_what_is_given_wrong_is_named(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, ["quorum", *arguments])
    assert result.exit_code == 1
    assert said in result.output


async def test_a_brokers_listener_is_not_a_controllers() -> None:
    async def describe_cluster(_: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
        assert request.endpoint_type == CONTROLLER_ENDPOINTS
        return DescribeClusterResponse(error_code=ErrorCode.unsupported_endpoint_type, cluster_id="", brokers=())

    table: dict[ApiKey, Handler] = {ApiKey.DESCRIBE_CLUSTER: describe_cluster}
    table[ApiKey.API_VERSIONS] = api_versions_handler(lambda: frozenset(table))
    server = Server(table, listener_name="PLAINTEXT")
    await server.start("127.0.0.1", 0)
    command = ["quorum", "describe", "--status", "--bootstrap-controller", f"127.0.0.1:{server.port}"]
    result = await asyncio.to_thread(CliRunner().invoke, cli, command)
    await server.close(deadline_s=0)
    assert result.exit_code == 1
    assert "give a controller's listener, not a broker's" in result.output


async def test_Q15_a_static_quorum_refuses_changes(tmp_path: Path) -> None:
    async with Quorum(tmp_path, 1) as quorum:
        await quorum.start()
        await quorum.leader()
        result = await run(
            quorum, "remove", "--controller-id", "1", "--controller-directory-id", "8fF03T8mTdKrJ8jUAsW8zA"
        )
        assert result.exit_code == 1
        assert "UNSUPPORTED_VERSION" in result.output
