"""librdkafka above its quotas: it is told to wait, and loses nothing."""

from __future__ import annotations

import asyncio
from random import Random

import confluent_kafka
import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    OpData,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.process.clients import create_topic

pytestmark = [pytest.mark.process, pytest.mark.slow]
TOPIC, CLIENT = "quotas", "above-its-quotas"
TIMEOUT_S = 60.0
RATE = 50_000
COUNT, SIZE = 60, 10_000
"""600 kB: what all windows hold is 500 kB."""


async def set_quotas(bootstrap_servers: str, **values: float) -> None:
    host, port = bootstrap_servers.split(",")[0].split(":")
    address, client = Address(host, int(port)), KafkaClient(client_id="operator", random=Random(1))
    entity = (AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name=CLIENT),)
    ops = tuple(OpData(key=key, value=value, remove=False) for key, value in values.items())
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
    try:
        answer = await client.send(
            address, AlterClientQuotasRequest(entries=(entry,), validate_only=False), timeout_s=30
        )
        assert [item.error_code for item in answer.entries] == [ErrorCode.none]
        for _ in poll(TIMEOUT_S, "the broker to know the quotas"):
            seen = await client.send(address, DescribeClientQuotasRequest(components=(), strict=False), timeout_s=30)
            if seen.entries:
                break
    finally:
        await client.close()


def test_librdkafka_is_told_to_wait_and_loses_nothing(shared_cluster: LocalCluster) -> None:
    servers = shared_cluster.bootstrap_servers
    create_topic(servers, TOPIC)
    asyncio.run(set_quotas(servers, producer_byte_rate=RATE, consumer_byte_rate=RATE))
    told: list[float] = []
    common = {
        "bootstrap.servers": servers,
        "client.id": CLIENT,
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    delivered: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer({**common, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(COUNT):
        producer.produce(TOPIC, bytes(SIZE), key=b"%d" % number, on_delivery=lambda error, _: delivered.append(error))
    for _ in poll(TIMEOUT_S, "every record to be acknowledged"):
        producer.poll(0.1)
        if len(delivered) == COUNT:
            break
    producer.flush(TIMEOUT_S)
    assert delivered == [None] * COUNT
    assert any(told), "the producer was told to wait"
    told.clear()
    consumer = confluent_kafka.Consumer({**common, "group.id": "quotas", "fetch.message.max.bytes": 100_000})
    keys: list[bytes | None] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        for _ in poll(TIMEOUT_S, "every record to be read"):
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None
                keys.append(message.key())
            if len(keys) == COUNT:
                break
    finally:
        consumer.close()
    assert keys == [b"%d" % number for number in range(COUNT)]
    assert any(told), "the consumer was told to wait"
