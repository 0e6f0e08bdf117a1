"""Transactions of real clients: producers that are told what to commit, and readers at both isolation levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import aiokafka
import confluent_kafka

from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting

TIMEOUT_S = 60.0


def producer_of(servers: str, transactional_id: str, **settings: Any) -> confluent_kafka.Producer:
    """Return an initialized producer of librdkafka."""
    more = {key.replace("_", "."): value for key, value in settings.items()}
    producer = confluent_kafka.Producer(
        {**connecting.librdkafka(servers), "transactional.id": transactional_id, "linger.ms": 0, **more}
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def produce_in_transaction(
    producer: confluent_kafka.Producer, topic: str, values: Iterable[bytes], *, commit: bool
) -> None:
    """Write values to their partition (number % 2), and end the transaction once all are in the log."""
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 2)
    producer.flush(TIMEOUT_S)
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def read(servers: str, topic: str, *, committed: bool = True, partitions: int = 2) -> list[bytes]:
    """Return what is there, up to the end that the isolation level lets a consumer see."""
    consumer = confluent_kafka.Consumer(
        {
            **connecting.librdkafka(servers),
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    offset = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, number, offset) for number in range(partitions)])
    values: list[bytes] = []
    ended: set[int] = set()
    try:
        for _ in poll(TIMEOUT_S, lambda: f"{topic} to be read to its end; read {len(values)}"):
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    values.append(message.value())
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
            if len(ended) == partitions:
                break
    finally:
        consumer.close()
    return values


def until_read(servers: str, topic: str, expected: Iterable[bytes]) -> None:
    """Return once a reader of committed records has exactly these: an end is answered before its markers are there."""
    wanted = sorted(expected)
    for _ in poll(TIMEOUT_S, f"{topic} to have {len(wanted)} committed records"):
        found = sorted(read(servers, topic))
        assert not Counter(found) - Counter(wanted), "aborted, or read twice"
        if found == wanted:
            break


async def produce_with_aiokafka(servers: str, topic: str, transactional_id: str, *, commits: Iterable[bool]) -> None:
    """Write ten values in each transaction, `commit` or `abort` in them."""
    producer = aiokafka.AIOKafkaProducer(**connecting.kafka_python(servers), transactional_id=transactional_id)
    await producer.start()
    try:
        for commit in commits:
            await producer.begin_transaction()
            for number in range(10):
                await producer.send(topic, b"commit" if commit else b"abort", partition=number % 2)
            await producer.flush()
            await (producer.commit_transaction() if commit else producer.abort_transaction())
    finally:
        await producer.stop()
