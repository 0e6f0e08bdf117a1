"""A broker whose disk refuses one log, and takes all others: RLIMIT_FSIZE lets no file grow beyond that one's size."""

from __future__ import annotations

import logging
import resource
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.broker.cluster.view import NO_LEADER, PartitionRegistration
from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import Librdkafka, create_topic, create_topics
from tierfetch.tests.process.looks import image, log_bytes, registration
from tierfetch.tests.process.operating import TIMEOUT_S, wait_all_in_sync, wait_led
from tierfetch.tests.process.producing import SteadyProducer

BROKERS = (1, 2, 3)
ROOM = 20_000
"""Bytes that the log may still grow by."""

_log = logging.getLogger(__name__)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """No replica leaves an ISR because it lags, and the controller moves no leadership by itself."""
    configs = {"replica.lag.time.max.ms": "600000"}
    quiet = {"auto.leader.rebalance.enable": "false"}
    with LocalCluster(tmp_path, BROKERS, configs=configs, controller_configs=quiet) as running:
        create_topics(running.bootstrap_servers, [f"other-{number}" for number in range(6)], replicas=3)
        create_topics(running.bootstrap_servers, [f"alone-{number}" for number in range(6)], replicas=1)
        yield running


def fill(cluster: LocalCluster, topic: str) -> None:
    """Make the topic's log the largest file of its brokers."""
    Librdkafka().produce(
        cluster.bootstrap_servers, topic, [b"!%06d " % number + b"x" * 1000 for number in range(4000)], "none"
    )
    wait_all_in_sync(cluster)


@contextmanager
def full(cluster: LocalCluster, broker: int, topic: str) -> Iterator[None]:
    """The broker's log of the topic takes no more than `ROOM`."""
    size = max(map(len, log_bytes(cluster, broker, topic).values()))
    pid, hard = cluster.process(broker).pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + ROOM, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def others(cluster: LocalCluster, than: str) -> dict[tuple[str, int], PartitionRegistration]:
    """Every other partition, with its epochs: each change of a leader or an ISR raises one."""
    return {
        (name, number): partition
        for name, topic in image(cluster).topics.items()
        if name not in (than, "__consumer_offsets")
        for number, partition in topic.partitions.items()
    }


def wait_out_of_isr(cluster: LocalCluster, topic: str, broker: int) -> None:
    for _ in poll(TIMEOUT_S, f"{topic} to lose broker {broker}"):
        if broker not in registration(cluster, topic).isr:
            return


def offline_replicas(cluster: LocalCluster, broker: int) -> float:
    """What the broker's metrics say."""
    with urllib.request.urlopen(cluster.metrics_url(broker), timeout=TIMEOUT_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("tierfetch_offline_replicas "))


@dataclass
class Stalls:
    """The longest time between two acknowledgements, looked at often."""

    producer: SteadyProducer
    longest_s: float = 0.0
    _count: int = 0
    _since_s: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        now_s = time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._since_s)
        if len(self.producer.acknowledged) > self._count:
            self._count, self._since_s = len(self.producer.acknowledged), now_s

    def watch(self, more: int) -> None:
        target = len(self.producer.acknowledged) + more
        for _ in poll(TIMEOUT_S, f"{more} more acknowledgements", 0.002):
            self.look()
            if len(self.producer.acknowledged) >= target:
                return


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_D1_D2_one_log_that_takes_no_more_costs_its_own_replica_only(cluster: LocalCluster, role: str) -> None:
    create_topic(cluster.bootstrap_servers, "t", replicas=3, configs={"min.insync.replicas": "2"})
    fill(cluster, "t")
    before, known = registration(cluster, "t"), others(cluster, "t")
    broker = before.leader if role == "leader" else next(each for each in BROKERS if each != before.leader)
    with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
        stalls = Stalls(producer)
        stalls.watch(20)
        with full(cluster, broker, "t"):
            stalls.watch(1500)
            wait_out_of_isr(cluster, "t", broker)
            for _ in range(10):  # over several attempts to open it again
                stalls.watch(50)
                assert offline_replicas(cluster, broker) == 1.0
            during = registration(cluster, "t")
            assert set(during.isr) == set(BROKERS) - {broker}
            assert during.leader_epoch == before.leader_epoch + (role == "leader")
            assert others(cluster, "t") == known
        wait_all_in_sync(cluster)
        assert others(cluster, "t") == known
    _log.info("%s: the longest time without an acknowledgement was %.3f s", role, stalls.longest_s)
    producer.check_consumed()


def test_D1_the_only_replica_that_takes_no_more_stops_nothing_else(cluster: LocalCluster) -> None:
    """Its producers ask for ever; it has no leader until it can append, and no leader epoch is spent on trials."""
    create_topic(cluster.bootstrap_servers, "t", replicas=1)
    fill(cluster, "t")
    before, known = registration(cluster, "t"), others(cluster, "t")
    errors: list[str] = []
    producer = confluent_kafka.Producer(
        {**connecting.librdkafka(cluster.bootstrap_servers), "message.timeout.ms": 4000, "log_level": 0}
    )
    with full(cluster, before.leader, "t"):
        for _ in range(3):
            producer.produce("t", b"x" * 2 * ROOM, on_delivery=lambda error, _: errors.append(str(error)))
            producer.flush()
        wait_led(cluster, "t", NO_LEADER)
        during = registration(cluster, "t")
        assert (during.leader_epoch, during.isr) == (before.leader_epoch + 1, before.isr)
        assert others(cluster, "t") == known
    assert len([error for error in errors if error != "None"]) == 3
    wait_led(cluster, "t", before.leader)
    assert registration(cluster, "t").leader_epoch == before.leader_epoch + 2
    assert others(cluster, "t") == known
    Librdkafka().produce(cluster.bootstrap_servers, "t", [b"y"], "none")
    assert Librdkafka().consume(cluster.bootstrap_servers, "t", 4001)[-1] == b"y"
