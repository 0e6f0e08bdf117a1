"""What producers do while a scenario is run: records at a steady rate, over all partitions, until SIGTERM.

    python -m tierfetch.bench.model.producers BOOTSTRAP TOPIC PARTITIONS MEGABYTES_PER_SECOND

It is a process of its own, which can be run where clients are. It says `PRODUCING` once the first record is written.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

from confluent_kafka import Producer

PRODUCING: Final = "producing"
RECORD_BYTES: Final = 1_000
LOAD_RECORDS: Final = 250
FLUSH_TIMEOUT_S: Final = 30.0


def main(bootstrap: str, topic: str, partitions: int, produce_mb_s: float) -> None:
    """Produce until SIGTERM; what is under way is then written."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    settings = {"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 20, "batch.size": 262_144, "log_level": 2}
    producer = Producer(settings)
    batch = [{"value": os.urandom(RECORD_BYTES)} for _ in range(LOAD_RECORDS)]
    producer.produce_batch(topic, batch, partition=0)
    if producer.flush(FLUSH_TIMEOUT_S):
        raise SystemExit(f"{bootstrap} has not taken the first records of {topic} within {FLUSH_TIMEOUT_S:.0f} s")
    print(PRODUCING, flush=True)
    interval_s = LOAD_RECORDS * RECORD_BYTES / (produce_mb_s * 1e6)
    began, sent = time.monotonic(), 0
    while not ended.wait(max(0.0, began + sent * interval_s - time.monotonic())):
        producer.produce_batch(topic, batch, partition=sent % partitions)
        producer.poll(0)
        sent += 1
    producer.flush(FLUSH_TIMEOUT_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
