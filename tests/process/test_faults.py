"""Brokers are killed, fenced, filled and fed rubbish while clients go on: nothing acknowledged is lost."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import SESSION, LocalCluster
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import LATEST_TIMESTAMP
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import leader_of
from tierfetch.tests.process.operating import (
    alter_topic,
    check_same_logs,
    check_tier,
    consumed_from,
    elect,
    freeze,
    wait_all_in_sync,
    wait_in_sync,
    wait_led,
    wait_local_start,
    wait_log_start,
    wait_tier_empty,
)
from tierfetch.tests.process.producing import SteadyProducer

TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576"}
IMPATIENT = {"socket.timeout.ms": 2000, "request.timeout.ms": 1000}
"""Of a client: a broker that does not answer is left soon."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two brokers with a local tier and KIP-1023 on, that notice laggards soon; thin replicas may lead at once."""
    configs = {
        "follower.fetch.last.tiered.offset.enable": "true",
        "replica.lag.time.max.ms": "2000",
        "log.retention.check.interval.ms": "500",
    }
    of_controller = {**SESSION, "thin.replica.warm.ms": "1"}
    tier = local_tier(tmp_path)
    with LocalCluster(tmp_path, (1, 2), tier=tier, configs=configs, controller_configs=of_controller) as cluster:
        yield cluster


@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_of_either_broker_at_any_moment_loses_nothing(cluster: LocalCluster, seed: int) -> None:
    """Restarted at once, or only when the other one leads."""
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
                wait_led(cluster, "t", 3 - victim)
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
            freeze(cluster, leader)
            try:
                wait_led(cluster, "t", 3 - leader)
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
                wait_led(cluster, "t", 3 - victim)
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


def test_E4_both_brokers_stopped_or_killed_at_once_lose_nothing(cluster: LocalCluster) -> None:
    rng = random.Random(6)
    create_topic(cluster.bootstrap_servers, "t", configs=TIERED)
    with SteadyProducer(cluster.bootstrap_servers, "t", IMPATIENT) as producer:
        for _ in range(4):
            producer.wait_acknowledged(rng.randrange(1, 2000))
            for broker in rng.sample((1, 2), 2):
                rng.choice((cluster.kill, cluster.kill, cluster.stop))(broker)
            for broker in rng.sample((1, 2), 2):
                cluster.start(broker)
            for broker in (1, 2):
                cluster.wait_serving(broker)
        producer.wait_acknowledged(100)
    wait_all_in_sync(cluster)
    check_same_logs(cluster, "t")
    producer.check_consumed()


def test_E3_what_only_the_old_leader_has_is_cut_at_the_epoch(tmp_path: Path) -> None:
    """Not committed, acknowledged to acks=1 alone: the replicas agree afterwards, on what the new leader says."""
    configs = {"replica.lag.time.max.ms": "60000"}
    sessions = {"broker.session.timeout.ms": "6000"}
    with LocalCluster(tmp_path, (1, 2), configs=configs, controller_configs=sessions) as cluster:
        create_topic(cluster.bootstrap_servers, "t")
        Librdkafka().produce(cluster.bootstrap_servers, "t", [b"committed"], "none")
        old = leader_of(cluster, "t")
        new = 3 - old
        check_same_logs(cluster, "t")
        freeze(cluster, new)
        careless = {"acks": 1, "enable.idempotence": False, **IMPATIENT}
        with SteadyProducer(f"127.0.0.1:{cluster.port(old)}", "t", careless) as lost:
            lost.wait_acknowledged(1000)
        freeze(cluster, old)
        cluster.process(new).send_signal(signal.SIGCONT)
        wait_led(cluster, "t", new)
        with SteadyProducer(f"127.0.0.1:{cluster.port(new)}", "t", {**careless, "batch.num.messages": 3}) as kept:
            kept.wait_acknowledged(300)
        cluster.process(old).send_signal(signal.SIGCONT)
        check_same_logs(cluster, "t")
        first, last = min(kept.acknowledged.values()), max(kept.acknowledged.values())
        assert first < max(lost.acknowledged.values()), "the old leader had nothing of its own"
        values = Librdkafka().consume(cluster.bootstrap_servers, "t", last + 1)
        assert values[0] == b"committed"
        assert {value: values[offset] for value, offset in kept.acknowledged.items()} == {
            value: value for value in kept.acknowledged
        }


def test_R6_tiering_goes_off_and_on_and_retention_eats_the_tier(cluster: LocalCluster) -> None:
    """Through a broker that serves a producer all the while; what is left is whole."""
    configs = {"remote.storage.enable": "true", "internal.segment.bytes": "200000", "local.retention.bytes": "400000"}
    create_topic(cluster.bootstrap_servers, "t", configs=configs)
    with SteadyProducer(cluster.bootstrap_servers, "t") as producer:
        producer.wait_acknowledged(4000)
        wait_local_start(cluster, "t", 1000)
        alter_topic(cluster, "t", {"remote.log.copy.disable": "true", "local.retention.bytes": None})
        producer.wait_acknowledged(3000)
        alter_topic(cluster, "t", {"remote.log.copy.disable": None, "local.retention.bytes": "400000"})
        wait_local_start(cluster, "t", 6000)
    producer.check_consumed()
    check_tier(cluster, "t")
    alter_topic(cluster, "t", {"retention.bytes": "800000"})
    end = max(producer.acknowledged.values()) + 1
    start = wait_log_start(cluster, "t", end // 2)
    values = consumed_from(cluster, "t", start, end - start)
    assert values == [value for value, offset in sorted(producer.acknowledged.items()) if offset >= start]
    alter_topic(cluster, "t", {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
    wait_tier_empty(cluster, "t")
    start = wait_log_start(cluster, "t", start)
    values = consumed_from(cluster, "t", start, end - start)
    assert values == [value for value, offset in sorted(producer.acknowledged.items()) if offset >= start]
    alter_topic(cluster, "t", {"remote.storage.enable": "true", "remote.log.delete.on.disable": None})
    with SteadyProducer(cluster.bootstrap_servers, "t") as more:
        more.wait_acknowledged(3000)
    wait_local_start(cluster, "t", end)
    start = wait_log_start(cluster, "t", start)
    left = list_offset(cluster.port(leader_of(cluster, "t")), "t", 0, LATEST_TIMESTAMP).offset - start
    assert left > 1000
    assert len(consumed_from(cluster, "t", start, left)) == left
    check_same_logs(cluster, "t")
