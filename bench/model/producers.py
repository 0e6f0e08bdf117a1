"""What producers do while a scenario is run: records at a steady rate, over all partitions, until SIGTERM.

    python -m tierfetch.bench.model.producers BOOTSTRAP MEGABYTES_PER_SECOND TOPIC:PARTITIONS... [consume]

With `consume` it also reads all of the topics that comes from then on, as consumers at the end of a log do.
It is a process of its own, which can be run where clients are. It says `PRODUCING` once the first record is written.
Records come in batches, to one partition after the other, so small that each partition gets one every `EVERY_S`: a look
of some seconds sees the rate of each. A producer that was held up makes up for `LATE_MAX_S` at most: else it
would for a while write twice of what it should.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Producer

PRODUCING: Final = "producing"
CONSUME: Final = "consume"
CONSUME_WAIT_MS: Final = 200
RECORD_BYTES: Final = 1_000
LOAD_RECORDS: Final = 250
"""One batch has as many at most."""
EVERY_S: Final = 0.5
LATE_MAX_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 30.0


Place = tuple[str, int]
"""A topic, and the number of a partition."""


def main(bootstrap: str, produce_mb_s: float, places: Sequence[Place], *, consumes: bool = False) -> None:
    """Produce until SIGTERM; what is under way is then written."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    settings = {"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 20, "batch.size": 262_144, "log_level": 2}
    producer = Producer(settings)
    batch = [{"value": os.urandom(RECORD_BYTES)} for _ in range(records_of(len(places), produce_mb_s))]
    reader = threading.Thread(target=_consume, args=(bootstrap, places, ended), daemon=True)
    if consumes:
        reader.start()
    first_topic, first = places[0]
    producer.produce_batch(first_topic, batch, partition=first)
    if producer.flush(FLUSH_TIMEOUT_S):
        raise SystemExit(f"{bootstrap} has not taken the first records of {first_topic} in {FLUSH_TIMEOUT_S:.0f} s")
    print(PRODUCING, flush=True)
    interval_s = len(batch) * RECORD_BYTES / (produce_mb_s * 1e6)
    due_s, sent = time.monotonic(), 0
    while not ended.wait(max(0.0, due_s - time.monotonic())):
        topic, partition = places[sent % len(places)]
        producer.produce_batch(topic, batch, partition=partition)
        producer.poll(0)
        sent += 1
        due_s = next_due(due_s, interval_s, time.monotonic())
    producer.flush(FLUSH_TIMEOUT_S)
    if consumes:
        reader.join(FLUSH_TIMEOUT_S)


def _consume(bootstrap: str, places: Sequence[Place], ended: threading.Event) -> None:
    """Read what comes until the end, and keep nothing; then say how much that was."""
    print(f"{asyncio.run(_read_on(bootstrap, places, ended))} records read", flush=True)


async def _read_on(bootstrap: str, places: Sequence[Place], ended: threading.Event) -> int:
    """As consumers without a group: librdkafka's would have the topic of all groups' offsets made, which others of the
    scenario's cluster then copy too.
    """
    from aiokafka import AIOKafkaConsumer, TopicPartition  # only here: its import takes CPU from brokers

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="latest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(*place) for place in places])
        read = 0
        while not ended.is_set():
            read += sum(map(len, (await consumer.getmany(timeout_ms=CONSUME_WAIT_MS)).values()))
        return read
    finally:
        await consumer.stop()


def records_of(partitions: int, produce_mb_s: float) -> int:
    """Return how many records a batch has."""
    return max(1, min(LOAD_RECORDS, int(produce_mb_s * 1e6 * EVERY_S / partitions / RECORD_BYTES)))


def next_due(due_s: float, interval_s: float, now_s: float) -> float:
    """Return when the batch after the one that was due at `due_s` is due."""
    return max(due_s + interval_s, now_s - LATE_MAX_S)


def topic_argument(topic: str, partitions: int) -> str:
    """Return the argument for a topic with so many partitions."""
    return f"{topic}:{partitions}"


def places_of(arguments: Sequence[str]) -> list[Place]:
    """Return the partitions of these arguments in the order of writes: one topic after the other."""
    pairs = [argument.rsplit(":", 1) for argument in arguments]
    return [(topic, number) for topic, partitions in pairs for number in range(int(partitions))]


if __name__ == "__main__":
    _, address, rate, *rest = sys.argv
    main(address, float(rate), places_of([each for each in rest if each != CONSUME]), consumes=CONSUME in rest)
