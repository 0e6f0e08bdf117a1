"""Transactions while their coordinator, which leads other partitions too, is killed: exactly once, none by halves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest

from tierfetch.cli.command_config import make_client
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.net.client import Address
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.transactions import TIMEOUT_S, producer_of, until_read
from tierfetch.tests.process.whole_cluster import BROKERS, WholeCluster, whole_cluster

RECORDS = 600
BATCH = 50


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("transactions")) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: WholeCluster) -> Iterator[None]:
    """Start again what was killed."""
    yield
    down = [node for node in cluster.brokers.nodes if not cluster.brokers.is_running(node)]
    for node in down:
        cluster.brokers.start(node)
    for node in down:
        cluster.brokers.wait_serving(node)


def coordinator(cluster: WholeCluster, transactional_id: str) -> int:
    """Return the broker that coordinates a transactional id, as one that lives says."""

    async def ask(port: int) -> int:
        client = make_client("test")
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=(transactional_id,))
        try:
            answer = await client.send(Address("127.0.0.1", port), request, timeout_s=2)
        finally:
            await client.close()
        (found,) = answer.coordinators
        return found.node_id if found.error_code is ErrorCode.none else -1

    for _ in poll(TIMEOUT_S, f"{transactional_id} to have a coordinator"):
        for broker in BROKERS:
            try:
                found = asyncio.run(ask(cluster.brokers.port(broker)))
            except OSError:
                continue
            if found != -1:
                return found
    raise AssertionError("unreachable: poll raises")


def topic_of(cluster: WholeCluster, name: str) -> str:
    create_topic(cluster.servers, name, partitions=2, replicas=3, configs={"min.insync.replicas": "2"})
    return name


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_at_the_next_coordinator(cluster: WholeCluster, commit: bool) -> None:
    topic, transactional_id = topic_of(cluster, f"ends-{commit}"), f"ends-{commit}"
    producer = producer_of(cluster.servers, transactional_id)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush(TIMEOUT_S)
    cluster.brokers.kill(coordinator(cluster, transactional_id))
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
    expected = [b"%d" % number for number in range(10)] if commit else []
    until_read(cluster.servers, topic, expected)


def test_consume_transform_produce_is_exact_while_coordinators_are_killed(cluster: WholeCluster) -> None:
    source, target = topic_of(cluster, "source"), topic_of(cluster, "target")
    values = [b"%04d" % number for number in range(RECORDS)]
    Librdkafka().produce(cluster.servers, source, values, "none")
    kills = {RECORDS // 4, 2 * RECORDS // 4, 3 * RECORDS // 4}
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(cluster.servers),
            "group.id": "etl",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer, done, killed = producer_of(cluster.servers, "etl"), 0, -1
    try:
        for _ in poll(3 * TIMEOUT_S, f"{RECORDS} records to be copied"):
            messages = [each for each in consumer.consume(BATCH, 0.5) if each.error() is None]
            if not messages:
                continue
            if kills and done >= min(kills):
                kills.discard(min(kills))
                if killed != -1:
                    cluster.brokers.start(killed)
                    cluster.brokers.wait_serving(killed)
                killed = coordinator(cluster, "etl")
                cluster.brokers.kill(killed)
            if copy(producer, consumer, messages, target):
                done += len(messages)
            if done >= RECORDS:
                break
    finally:
        consumer.close()
    assert not kills
    until_read(cluster.servers, target, values)


def copy(
    producer: confluent_kafka.Producer,
    consumer: confluent_kafka.Consumer,
    messages: list[confluent_kafka.Message],
    target: str,
) -> bool:
    """Copy the messages and commit their offsets in one transaction; go back to what is committed if that fails."""
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
    except confluent_kafka.KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(TIMEOUT_S)
        for position in consumer.committed(consumer.assignment(), timeout=TIMEOUT_S):
            position.offset = max(position.offset, 0)
            consumer.seek(position)
        return False
    return True
