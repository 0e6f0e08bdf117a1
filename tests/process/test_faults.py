"""Brokers are killed, fenced, filled and fed rubbish while clients go on: nothing acknowledged is lost."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import leader_of
from tierfetch.tests.process.operating import (
    check_same_logs,
    check_tier,
    elect,
    fence_running,
    wait_all_in_sync,
    wait_in_sync,
    wait_local_start,
)
from tierfetch.tests.process.producing import SteadyProducer

TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
IMPATIENT = {"socket.timeout.ms": 2000, "request.timeout.ms": 1000}
"""Of a client: a broker that does not answer is left soon."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two brokers with a local tier and KIP-1023 on, that notice laggards soon."""
    configs = {
        "follower.fetch.last.tiered.offset.enable": "true",
        "replica.lag.time.max.ms": "2000",
        "log.retention.check.interval.ms": "500",
    }
    with LocalCluster(tmp_path, (1, 2), tier=local_tier(tmp_path), configs=configs) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_of_either_broker_at_any_moment_loses_nothing(cluster: LocalCluster, seed: int) -> None:
    """Restarted as it was, or fenced first so that the other one leads meanwhile."""
    rng = random.Random(seed)
    create_topic(cluster.bootstrap_servers, "t", configs=TIERED)
    with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
        for _ in range(4):
            producer.wait_acknowledged(rng.randrange(1, 2000))
            wait_in_sync(cluster, "t")
            leader = leader_of(cluster, "t")
            victim = rng.choice((leader, leader, 3 - leader))
            cluster.kill(victim)
            if rng.random() < 0.5:
                cluster.fence(victim)
                producer.wait_acknowledged(rng.randrange(1, 1000))
            cluster.start(victim)
            cluster.wait_serving(victim)
        producer.wait_acknowledged(100)
    wait_in_sync(cluster, "t")
    check_same_logs(cluster, "t")
    producer.check_consumed()


def test_E3_R1_leadership_that_moves_while_producing_loses_nothing(cluster: LocalCluster) -> None:
    """The new leader goes on with the tier where the old one stopped."""
    rng = random.Random(3)
    create_topic(cluster.bootstrap_servers, "t", configs=TIERED)
    with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
        for _ in range(8):
            producer.wait_acknowledged(rng.randrange(200, 2500))
            wait_in_sync(cluster, "t")
            elect(cluster, "t", 3 - leader_of(cluster, "t"))
        producer.wait_acknowledged(3000)
    wait_in_sync(cluster, "t")
    check_same_logs(cluster, "t")
    producer.check_consumed()
    check_tier(cluster, "t")


def test_C9_a_leader_that_slept_through_its_replacement_is_fenced(cluster: LocalCluster) -> None:
    """It comes back in the belief that it leads: nothing it takes is committed, and it follows."""
    create_topic(cluster.bootstrap_servers, "t", configs=TIERED)
    with SteadyProducer(cluster.bootstrap_servers, "t", IMPATIENT) as producer:
        for _ in range(3):
            producer.wait_acknowledged(1000)
            wait_in_sync(cluster, "t")
            leader = leader_of(cluster, "t")
            process = cluster.process(leader)
            process.send_signal(signal.SIGSTOP)
            try:
                elect(cluster, "t", 3 - leader)
                fence_running(cluster, leader)
                producer.wait_acknowledged(500)
            finally:
                process.send_signal(signal.SIGCONT)
            producer.wait_acknowledged(500)
            cluster.kill(leader)
            cluster.start(leader)
        producer.wait_acknowledged(100)
    wait_in_sync(cluster, "t")
    check_same_logs(cluster, "t")
    producer.check_consumed()
    check_tier(cluster, "t")


@pytest.mark.parametrize("seed", [4, 5])
def test_R4_everything_at_once_loses_nothing(cluster: LocalCluster, seed: int) -> None:
    """Killed, wiped, fenced, elected, with most of the topic in the tier alone."""
    rng = random.Random(seed)
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "200000", "local.retention.bytes": "400000"}
    create_topic(cluster.bootstrap_servers, "t", configs=configs)
    with SteadyProducer(cluster.bootstrap_servers, "t", IMPATIENT) as producer:
        for _ in range(6):
            producer.wait_acknowledged(rng.randrange(500, 3000))
            wait_all_in_sync(cluster)
            leader = leader_of(cluster, "t")
            victim = rng.choice((leader, 3 - leader))
            cluster.kill(victim)
            if rng.random() < 0.7:
                cluster.fence(victim)
                producer.wait_acknowledged(rng.randrange(1, 1000))
            if rng.random() < 0.7:
                cluster.wipe(victim)
            cluster.start(victim)
            cluster.wait_serving(victim)
            if rng.random() < 0.5:
                wait_in_sync(cluster, "t")
                elect(cluster, "t", rng.choice((1, 2)))
        producer.wait_acknowledged(2000)
    wait_all_in_sync(cluster)
    check_same_logs(cluster, "t")
    wait_local_start(cluster, "t", 2000)
    check_tier(cluster, "t")
    producer.check_consumed()
