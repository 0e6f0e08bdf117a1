"""Compacted topics on real brokers: they shrink, keep what a table needs, and survive being killed meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import TIMEOUT_S, create_topic
from tierfetch.tests.process.looks import log_bytes

COMPACT = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "0",
}
KEYS = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, (1, 2), configs={"log.cleaner.backoff.ms": "100"}) as running:
        yield running


def produce(servers: str, topic: str, rounds: range) -> None:
    """Every key in each round; the last key is deleted in the last one."""
    producer = confluent_kafka.Producer(
        {**connecting.librdkafka(servers), "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
    )
    for number in rounds:
        for key in range(KEYS):
            is_deleted = key == KEYS - 1 and number == rounds[-1]
            value = None if is_deleted else b"%d " % number + b"x" * 50
            producer.produce(topic, value, key=b"%d" % key, partition=0)
        producer.flush(TIMEOUT_S)


def table(servers: str, topic: str) -> tuple[dict[bytes, bytes], int]:
    """What the topic says of each key, and how many records that took."""
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(servers),
            "group.id": "table",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    rows: dict[bytes, bytes] = {}
    records = 0
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"no end of {topic} after {records} records"
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return rows, records
            records += 1
            key, value = message.key(), message.value()
            assert key is not None
            rows.pop(key, None)
            if value is not None:
                rows[key] = value
    finally:
        consumer.close()


def size_of(cluster: LocalCluster, broker: int, topic: str) -> int:
    return sum(map(len, log_bytes(cluster, broker, topic).values()))


def test_a_compacted_topic_shrinks_on_every_replica_and_survives_kills(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "t", configs=COMPACT)
    for begin in range(0, 200, 50):
        produce(servers, "t", range(begin, begin + 50))
        for broker in cluster.broker_ids if begin == 100 else ():
            cluster.kill(broker)
            cluster.start(broker)
            cluster.wait_serving(broker)
    for broker in cluster.broker_ids:
        for _ in poll(60, f"broker {broker} to compact\n{cluster.log_tail(broker)}"):
            if size_of(cluster, broker, "t") < 3 * 20000:
                break
    rows, records = table(servers, "t")
    assert sorted(rows) == sorted(b"%d" % key for key in range(KEYS - 1))
    assert {value.split()[0] for value in rows.values()} == {b"199"}
    assert records < 4000 / 4
    for broker in cluster.broker_ids:
        cluster.kill(broker)
        cluster.start(broker)
        cluster.wait_serving(broker)
    assert table(servers, "t")[0] == rows
    for broker in cluster.broker_ids:
        for _ in poll(60, f"broker {broker} to note what it has cleaned"):
            if (cluster.data_directory(broker) / "cleaner-offset-checkpoint").exists():
                break
        assert "could not be cleaned" not in cluster.log_file(broker).read_text()
