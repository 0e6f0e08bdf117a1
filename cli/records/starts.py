"""Finds the offset at which `consume` begins in each partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..groups.reset import Anchor, Target

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

TIMEOUT_S = 30.0


def starts(consumer: Consumer, topic: str, partitions: Sequence[int], start: Target) -> list[TopicPartition]:
    """Return the partitions with their offsets. A negative number counts back from the end. KafkaException."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    if start.anchor is Anchor.TIME:
        asked = [TopicPartition(topic, partition, start.number) for partition in partitions]
        found: list[TopicPartition] = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
        return [TopicPartition(topic, one.partition, OFFSET_END if one.offset < 0 else one.offset) for one in found]
    if start.anchor is Anchor.COMMITTED:
        return [TopicPartition(topic, one, _before_end(consumer, topic, one, -start.number)) for one in partitions]
    offset = {Anchor.EARLIEST: OFFSET_BEGINNING, Anchor.LATEST: OFFSET_END}.get(start.anchor, start.number)
    return [TopicPartition(topic, partition, offset) for partition in partitions]


def _before_end(consumer: Consumer, topic: str, partition: int, count: int) -> int:
    from confluent_kafka import TopicPartition

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
    return max(int(low), int(high) - count)
