"""All brokers at once: killed, out of power, or stopped in order."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import LATEST_TIMESTAMP
from tierfetch.log.core.checkpoints import CLEAN_SHUTDOWN
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.looks import leader_of
from tierfetch.tests.process.operating import check_same_logs, wait_in_sync
from tierfetch.tests.process.producing import SteadyProducer

BROKERS = (1, 2)
VALUES = [b"%06d " % number + b"x" * 500 for number in range(400)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Each test has a topic of its own, and leaves both brokers running."""
    base = tmp_path_factory.mktemp("durable")
    with LocalCluster(base, BROKERS, configs={"replica.lag.time.max.ms": "2000"}) as cluster:
        yield cluster


def restart(cluster: LocalCluster) -> None:
    for broker in BROKERS:
        cluster.start(broker)
    for broker in BROKERS:
        cluster.wait_serving(broker)


def test_kill_9_of_all_brokers_at_once_loses_nothing(cluster: LocalCluster) -> None:
    create_topic(cluster.bootstrap_servers, "killed", configs={"segment.bytes": "1048576"})
    with SteadyProducer(cluster.bootstrap_servers, "killed") as producer:
        for count in (1, 700, 2500):
            producer.wait_acknowledged(count)
            for broker in BROKERS:
                cluster.kill(broker)
            restart(cluster)
        producer.wait_acknowledged(100)
    wait_in_sync(cluster, "killed")
    check_same_logs(cluster, "killed")
    producer.check_consumed()


def lose_tail(cluster: LocalCluster, broker: int, topic: str, size_bytes: int) -> None:
    """What a power failure does to pages that were not synced."""
    path = max((cluster.data_directory(broker) / f"{topic}-0").glob("*.log"))
    os.truncate(path, path.stat().st_size - size_bytes)


@pytest.mark.parametrize("seed", range(2))
def test_E4_scenario_2_power_failure_of_all_brokers_and_logs_never_diverge(cluster: LocalCluster, seed: int) -> None:
    """Each loses another part of what it had not synced; what one of them kept need not survive."""
    rng = random.Random(seed)
    servers, topic = cluster.bootstrap_servers, f"torn-{seed}"
    create_topic(servers, topic)
    for _ in range(2):
        for begin in range(0, len(VALUES), 100):
            Librdkafka().produce(servers, topic, VALUES[begin : begin + 100], "none")
        for broker in BROKERS:
            cluster.kill(broker)
        for broker in BROKERS:
            lose_tail(cluster, broker, topic, rng.randrange(1, 120_000))
        restart(cluster)
        Librdkafka().produce(servers, topic, VALUES[:1], "none")
        wait_in_sync(cluster, topic)
        check_same_logs(cluster, topic)
    end = list_offset(cluster.port(leader_of(cluster, topic)), topic, 0, LATEST_TIMESTAMP).offset
    values = Librdkafka().consume(servers, topic, end)
    assert values[:100] == VALUES[:100]
    assert values[-1] == VALUES[0]


def test_a_broker_that_was_stopped_in_order_recovers_nothing(cluster: LocalCluster) -> None:
    create_topic(cluster.bootstrap_servers, "stopped")
    Librdkafka().produce(cluster.bootstrap_servers, "stopped", VALUES, "none")
    marker = cluster.data_directory(1) / CLEAN_SHUTDOWN
    assert not marker.exists()
    cluster.stop(1)
    assert marker.exists()
    size = cluster.log_file(1).stat().st_size
    cluster.start(1)
    cluster.wait_serving(1)
    assert not marker.exists()
    log = cluster.log_file(1).read_bytes()[size:].decode()
    assert "tierfetch.log" not in log
    wait_in_sync(cluster, "stopped")
    check_same_logs(cluster, "stopped")
    assert Librdkafka().consume(cluster.bootstrap_servers, "stopped", len(VALUES)) == VALUES
