"""Three real clients behind one face: produce idempotently with a codec, consume with assign, create topics."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import aiokafka
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tierfetch.cli.command_config import make_client
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.requests import metadata_of
from tierfetch.tests.process import connecting

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, on Python 3.11
    import kafka

TIMEOUT_S = 60.0


def create_topic(
    servers: str,
    topic: str,
    *,
    partitions: int = 1,
    replicas: int = 2,
    placed: Sequence[Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Returns once every one of `servers` that runs knows it; KafkaException if it is refused. `placed` has the brokers
    of each partition, in place of numbers of either.
    """
    create_topics(servers, [topic], partitions=partitions, replicas=replicas, placed=placed, configs=configs)


def create_topics(
    servers: str,
    topics: Sequence[str],
    *,
    partitions: int = 1,
    replicas: int = 2,
    placed: Sequence[Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
) -> None:
    """The same of several at once."""
    admin = AdminClient({**connecting.librdkafka(servers), "log_level": 0})
    if placed is None:
        new = [
            NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=dict(configs or {}))
            for topic in topics
        ]
    else:
        brokers = [list(each) for each in placed]
        new = [
            NewTopic(topic, num_partitions=len(brokers), replica_assignment=brokers, config=dict(configs or {}))
            for topic in topics
        ]
    for created in admin.create_topics(new, operation_timeout=TIMEOUT_S).values():
        created.result(TIMEOUT_S)
    for server in servers.split(","):
        for _ in poll(TIMEOUT_S, f"{server} to know {', '.join(topics)}"):
            if asyncio.run(_knows(Address.parse(server), topics)):
                break


async def _knows(server: Address, topics: Sequence[str]) -> bool:
    """Also where nobody listens: who is down learns it at its start."""
    client = make_client("test")
    body = metadata_of(topics)
    try:
        answer = await client.send(server, body, timeout_s=TIMEOUT_S)
    except OSError:
        return True
    finally:
        await client.close()
    return all(topic.error_code is ErrorCode.none for topic in answer.topics)


class Client(Protocol):
    """One library."""

    def produce(self, servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
        """All of them to partition 0, acknowledged by all in sync, or an exception."""

    def consume(self, servers: str, topic: str, count: int) -> list[bytes]:
        """The first `count` values of partition 0."""


class Librdkafka:
    """confluent-kafka."""

    def produce(self, servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
        producer = confluent_kafka.Producer(
            {
                **connecting.librdkafka(servers),
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        errors: list[Any] = []
        for value in values:
            producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
            producer.poll(0)
        left = producer.flush(TIMEOUT_S)
        failed = [str(error) for error in errors if error]
        assert (left, failed[:1]) == (0, []), (
            f"{left} were not sent, {len(failed)} of {len(values)} failed: {failed[:1]}"
        )

    def consume(self, servers: str, topic: str, count: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {**connecting.librdkafka(servers), "group.id": "test", "enable.auto.commit": False, "log_level": 0}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        try:
            while len(values) < count:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"nothing for {TIMEOUT_S} s after {len(values)} of {count}"
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        finally:
            consumer.close()
        return values


class KafkaPython:
    """kafka-python."""

    def produce(self, servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
        producer = kafka.KafkaProducer(
            **connecting.kafka_python(servers),
            enable_idempotence=True,
            compression_type=None if codec == "none" else codec,
            linger_ms=1,
        )
        try:
            sent = [producer.send(topic, value, partition=0) for value in values]
            for future in sent:
                future.get(TIMEOUT_S)
        finally:
            producer.close()

    def consume(self, servers: str, topic: str, count: int) -> list[bytes]:
        consumer = kafka.KafkaConsumer(
            **connecting.kafka_python(servers), group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        partition = kafka.TopicPartition(topic, 0)
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while len(values) < count:
                assert time.monotonic() < deadline, f"{len(values)} of {count} after {TIMEOUT_S} s"
                for records in consumer.poll(timeout_ms=1000).values():
                    values += [record.value for record in records]
        finally:
            consumer.close()
        return values


class Aiokafka:
    """aiokafka."""

    def produce(self, servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
        asyncio.run(self._produce(servers, topic, values, codec))

    def consume(self, servers: str, topic: str, count: int) -> list[bytes]:
        return asyncio.run(self._consume(servers, topic, count))

    async def _produce(self, servers: str, topic: str, values: Sequence[bytes], codec: str) -> None:
        producer = aiokafka.AIOKafkaProducer(
            **connecting.kafka_python(servers),
            enable_idempotence=True,
            compression_type=None if codec == "none" else codec,
            linger_ms=1,
        )
        await producer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                sent = [await producer.send(topic, value, partition=0) for value in values]
                await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def _consume(self, servers: str, topic: str, count: int) -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            **connecting.kafka_python(servers), group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        await consumer.start()
        partition = aiokafka.TopicPartition(topic, 0)
        values: list[bytes] = []
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            async with asyncio.timeout(TIMEOUT_S):
                while len(values) < count:
                    for records in (await consumer.getmany(timeout_ms=1000)).values():
                        values += [record.value for record in records]
        finally:
            await consumer.stop()
        return values


CLIENTS: Mapping[str, Client] = {
    "confluent-kafka": Librdkafka(),
    "kafka-python": KafkaPython(),
    "aiokafka": Aiokafka(),
}
