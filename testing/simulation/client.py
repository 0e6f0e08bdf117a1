"""What aiokafka takes from elsewhere than Python's modules, made to follow the seed as long as simulated code runs.

| what                              | why a seed would not be repeatable              | instead                |
|-----------------------------------|-------------------------------------------------|------------------------|
| sets of partitions and of brokers | texts hash differently in each process          | they hash by value     |
| the number in a producer's name   | it counts the producers of the process          | it counts from 1       |
| the time of a record without one  | its C extension asks the machine's clock        | the clock of the host  |

No code of aiokafka is changed: a class gets another hash, and a subclass fills in the time. Other threads that use
aiokafka meanwhile see neither: both look whose code runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from ...sim.machine import current_process


@contextmanager
def repeatable_client() -> Iterator[None]:
    """While entered, aiokafka in a simulated process depends on the seed alone."""
    from aiokafka.producer import message_accumulator
    from aiokafka.producer.producer import AIOKafkaProducer
    from aiokafka.structs import BrokerMetadata, TopicPartition

    classes: tuple[type, ...] = (BrokerMetadata, TopicPartition)
    usual = message_accumulator.DefaultRecordBatchBuilder
    for each in classes:
        setattr(each, "__hash__", _by_value(vars(each).get("__hash__", tuple.__hash__)))  # noqa: B010 - a method
    message_accumulator.DefaultRecordBatchBuilder = _timed(usual)
    made = AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE
    AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE = 0
    try:
        yield
    finally:
        AIOKafkaProducer._PRODUCER_CLIENT_ID_SEQUENCE = made
        message_accumulator.DefaultRecordBatchBuilder = usual
        for each in classes:
            del each.__hash__


def _timed(builder: Any) -> Any:
    class DefaultRecordBatchBuilder(builder):  # type: ignore[misc]
        def append(self, offset: int, timestamp: int | None, *record: Any, **named: Any) -> Any:
            if timestamp is None:
                timestamp = int(time.time() * 1000)
            return super().append(offset, timestamp, *record, **named)

    return DefaultRecordBatchBuilder


def _by_value(usual: Callable[[Any], int]) -> Callable[[Any], int]:
    known: dict[str, int] = {}

    def by_value(self: tuple[object, ...]) -> int:
        if current_process.get() is None:
            return usual(self)
        number = 0
        for part in self:
            if isinstance(part, str):
                part = known.get(part) or known.setdefault(part, crc32(part.encode()))
            number = number * 1_000_003 + (part if isinstance(part, int) else 0)
        return number

    return by_value
