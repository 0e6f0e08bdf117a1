"""Kafka's system test of transactions: copies are exact while brokers, or the clients that copy, bounce.

A hard bounce is kill -9, a clean one SIGTERM; each at a moment when every partition is being copied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import Processes, poll
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.transactions import TIMEOUT_S, producer_of, read, until_read

BROKERS = (1, 2, 3)
PARTITIONS = 2
RECORDS = 400
"""Of each round: one before each bounce, and one after the last."""
BOUNCES = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    configs = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with LocalCluster(tmp_path / "cluster", BROKERS, configs=configs) as running:
        yield running


class Copiers:
    """A process for each partition."""

    def __init__(self, base: Path, servers: str) -> None:
        self._base, self._servers = base, servers
        self._processes = Processes()

    def start(self, partition: int) -> None:
        arguments = (self._servers, "source", "target", str(partition))
        command = [sys.executable, "-m", "tierfetch.tests.process.copier", *arguments]
        self._processes.start(partition, command, self._output(partition))

    def bounce(self, partition: int, *, is_hard: bool) -> None:
        self.check()
        (self._processes.kill if is_hard else self._processes.stop)(partition)
        self.start(partition)

    def check(self) -> None:
        assert all(self._processes[number].poll() is None for number in range(PARTITIONS)), self.outputs()

    def end(self) -> None:
        self._processes.kill_all()

    def outputs(self) -> str:
        """What they have said."""
        paths = [path for number in range(PARTITIONS) if (path := self._output(number)).exists()]
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in paths)

    def _output(self, partition: int) -> Path:
        return self._base / f"copier-{partition}.log"


def write(servers: str, values: list[bytes], number: int) -> None:
    """In transactions too, of which every second one is aborted, and written again."""
    producer = producer_of(servers, f"source-{number}")
    for begin in range(0, len(values), 100):
        for commit in (False, True):
            producer.begin_transaction()
            for index, value in enumerate(values[begin : begin + 100]):
                producer.produce("source", value if commit else b"aborted", partition=index % PARTITIONS)
            (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("is_hard", [True, False], ids=["hard", "clean"])
@pytest.mark.parametrize("target", ["brokers", "clients"])
def test_copies_are_exact_while_something_bounces(
    tmp_path: Path, cluster: LocalCluster, target: str, is_hard: bool
) -> None:
    servers = cluster.bootstrap_servers
    for topic in ("source", "target"):
        create_topic(servers, topic, partitions=PARTITIONS, replicas=3, configs={"min.insync.replicas": "2"})
    copiers, written = Copiers(tmp_path, servers), list[bytes]()

    def wait_copied(count: int) -> None:
        for _ in poll(TIMEOUT_S, lambda: f"{count} copies\n{copiers.outputs()}", 0.2):
            if len(read(servers, "target", partitions=PARTITIONS)) >= count:
                return

    try:
        for partition in range(PARTITIONS):
            copiers.start(partition)
        for number in range(BOUNCES + 1):
            before = len(written)
            values = [b"%05d" % (before + index) for index in range(RECORDS)]
            write(servers, values, number)
            written += values
            wait_copied(before + RECORDS // 4)
            if number == BOUNCES:
                break
            if target == "clients":
                copiers.bounce(number % PARTITIONS, is_hard=is_hard)
            else:
                broker = BROKERS[number % len(BROKERS)]
                (cluster.kill if is_hard else cluster.stop)(broker)
                wait_copied(before + RECORDS // 2)
                cluster.start(broker)
                cluster.wait_serving(broker)
        until_read(servers, "target", written)
        copiers.check()
    finally:
        copiers.end()
