"""A broker is killed, wiped and replaced; a leader loses its directory; brokers stop and start in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tierfetch.cli.local.cluster import LocalCluster
from tierfetch.cli.local.processes import poll
from tierfetch.cli.offsets import list_offset
from tierfetch.fetcher.core.leader_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from tierfetch.protocol.errors import KafkaError
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import leader_of, log_bytes, log_end, registrations

TIMEOUT_S = 60.0
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(6000)]
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576"}


@contextmanager
def two_brokers(base: Path) -> Iterator[LocalCluster]:
    """With a local tier and KIP-1023 on."""
    configs = {"follower.fetch.last.tiered.offset.enable": "true"}
    with LocalCluster(base, (1, 2), tier=local_tier(base), configs=configs) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Each test has a topic of its own, and leaves both brokers in sync."""
    with two_brokers(tmp_path_factory.mktemp("replaced")) as cluster:
        yield cluster


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with two_brokers(tmp_path) as cluster:
        yield cluster


def replace(cluster: LocalCluster, broker: int) -> Callable[[], None]:
    """Kill it, and start it again with an empty directory; what is returned waits until it is in sync everywhere: the
    new directory left every ISR with its registration, and joined each anew, those of the metadata topic too.
    """
    before = [entry.partition_epoch for entry in registrations(cluster)]
    cluster.kill(broker)
    cluster.wipe(broker)
    cluster.start(broker)

    def wait() -> None:
        for _ in poll(TIMEOUT_S, f"broker {broker} to be replaced everywhere"):
            now = registrations(cluster)
            if all(
                broker in entry.isr and entry.partition_epoch >= epoch + 2
                for entry, epoch in zip(now, before, strict=True)
            ):
                return

    return wait


def wait_tiered(cluster: LocalCluster, topic: str, offset: int) -> int:
    """The next offset to upload, once it is at least `offset`."""
    port = cluster.port(leader_of(cluster, topic))
    for _ in poll(TIMEOUT_S, f"{topic} to be tiered up to {offset}"):
        pending = list_offset(port, topic, 0, EARLIEST_PENDING_UPLOAD_TIMESTAMP).offset
        if pending >= offset:
            return pending
    raise AssertionError


def serves(cluster: LocalCluster, broker: int, topic: str) -> bool:
    """Whether the broker answers as the leader."""
    try:
        return list_offset(cluster.port(broker), topic, 0, LATEST_TIMESTAMP).offset >= 0
    except (KafkaError, OSError):
        return False


def wait_same_logs(cluster: LocalCluster, topic: str, leader: int, follower: int) -> dict[int, bytes]:
    """The follower's segments, once what it has is byte for byte the leader's and reaches as far."""
    end = list_offset(cluster.port(leader), topic, 0, LATEST_TIMESTAMP).offset
    for _ in poll(TIMEOUT_S, f"broker {follower} to hold {topic} up to {end}"):
        replica = log_bytes(cluster, follower, topic)
        if log_end(replica) == end:
            break
    of_leader = log_bytes(cluster, leader, topic)
    assert replica == {base: of_leader[base] for base in replica}
    return replica


def test_F6_wiped_follower_comes_back_from_the_tier_byte_for_byte(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "wiped", configs=TIERED)
    Librdkafka().produce(servers, "wiped", VALUES, "none")
    leader = leader_of(cluster, "wiped")
    follower = 3 - leader
    pending = wait_tiered(cluster, "wiped", max(log_bytes(cluster, leader, "wiped")))
    before = log_bytes(cluster, follower, "wiped")
    replace(cluster, follower)()
    replica = wait_same_logs(cluster, "wiped", leader, follower)
    assert min(replica) == pending
    assert min(before) == 0
    Librdkafka().produce(servers, "wiped", VALUES[:100], "none")
    wait_same_logs(cluster, "wiped", leader, follower)
    assert Librdkafka().consume(servers, "wiped", len(VALUES)) == VALUES


def test_R4_replacement_leads_and_serves_what_it_never_had(cluster: LocalCluster) -> None:
    """The replaced broker becomes the leader, and consumers read everything through it."""
    servers = cluster.bootstrap_servers
    create_topic(servers, "led", configs=TIERED)
    Librdkafka().produce(servers, "led", VALUES, "none")
    leader = leader_of(cluster, "led")
    follower = 3 - leader
    wait_tiered(cluster, "led", 4000)
    replace(cluster, follower)()
    wait_replaced = replace(cluster, leader)
    for _ in poll(TIMEOUT_S, f"broker {follower} to lead"):
        if leader_of(cluster, "led") == follower and serves(cluster, follower, "led"):
            break
    local_start = list_offset(cluster.port(follower), "led", 0, EARLIEST_LOCAL_TIMESTAMP).offset
    assert local_start >= 4000
    assert Librdkafka().consume(servers, "led", len(VALUES)) == VALUES
    wait_replaced()
    wait_same_logs(cluster, "led", follower, leader)


def test_F11_a_replacement_is_filled_from_the_tier_in_the_background(new_cluster: LocalCluster) -> None:
    """At a rate, seen by the tools; in the end it holds what the leader holds."""
    cluster, servers = new_cluster, new_cluster.bootstrap_servers
    create_topic(servers, "filled", configs=TIERED)
    Librdkafka().produce(servers, "filled", VALUES, "none")
    leader = leader_of(cluster, "filled")
    follower = 3 - leader
    wait_tiered(cluster, "filled", max(log_bytes(cluster, leader, "filled")))
    replace(cluster, follower)()
    assert min(log_bytes(cluster, follower, "filled")) > 4000
    alter = ["configs", "alter", "--bootstrap", servers, "--broker", "default"]
    rate = "thin.replica.warmer.max.bytes.per.second"
    assert cluster.quorum is not None
    cluster.quorum.tool(*alter, "--set", "thin.replica.warmer.enable=true", "--set", f"{rate}=10000")
    for _ in poll(TIMEOUT_S, "the replacement to be filled, and to say so"):
        described = json.loads(cluster.quorum.tool("topics", "describe", "filled", "--json", "--bootstrap", servers))
        if described[0]["warming"]:
            break
    assert described[0]["warming"][str(follower)]["bytes_left"] > 0
    rows = json.loads(cluster.quorum.tool("brokers", "list", "--json", "--bootstrap", servers))
    assert [row["broker"] for row in rows if row["warming"] is not None] == [follower]
    cluster.quorum.tool(*alter, "--set", f"{rate}=100000000")
    for _ in poll(TIMEOUT_S, "the replacement to be full"):
        if min(log_bytes(cluster, follower, "filled"), default=-1) == 0:
            break
    wait_same_logs(cluster, "filled", leader, follower)
    assert log_bytes(cluster, follower, "filled") == log_bytes(cluster, leader, "filled")
    assert Librdkafka().consume(servers, "filled", len(VALUES)) == VALUES
