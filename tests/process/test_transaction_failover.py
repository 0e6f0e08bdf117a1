"""Transactions while their coordinator, which leads other partitions too, is killed: exactly once, none by halves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import aiokafka
import aiokafka.errors
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
    """With aiokafka: librdkafka 2.16 may wait for ever for a group coordinator that has left (its issue 5511)."""
    source, target = topic_of(cluster, "source"), topic_of(cluster, "target")
    values = [b"%04d" % number for number in range(RECORDS)]
    Librdkafka().produce(cluster.servers, source, values, "none")
    asyncio.run(asyncio.wait_for(copy_while_coordinators_are_killed(cluster, source, target), 3 * TIMEOUT_S))
    until_read(cluster.servers, target, values)


async def copy_while_coordinators_are_killed(cluster: WholeCluster, source: str, target: str) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        source,
        **connecting.kafka_python(cluster.servers),
        group_id="etl",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = aiokafka.AIOKafkaProducer(**connecting.kafka_python(cluster.servers), transactional_id="etl")
    kills, done, killed = [RECORDS // 4, 2 * RECORDS // 4, 3 * RECORDS // 4], 0, -1
    await producer.start()
    await consumer.start()
    try:
        while done < RECORDS:
            polled = await consumer.getmany(timeout_ms=500, max_records=BATCH)
            messages = [message for some in polled.values() for message in some]
            if messages and kills and done >= kills[0]:
                kills.pop(0)
                killed = await asyncio.to_thread(kill_coordinator, cluster, killed)
            if messages and await copy(producer, consumer, messages, target):
                done += len(messages)
    finally:
        # aiokafka's raises what its last fetch from a killed broker met; all was read by then.
        with contextlib.suppress(aiokafka.errors.NodeNotReadyError):
            await consumer.stop()
        await producer.stop()
    assert not kills


def kill_coordinator(cluster: WholeCluster, killed: int) -> int:
    """Start again what was killed before, kill the coordinator of the copy's transactional id, and return it."""
    if killed != -1:
        cluster.brokers.start(killed)
        cluster.brokers.wait_serving(killed)
    found = coordinator(cluster, "etl")
    cluster.brokers.kill(found)
    return found


async def copy(
    producer: aiokafka.AIOKafkaProducer,
    consumer: aiokafka.AIOKafkaConsumer,
    messages: list[aiokafka.ConsumerRecord],
    target: str,
) -> bool:
    """Copy the messages and commit their offsets in one transaction; go back to what is committed if that fails."""
    positions = {place: await consumer.position(place) for place in consumer.assignment()}
    try:
        async with producer.transaction():
            for message in messages:
                await producer.send(target, message.value, partition=message.partition)
            await producer.send_offsets_to_transaction(positions, "etl")
    except aiokafka.errors.KafkaError:
        await consumer.seek_to_committed()
        return False
    return True
