"""Apache Kafka's own command-line tools as clients of tierfetch brokers, and their view of what these wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster, TierSettings
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.records import Compression, iter_batches
from tierfetch.tests.interop.brokers import list_offsets
from tierfetch.tests.interop.clients import CONSOLE_TIMEOUT_MS, TIMEOUT_S, consume
from tierfetch.tests.interop.java import check_by_kafka, kafka_tool

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def tierfetch(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers with a local tier, in racks a and b."""
    base = tmp_path_factory.mktemp("tierfetch")
    configs = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    tier = TierSettings("local", {"dir": str(base / "tier")})
    cluster = LocalCluster(base, (1, 2), tier=tier, configs=configs)
    cluster.broker_configs = {1: {"broker.rack": "a"}, 2: {"broker.rack": "b"}}
    with cluster:
        yield cluster


def tool(cluster: LocalCluster, name: str, *arguments: str, stdin: str = "") -> str:
    return kafka_tool(name, cluster.bootstrap_servers, *arguments, stdin=stdin)


def create(cluster: LocalCluster, topic: str, **configs: str) -> None:
    pairs = (f"{name.replace('_', '.')}={value}" for name, value in configs.items())
    options = [word for pair in pairs for word in ("--config", pair)]
    replicas = ("--partitions", "1", "--replication-factor", "2")
    tool(cluster, f"{TOOLS}.TopicCommand", "--create", "--topic", topic, *replicas, *options)


def console_consume(cluster: LocalCluster, topic: str, count: int, *more: str) -> list[str]:
    """The first values of partition 0, read without a group."""
    limits = ("--max-messages", str(count), "--timeout-ms", CONSOLE_TIMEOUT_MS)
    options = ("--partition", "0", "--offset", "earliest", *limits, *more)
    printed = tool(cluster, f"{TOOLS}.consumer.ConsoleConsumer", "--topic", topic, *options)
    return [line for line in printed.splitlines() if not line.startswith("Processed a total")]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_java_producer_writes_with_every_codec(tierfetch: LocalCluster, compression: str) -> None:
    topic = f"codec-{compression}"
    create(tierfetch, topic)
    printed = tool(
        tierfetch,
        f"{TOOLS}.ProducerPerformance",
        *("--topic", topic, "--num-records", "5000", "--record-size", "300", "--throughput", "-1"),
        *("--command-property", f"compression.type={compression}", "acks=all"),
    )
    assert "5000 records sent" in printed
    assert not re.search("ERROR|Exception", printed), printed
    assert list_offsets(tierfetch, topic, -1) == 5000
    values = [record.value for record in consume(tierfetch.bootstrap_servers, topic)]
    assert [len(value or b"") for value in values] == [300] * 5000


def test_batches_are_written_anew_in_the_codec_of_the_topic(tierfetch: LocalCluster) -> None:
    """Sequences and all: the Java producer is idempotent, and its batches come in another codec."""
    create(tierfetch, "zstd-only", compression_type="zstd")
    lines = [f"{number:06d} {'y' * 90}" for number in range(2_000)]
    options = ("--topic", "zstd-only", "--compression-codec", "lz4")
    tool(tierfetch, f"{TOOLS}.ConsoleProducer", *options, stdin="".join(f"{line}\n" for line in lines))
    assert console_consume(tierfetch, "zstd-only", len(lines)) == lines
    logs = [path for broker in (1, 2) for path in tierfetch.data_directory(broker).glob("zstd-only-0/*.log")]
    for path in logs:
        codecs = {header.compression for _, header in iter_batches(path.read_bytes())}
        assert codecs <= {Compression.ZSTD}
    assert any(path.stat().st_size for path in logs)


def test_topics_and_configs_are_described_and_altered(tierfetch: LocalCluster) -> None:
    create(tierfetch, "described", retention_ms="86400000")
    described = tool(tierfetch, f"{TOOLS}.TopicCommand", "--describe", "--topic", "described")
    assert re.search(r"PartitionCount: 1\s+ReplicationFactor: 2\s+Configs: retention.ms=86400000", described), described
    assert re.search(r"Partition: 0\s+Leader: [12]\s+Replicas: [12],[12]\s+Isr: [12],[12]", described), described
    topic = ("--entity-type", "topics", "--entity-name", "described")
    command = "kafka.admin.ConfigCommand"
    tool(
        tierfetch,
        command,
        *topic,
        "--alter",
        "--add-config",
        "min.insync.replicas=2",
        "--delete-config",
        "retention.ms",
    )
    configs = tool(tierfetch, command, *topic, "--describe")
    assert "min.insync.replicas=2" in configs
    assert "retention.ms" not in configs
    with pytest.raises(RuntimeError, match=r"segment\.bytes"):
        tool(tierfetch, command, *topic, "--alter", "--add-config", "segment.bytes=-5")
    tool(tierfetch, f"{TOOLS}.TopicCommand", "--delete", "--topic", "described")
    assert "described" not in tool(tierfetch, f"{TOOLS}.TopicCommand", "--list").splitlines()


def test_offsets_and_consumers_of_a_tiered_topic(tierfetch: LocalCluster, tmp_path: Path) -> None:
    """Written by the console producer, tiered, removed locally, read back by the console consumer."""
    create(
        tierfetch,
        "tiered",
        remote_storage_enable="true",
        segment_bytes="1048576",
        local_retention_bytes="1",
        message_timestamp_type="LogAppendTime",
    )
    lines = [f"{number:06d} {'x' * 990}" for number in range(4_000)]
    tool(tierfetch, f"{TOOLS}.ConsoleProducer", "--topic", "tiered", stdin="".join(f"{line}\n" for line in lines))
    for _ in poll(TIMEOUT_S, "closed segments to be in the tier only", 0.5):
        if (local_start := list_offsets(tierfetch, "tiered", -4)) > 3_000:
            break
    offsets = {time: list_offsets(tierfetch, "tiered", time) for time in (-1, -2, -4, -5, -6)}
    assert offsets == {-1: 4_000, -2: 0, -4: local_start, -5: local_start - 1, -6: local_start}
    assert console_consume(tierfetch, "tiered", len(lines)) == lines
    records = consume(tierfetch.bootstrap_servers, "tiered")
    assert [record.value for record in records] == [line.encode() for line in lines]
    largest = max(record.timestamp for record in records)
    assert list_offsets(tierfetch, "tiered", -3) == next(r.offset for r in records if r.timestamp == largest)
    for wanted in (records[0].timestamp, records[1_500].timestamp, records[3_999].timestamp):
        assert list_offsets(tierfetch, "tiered", wanted) == next(r.offset for r in records if r.timestamp >= wanted)


def test_records_are_deleted(tierfetch: LocalCluster, tmp_path: Path) -> None:
    create(tierfetch, "trimmed")
    tool(tierfetch, f"{TOOLS}.ConsoleProducer", "--topic", "trimmed", stdin="a\nb\nc\nd\n")
    request = tmp_path / "delete.json"
    wanted = [{"topic": "trimmed", "partition": 0, "offset": 3}]
    request.write_text(json.dumps({"partitions": wanted, "version": 1}))
    printed = tool(tierfetch, f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(request))
    assert "low_watermark: 3" in printed
    assert {time: list_offsets(tierfetch, "trimmed", time) for time in (-1, -2)} == {-1: 4, -2: 3}
    assert [record.value for record in consume(tierfetch.bootstrap_servers, "trimmed", offset=3)] == [b"d"]


def test_F11_the_java_consumer_is_sent_to_the_replica_in_its_rack(tierfetch: LocalCluster) -> None:
    create(tierfetch, "racks")
    sent = [f"{number:05}" for number in range(2000)]
    producer = f"{TOOLS}.ConsoleProducer"
    tool(tierfetch, producer, "--topic", "racks", stdin="".join(f"{value}\n" for value in sent))
    for rack in ("a", "b", "elsewhere"):
        of_rack = ("--command-property", f"client.rack={rack}")
        assert console_consume(tierfetch, "racks", len(sent), *of_rack) == sent


def test_kafka_finds_nothing_wrong_in_the_directories(tierfetch: LocalCluster) -> None:
    """Runs last: what all the others wrote, on leader and follower, once the brokers have stopped. The metadata log is
    printed otherwise by both tools, and has tests of its own.
    """
    for broker in (1, 2):
        tierfetch.stop(broker)
    directories = [
        directory
        for broker in (1, 2)
        for directory in sorted(tierfetch.data_directory(broker).glob("[!_]*"))
        if re.fullmatch(r".+-\d+", directory.name) and any(path.stat().st_size for path in directory.glob("*.log"))
    ]
    assert len(directories) > 10
    check_by_kafka(*directories)
