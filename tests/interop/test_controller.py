"""Brokers and tools of Apache Kafka on a quorum of three of our controllers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.jars import kafka_jars
from tierfetch.bench.lab.kafka import SHORT_LIVED_JVM, run_tool
from tierfetch.cli.local.processes import Processes, free_ports, poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.tests.interop.clients import CONSOLE_TIMEOUT_MS, TIMEOUT_S

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.plaintext]

BROKERS = (11, 12)
SESSION_TIMEOUT_MS = 6_000
TOOLS = "org.apache.kafka.tools."


class JavaBrokers:
    """Two brokers of Apache Kafka whose controllers are ours."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
        configs = {"broker.session.timeout.ms": str(SESSION_TIMEOUT_MS)}
        self.quorum = LocalQuorum(base / "quorum", configs=configs)
        self.processes = Processes()

    def __enter__(self) -> JavaBrokers:
        self.quorum.__enter__()
        for broker in BROKERS:
            config = str(self.config_file(broker))
            run_tool("kafka.tools.StorageTool", "format", "-t", self.quorum.cluster_id, "-c", config)
            self.start(broker)
        ready = ("--create", "--topic", "ready", "--replication-factor", "2", "--if-not-exists")
        self.wait_for(lambda: self.topics(*ready) is not None)
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.kill_all()
        self.quorum.__exit__()

    def config_file(self, broker: int) -> Path:
        voters = ",".join(f"{node}@127.0.0.1:{self.quorum.port(node)}" for node in self.quorum.nodes)
        properties = {
            "node.id": broker,
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.base / f"broker-{broker}",
            "offsets.topic.replication.factor": 2,
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        path = self.base / f"broker-{broker}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def log_file(self, broker: int) -> Path:
        return self.base / f"broker-{broker}.log"

    def start(self, broker: int) -> None:
        command = ["java", "-Xmx384m", *SHORT_LIVED_JVM, "-cp", f"{kafka_jars()}/*", "kafka.Kafka"]
        self.processes.start(broker, [*command, str(self.config_file(broker))], self.log_file(broker))

    def tool(self, name: str, *arguments: str, brokers: tuple[int, ...] = BROKERS) -> str:
        servers = ",".join(f"127.0.0.1:{self.ports[broker]}" for broker in brokers)
        return run_tool(name, "--bootstrap-server", servers, *arguments)

    def topics(self, *arguments: str, brokers: tuple[int, ...] = BROKERS) -> str:
        return self.tool(TOOLS + "TopicCommand", *arguments, brokers=brokers)

    def wait_for(self, holds: object, timeout_s: float = TIMEOUT_S) -> None:
        for _ in poll(timeout_s, "it to hold", interval_s=0.5):
            try:
                if holds():  # type: ignore[operator]
                    return
            except (RuntimeError, AssertionError):
                continue


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBrokers]:
    kafka_jars()
    with JavaBrokers(tmp_path_factory.mktemp("java-brokers")) as brokers:
        yield brokers
        for broker in BROKERS:
            faults = [line for line in brokers.log_file(broker).read_text().splitlines() if "FaultHandler" in line]
            assert not faults, faults


def test_java_brokers_serve_under_our_controllers(cluster: JavaBrokers) -> None:
    cluster.topics("--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "2")
    described = cluster.topics("--describe", "--topic", "orders")
    assert described.count("Isr: ") == 3
    configs = ("--alter", "--entity-type", "topics", "--entity-name", "orders", "--add-config", "retention.ms=100000")
    assert "Completed updating config" in cluster.tool("kafka.admin.ConfigCommand", *configs)
    servers = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
    produced = run_tool(
        TOOLS + "ProducerPerformance",
        *("--topic", "orders", "--num-records", "5000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={servers}", "acks=all"),
    )
    assert "5000 records sent" in produced
    consumed = cluster.tool(
        TOOLS + "consumer.ConsoleConsumer",
        *("--topic", "orders", "--from-beginning", "--max-messages", "5", "--timeout-ms", CONSOLE_TIMEOUT_MS),
    )
    assert len(consumed.strip().splitlines()) >= 5


def test_C6_kafkas_tool_moves_a_partition(cluster: JavaBrokers) -> None:
    cluster.topics("--create", "--topic", "moved", "--replica-assignment", "11")
    plan = cluster.base / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [12]}]}))
    tool = TOOLS + "reassign.ReassignPartitionsCommand"
    assert "Successfully started" in cluster.tool(tool, "--reassignment-json-file", str(plan), "--execute")
    cluster.wait_for(lambda: "is completed" in cluster.tool(tool, "--reassignment-json-file", str(plan), "--verify"))
    assert "Replicas: 12\tIsr: 12" in cluster.topics("--describe", "--topic", "moved")


def test_C10_kafkas_tool_elects_the_preferred_leader(cluster: JavaBrokers) -> None:
    cluster.topics("--create", "--topic", "preferred", "--replica-assignment", "11:12")
    elected = cluster.tool(
        TOOLS + "LeaderElectionCommand", "--election-type", "preferred", "--topic", "preferred", "--partition", "0"
    )
    assert "already" in elected or "Valid replica already elected" in elected


def test_C5_java_brokers_go_on_when_our_active_controller_dies(cluster: JavaBrokers) -> None:
    cluster.quorum.kill(cluster.quorum.leader())
    cluster.wait_for(lambda: cluster.quorum.leader() > 0)
    cluster.topics("--create", "--topic", "after", "--partitions", "2", "--replication-factor", "2")
    assert cluster.topics("--describe", "--topic", "after").count("Isr: ") == 2


def test_C1_a_killed_java_broker_is_replaced_as_leader(cluster: JavaBrokers) -> None:
    cluster.topics("--create", "--topic", "failing", "--replica-assignment", "11:12")
    cluster.processes.kill(11)
    cluster.wait_for(lambda: "Leader: 12" in cluster.topics("--describe", "--topic", "failing", brokers=(12,)))
    cluster.start(11)
    cluster.wait_for(lambda: "Isr: 11,12" in cluster.topics("--describe", "--topic", "failing"))
