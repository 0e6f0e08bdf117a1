"""Load and observation through librdkafka and the file system, the same for both systems."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tierfetch.cli.local import poll

from .systems import Cluster

TOPIC = "bench"
STEP_TIMEOUT_S = 300.0
BATCH_RECORDS = 500
PER_TOPIC = 1_000
"""Apache Kafka makes no topic of 10,000 partitions in one request."""
SILENCE_MAX_S = 30.0


def admin(cluster: Cluster, broker: int = 1) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"{cluster.host(broker)}:{cluster.port(broker)}", "log_level": 0})


def create_topic(cluster: Cluster, assignment: list[list[int]], configs: Mapping[str, str], name: str = TOPIC) -> None:
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment, config=dict(configs))
    client = admin(cluster)
    for _ in poll(STEP_TIMEOUT_S, f"topic {name!r} to be created", 0.5):
        try:
            client.create_topics([topic])[name].result(60)
            break
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    wait_isr(cluster, {partition: set(replicas) for partition, replicas in enumerate(assignment)}, name)


def topics_of(prefix: str, count: int) -> dict[str, int]:
    """Return the topics of so many partitions, with the number of each."""
    return {f"{prefix}-{first // PER_TOPIC}": min(PER_TOPIC, count - first) for first in range(0, count, PER_TOPIC)}


def isr_of(client: AdminClient, topic: str) -> dict[int, set[int]]:
    found = client.list_topics(topic, timeout=10).topics[topic]
    return {number: set(partition.isrs) for number, partition in found.partitions.items()}


def wait_isr(cluster: Cluster, wanted: Mapping[int, set[int]], topic: str = TOPIC) -> float:
    """Until every partition has exactly this ISR; returns time.monotonic() when that was seen."""
    client = admin(cluster)
    for _ in poll(STEP_TIMEOUT_S, f"ISR {wanted} of {topic}", 0.01):
        if isr_of(client, topic) == wanted:
            return time.monotonic()
    raise AssertionError("unreachable: poll raises")


def wait_at_rest(
    sizes: Callable[[], object], looks: int, interval_s: float, timeout_s: float = STEP_TIMEOUT_S, topic: str = TOPIC
) -> None:
    """Until so many looks in a row have found the sizes of the look before: of disks, and of the tier."""
    seen: object = None
    quiet = 0
    for _ in poll(timeout_s, f"tiering and local retention of {topic} to come to rest", interval_s):
        now = sizes()
        quiet = quiet + 1 if now == seen else 0
        seen = now
        if quiet >= looks:
            return


def produce(
    cluster: Cluster,
    partitions: int,
    total_bytes: int,
    record_bytes: int,
    *,
    acks: str = "all",
    topic: str = TOPIC,
    client: Mapping[str, str] | None = None,
) -> float:
    """Produce records of random bytes evenly over the partitions; returns seconds until the last acknowledgement.
    `client`: how it connects, where that is not by plaintext to the cluster's own address.
    """
    errors: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            errors.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": acks,
            "linger.ms": 5,
            "batch.size": 262_144,
            "queue.buffering.max.kbytes": 65_536,
            "queue.buffering.max.messages": 200_000,
            "log_level": 2,
            **(client or {}),
        }
    )
    values = [os.urandom(record_bytes) for _ in range(64)]
    batch = [{"value": values[i & 63]} for i in range(BATCH_RECORDS)]
    batch[0]["callback"] = delivered  # type: ignore[assignment]
    batches = total_bytes // (record_bytes * BATCH_RECORDS)
    began = time.perf_counter()
    for number in range(batches):
        send = batch
        while queued := len(send) - producer.produce_batch(topic, send, partition=number % partitions):
            send = send[-queued:]
            producer.poll(0.02)
        producer.poll(0)
    if producer.flush(STEP_TIMEOUT_S) or errors:
        raise RuntimeError(f"records were not acknowledged: {errors[:1] or 'timed out'}")
    return time.perf_counter() - began


def consume(
    cluster: Cluster,
    partitions: Iterable[int],
    total_records: int,
    *,
    topic: str = TOPIC,
    client: Mapping[str, str] | None = None,
) -> float:
    """Read this many records from offset 0 of the partitions; returns seconds from the first to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.message.max.bytes": 1 << 20,
            "queued.max.messages.kbytes": 65_536,
            "log_level": 2,
            **(client or {}),
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    left = total_records - len(consumer.consume(1, STEP_TIMEOUT_S))
    began = heard = time.perf_counter()
    while left > 0:
        messages = consumer.consume(min(left, 10_000), 1.0)
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
        left -= len(messages)
        heard = time.perf_counter() if messages else heard
        if time.perf_counter() - heard > SILENCE_MAX_S:
            raise TimeoutError(f"{left} of {total_records} records did not come")
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


def log_bytes(directory: Path, topic: str = TOPIC, partition: str = "*") -> int:
    """Bytes of all `.log` files of the topic's partitions, or of one, below a broker's directory. What goes meanwhile
    counts nothing.
    """
    total = 0
    for replica in directory.glob(f"{topic}-{partition}"):
        with suppress(FileNotFoundError), os.scandir(replica) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    with suppress(FileNotFoundError):
                        total += entry.stat().st_size
    return total
