"""Transactions: commits a second, and the latency from a record's send to its receipt by a read_committed consumer.

A producer writes 100 records of 1 kB to four partitions with two replicas each, commits, and begins the next
transaction at once; there is one such producer, or there are several. Java's producers add partitions by Produce
(`transaction.version` 2), librdkafka's ask the coordinator to (its protocol is that of version 1). The consumer is in
the producers' process, so that both ends have one clock.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

from tierfetch.cli.local import captured

from ..lab.jars import kafka_jars
from ..latency import percentile_99
from ..measure import Results, cpu_seconds
from ..systems import Cluster, System
from ..workload import STEP_TIMEOUT_S, create_topic
from .raw import STATE_TOPICS, raise_features

BROKERS: Final = (1, 2, 3)
ASSIGNMENT: Final = [[1, 2], [2, 3], [3, 1], [1, 3]]
PARTITIONS: Final = len(ASSIGNMENT)
RECORDS: Final = 100
RECORD_BYTES: Final = 1_000
PRODUCERS: Final = (1, 8)
WARM_UP_S: Final = 4
COUNTED_S: Final = 8
TOPIC: Final = "transactional"
STAMP_BYTES: Final = 8
JAVA: Final = Path(__file__).parent / "Transactions.java"
JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run gave; latencies in ms."""

    commits_per_s: float
    p50_ms: float
    p99_ms: float


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Measure each client with each number of producers, in turn."""
    del total_mb
    with system.run(base, len(BROKERS), False, STATE_TOPICS) as cluster:
        raise_features(cluster)
        create_topic(cluster, ASSIGNMENT, {"min.insync.replicas": "2"}, TOPIC)
        for number in range(-1, runs):
            for client, measure in CLIENTS.items():
                for producers in PRODUCERS:
                    used_s, began = _cpu_s(cluster), time.perf_counter()
                    figures = measure(cluster.bootstrap_servers, producers)
                    cpu_s = (_cpu_s(cluster) - used_s) / (time.perf_counter() - began)
                    if number >= 0:  # the first one warms the brokers up
                        _report(results, f"{client}, {producers} producers", system.name, figures, cpu_s)


def _report(results: Results, case: str, name: str, figures: Figures, cores: float) -> None:
    results.add("transactions", case, name, "commits", figures.commits_per_s, "a second")
    results.add("transactions", case, name, "p50 end to end", figures.p50_ms, "ms")
    results.add("transactions", case, name, "p99 end to end", figures.p99_ms, "ms")
    results.add("transactions", case, name, "CPU of the brokers", cores, "cores")


def measure_java(servers: str, producers: int) -> Figures:
    """Run Java's producers and consumer in a JVM of their own."""
    numbers = map(str, (PARTITIONS, producers, RECORDS, RECORD_BYTES, WARM_UP_S, COUNTED_S))
    command = ["java", *JVM, "-cp", f"{kafka_jars()}/*", str(JAVA), servers, TOPIC, *numbers]
    done = captured(command, timeout_s=STEP_TIMEOUT_S)
    return read_figures(done.stdout, done.stderr)


def read_figures(printed: str, said: str = "") -> Figures:
    """Return what the Java program has printed. Raise RuntimeError with what it said if that is not all."""
    for line in printed.splitlines():
        head, *values = line.split()
        if head == "figures" and len(values) == len(Figures.__slots__):
            return Figures(*map(float, values))
    raise RuntimeError(f"{JAVA.name} printed no figures:\n{printed}{said}")


# librdkafka.


@dataclass(slots=True)
class _Session:
    """What the threads of one run share. `commits` is the number of each producer."""

    servers: str
    commits: list[int]
    latencies_ms: list[float] = field(default_factory=list)
    is_counted: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)


def measure_librdkafka(servers: str, producers: int) -> Figures:
    """Run librdkafka's producers and consumer on threads of this process."""
    session = _Session(servers, [0] * producers)
    with ThreadPoolExecutor(producers + 1) as pool:
        try:
            ended = [pool.submit(_read, session), *[pool.submit(_write, session, at) for at in range(producers)]]
            time.sleep(WARM_UP_S)
            session.is_counted.set()
            before, began = sum(session.commits), time.perf_counter()
            time.sleep(COUNTED_S)
            commits_per_s = (sum(session.commits) - before) / (time.perf_counter() - began)
        finally:
            session.is_over.set()
        for each in ended:
            each.result()
    found = session.latencies_ms
    return Figures(commits_per_s, statistics.median(found), percentile_99(found))


def _write(session: _Session, at: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": session.servers,
            "transactional.id": f"librdkafka-{time.time_ns()}-{at}",
            "linger.ms": 0,
            "log_level": 2,
        }
    )
    producer.init_transactions(STEP_TIMEOUT_S)
    rest = os.urandom(RECORD_BYTES - STAMP_BYTES)
    while not session.is_over.is_set():
        producer.begin_transaction()
        for number in range(RECORDS):
            stamp = time.perf_counter_ns().to_bytes(STAMP_BYTES, "big")
            producer.produce(TOPIC, stamp + rest, partition=number % PARTITIONS)
        producer.commit_transaction(STEP_TIMEOUT_S)
        session.commits[at] += 1


def _read(session: _Session) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": session.servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_END) for number in range(PARTITIONS)])
    while not session.is_over.is_set():
        first = consumer.poll(0.1)
        if first is None:
            continue
        now_ns = time.perf_counter_ns()
        messages = [first, *consumer.consume(RECORDS, 0)]
        if session.is_counted.is_set():
            values = [message.value() or b"" for message in messages if message.error() is None]
            sent_ns = [int.from_bytes(value[:STAMP_BYTES], "big") for value in values]
            session.latencies_ms += [(now_ns - each) / 1e6 for each in sent_ns]
    consumer.close()


CLIENTS: Final[Mapping[str, Callable[[str, int], Figures]]] = {
    "Java": measure_java,
    "librdkafka": measure_librdkafka,
}


def _cpu_s(cluster: Cluster) -> float:
    return cpu_seconds([cluster.process(broker).pid for broker in BROKERS])
