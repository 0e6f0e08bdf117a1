"""G1: groups of KIP-848 whose coordinator is a broker of Apache Kafka and one of ours in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tierfetch.tests.interop.test_mixed_cluster import JAVA, OURS, VALUES, Mixed, mixed_cluster
from tierfetch.tests.process.consumers import NewMember
from tierfetch.tests.process.test_cluster_command import tierfetch

pytestmark = [pytest.mark.interop, pytest.mark.slow]

OFFSETS = "__consumer_offsets"


@pytest.fixture
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    yield from mixed_cluster(tmp_path_factory.mktemp("mixed"))


def test_G1_each_coordinator_goes_on_with_the_group_of_the_other(mixed: Mixed) -> None:
    ours = OURS[0]
    tierfetch(mixed.ours.bootstrap_servers, "features", "set", "group.version", "1")
    mixed.create(OFFSETS, [ours, JAVA], cleanup_policy="compact")
    mixed.wait_in_sync(OFFSETS, ours, JAVA)
    mixed.create("t", [OURS[1]])
    mixed.produce("t", VALUES)
    # Each hashes the topics in its own way, so the epoch rises when it takes over: commits are in the one before.
    lost: list[object] = []
    with NewMember(mixed.servers, "g", "t") as member:
        member.consumer.subscribe(["t"], on_lost=lambda *_: lost.append("lost"), on_revoke=lambda *_: lost.append("-"))
        read = member.read(100)
        member.consumer.commit(asynchronous=False)
        mixed.ours.kill(ours)
        mixed.wait(OFFSETS, "to be led by the Java broker", lambda part: part.leader == JAVA)
        read += member.read(100)
        member.consumer.commit(asynchronous=False)
        mixed.ours.start(ours)
        mixed.wait_in_sync(OFFSETS, ours, JAVA)
        mixed.java.kill(JAVA)
        mixed.wait(OFFSETS, "to be led by ours", lambda part: part.leader == ours)
        read += member.read(100)
        member.consumer.commit(asynchronous=False)
        assert lost == [], "the member kept its partition all the time"
    assert read == VALUES[:300]
