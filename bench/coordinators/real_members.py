"""A group of real consumers, of librdkafka, in one process: from their start to the first record of each."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import Consumer

from ..systems import Cluster

MEMBERS: Final = 10
TIMEOUT_S: Final = 120.0


def measure_real(cluster: Cluster, topic: str, protocol: str, group_id: str) -> float:
    """Return the seconds until each of `MEMBERS` consumers, which start at once, has a record."""
    began = time.perf_counter()
    consumers = [Consumer(settings_of(cluster.bootstrap_servers, protocol, group_id)) for _ in range(MEMBERS)]
    try:
        waiting = set(range(MEMBERS))
        with ThreadPoolExecutor(MEMBERS) as pool:
            list(pool.map(lambda number: _consume(consumers[number], topic, number, waiting), range(MEMBERS)))
        return time.perf_counter() - began
    finally:
        for consumer in consumers:
            consumer.close()


def settings_of(servers: str, protocol: str, group_id: str) -> dict[str, str | int | bool]:
    common: dict[str, str | int | bool] = {
        "bootstrap.servers": servers,
        "group.id": group_id,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "queued.max.messages.kbytes": 64,
        "log_level": 0,
    }
    return common | ({"group.protocol": "classic"} if protocol == "classic" else {"group.protocol": "consumer"})


def _consume(consumer: Consumer, topic: str, number: int, waiting: set[int]) -> None:
    """Consume until no member waits for a first record: a member that does not poll holds up a rebalance."""
    consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            waiting.discard(number)
    if number in waiting:
        raise TimeoutError(f"a consumer of {topic!r} had no record within {TIMEOUT_S:.0f} s")
