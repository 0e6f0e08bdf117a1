"""Clients of a test's cluster, with timeouts that fit a test; every keyword is the library's own and wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import aiokafka
    import confluent_kafka
    import confluent_kafka.admin
    import kafka

ClientName = Literal["confluent", "aiokafka", "kafka-python"]
ConfluentValue = str | int | float | bool
EARLIEST = "earliest"
WITH_UNDERSCORE = frozenset({"log_level"})
"""The configs of librdkafka whose own name has one."""


def dotted(configs: dict[str, ConfluentValue] | None, keywords: dict[str, ConfluentValue]) -> dict[str, ConfluentValue]:
    """Return the configs by librdkafka's names: `group_id` is `group.id`."""
    named = {name if name in WITH_UNDERSCORE else name.replace("_", "."): value for name, value in keywords.items()}
    return (configs or {}) | named


class ConfluentClients:
    """confluent-kafka (librdkafka). Configs are keywords, with `group_id` for `group.id`, or a dictionary."""

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, ConfluentValue] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }

    def producer(
        self, configs: dict[str, ConfluentValue] | None = None, **keywords: ConfluentValue
    ) -> confluent_kafka.Producer:
        """Return an idempotent producer that does not linger."""
        from confluent_kafka import Producer

        own: dict[str, ConfluentValue] = {"enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 20}
        return Producer(self._common | own | dotted(configs, keywords))

    def consumer(
        self, *topics: str, configs: dict[str, ConfluentValue] | None = None, **keywords: ConfluentValue
    ) -> confluent_kafka.Consumer:
        """Return a consumer from the beginning, subscribed to the topics, in a group named "test"."""
        from confluent_kafka import Consumer

        own: dict[str, ConfluentValue] = {"group.id": "test", "auto.offset.reset": EARLIEST, "fetch.wait.max.ms": 50}
        consumer = Consumer(self._common | own | dotted(configs, keywords))
        if topics:
            consumer.subscribe(list(topics))
        return consumer

    def admin(
        self, configs: dict[str, ConfluentValue] | None = None, **keywords: ConfluentValue
    ) -> confluent_kafka.admin.AdminClient:
        """Return an admin client."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._common | dotted(configs, keywords))


class AiokafkaClients:
    """aiokafka. The clients belong to the event loop that runs; `async with` starts and stops them."""

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, object] = {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": 5000,
            "retry_backoff_ms": 20,
            "metadata_max_age_ms": 1000,
        }

    def producer(self, **configs: object) -> aiokafka.AIOKafkaProducer:
        """Return an idempotent producer that does not linger."""
        from aiokafka import AIOKafkaProducer

        return AIOKafkaProducer(**(self._common | {"enable_idempotence": True, "linger_ms": 0} | configs))

    def consumer(self, *topics: str, **configs: object) -> aiokafka.AIOKafkaConsumer:
        """Return a consumer from the beginning, without a group."""
        from aiokafka import AIOKafkaConsumer

        own = {"auto_offset_reset": EARLIEST, "fetch_max_wait_ms": 50}
        return AIOKafkaConsumer(*topics, **(self._common | own | configs))


class KafkaPythonClients:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        self._common: dict[str, object] = {
            "bootstrap_servers": bootstrap,
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 200,
            "retry_backoff_ms": 20,
            "metadata_max_age_ms": 1000,
        }

    def producer(self, **configs: object) -> kafka.KafkaProducer:
        """Return a producer with acks=all that does not linger."""
        from kafka import KafkaProducer

        return KafkaProducer(**(self._common | {"acks": "all", "linger_ms": 0} | configs))

    def consumer(self, *topics: str, **configs: object) -> kafka.KafkaConsumer:
        """Return a consumer from the beginning, without a group, which ends after 5 s without a record."""
        from kafka import KafkaConsumer

        own = {"auto_offset_reset": EARLIEST, "fetch_max_wait_ms": 50, "consumer_timeout_ms": 5000}
        return KafkaConsumer(*topics, **(self._common | own | configs))


Clients = ConfluentClients | AiokafkaClients | KafkaPythonClients

CLIENTS: dict[str, type[Clients]] = {
    "confluent": ConfluentClients,
    "aiokafka": AiokafkaClients,
    "kafka-python": KafkaPythonClients,
}
