"""What clients see when the leader of a partition dies (SIGKILL) or stops (SIGTERM).

Three brokers, one controller, default settings; a librdkafka producer with its defaults sends at a steady rate to one
partition, whose leader goes.

| figure | from | to |
|---|---|---|
| another leader | the signal | a survivor's first Metadata answer that names another leader |
| longest pause | an acknowledgement | the next one: the longest, from the signal until all brokers are back |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Producer

from tierfetch.cli.local import poll

from .measure import Results
from .systems import Cluster, System
from .workload import STEP_TIMEOUT_S, TOPIC, admin, create_topic, wait_isr

BROKERS: Final = (1, 2, 3)
RECORDS_PER_S: Final = 200
VALUE: Final = b"v" * 100
SESSION_TIMEOUT_S: Final = 9.0
"""The default of both: by then every broker has sent the controller a heartbeat."""
SETTLE_S: Final = 2.0
LOOK_INTERVAL_S: Final = 0.01


class Acknowledgements:
    """`with` it, records go to partition 0; `times` are `time.monotonic()` of what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.times: list[float] = []
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acknowledgements")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(STEP_TIMEOUT_S)

    def wait_beyond(self, moment: float) -> None:
        """Until something was acknowledged that long after the moment."""
        for _ in poll(STEP_TIMEOUT_S, "records to be acknowledged again"):
            if self.times and self.times[-1] > moment:
                return

    def longest_pause_s(self, since: float) -> float:
        return max(after - before for before, after in pairwise(self.times) if after > since)

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._ended.is_set():
            while sent < (time.monotonic() - began) * RECORDS_PER_S:
                self._producer.produce(TOPIC, VALUE, partition=0, on_delivery=self._note)
                sent += 1
            self._producer.poll(1 / RECORDS_PER_S)

    def _note(self, error: object, _: object) -> None:
        if error is None:
            self.times.append(time.monotonic())


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    del total_mb
    with system.run(base, len(BROKERS), False, {}) as cluster:
        create_topic(cluster, [list(BROKERS)], {"min.insync.replicas": "2"})
        with Acknowledgements(cluster) as acknowledged:
            acknowledged.wait_beyond(time.monotonic() + SESSION_TIMEOUT_S)
            for _ in range(runs):
                for signal, end in (("kill -9", cluster.kill), ("SIGTERM", cluster.stop)):
                    led_s, pause_s = _lose_leader(cluster, acknowledged, end)
                    case = f"leader ended by {signal}"
                    results.add("kill", case, system.name, "another leader", led_s, "s")
                    results.add("kill", case, system.name, "longest pause", pause_s, "s")


def _lose_leader(cluster: Cluster, acknowledged: Acknowledgements, end: Callable[[int], None]) -> tuple[float, float]:
    acknowledged.wait_beyond(time.monotonic() + SETTLE_S)
    victim = _leader(cluster, BROKERS[0])
    began = time.monotonic()
    thread = threading.Thread(target=end, args=(victim,), name="end")
    thread.start()
    led_at = _wait_other_leader(cluster, victim)
    acknowledged.wait_beyond(time.monotonic() + SETTLE_S)
    thread.join()
    cluster.start(victim)
    cluster.wait_serving(victim)
    wait_isr(cluster, {0: set(BROKERS)})
    return led_at - began, acknowledged.longest_pause_s(began)


def _leader(cluster: Cluster, ask: int) -> int:
    leader: int = admin(cluster, ask).list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader
    return leader


def _wait_other_leader(cluster: Cluster, victim: int) -> float:
    survivor = next(broker for broker in BROKERS if broker != victim)
    client = admin(cluster, survivor)
    for _ in poll(STEP_TIMEOUT_S, f"a leader other than {victim}", LOOK_INTERVAL_S):
        if client.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader not in (-1, victim):
            return time.monotonic()
    raise AssertionError("unreachable: poll raises")
