"""A replica that moves between the log directories of its broker, under a producer that never stops."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.main import cli
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.process.clients import TIMEOUT_S, Librdkafka, create_topic
from tierfetch.tests.process.producing import SteadyProducer

KILLS = 4


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> tuple[int, ...]:
    brokers: tuple[int, ...] = request.param
    return brokers


@pytest.fixture
def cluster(tmp_path: Path, brokers: tuple[int, ...]) -> Iterator[LocalCluster]:
    """Broker 1 has two log directories."""
    cluster = LocalCluster(tmp_path, brokers)
    cluster.broker_configs = {
        1: {
            "log.dirs": f"{cluster.data_directory(1)},{tmp_path / 'second'}",
            "log.segment.bytes": "1048576",
            "replica.lag.time.max.ms": "3000",
        }
    }
    with cluster:
        yield cluster


def homes(cluster: LocalCluster) -> tuple[Path, Path]:
    """Return the log directory of broker 1 that has the replica, and the other one."""
    first, second = cluster.data_directory(1), cluster.data_directory(1).parent / "second"
    live = [path for path in (first, second) if (path / "t-0").exists()]
    assert live
    return (first, second) if live[0] == first else (second, first)


def alter(cluster: LocalCluster, path: Path) -> ErrorCode:
    """Send AlterReplicaLogDirs to broker 1."""

    async def ask() -> ErrorCode:
        client = KafkaClient(client_id="test", random=Random(1))
        try:
            topic = AlterReplicaLogDirTopic(name="t", partitions=(0,))
            request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=str(path), topics=(topic,)),))
            response = await client.send(Address("127.0.0.1", cluster.port(1)), request)
            return response.results[0].partitions[0].error_code
        finally:
            await client.close()

    return asyncio.run(ask())


def futures(cluster: LocalCluster) -> list[tuple[str, bool]]:
    """Return where broker 1 has the replica, and whether it is the future log there."""

    async def ask() -> list[tuple[str, bool]]:
        client = KafkaClient(client_id="test", random=Random(1))
        try:
            response = await client.send(Address("127.0.0.1", cluster.port(1)), DescribeLogDirsRequest(topics=None))
            return [
                (result.log_dir, part.is_future_key)
                for result in response.results
                for topic in result.topics
                for part in topic.partitions
                if (topic.name, part.partition_index) == ("t", 0)
            ]
        finally:
            await client.close()

    return asyncio.run(ask())


def wait_moved(cluster: LocalCluster, path: Path) -> None:
    for _ in poll(TIMEOUT_S, f"the replica to be in {path}"):
        if futures(cluster) == [(str(path), False)]:
            return


@pytest.mark.parametrize("brokers", [(1, 2)], indirect=True)
def test_D4_no_acknowledged_record_is_lost_and_no_error_seen_while_a_replica_moves(cluster: LocalCluster) -> None:
    create_topic(cluster.bootstrap_servers, "t", replicas=2)
    with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
        producer.wait_acknowledged(3000)
        for _ in range(4):
            _, other = homes(cluster)
            assert alter(cluster, other) is ErrorCode.none
            wait_moved(cluster, other)
            producer.wait_acknowledged(1000)
    producer.check_consumed()
    assert "Traceback" not in cluster.log_file(1).read_text()


@pytest.mark.parametrize("brokers", [(1,)], indirect=True)
def test_D4_no_acknowledged_record_is_lost_when_the_broker_is_killed_while_its_replica_moves(
    cluster: LocalCluster,
) -> None:
    create_topic(cluster.bootstrap_servers, "t", replicas=1)
    random = Random(11)
    with SteadyProducer(cluster.bootstrap_servers, "t", {"message.timeout.ms": 120_000}) as producer:
        for _ in range(KILLS):
            producer.wait_acknowledged(3000)
            _, other = homes(cluster)
            assert alter(cluster, other) is ErrorCode.none
            time.sleep(random.uniform(0, 0.25))
            cluster.kill(1)
            cluster.start(1)
            cluster.wait_serving(1)
            producer.wait_acknowledged(100)
            wait_moved(cluster, other)
    producer.check_consumed()
    log = cluster.log_file(1).read_text()
    assert "Traceback" not in log
    assert "records (offsets" not in log


def reassign(cluster: LocalCluster, command: str, plan: Path, *options: str, code: int = 0) -> str:
    arguments = ["reassign", command, str(plan), *options, "--bootstrap", cluster.bootstrap_servers]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


@pytest.mark.parametrize("brokers", [(1, 2)], indirect=True)
def test_D4_a_plan_with_log_dirs_moves_a_replica_is_verified_and_rolled_back(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    create_topic(cluster.bootstrap_servers, "t", replicas=2)
    plan = tmp_path / "plan.json"
    with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
        producer.wait_acknowledged(1000)
        home, other = homes(cluster)
        row = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": [str(other), "any"]}
        plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
        said = reassign(cluster, "execute", plan, "--throttle", "50 MB/s")
        assert "done: 1 partition" in said
        assert futures(cluster) == [(str(other), False)]
        assert "done: 1 partition" in reassign(cluster, "status", plan)
        document = CliRunner().invoke(
            cli,
            [
                "log-dirs",
                "describe",
                "--broker",
                "1",
                "--topic",
                "t",
                "--json",
                "--bootstrap",
                cluster.bootstrap_servers,
            ],
        )
        where = {row["directory"]: len(row["replicas"]) for row in json.loads(document.stdout)}
        assert where == {str(home): 0, str(other): 1}
        assert "rolled back" in reassign(cluster, "rollback", plan)
        assert futures(cluster) == [(str(home), False)]
        producer.wait_acknowledged(1000)
    producer.check_consumed()
    row["log_dirs"] = ["/nowhere", "any"]
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    said = reassign(cluster, "execute", plan, code=1)
    assert "t-0: log_dirs names /nowhere, and broker 1 has no such log directory in use" in said


@pytest.mark.parametrize("brokers", [(1, 2)], indirect=True)
def test_D4_a_throttled_move_between_log_directories_is_cancelled(cluster: LocalCluster, tmp_path: Path) -> None:
    create_topic(cluster.bootstrap_servers, "t", replicas=2)
    Librdkafka().produce(cluster.bootstrap_servers, "t", [b"x" * 10_000] * 1000, "none")
    home, other = homes(cluster)
    plan = tmp_path / "plan.json"
    row = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": [str(other), "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    command = [sys.executable, "-m", "tierfetch.cli.main", "reassign", "execute", str(plan), "--throttle", "100 kB/s"]
    with subprocess.Popen([*command, "--bootstrap", cluster.bootstrap_servers], stderr=subprocess.PIPE) as execution:
        for _ in poll(TIMEOUT_S, "the future log to be there"):
            if (str(other), True) in futures(cluster):
                break
        assert "moving" in reassign(cluster, "status", plan)
        reassign(cluster, "cancel", plan)
        assert execution.wait(TIMEOUT_S) == 0
    assert futures(cluster) == [(str(home), False)]
