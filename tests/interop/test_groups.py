"""Groups as Apache Kafka's tools see them, and their records as Kafka writes and reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.broker.groups.core.records import GroupKey, GroupValue, OffsetKey, decode_record
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.protocol.records import Record, iter_batches, iter_records
from tierfetch.protocol.topics import GROUP_METADATA_TOPIC
from tierfetch.tests.interop.clients import CONSOLE_TIMEOUT_MS, create_topic
from tierfetch.tests.interop.java import kafka_dump, kafka_tool
from tierfetch.tests.process.clients import CLIENTS
from tierfetch.tests.process.consumers import Member, until_assigned

TOOLS = "org.apache.kafka.tools"
VALUES = [b"%03d" % number for number in range(100)]
Row = dict[str, str]


@pytest.fixture(scope="module")
def tierfetch(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tierfetch"), (1, 2)) as cluster:
        create_topic(cluster.bootstrap_servers, "t")
        CLIENTS["confluent-kafka"].produce(cluster.bootstrap_servers, "t", VALUES, "none")
        yield cluster


def consume(servers: str, group: str, count: int, topic: str = "t") -> list[str]:
    """With `kafka-console-consumer`, from where the group is."""
    options = ("--group", group, "--from-beginning", "--max-messages", str(count), "--timeout-ms", CONSOLE_TIMEOUT_MS)
    printed = kafka_tool(f"{TOOLS}.consumer.ConsoleConsumer", servers, "--topic", topic, *options)
    return [line for line in printed.splitlines() if line.isdecimal()]


def groups(servers: str, *arguments: str) -> str:
    return kafka_tool(f"{TOOLS}.consumer.group.ConsumerGroupCommand", servers, *arguments)


def table(printed: str) -> list[Row]:
    """The rows under the line that begins with GROUP."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    head = next(index for index, words in enumerate(lines) if words[0] == "GROUP")
    return [dict(zip(lines[head], words, strict=False)) for words in lines[head + 1 :]]


def test_the_console_consumer_goes_on_where_its_group_is(tierfetch: LocalCluster) -> None:
    servers = tierfetch.bootstrap_servers
    expected = [value.decode() for value in VALUES]
    assert consume(servers, "console", 30) == expected[:30]
    assert consume(servers, "console", 70) == expected[30:]


def test_kafka_consumer_groups(tierfetch: LocalCluster) -> None:
    """list, describe, reset-offsets, delete-offsets, delete."""
    servers = tierfetch.bootstrap_servers
    consume(servers, "tools", 40)
    assert "tools" in groups(servers, "--list").split()
    assert re.search(r"^tools +Empty", groups(servers, "--list", "--state"), re.MULTILINE)
    (row,) = table(groups(servers, "--describe", "--group", "tools"))
    assert (row["TOPIC"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == ("t", "40", "100", "60")
    reset = ("--reset-offsets", "--group", "tools", "--topic", "t", "--execute")
    assert table(groups(servers, *reset, "--to-offset", "90"))[0]["NEW-OFFSET"] == "90"
    assert consume(servers, "tools", 10) == [value.decode() for value in VALUES[90:]]
    groups(servers, *reset, "--to-earliest")
    assert table(groups(servers, "--describe", "--group", "tools"))[0]["LAG"] == "100"
    deleted = groups(servers, "--delete-offsets", "--group", "tools", "--topic", "t")
    assert "Successful" in deleted
    assert "Deletion of requested consumer groups ('tools') was successful" in groups(
        servers, "--delete", "--group", "tools"
    )
    assert "tools" not in groups(servers, "--list").split()


def test_a_group_with_members_is_described_and_not_deleted(tierfetch: LocalCluster) -> None:
    servers = tierfetch.bootstrap_servers
    with Member(servers, "alive", "t", client_id="reader", group_instance_id="one") as member:
        until_assigned(lambda: bool(member.partitions), member)
        member.read(10)
        member.consumer.commit(asynchronous=False)
        (row,) = table(groups(servers, "--describe", "--group", "alive"))
        assert (row["CURRENT-OFFSET"], row["CLIENT-ID"], row["HOST"]) == ("10", "reader", "/127.0.0.1")
        (row,) = table(groups(servers, "--describe", "--group", "alive", "--members", "--verbose"))
        assert (row["GROUP-INSTANCE-ID"], row["#PARTITIONS"]) == ("one", "1")
        (row,) = table(groups(servers, "--describe", "--group", "alive", "--state"))
        assert (row["STATE"], row["#MEMBERS"], row["ASSIGNMENT-STRATEGY"]) == ("Stable", "1", "range")
        assert "is not empty" in groups(servers, "--delete", "--group", "alive")


def test_kafka_reads_our_records(tierfetch: LocalCluster) -> None:
    """`kafka-dump-log --offsets-decoder`."""
    consume(tierfetch.bootstrap_servers, "dumped", 20)
    files = sorted(tierfetch.data_directory(1).glob(f"{GROUP_METADATA_TOPIC}-*/*.log"))
    lines = [line for each in kafka_dump(files, "--offsets-decoder").values() for line in each if '"dumped"' in line]
    offsets = [line for line in lines if '"topic":"t"' in line]
    assert re.search(r'key: \{"type":"1","data":\{"group":"dumped","topic":"t","partition":0\}\}', offsets[-1])
    assert '"offset":20' in offsets[-1]
    described = [line for line in lines if '"protocolType":"consumer"' in line]
    assert any('"protocol":"range"' in line and '"members":[{"memberId":"' in line for line in described)
    assert re.search(r'"generation":2.*"members":\[\]', described[-1])


def test_we_read_kafkas_records_and_write_the_same(cluster: KafkaCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "grouped")
    CLIENTS["confluent-kafka"].produce(servers, "grouped", VALUES, "none")
    with Member(servers, "java", "grouped", group_instance_id="one") as member:
        member.read(10)
        member.consumer.commit(asynchronous=False)
    consume(servers, "java", 20, "grouped")
    decoded = [(record, decode_record(record.key or b"", record.value)) for record in _records(cluster)]
    for record, read in decoded:
        assert read is not None, record
        # Records of KIP-848, as of Kafka's console consumer, have fields that are read over: test_mixed_groups.
        if isinstance(read.key, OffsetKey | GroupKey):
            assert read.encoded() == (record.key, record.value)
    committed = [read.value.offset for _, read in decoded if isinstance(read.key, OffsetKey) and read.value is not None]
    assert committed[0] == 10
    assert committed[-1] == 30
    members = [
        read.value for _, read in decoded if isinstance(read.key, GroupKey) and isinstance(read.value, GroupValue)
    ]
    assert any(member.group_instance_id == "one" for value in members for member in value.members)


def _records(cluster: KafkaCluster) -> list[Record]:
    files = sorted((cluster.data_directory(1) / f"{GROUP_METADATA_TOPIC}-0").glob("*.log"))
    return [
        record
        for path in files
        for position, header in iter_batches(path.read_bytes())
        for record in iter_records(path.read_bytes(), position, header)
        if record.key is not None and b"java" in record.key
    ]
