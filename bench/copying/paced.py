"""Produce at a steady rate through librdkafka, and note what each record waited from the moment it was due."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Producer

from ..systems import Cluster
from ..workload import STEP_TIMEOUT_S
from .phases import due_count, due_s

LOOK_INTERVAL_S: Final = 0.1
"""Between two looks at whether it is over, which may walk a directory."""
TURN_S: Final = 0.001


def latencies_ms(
    cluster: Cluster,
    topic: str,
    partitions: int,
    *,
    records_per_s: float,
    record_bytes: int,
    is_over: Callable[[], bool],
) -> list[float]:
    """Return the latency of each record until `is_over`. RuntimeError if one is not acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 5, "log_level": 2})
    found: list[float] = []
    value = os.urandom(record_bytes)
    producer.produce(topic, value, partition=0)
    if producer.flush(STEP_TIMEOUT_S):
        raise RuntimeError(f"{topic!r} acknowledges nothing")  # else the first records would pay for the connection

    def noted(due_at: float) -> Callable[[object, object], None]:
        def acknowledged(error: object, _: object) -> None:
            if error is None:
                found.append((time.perf_counter() - due_at) * 1000)

        return acknowledged

    began = time.perf_counter()
    look_at, sent = began + LOOK_INTERVAL_S, 0
    while True:
        now = time.perf_counter()
        if now >= look_at:
            if is_over():
                break
            look_at = now + LOOK_INTERVAL_S
        while sent < due_count(now - began, records_per_s):
            due_at = began + due_s(sent, records_per_s)
            producer.produce(topic, value, partition=sent % partitions, on_delivery=noted(due_at))
            sent += 1
        producer.poll(TURN_S)
    if producer.flush(STEP_TIMEOUT_S) or len(found) != sent:
        raise RuntimeError(f"{sent - len(found)} of {sent} records were not acknowledged")
    return found
