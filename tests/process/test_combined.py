"""Three processes that are broker and controller at once: they make a cluster, and survive each other."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata

from tierfetch.cli.local.processes import poll
from tierfetch.cli.local.servers import LocalServers
from tierfetch.cli.server import load
from tierfetch.log.core.properties import ConfigError
from tierfetch.tests.process import connecting
from tierfetch.tests.process.clients import create_topic
from tierfetch.tests.process.producing import SteadyProducer

NODES = (1, 2, 3)
TIMEOUT_S = 60.0
SESSION_MS = 60_000


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[LocalServers]:
    with LocalServers(tmp_path, NODES) as servers:
        yield servers


def wait(servers: LocalServers, what: str, holds: Callable[[PartitionMetadata], bool]) -> None:
    """As any of the brokers that answer tells it."""
    admin = AdminClient(connecting.librdkafka(servers.bootstrap_servers))
    for _ in poll(TIMEOUT_S, f"the partition to {what}"):
        with contextlib.suppress(KafkaException):
            found = admin.list_topics("t", timeout=2).topics["t"].partitions.get(0)
            if found is not None and holds(found):
                return


def is_led_without(node: int, part: PartitionMetadata) -> bool:
    return node not in part.isrs and part.leader not in (-1, node)


def quorum(servers: LocalServers) -> str:
    arguments = ("quorum", "describe", "--status", "--bootstrap-controller", servers.bootstrap_controllers)
    done = subprocess.run(
        [sys.executable, "-m", "tierfetch.cli.main", *arguments],
        env=None if servers.security is None else servers.security.environment(arguments),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_C1_C5_processes_with_both_roles_replace_each_other(servers: LocalServers) -> None:
    create_topic(servers.bootstrap_servers, "t", replicas=3, configs={"min.insync.replicas": "2"})
    wait(servers, "have all in sync", lambda part: set(part.isrs) == set(NODES))
    assert servers.cluster_id in quorum(servers)
    with urllib.request.urlopen(servers.metrics_url(1), timeout=10) as answer:
        told = answer.read().decode()
    assert "tierfetch_raft_high_watermark" in told
    assert "tierfetch_isr_size" in told
    with SteadyProducer(servers.bootstrap_servers, "t") as producer:
        for node in NODES:  # each of them leads something: one of them the quorum, one the partition
            producer.wait_acknowledged(100)
            servers.kill(node)
            wait(servers, f"lose {node}", partial(is_led_without, node))
            producer.wait_acknowledged(100)
            servers.start(node)
            wait(servers, "have all in sync again", lambda part: set(part.isrs) == set(NODES))
    producer.check_consumed()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_C1_C5_whoever_leads_partitions_and_the_quorum_is_replaced_before_its_session_ends(tmp_path: Path) -> None:
    """The next controller has never had a connection of the broker that died with the one before."""
    with LocalServers(tmp_path, NODES, configs={"broker.session.timeout.ms": str(SESSION_MS)}) as servers:
        create_topic(servers.bootstrap_servers, "t", partitions=len(NODES), replicas=3)
        active = int(next(line.split()[1] for line in quorum(servers).splitlines() if line.startswith("LeaderId:")))
        admin = AdminClient(connecting.librdkafka(servers.bootstrap_servers))
        for _ in poll(TIMEOUT_S, "all to be in sync"):
            found = admin.list_topics("t", timeout=TIMEOUT_S).topics["t"].partitions
            if all(set(part.isrs) == set(NODES) for part in found.values()):
                break
        led = next(number for number, part in found.items() if part.leader == active)
        servers.kill(active)
        for _ in poll(SESSION_MS / 1000 / 2, f"partition {led} to be led by another than {active}"):
            with contextlib.suppress(KafkaException):
                if is_led_without(active, admin.list_topics("t", timeout=2).topics["t"].partitions[led]):
                    break
        logs = [servers.log_file(node).read_text() for node in NODES]
        gone = [node for node in NODES for log in logs if f"broker {node} is dead" in log]
        assert gone == [active], "by one controller, and nobody else"


@pytest.mark.slow
def test_one_process_alone_is_a_cluster_and_stops_in_order(tmp_path: Path) -> None:
    with LocalServers(tmp_path, (1,)) as servers:
        create_topic(servers.bootstrap_servers, "t", replicas=1)
        with SteadyProducer(servers.bootstrap_servers, "t") as producer:
            producer.wait_acknowledged(100)
        servers.stop(1)
        assert "server 1 stops" in servers.log_tail(1)
        servers.start(1)
        servers.wait_serving(1)
        producer.check_consumed()


def test_one_file_serves_both_roles_and_tells_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    text = (
        "process.roles=broker,controller\nnode.id=1\nlog.dirs=data\n"
        "listeners=CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092\n"
        "controller.quorum.voters=1@127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        "broker.session.timeout.ms=5000\nbroker.heartbeat.interval.ms=500\nnum.partitoins=3\n"
    )
    path.write_text(text)
    config, warnings = load(path)
    assert (config.broker.listeners[0].port, config.controller.listener.port) == (9092, 9093)
    assert config.controller.broker_session_timeout_ms == 5000
    (warning,) = warnings
    assert "num.partitions" in warning
    path.write_text(text.replace("broker,controller", "zookeeper"))
    with pytest.raises(ConfigError, match=r"process\.roles must name broker, controller, or both"):
        load(path)
