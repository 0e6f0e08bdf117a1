"""Replicas moved between log directories by Apache Kafka's own tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.tests.interop.clients import TIMEOUT_S
from tierfetch.tests.interop.java import kafka_tool
from tierfetch.tests.process.clients import Librdkafka, create_topic

TOOLS = "org.apache.kafka.tools."
VALUES = [b"%04d" % number for number in range(500)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Broker 1 has two log directories."""
    cluster = LocalCluster(tmp_path, (1, 2))
    cluster.broker_configs = {1: {"log.dirs": f"{cluster.data_directory(1)},{tmp_path / 'second'}"}}
    with cluster:
        yield cluster


def reassign(cluster: LocalCluster, file: Path, *arguments: str) -> str:
    command, plan = TOOLS + "reassign.ReassignPartitionsCommand", ("--reassignment-json-file", str(file))
    return kafka_tool(command, cluster.bootstrap_servers, *plan, *arguments)


def log_dirs(cluster: LocalCluster) -> dict[str, list[bool]]:
    """Return for each log directory of broker 1 whether the replicas of `t` in it are future logs."""
    wanted = ("--describe", "--broker-list", "1", "--topic-list", "t")
    said = kafka_tool(TOOLS + "LogDirsCommand", cluster.bootstrap_servers, *wanted)
    (line,) = [line for line in said.splitlines() if line.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    return {entry["logDir"]: [part["isFuture"] for part in entry["partitions"]] for entry in broker["logDirs"]}


def test_D4_kafkas_tool_moves_a_replica_and_sees_that_it_has_moved(cluster: LocalCluster, tmp_path: Path) -> None:
    create_topic(cluster.bootstrap_servers, "t", replicas=2)
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    (home,) = [path for path, replicas in log_dirs(cluster).items() if replicas]
    (other,) = [path for path in log_dirs(cluster) if path != home]
    entry = {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": [other, "any"]}
    file = tmp_path / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    said = reassign(cluster, file, "--execute", "--replica-alter-log-dirs-throttle", "10000000")
    assert f"Successfully started moving log directory to {other} for replica t-0 with broker 1" in said
    for _ in poll(TIMEOUT_S, "the tool to see the end of the move"):
        said = reassign(cluster, file, "--verify")
        if "is still in progress" not in said and "still being" not in said:
            break
    assert "Reassignment of replica t-0-1 completed successfully." in said, said
    assert log_dirs(cluster) == {home: [], other: [False]}
    Librdkafka().produce(cluster.bootstrap_servers, "t", VALUES, "none")
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", 1000) == VALUES * 2
