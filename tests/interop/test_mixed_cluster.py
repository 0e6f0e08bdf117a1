"""A broker of Apache Kafka beside ours, under three controllers of ours and over one tier."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from tierfetch.bench.lab.jars import kafka_jars
from tierfetch.bench.lab.kafka import CONTROLLER_ID, SHORT_LIVED_JVM, KafkaCluster, run_tool
from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.nodes import LocalNodes
from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.quorum import LocalQuorum
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.messages.cluster import ApiVersionsRequest
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.interop.clients import TIMEOUT_S

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.plaintext]

OURS, JAVA = (1, 2), 11
VALUES = [b"%06d" % number for number in range(2000)]
TOOLS = "org.apache.kafka.tools"


def _is_led_by(broker: int, partition: PartitionMetadata) -> bool:
    return partition.leader == broker


class JavaBroker(KafkaCluster):
    """Of Apache Kafka, under controllers that run elsewhere."""

    def __init__(self, base: Path, quorum: LocalQuorum, tier: Path, configs: Mapping[str, str]) -> None:
        super().__init__(base, (JAVA,), heap="512m", jvm=SHORT_LIVED_JVM, broker_configs=configs)
        self.nodes = (JAVA,)
        self.cluster_id = quorum.cluster_id
        self._voters = ",".join(f"{node}@127.0.0.1:{quorum.port(node)}" for node in quorum.nodes)
        self._tier = tier

    def __enter__(self) -> JavaBroker:
        LocalNodes.__enter__(self)
        return self

    @property
    def tier_directory(self) -> Path:
        return self._tier

    def properties(self, node: int) -> dict[str, str]:
        return super().properties(node) | {
            "controller.quorum.voters": self._voters,
            "follower.fetch.last.tiered.offset.enable": "true",
        }


@dataclass
class Mixed:
    """The cluster."""

    quorum: LocalQuorum
    ours: LocalCluster
    java: JavaBroker

    @property
    def servers(self) -> str:
        return f"{self.ours.bootstrap_servers},{self.java.bootstrap_servers}"

    def create(self, topic: str, *assignments: list[int], **configs: str) -> None:
        new = NewTopic(
            topic,
            num_partitions=len(assignments),
            replica_assignment=list(assignments),
            config={key.replace("_", "."): value for key, value in configs.items()},
        )
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([new])[topic].result(TIMEOUT_S)
        for number, (first, *_) in enumerate(assignments):
            self.wait(topic, "to be led", partial(_is_led_by, first), number)

    def wait(self, topic: str, what: str, holds: Callable[[PartitionMetadata], bool], number: int = 0) -> None:
        """As each broker that answers says it."""
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        found: PartitionMetadata | None = None
        for _ in poll(TIMEOUT_S, f"{topic}-{number} {what}", 0.2):
            with contextlib.suppress(confluent_kafka.KafkaException):
                found = admin.list_topics(topic, timeout=5).topics[topic].partitions.get(number)
                if found is not None and holds(found):
                    return

    def wait_in_sync(self, topic: str, *brokers: int, number: int = 0) -> None:
        self.wait(topic, f"to have {brokers} in sync", lambda part: set(part.isrs) == set(brokers), number)

    def produce(self, topic: str, values: list[bytes], number: int = 0) -> None:
        """Acknowledged by all in sync."""
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 0}
        )
        failed: list[object] = []
        for value in values:
            producer.produce(topic, value, partition=number, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(TIMEOUT_S) == 0
        assert not any(failed), failed[0]

    def consume(self, topic: str, count: int, number: int = 0) -> list[bytes]:
        settings = {"bootstrap.servers": self.servers, "group.id": "g", "enable.auto.commit": False, "log_level": 0}
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0)])
        values: list[bytes] = []
        try:
            for _ in poll(TIMEOUT_S, f"{count} records of {topic}-{number}", 0):
                message = consumer.poll(0.5)
                if message is not None:
                    assert message.error() is None, message.error()
                    values.append(message.value() or b"")
                if len(values) == count:
                    break
        finally:
            consumer.close()
        return values

    def move(self, topic: str, replicas: list[int], directory: Path) -> None:
        """With Apache Kafka's tool."""
        plan = directory / "plan.json"
        partitions = [{"topic": topic, "partition": 0, "replicas": replicas}]
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        tool = f"{TOOLS}.reassign.ReassignPartitionsCommand"
        server = ("--bootstrap-server", self.ours.bootstrap_servers)
        run_tool(tool, *server, "--reassignment-json-file", str(plan), "--execute")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    yield from mixed_cluster(tmp_path_factory.mktemp("mixed"))


def mixed_cluster(base: Path, **java_configs: str) -> Iterator[Mixed]:
    """Yield a cluster of two brokers of ours and one of Apache Kafka's; no fault may be in the log of the latter."""
    kafka_jars()
    tier = base / "tier"
    with (
        LocalQuorum(base, first_id=101) as quorum,
        LocalCluster(
            base, OURS, tier=TierSettings("local", {"dir": str(tier)}), controllers=quorum.bootstrap_controllers
        ) as ours,
        JavaBroker(
            base / "java", quorum, tier, {key.replace("_", "."): value for key, value in java_configs.items()}
        ) as java,
    ):
        yield Mixed(quorum, ours, java)
        faults = [line for line in java.log_file(JAVA).read_text().splitlines() if "FaultHandler" in line]
        assert not faults, faults


def test_C4_a_java_broker_leads_and_follows_beside_ours(mixed: Mixed) -> None:
    mixed.create("t", [OURS[0], JAVA], [JAVA, OURS[1]], min_insync_replicas="2")
    for number, replicas in enumerate(((OURS[0], JAVA), (JAVA, OURS[1]))):
        mixed.wait_in_sync("t", *replicas, number=number)
        mixed.produce("t", VALUES, number)
        assert mixed.consume("t", len(VALUES), number) == VALUES


def test_C2_each_takes_over_from_the_other(mixed: Mixed) -> None:
    mixed.create("handed", [OURS[0], JAVA])
    mixed.wait_in_sync("handed", OURS[0], JAVA)
    mixed.produce("handed", VALUES[:500])
    mixed.ours.kill(OURS[0])
    mixed.wait("handed", "to be led by the Java broker", lambda part: part.leader == JAVA)
    mixed.produce("handed", VALUES[500:1000])
    mixed.ours.start(OURS[0])
    mixed.wait_in_sync("handed", OURS[0], JAVA)
    mixed.java.kill(JAVA)
    mixed.wait("handed", "to be led by ours", lambda part: part.leader == OURS[0])
    mixed.produce("handed", VALUES[1000:])
    mixed.java.start(JAVA)
    mixed.wait_in_sync("handed", OURS[0], JAVA)
    assert mixed.consume("handed", len(VALUES)) == VALUES


def test_C10_kafkas_tool_elects_the_preferred_leader(mixed: Mixed) -> None:
    mixed.create("preferred", [OURS[1], JAVA])
    mixed.wait_in_sync("preferred", OURS[1], JAVA)
    mixed.ours.stop(OURS[1])
    mixed.wait("preferred", "to be led by the Java broker", lambda part: part.leader == JAVA)
    mixed.ours.start(OURS[1])
    mixed.wait_in_sync("preferred", OURS[1], JAVA)
    wanted = ("--election-type", "preferred", "--topic", "preferred", "--partition", "0")
    run_tool(f"{TOOLS}.LeaderElectionCommand", "--bootstrap-server", mixed.ours.bootstrap_servers, *wanted)
    mixed.wait("preferred", "to be led by its first replica", lambda part: part.leader == OURS[1])


def test_kafka_configs_asks_our_controllers(mixed: Mixed) -> None:
    mixed.create("configured", [JAVA])
    server = ("--bootstrap-controller", mixed.quorum.bootstrap_controllers)
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    command = "kafka.admin.ConfigCommand"
    run_tool(command, *server, "--alter", *topic, "--add-config", "retention.ms=1234567")
    ours = ("--bootstrap-server", mixed.ours.bootstrap_servers)
    assert "retention.ms=1234567" in run_tool(command, *ours, "--describe", *topic)
    brokers = ("--entity-type", "brokers", "--entity-default")
    run_tool(command, *server, "--alter", *brokers, "--add-config", "log.retention.ms=7654321")
    assert "log.retention.ms=7654321" in run_tool(command, *server, "--describe", *brokers)
    own = ("--entity-type", "brokers", "--entity-name", str(mixed.quorum.nodes[0]), "--all")
    assert "controller.quorum.voters=101@127.0.0.1" in run_tool(command, *server, "--describe", *own)


def test_C5_all_go_on_when_the_active_controller_dies(mixed: Mixed) -> None:
    mixed.create("early", [JAVA, OURS[0]])
    mixed.wait_in_sync("early", OURS[0], JAVA)
    active = mixed.quorum.leader()
    mixed.quorum.kill(active)
    mixed.produce("early", VALUES)
    mixed.create("later", [OURS[1], JAVA])
    mixed.wait_in_sync("later", OURS[1], JAVA)
    mixed.produce("later", VALUES)
    mixed.quorum.start(active)
    for topic in ("early", "later"):
        assert mixed.consume(topic, len(VALUES)) == VALUES


def test_F6_a_java_replica_begins_with_what_our_tier_lacks_and_serves_all(mixed: Mixed, tmp_path: Path) -> None:
    values = [b"%06d " % number + b"x" * 1000 for number in range(4000)]
    tiered = {"remote_storage_enable": "true", "segment_bytes": "1048576", "local_retention_bytes": "1048576"}
    mixed.create("tiered", [OURS[0], OURS[1]], **tiered)
    mixed.produce("tiered", values)
    local = mixed.ours.data_directory(OURS[0]) / "tiered-0"
    for _ in poll(TIMEOUT_S, "most of it to lie in the tier only", 0.2):
        if min(int(path.stem) for path in local.glob("*.log")) > 2000:
            break
    mixed.move("tiered", [OURS[0], JAVA], tmp_path)
    mixed.wait_in_sync("tiered", OURS[0], JAVA)
    replica = mixed.java.data_directory(JAVA) / "tiered-0"
    assert min(int(path.stem) for path in replica.glob("*.log")) > 2000
    mixed.ours.stop(OURS[0])
    mixed.wait("tiered", "to be led by the Java broker", lambda part: part.leader == JAVA)
    assert mixed.consume("tiered", len(values)) == values
    mixed.ours.start(OURS[0])
    mixed.wait_in_sync("tiered", OURS[0], JAVA)


async def offered(port: int) -> set[int]:
    """The APIs of a listener that are known here."""
    client = KafkaClient(client_id="test", random=random.Random())
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    try:
        answer = await client.send(Address("127.0.0.1", port), request, timeout_s=TIMEOUT_S)
    finally:
        await client.close()
    return {item.api_key for item in answer.api_keys} & set(ApiKey)


async def test_each_api_is_served_on_the_listeners_where_kafka_serves_it(mixed: Mixed, cluster: KafkaCluster) -> None:
    """But for SASL's own requests: Kafka offers them without SASL too, and answers them with ILLEGAL_SASL_STATE."""
    sasl = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    ours, theirs = await offered(mixed.ours.port(OURS[0])), await offered(mixed.java.port(JAVA))
    assert (ours - theirs, theirs - ours) == (set(), sasl)
    of_brokers_alone = {ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS}
    controller = mixed.quorum.port(mixed.quorum.nodes[0])
    ours, theirs = await offered(controller), await offered(cluster.port(CONTROLLER_ID))
    assert (ours - theirs, theirs - ours) == (set(), sasl | of_brokers_alone)
