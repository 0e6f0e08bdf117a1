"""Real clients in transactions: all or nothing to a reader of committed records, and zombies that are fenced."""

from __future__ import annotations

import asyncio

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.transactions import (
    TIMEOUT_S,
    produce_in_transaction,
    produce_with_aiokafka,
    producer_of,
    read,
    until_read,
)


@pytest.fixture
def servers(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap_servers


def made(servers: str, name: str) -> str:
    create_topic(servers, name, partitions=2, replicas=2)
    return name


def test_librdkafka_commits_and_aborts(servers: str) -> None:
    topic = made(servers, "tx-librdkafka")
    producer = producer_of(servers, "librdkafka")
    for number in range(6):
        produce_in_transaction(producer, topic, [b"%d" % number] * 10, commit=number % 2 == 0)
    until_read(servers, topic, [b"0", b"2", b"4"] * 10)
    assert len(read(servers, topic, committed=False)) == 60


def test_aiokafka_commits_and_aborts(servers: str) -> None:
    topic = made(servers, "tx-aiokafka")
    asyncio.run(produce_with_aiokafka(servers, topic, "aiokafka", commits=(True, False, False, True)))
    until_read(servers, topic, [b"commit"] * 20)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")
def test_kafka_python_commits_and_aborts(servers: str) -> None:
    import kafka  # its import warns

    topic = made(servers, "tx-kafka-python")
    producer = kafka.KafkaProducer(**connecting.kafka_python(servers), transactional_id="kafka-python")
    try:
        producer.init_transactions()
        for commit in (True, False, True):
            producer.begin_transaction()
            for number in range(10):
                producer.send(topic, b"commit" if commit else b"abort", partition=number % 2)
            producer.flush()
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(timeout=5)
    until_read(servers, topic, [b"commit"] * 20)


def test_a_second_producer_of_the_id_fences_the_first_and_aborts_what_it_left_open(servers: str) -> None:
    topic = made(servers, "tx-fenced")
    zombie = producer_of(servers, "fenced")
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush(TIMEOUT_S)
    producer = producer_of(servers, "fenced")
    produce_in_transaction(producer, topic, [b"alive"] * 2, commit=True)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        zombie.commit_transaction(TIMEOUT_S)
    error = caught.value.args[0]
    assert error.fatal()
    assert error.code() == confluent_kafka.KafkaError._FENCED
    until_read(servers, topic, [b"alive"] * 2)


def test_records_are_read_once_the_transaction_has_ended(servers: str) -> None:
    topic = made(servers, "tx-open")
    producer = producer_of(servers, "open")
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(TIMEOUT_S)
    assert read(servers, topic) == []
    assert read(servers, topic, committed=False) == [b"open"]
    producer.commit_transaction(TIMEOUT_S)
    until_read(servers, topic, [b"open"])


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(servers: str) -> None:
    topic = made(servers, "tx-slow")
    slow = producer_of(servers, "slow", transaction_timeout_ms=1000)
    slow.begin_transaction()
    slow.produce(topic, b"slow", partition=0)
    slow.flush(TIMEOUT_S)
    other = producer_of(servers, "quick")
    produce_in_transaction(other, topic, [b"quick"], commit=True)
    until_read(servers, topic, [b"quick"])
    with pytest.raises(confluent_kafka.KafkaException):
        slow.commit_transaction(TIMEOUT_S)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_transaction_or_not_at_all(servers: str, commit: bool) -> None:
    topic = made(servers, f"tx-offsets-{commit}")
    producer = producer_of(servers, f"offsets-{commit}")
    consumer = confluent_kafka.Consumer({**connecting.librdkafka(servers), "group.id": f"offsets-{commit}"})
    position = confluent_kafka.TopicPartition(topic, 0, 5)
    try:
        producer.begin_transaction()
        producer.produce(topic, b"v", partition=0)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), TIMEOUT_S)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
        (found,) = consumer.committed([position], timeout=TIMEOUT_S)
    finally:
        consumer.close()
    assert found.offset == (5 if commit else confluent_kafka.OFFSET_INVALID)
