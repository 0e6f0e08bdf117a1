"""A broker is killed, wiped and replaced; a leader loses its directory; brokers stop and start in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierfetch.cli.local_cluster import LocalCluster
from tierfetch.cli.offsets import list_offset
from tierfetch.cli.processes import poll
from tierfetch.fetcher.leader_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from tierfetch.protocol.errors import KafkaError
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.conftest import local_tier
from tierfetch.tests.process.looks import leader_of, log_bytes, log_end, registrations

TIMEOUT_S = 30.0
VALUES = [b"%06d " % number + b"x" * 1000 for number in range(6000)]
TIERED = {"remote.storage.enable": "true", "segment.bytes": "1048576"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two brokers with a local tier and KIP-1023 on."""
    configs = {"follower.fetch.last.tiered.offset.enable": "true"}
    with LocalCluster(tmp_path, (1, 2), tier=local_tier(tmp_path), configs=configs) as cluster:
        yield cluster


def wait_replaced(cluster: LocalCluster, broker: int) -> None:
    """The new directory left every ISR with its registration, and joined each anew, those of the metadata topic too."""
    for _ in poll(TIMEOUT_S, f"broker {broker} to be replaced everywhere"):
        if all(broker in entry.isr and entry.partition_epoch >= 2 for entry in registrations(cluster)):
            return


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
    create_topic(servers, "t", configs=TIERED)
    Librdkafka().produce(servers, "t", VALUES, "none")
    leader = leader_of(cluster, "t")
    follower = 3 - leader
    pending = wait_tiered(cluster, "t", max(log_bytes(cluster, leader, "t")))
    before = log_bytes(cluster, follower, "t")
    cluster.kill(follower)
    cluster.wipe(follower)
    cluster.start(follower)
    wait_replaced(cluster, follower)
    replica = wait_same_logs(cluster, "t", leader, follower)
    assert min(replica) == pending
    assert min(before) == 0
    Librdkafka().produce(servers, "t", VALUES[:100], "none")
    wait_same_logs(cluster, "t", leader, follower)
    assert Librdkafka().consume(servers, "t", len(VALUES)) == VALUES


def test_R4_replacement_leads_and_serves_what_it_never_had(cluster: LocalCluster) -> None:
    """The replaced broker becomes the leader, and consumers read everything through it."""
    servers = cluster.bootstrap_servers
    create_topic(servers, "t", configs=TIERED)
    Librdkafka().produce(servers, "t", VALUES, "none")
    leader = leader_of(cluster, "t")
    follower = 3 - leader
    wait_tiered(cluster, "t", 4000)
    cluster.kill(follower)
    cluster.wipe(follower)
    cluster.start(follower)
    wait_replaced(cluster, follower)
    cluster.kill(leader)
    cluster.wipe(leader)
    cluster.start(leader)
    for _ in poll(TIMEOUT_S, f"broker {follower} to lead"):
        if leader_of(cluster, "t") == follower and serves(cluster, follower, "t"):
            break
    local_start = list_offset(cluster.port(follower), "t", 0, EARLIEST_LOCAL_TIMESTAMP).offset
    assert local_start >= 4000
    assert Librdkafka().consume(servers, "t", len(VALUES)) == VALUES
    wait_replaced(cluster, leader)
    wait_same_logs(cluster, "t", follower, leader)


def test_F11_a_replacement_is_filled_from_the_tier_in_the_background(cluster: LocalCluster) -> None:
    """At a rate, seen by the tools; in the end it holds what the leader holds."""
    servers = cluster.bootstrap_servers
    create_topic(servers, "t", configs=TIERED)
    Librdkafka().produce(servers, "t", VALUES, "none")
    leader = leader_of(cluster, "t")
    follower = 3 - leader
    wait_tiered(cluster, "t", max(log_bytes(cluster, leader, "t")))
    cluster.kill(follower)
    cluster.wipe(follower)
    cluster.start(follower)
    wait_replaced(cluster, follower)
    assert min(log_bytes(cluster, follower, "t")) > 4000
    alter = ["configs", "alter", "--bootstrap", servers, "--broker", "default"]
    rate = "thin.replica.warmer.max.bytes.per.second"
    assert cluster.quorum is not None
    cluster.quorum.tool(*alter, "--set", "thin.replica.warmer.enable=true", "--set", f"{rate}=200000")
    for _ in poll(TIMEOUT_S, "the replacement to be filled, and to say so"):
        described = json.loads(cluster.quorum.tool("topics", "describe", "t", "--json", "--bootstrap", servers))
        if described[0]["warming"]:
            break
    assert described[0]["warming"][str(follower)]["bytes_left"] > 0
    rows = json.loads(cluster.quorum.tool("brokers", "list", "--json", "--bootstrap", servers))
    assert [row["broker"] for row in rows if row["warming"] is not None] == [follower]
    cluster.quorum.tool(*alter, "--set", f"{rate}=100000000")
    for _ in poll(TIMEOUT_S, "the replacement to be full"):
        if min(log_bytes(cluster, follower, "t"), default=-1) == 0:
            break
    wait_same_logs(cluster, "t", leader, follower)
    assert log_bytes(cluster, follower, "t") == log_bytes(cluster, leader, "t")
    assert Librdkafka().consume(servers, "t", len(VALUES)) == VALUES
