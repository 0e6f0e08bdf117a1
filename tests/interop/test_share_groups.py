"""Share groups (KIP-932) with Kafka's own client and tools: kafka-console-share-consumer.sh, kafka-share-groups.sh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.tests.interop.java import kafka_tool
from tierfetch.tests.process.clients import CLIENTS, create_topic
from tierfetch.tests.process.test_cluster_command import tierfetch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONFIGS = "kafka.admin.ConfigCommand"
VALUES = [b"%04d" % number for number in range(40)]
KEYS = {
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.replication.factor": "2",
    "share.coordinator.state.topic.min.isr": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), (1, 2), configs=KEYS) as running:
        tierfetch(running.bootstrap_servers, "features", "set", "share.version", "1")
        yield running


def consume(cluster: LocalCluster, topic: str, group: str, count: int, *more: str) -> list[str]:
    arguments = ("--topic", topic, "--group", group, "--max-messages", str(count), "--timeout-ms", "60000", *more)
    output = kafka_tool(CONSUMER, cluster.bootstrap_servers, *arguments)
    return [line for line in output.splitlines() if not line.startswith("Processed a total of")]


def test_the_console_share_consumer_reads_all_and_goes_on_where_it_acknowledged(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "shared", partitions=2, replicas=2)
    CLIENTS["confluent-kafka"].produce(servers, "shared", VALUES, "none")
    alter = ("--alter", "--entity-type", "groups", "--entity-name", "g", "--add-config")
    kafka_tool(CONFIGS, servers, *alter, "share.auto.offset.reset=earliest")
    first = consume(cluster, "shared", "g", 15)
    second = consume(cluster, "shared", "g", 25)
    assert sorted(first + second) == [value.decode() for value in VALUES]
    listed = kafka_tool(GROUPS, servers, "--list")
    assert listed.split() == ["g"]
    described = kafka_tool(GROUPS, servers, "--describe", "--group", "g", "--offsets")
    assert described.count("shared") == 2
    reset = ("--reset-offsets", "--group", "g", "--topic", "shared", "--to-earliest", "--execute")
    assert "shared" in kafka_tool(GROUPS, servers, *reset)
    assert sorted(consume(cluster, "shared", "g", 40)) == [value.decode() for value in VALUES]
    assert "shared" in kafka_tool(GROUPS, servers, "--delete-offsets", "--group", "g", "--topic", "shared")
    assert "successful" in kafka_tool(GROUPS, servers, "--delete", "--group", "g")
    assert kafka_tool(GROUPS, servers, "--list").split() == []


def test_coordinators_that_end_under_it(cluster: LocalCluster, tmp_path: Path) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "bounced", partitions=1, replicas=2)
    CLIENTS["confluent-kafka"].produce(servers, "bounced", VALUES, "none")
    alter = ("--alter", "--entity-type", "groups", "--entity-name", "b", "--add-config")
    kafka_tool(CONFIGS, servers, *alter, "share.auto.offset.reset=earliest")
    first = consume(cluster, "bounced", "b", 20)
    cluster.kill(1)
    cluster.start(1)
    cluster.kill(2)
    cluster.start(2)
    second = consume(cluster, "bounced", "b", 20)
    assert sorted(first + second) == [value.decode() for value in VALUES]
