"""G1: consumer groups of KIP-848 with Apache Kafka's consumer and tools, and their records on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.kafka import KafkaCluster, run_tool
from tierfetch.broker.groups.core.consumer.records import ConsumerKey, Kind
from tierfetch.broker.groups.core.consumer.state import ConsumerGroup, ConsumerGroupState
from tierfetch.broker.groups.core.records import GroupRecord, decode_record
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC
from tierfetch.tests.interop.clients import CONSOLE_TIMEOUT_MS, create_topic
from tierfetch.tests.interop.java import kafka_dump
from tierfetch.tests.interop.test_groups import TOOLS, VALUES, groups, table
from tierfetch.tests.process.clients import CLIENTS
from tierfetch.tests.process.consumers import NewMember, until_assigned
from tierfetch.tests.process.test_cluster_command import tierfetch as command

WRITTEN_ALIKE = {Kind.GROUP, Kind.MEMBER, Kind.TARGET_MEMBER, Kind.CURRENT}


@pytest.fixture(scope="module")
def tierfetch(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tierfetch"), (1, 2)) as cluster:
        command(cluster.bootstrap_servers, "features", "set", "group.version", "1")
        create_topic(cluster.bootstrap_servers, "t")
        CLIENTS["confluent-kafka"].produce(cluster.bootstrap_servers, "t", VALUES, "none")
        yield cluster


def consume(servers: str, group: str, count: int, *options: str) -> list[str]:
    """With `kafka-console-consumer` and the consumer protocol, from where the group is."""
    printed = run_tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, "--group", group, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", CONSOLE_TIMEOUT_MS),
        *("--consumer-property", "group.protocol=consumer"),
        *(options or ("--topic", "t")),
    )
    return [line for line in printed.splitlines() if line.isdecimal()]


def test_kafkas_consumer_goes_on_where_its_group_is(tierfetch: LocalCluster) -> None:
    servers = tierfetch.bootstrap_servers
    expected = [value.decode() for value in VALUES]
    assert consume(servers, "console", 30) == expected[:30]
    assert consume(servers, "console", 70) == expected[30:]
    assert consume(servers, "matched", 100, "--include", "t") == expected


def test_kafka_consumer_groups(tierfetch: LocalCluster) -> None:
    servers = tierfetch.bootstrap_servers
    with NewMember(servers, "alive", "t", client_id="reader", group_instance_id="one") as member:
        until_assigned(lambda: bool(member.partitions), member)
        member.read(10)
        member.consumer.commit(asynchronous=False)
        assert re.search(r"^alive +Consumer +Stable", groups(servers, "--list", "--type", "--state"), re.MULTILINE)
        (row,) = table(groups(servers, "--describe", "--group", "alive"))
        assert (row["CURRENT-OFFSET"], row["CLIENT-ID"]) == ("10", "reader")
        (row,) = table(groups(servers, "--describe", "--group", "alive", "--members", "--verbose"))
        assert (row["GROUP-INSTANCE-ID"], row["#PARTITIONS"]) == ("one", "1")
        (row,) = table(groups(servers, "--describe", "--group", "alive", "--state"))
        assert (row["STATE"], row["#MEMBERS"], row["ASSIGNMENT-STRATEGY"]) == ("Stable", "1", "uniform")
        assert "is not empty" in groups(servers, "--delete", "--group", "alive")


def test_kafka_reads_our_records(tierfetch: LocalCluster) -> None:
    """`kafka-dump-log --offsets-decoder`."""
    consume(tierfetch.bootstrap_servers, "dumped", 20)
    files = sorted(tierfetch.data_directory(1).glob(f"{GROUP_METADATA_TOPIC}-*/*.log"))
    lines = [line for each in kafka_dump(files, "--offsets-decoder").values() for line in each if '"dumped"' in line]
    kinds = {kind for line in lines for kind in re.findall(r'key: \{"type":"(\d+)"', line)}
    assert kinds >= {"1", *(str(kind.value) for kind in (Kind.GROUP, Kind.MEMBER, Kind.TARGET, Kind.CURRENT))}
    member = next(line for line in lines if '"subscribedTopicNames":["t"]' in line)
    assert '"rebalanceTimeoutMs"' in member


def test_we_read_kafkas_records(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "assigned")
    CLIENTS["confluent-kafka"].produce(servers, "assigned", VALUES, "none")
    with NewMember(servers, "java", "assigned", group_instance_id="one") as member:
        member.read(10)
        records = [each for each in _records(cluster) if isinstance(each.key, ConsumerKey)]
        group = ConsumerGroup("java")
        for record in records:
            group.apply(record)
        assert group.state is ConsumerGroupState.STABLE
        assert list(group.static) == ["one"]
        assert len(group.owners) == 1
        assert group.subscribed_topics() == {"assigned"}


def _records(cluster: KafkaCluster) -> list[GroupRecord]:
    decoded = [
        (record, decode_record(record.key, record.value))
        for path in sorted(cluster.data_directory(1).glob(f"{GROUP_METADATA_TOPIC}-*/*.log"))
        for position, header in iter_batches(path.read_bytes())
        for record in iter_records(path.read_bytes(), position, header)
        if record.key is not None and b"java" in record.key
    ]
    for record, each in decoded:
        if each is not None and isinstance(each.key, ConsumerKey) and each.key.kind in WRITTEN_ALIKE:
            assert each.encoded() == (record.key, record.value)
    return [each for _, each in decoded if each is not None]
