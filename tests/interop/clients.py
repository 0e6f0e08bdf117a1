"""librdkafka as the judge of a broker: what it creates, produces and reads back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.records import Record
from tierfetch.tests.process.connecting import librdkafka

TIMEOUT_S = 240.0
"""For what must happen, on a machine of two cores that has other work; nothing here waits for it to pass."""
CONSOLE_TIMEOUT_MS = "240000"
"""How long a console consumer waits for a message. It ends with the last one; a JVM may be slow to start."""


def create_topic(bootstrap_servers: str, topic: str, configs: Mapping[str, str] | None = None) -> None:
    """One partition, one replica."""
    admin = AdminClient({**librdkafka(bootstrap_servers), "log_level": 0})
    new = NewTopic(topic, num_partitions=1, replication_factor=1, config=dict(configs or {}))
    admin.create_topics([new], operation_timeout=TIMEOUT_S)[topic].result(TIMEOUT_S)


def consume(
    bootstrap_servers: str, topic: str, *, partition: int = 0, offset: int = 0, isolation: str = "read_uncommitted"
) -> list[Record]:
    """Every record of the partition that a consumer sees from `offset` to the end of its isolation."""
    consumer = Consumer(
        {
            **librdkafka(bootstrap_servers),
            "group.id": "interop",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    records: list[Record] = []
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"{topic}: no end within {TIMEOUT_S} s after {len(records)} records")
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return records
                raise RuntimeError(f"{topic}: {error}")
            kind, timestamp = message.timestamp()
            position, headers = message.offset(), message.headers() or ()
            assert position is not None
            assert not isinstance(headers, dict)
            records.append(
                Record(
                    offset=position,
                    timestamp=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
                    key=message.key(),
                    value=message.value(),
                    headers=tuple(headers),  # type: ignore[arg-type]
                )
            )
    finally:
        consumer.close()


def produce_transactions(bootstrap_servers: str, topic: str, compression: str) -> None:
    """Some transactions to partition 0 that end either way, and records outside of any in between."""
    common = {**librdkafka(bootstrap_servers), "compression.type": compression, "linger.ms": 0, "log_level": 0}
    plain = Producer(common | {"enable.idempotence": True})
    transactional = Producer(common | {"transactional.id": f"{topic}-{compression}"})
    transactional.init_transactions(TIMEOUT_S)
    for round_number in range(4):
        transactional.begin_transaction()
        for number in range(20):
            value = f"{compression} {round_number} {number} ".encode() * 20
            transactional.produce(topic, value, key=b"k" if number % 3 else None, partition=0, headers={"h": b"x"})
            if number % 10 == 9:
                transactional.flush(TIMEOUT_S)
                plain.produce(topic, value[: 10 * number] or None, partition=0)
                plain.flush(TIMEOUT_S)
        if round_number % 2:
            transactional.abort_transaction(TIMEOUT_S)
        else:
            transactional.commit_transaction(TIMEOUT_S)
    _wait_for_markers(bootstrap_servers, topic)


def _wait_for_markers(bootstrap_servers: str, topic: str) -> None:
    """Wait until no transaction is open: a coordinator answers before it writes the markers into the partition."""
    admin = AdminClient({**librdkafka(bootstrap_servers), "log_level": 0})
    partition, latest = TopicPartition(topic, 0), OffsetSpec.latest()

    def end(isolation: IsolationLevel) -> int:
        answer = admin.list_offsets({partition: latest}, isolation_level=isolation)[partition]
        found: int = answer.result(TIMEOUT_S).offset
        return found

    for _ in poll(TIMEOUT_S, f"the last transaction in {topic} to end"):
        if end(IsolationLevel.READ_COMMITTED) == end(IsolationLevel.READ_UNCOMMITTED):
            return


async def settled(ask: Callable[[], Awaitable[ErrorCode]], retried: Collection[ErrorCode]) -> ErrorCode:
    """Ask again until the answer is one that stays."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                code = await ask()
            except (OSError, TimeoutError):
                code = ErrorCode.coordinator_not_available
            if code not in retried:
                return code
            await asyncio.sleep(0.1)
