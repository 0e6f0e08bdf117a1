"""What keeps a cluster busy: a producer at a steady rate, a consumer group, topics that come and go.

| topic | what it is for |
|---|---|
| `plain` | retention by size, segments of 1 MiB |
| `tiered` | copied to the tier, local retention, retention in the tier |
| `compacted` | compaction: keys come again |
| `churn-N` | is made, written to, and deleted |
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from .probe import Latencies

SEGMENT: Final = {"segment.bytes": "1048576", "min.insync.replicas": "2"}
TOPICS: Final[Mapping[str, tuple[int, dict[str, str]]]] = {
    "plain": (6, SEGMENT | {"retention.bytes": "4194304"}),
    "tiered": (
        3,
        SEGMENT | {"remote.storage.enable": "true", "local.retention.bytes": "1048576", "retention.bytes": "16777216"},
    ),
    "compacted": (
        3,
        SEGMENT | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "60000"},
    ),
}
KEYS: Final = 500
RECORD_BYTES: Final = 1_000
CHURN_INTERVAL_S: Final = 20.0
CHURN_PARTITIONS: Final = 3
REJOIN_INTERVAL_S: Final = 60.0
CONSUMERS: Final = 2
ADMIN_TIMEOUT_S: Final = 60.0
PRODUCER: Final = {"acks": "all", "linger.ms": 5, "log_level": 0, "enable.idempotence": True}


class Work:
    """`with` it, the cluster at these servers is busy. `errors` are those that ended a part."""

    def __init__(self, bootstrap_servers: str, records_per_s: float, replicas: int) -> None:
        self.latencies = Latencies()
        self.consumed = 0
        self.topics_made = 0
        self.errors: list[str] = []
        self._servers = {"bootstrap.servers": bootstrap_servers}
        self._records_per_s = records_per_s
        self._replicas = replicas
        self._lock = threading.Lock()
        self._ended = threading.Event()
        parts: list[Callable[[], None]] = [self._produce, self._churn, *[self._consume] * CONSUMERS]
        self._threads = [threading.Thread(target=self._guarded, args=(part,), name=part.__name__) for part in parts]

    def __enter__(self) -> Self:
        admin = AdminClient({**self._servers, "log_level": 0})
        for name, (partitions, configs) in TOPICS.items():
            self._create(admin, name, partitions, configs)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:  # noqa: BLE001 - the report says which part ended
            self.errors.append(f"{part.__name__}: {error!r}")

    def _create(self, admin: AdminClient, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=self._replicas, config=dict(configs))
        admin.create_topics([topic])[name].result(ADMIN_TIMEOUT_S)

    # What the parts do.

    def _produce(self) -> None:
        producer = Producer({**self._servers, **PRODUCER})
        targets = [(name, number) for name, (partitions, _) in TOPICS.items() for number in range(partitions)]
        value, began, sent = os.urandom(RECORD_BYTES), time.monotonic(), 0
        while not self._ended.is_set():
            while sent < (time.monotonic() - began) * self._records_per_s:
                topic, partition = targets[sent % len(targets)]
                self._send(producer, topic, partition, b"%d" % (sent % KEYS), value)
                sent += 1
            producer.poll(0.01)
        producer.flush(ADMIN_TIMEOUT_S)

    def _send(self, producer: Producer, topic: str, partition: int, key: bytes, value: bytes) -> None:
        sent_at = time.monotonic()

        def delivered(error: KafkaError | None, _: object) -> None:
            self.latencies.note(None if error is not None else time.monotonic() - sent_at)

        with suppress(BufferError):  # a broker restarts: what is queued is enough
            producer.produce(topic, value, key, partition, delivered)

    def _consume(self) -> None:
        """Members leave and come back, and commit."""
        while not self._ended.is_set():
            consumer = Consumer(
                {**self._servers, "group.id": "soak", "auto.offset.reset": "earliest", "log_level": 0}
                | {"auto.commit.interval.ms": 1000, "session.timeout.ms": 10_000}
            )
            consumer.subscribe(list(TOPICS))
            leaves_at = time.monotonic() + REJOIN_INTERVAL_S
            while time.monotonic() < leaves_at and not self._ended.is_set():
                taken = sum(message.error() is None for message in consumer.consume(500, 0.2))
                with self._lock:  # the members count together
                    self.consumed += taken
            consumer.close()

    def _churn(self) -> None:
        admin = AdminClient({**self._servers, "log_level": 0})
        while not self._ended.wait(CHURN_INTERVAL_S):
            name = f"churn-{self.topics_made}"
            tiered = {"remote.storage.enable": "true"} if self.topics_made % 2 else {}
            with suppress(KafkaException):  # a broker restarts, and answers late
                self._create(admin, name, CHURN_PARTITIONS, {"segment.bytes": "1048576", **tiered})
                producer = Producer({**self._servers, **PRODUCER})
                for number in range(30):
                    producer.produce(name, b"v" * RECORD_BYTES, partition=number % CHURN_PARTITIONS)
                producer.flush(ADMIN_TIMEOUT_S)
                admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)
            self.topics_made += 1
