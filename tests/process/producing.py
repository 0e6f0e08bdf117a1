"""A producer that never stops while its brokers are hurt, and what it was promised."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import confluent_kafka

from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import TIMEOUT_S, Librdkafka

IN_FLIGHT_MAX = 500
FLUSH_TIMEOUT_S = 60.0
PADDING = b"x" * 400


@dataclass
class SteadyProducer:
    """`with SteadyProducer(servers, "t") as producer:` sends numbered values to partition 0, idempotently, acks=all.

    `acknowledged` maps each value that was acknowledged to its offset. Leaving the block waits for all of them.
    """

    servers: str
    topic: str
    options: Mapping[str, str | int] = field(default_factory=dict)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def __enter__(self) -> SteadyProducer:
        self._producer = confluent_kafka.Producer(
            {
                **connecting.librdkafka(self.servers),
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 20,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
                **self.options,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady-producer")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        assert (left, self.errors[:1]) == (0, []), f"{left} not sent, {len(self.errors)} failed: {self.errors[:1]}"

    def wait_acknowledged(self, more: int) -> None:
        """Until that many more than now are."""
        target = len(self.acknowledged) + more
        for _ in poll(TIMEOUT_S, f"{more} more acknowledgements, {len(self.acknowledged)} so far", 0.001):
            if len(self.acknowledged) >= target:
                return

    def check_consumed(self) -> list[bytes]:
        """Everything acknowledged is consumed, once, in its order, at its offset."""
        end = max(self.acknowledged.values()) + 1
        values = Librdkafka().consume(self.servers, self.topic, end)
        twice = [value for value, times in Counter(values).items() if times > 1]
        assert twice == []
        wrong = {value: offset for value, offset in self.acknowledged.items() if values[offset] != value}
        assert wrong == {}
        assert values == sorted(values)
        return values

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            if len(self._producer) < IN_FLIGHT_MAX:
                value = b"%09d " % number + PADDING
                self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
                number += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.01)

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        self.acknowledged[value] = offset
