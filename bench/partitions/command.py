"""`python -m bench partitions --count N`: a broker that hosts N partitions, as real processes, from start to failover.

One controller, three brokers; every partition has the first two as replicas and broker 1 as its preferred leader, so
whatever ends broker 1 moves all N leaderships at once. The third one hosts nothing: of two, a controller fences none
before its session times out. The producer is librdkafka, acks=all.

| figure | from | to |
|---|---|---|
| created | the first CreateTopics | one record of each partition is acknowledged |
| loop pauses | - | `tierfetch_loop_pause_seconds` over a window of produce at a steady rate; a bare loop's beside |
| own parts | - | `tierfetch_loop_pause_own_seconds` over the same: what a pause has of the broker's own CPU time |
| failover | kill -9 has returned | a record of each partition, produced then, is acknowledged: half, all |
| start to serving | the process begins | it finds itself in its own metadata: unfenced |
| start to full ISRs | the process begins | all ISRs are full |
| controlled shutdown | SIGTERM | the process has ended |
| taken over | SIGTERM | one record of each partition, produced then, is acknowledged |
"""

from __future__ import annotations

import math
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

import click
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tierfetch.cli.local import LocalCluster, LocalQuorum, free_ports, poll
from tierfetch.cli.options import table_console

from ..lab.kafka import CONTROLLER_ID
from ..measure import Results, cpu_seconds, pss_mib
from ..options import exit_on, figures_option
from ..soak.probe import OWN_PAUSES, PAUSES, scraped
from ..systems import TIERFETCH
from ..workload import topics_of
from .bare_loop import BareLoop

FIRST: Final = 1
SECOND: Final = 2
WITNESS: Final = 3
STEP_TIMEOUT_S: Final = 600.0
SETTLE_S: Final = 20.0
"""First collections, checkpoints and reports of a cluster that was just made are over by then."""
VALUE: Final = b"v" * 1_000
PAUSE_MAX_S: Final = 0.05
PRODUCER: Final = {"acks": "all", "linger.ms": 5, "log_level": 0}
PRODUCERS: Final = 10
"""librdkafka sends a request for each partition, and a broker answers those of a connection in turn."""


@click.command("partitions")
@click.option("--count", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option(
    "--records-per-s", type=click.FloatRange(min=0), default=500.0, show_default=True, help="Of 1 kB, in all."
)
@click.option("--steady-s", type=click.FloatRange(min=1), default=60.0, show_default=True)
@figures_option("partitions")
def main(count: int, records_per_s: float, steady_s: float, path: Path) -> None:
    """A broker with many partitions: start, steady state, failover, controlled shutdown."""
    exit_on(signal.SIGTERM)
    console, results = table_console(), Results()
    with tempfile.TemporaryDirectory(prefix="tierfetch-partitions-", ignore_cleanup_errors=True) as base:
        ports = free_ports(1)
        controllers = f"127.0.0.1:{ports[0]}"
        with (
            LocalQuorum(Path(base), 1, first_id=CONTROLLER_ID, ports=ports) as quorum,
            LocalCluster(Path(base), (FIRST, SECOND, WITNESS), controllers=controllers) as cluster,
        ):
            run = _Run(cluster, quorum, count, results)
            steady = partial(run.steady, records_per_s, steady_s)
            steps: list[Callable[[], None]] = [run.create, steady, run.kill, run.shut_down, run.stop]
            shown = 0
            for step in steps:
                step()
                results.write(path)
                for figure in results.figures()[shown:]:
                    console.print(f"{figure.case}: {figure.quantity} {figure.median:.2f} {figure.unit}")
                shown = len(results.figures())
    results.print(console)
    console.print(f"Figures: {path}")


class _Run:
    """The steps, in the order in which they are declared."""

    def __init__(self, cluster: LocalCluster, quorum: LocalQuorum, count: int, results: Results) -> None:
        self._cluster = cluster
        self._quorum = quorum
        self._results = results
        self._topics = topics_of("many", count)
        self._count = count
        producer = {"bootstrap.servers": cluster.bootstrap_servers, **PRODUCER}
        self._producers = [Producer(producer) for _ in range(PRODUCERS)]
        self._targets = self._dealt()

    # The steps.

    def create(self) -> None:
        began, used_s = time.monotonic(), self._cpu_s(FIRST)
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap_servers, "log_level": 0})
        for name, partitions in self._topics.items():
            topic = NewTopic(name, num_partitions=partitions, replica_assignment=[[FIRST, SECOND]] * partitions)
            admin.create_topics([topic])[name].result(STEP_TIMEOUT_S)
        self._wait_full(FIRST)
        self._burst()
        self._add("created", "all are acknowledged", time.monotonic() - began, "s")
        self._add("created", "CPU of the leader", self._cpu_s(FIRST) - used_s, "s")

    def steady(self, records_per_s: float, seconds: float) -> None:
        self._trickle(records_per_s, SETTLE_S)
        brokers = (FIRST, SECOND)
        before = {broker: self._scraped(broker) for broker in brokers}
        own_before = {broker: self._scraped(broker, OWN_PAUSES) for broker in brokers}
        cpu_s = {broker: self._cpu_s(broker) for broker in brokers}
        began = time.monotonic()
        with BareLoop(PAUSE_MAX_S) as beside:
            self._trickle(records_per_s, seconds)
            bare = beside.stop()
        took_s = time.monotonic() - began
        case = "steady, a bare loop beside, for the machine's part"
        self._add(case, "longest loop pause", bare.longest_s * 1000, "ms")
        self._add(case, f"loop pauses above {PAUSE_MAX_S * 1000:.0f} ms", bare.over, f"in {seconds:.0f} s")
        for broker, role in zip(brokers, ("leader", "follower"), strict=True):
            used_s = self._cpu_s(broker) - cpu_s[broker]
            after = self._scraped(broker)
            longest_s, over = pauses_between(before[broker], after)
            case = f"steady, {records_per_s:g} records/s, the {role} of all"
            self._add(case, "CPU", used_s / took_s * 100, "% of a core")
            self._add(case, "longest loop pause, at most", longest_s * 1000, "ms")
            self._add(case, f"loop pauses above {PAUSE_MAX_S * 1000:.0f} ms", over, f"in {seconds:.0f} s")
            longest_s, over = pauses_between(own_before[broker], self._scraped(broker, OWN_PAUSES))
            self._add(case, "longest own part of a pause, at most", longest_s * 1000, "CPU ms")
            self._add(case, f"own parts above {PAUSE_MAX_S * 1000:.0f} ms", over, f"in {seconds:.0f} s")
            self._add(case, "PSS", pss_mib(self._cluster.process(broker).pid), "MiB")
        self._add("steady, the controller", "PSS", pss_mib(self._quorum.process(CONTROLLER_ID).pid), "MiB")

    def kill(self) -> None:
        used_s = self._cpu_s(SECOND)
        self._cluster.kill(FIRST)
        acknowledged_s = self._burst()
        self._add("kill -9 of the leader of all", "CPU of the next leader", self._cpu_s(SECOND) - used_s, "s")
        self._add("kill -9 of the leader of all", "half are acknowledged", statistics.median(acknowledged_s), "s")
        self._add("kill -9 of the leader of all", "all are acknowledged", max(acknowledged_s), "s")
        self._start(FIRST, "start after kill -9")

    def shut_down(self) -> None:
        """Stop the second one, which leads all since the first was killed."""
        with ThreadPoolExecutor(1) as pool:
            used_s = self._cpu_s(FIRST)
            ended = pool.submit(self._stop, SECOND)
            acknowledged_s = self._burst()
            self._add("SIGTERM of the leader of all", "CPU of the next leader", self._cpu_s(FIRST) - used_s, "s")
            self._add("SIGTERM of the leader of all", "all are acknowledged", max(acknowledged_s), "s")
            self._add("SIGTERM of the leader of all", "process has ended", ended.result(), "s")
        self._start(SECOND, "start after a controlled shutdown")

    def stop(self) -> None:
        """Stop the first one, which leads all; nothing is produced."""
        self._add("SIGTERM of the leader of all, idle", "process has ended", self._stop(FIRST), "s")

    # Their parts.

    def _start(self, broker: int, case: str) -> None:
        other = SECOND if broker == FIRST else FIRST
        with self._busy(broker, case):
            began = self._cluster.start(broker)
            self._cluster.wait_serving(broker)
            self._add(case, "serving", time.monotonic() - began, "s")
            self._wait_full(other)
            self._add(case, "ISRs full", time.monotonic() - began, "s")

    def _stop(self, broker: int) -> float:
        began = time.monotonic()
        self._cluster.stop(broker)
        return time.monotonic() - began

    @contextmanager
    def _busy(self, broker: int, case: str) -> Iterator[None]:
        """Add the CPU time that the broker, which is started meanwhile, has used by the end."""
        yield
        self._add(case, "CPU", cpu_seconds([self._cluster.process(broker).pid]), "s")

    def _wait_full(self, ask: int) -> None:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self._cluster.port(ask)}", "log_level": 0})
        for _ in poll(STEP_TIMEOUT_S, f"ISRs of {self._count} partitions to be full", 0.25):
            found = admin.list_topics(timeout=STEP_TIMEOUT_S).topics
            full = sum(
                len(partition.isrs) == 2
                for name in self._topics
                if name in found
                for partition in found[name].partitions.values()
            )
            if full == self._count:
                return

    def _burst(self) -> list[float]:
        """Seconds until one record of each partition, produced now, is acknowledged."""
        began, taken_s = time.monotonic(), []
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                taken_s.append(time.monotonic() - began)
            else:
                failures.append(str(error))

        for producer, name, number in self._targets:
            producer.produce(name, VALUE, partition=number, on_delivery=delivered)
        while len(taken_s) < self._count and not failures:
            self._poll(0.02)
        if failures:
            raise RuntimeError(f"{len(failures)} records were not acknowledged: {failures[0]}")
        return taken_s

    def _trickle(self, records_per_s: float, seconds: float) -> None:
        """Produce round the partitions at this rate."""
        began, sent, targets = time.monotonic(), 0, cycle(self._targets)
        while (now_s := time.monotonic() - began) < seconds:
            while sent < now_s * records_per_s:
                producer, name, number = next(targets)
                producer.produce(name, VALUE, partition=number)
                sent += 1
            self._poll(0.02)
        if any([producer.flush(STEP_TIMEOUT_S) for producer in self._producers]):
            raise RuntimeError(f"{records_per_s:g} records a second are more than the cluster can take")

    def _poll(self, seconds: float) -> None:
        """Serve the reports of all producers, and wait a little."""
        for producer in self._producers:
            producer.poll(0)
        time.sleep(seconds)

    def _dealt(self) -> list[tuple[Producer, str, int]]:
        """The partitions, neighbours of different topics. A producer has one topic, and asks for its metadata only."""
        names = list(self._topics)
        each = sorted((number, at) for at, name in enumerate(names) for number in range(self._topics[name]))
        return [(self._producers[(at + number * len(names)) % PRODUCERS], names[at], number) for number, at in each]

    # Figures.

    def _add(self, case: str, quantity: str, value: float, unit: str) -> None:
        self._results.add(f"{self._count:,} partitions", case, TIERFETCH.name, quantity, value, unit)

    def _scraped(self, broker: int, family: str = PAUSES) -> dict[str, float]:
        return scraped(self._cluster.metrics_url(broker), family)

    def _cpu_s(self, broker: int) -> float:
        return cpu_seconds([self._cluster.process(broker).pid])


def pauses_between(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[float, int]:
    """Return the bound of the longest pause in s, and how many were longer than `PAUSE_MAX_S`, between two scrapes."""
    counts = {float(bound): after[name] - before[name] for name in after if (bound := _bound(name)) is not None}
    total = counts[math.inf]
    longest_s = min(bound for bound, count in counts.items() if count == total)
    return longest_s, int(total - counts[PAUSE_MAX_S])


def _bound(name: str) -> str | None:
    """The upper bound of a histogram's bucket."""
    _, found, rest = name.partition("_bucket{")
    return rest.rstrip("}") if found else None
