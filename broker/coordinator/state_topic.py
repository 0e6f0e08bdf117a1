"""The topic that a coordinator keeps its state in, made by the first broker that needs it, and where a key is in it.

| it cannot be made | answer |
|---|---|
| too few brokers, no controller | COORDINATOR_NOT_AVAILABLE; an ERROR in the log, once for each reason |
| another broker made it at the same time | COORDINATOR_NOT_AVAILABLE: the client comes again |
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import Final

from ...protocol import OUTSIDE, ErrorCode, KafkaError, TopicPartition
from ..cluster.view import BrokerRegistration, ClusterView, NewTopic

HASHES_MAX: Final = 1_000
"""The number of keys whose hashes are kept: each request of a group or a transaction needs the hash of its key."""
KEPT_KEY_LENGTH_MAX: Final = 256
"""Longer keys are hashed each time: a thousand of the longest that the protocol has would take up to 128 MB."""

_log = logging.getLogger(__name__)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, a signed 32-bit number."""
    return _kept_hash(text) if len(text) <= KEPT_KEY_LENGTH_MAX else _hash(text)


def _hash(text: str) -> int:
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


_kept_hash = lru_cache(maxsize=HASHES_MAX)(_hash)


def partition_for(key: str, partitions: int) -> int:
    """The partition that holds a group, or a transactional id."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


class StateTopic:
    """`replication_key` is the configuration key that an operator would change, `what` what cannot be coordinated."""

    def __init__(self, view: ClusterView, topic: NewTopic, replication_key: str, what: str) -> None:
        self._view = view
        self._topic = topic
        self._replication_key = replication_key
        self._what = what
        self._creating = asyncio.Lock()
        self._reported = ""

    @property
    def partitions(self) -> int | None:
        """The number of its partitions, None while it does not exist."""
        topic = self._view.image.topics.get(self._topic.name)
        return None if topic is None else len(topic.partitions)

    async def ensure(self) -> int:
        """Return the number of partitions of the topic, which is made if it is not there. Raise
        COORDINATOR_NOT_AVAILABLE.
        """
        async with self._creating:
            topic = self._view.image.topics.get(self._topic.name)
            if topic is None:
                try:
                    topic = await self._view.create_topic(self._topic)
                except OUTSIDE as error:
                    topic = self._view.image.topics.get(self._topic.name)
                    if topic is None:
                        raise self._unavailable(error) from error
            return len(topic.partitions)

    def leader(self, number: int) -> BrokerRegistration:
        """Return the broker that leads a partition. Raise COORDINATOR_NOT_AVAILABLE while none does."""
        image = self._view.image
        registration = image.partition(TopicPartition(self._topic.name, number))
        broker = None if registration is None else image.brokers.get(registration.leader)
        if broker is None or broker.fenced:
            raise KafkaError(ErrorCode.coordinator_not_available, f"{self._topic.name}-{number} has no leader now")
        return broker

    def _unavailable(self, error: Exception) -> KafkaError:
        """Return why there is no topic; said once in the log."""
        message = (
            f"{self._topic.name} cannot be created with {self._replication_key}="
            f"{self._topic.replication_factor}, {self._what} can be coordinated until it exists: {error}"
        )
        is_made = isinstance(error, KafkaError) and error.code is ErrorCode.topic_already_exists  # by another broker
        if message != self._reported and not is_made:
            self._reported = message
            _log.error("%s", message)
        return KafkaError(ErrorCode.coordinator_not_available, message)
