"""`tierfetch.fetcher.follow` on Apache Kafka: transactions, every codec, and what only the tier has."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from confluent_kafka import Producer

from tierfetch.bench.lab.kafka import KafkaCluster
from tierfetch.fetcher import follow
from tierfetch.log import verify_log
from tierfetch.tests.interop.brokers import BROKER, list_offsets
from tierfetch.tests.interop.clients import TIMEOUT_S, consume, create_topic, produce_transactions

EARLIEST_LOCAL = -4
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "1", "segment.bytes": "1048576"}


def new_topic() -> str:
    return f"followed-{uuid.uuid4().hex[:8]}"


async def test_a_partition_of_apache_kafka_is_copied_byte_for_byte(cluster: KafkaCluster, tmp_path: Path) -> None:
    topic = new_topic()
    create_topic(cluster.bootstrap_servers, topic)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce_transactions(cluster.bootstrap_servers, topic, codec)
    async with asyncio.timeout(TIMEOUT_S), follow(cluster.bootstrap_servers, topic, 0, tmp_path / "copy") as follower:
        end_offset = await follower.wait_caught_up()
        assert follower.leader == BROKER
        seen = await asyncio.to_thread(consume, cluster.bootstrap_servers, topic)
        offsets = {record.offset for record in seen}
        assert [record async for record in follower.read() if record.offset in offsets] == seen
    name = f"{0:020d}.log"
    theirs = (cluster.data_directory(BROKER) / f"{topic}-0" / name).read_bytes()
    assert (tmp_path / f"copy/{topic}-0/{name}").read_bytes() == theirs
    assert (await verify_log(tmp_path / f"copy/{topic}-0")).end_offset == end_offset


async def test_what_only_kafkas_tier_has_is_copied_too(cluster: KafkaCluster, tmp_path: Path) -> None:
    topic = new_topic()
    create_topic(cluster.bootstrap_servers, topic, configs=TIERED)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for number in range(3000):
        producer.produce(topic, b"%06d" % number + bytes(1000))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    async with asyncio.timeout(TIMEOUT_S):
        while await asyncio.to_thread(list_offsets, cluster, topic, EARLIEST_LOCAL) <= 0:  # noqa: ASYNC110 - of Kafka
            await asyncio.sleep(0.1)
        async with follow(cluster.bootstrap_servers, topic, 0, tmp_path / "copy") as follower:
            await follower.wait_caught_up()
            numbers = [int((record.value or b"")[:6]) async for record in follower.read()]
            assert numbers == [*range(3000)]
