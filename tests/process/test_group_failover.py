"""A consumer group whose coordinator, controller, or both are killed: no record is skipped, no commit forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tierfetch.cli.command_config import make_client
from tierfetch.cli.local.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.net.client import Address
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.consumers import Member, read_with_librdkafka, until_assigned
from tierfetch.tests.process.whole_cluster import BROKERS, TIMEOUT_S, WholeCluster, whole_cluster

VALUES = [b"%04d" % number for number in range(200)]
GROUP = "survivors"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("groups")) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: WholeCluster) -> Iterator[None]:
    """Whoever was killed comes back."""
    yield
    for nodes in (cluster.quorum, cluster.brokers):
        down = [node for node in nodes.nodes if not nodes.is_running(node)]
        for node in down:
            nodes.start(node)
        for node in down:
            nodes.wait_serving(node)


def coordinator(cluster: WholeCluster, group: str, *, other_than: int = -1) -> int:
    """Who coordinates the group, as a broker that lives says."""

    async def ask(port: int) -> int:
        client = make_client("test")
        request = FindCoordinatorRequest(coordinator_keys=(group,))
        try:
            answer = await client.send(Address("127.0.0.1", port), request, timeout_s=2)
        finally:
            await client.close()
        (found,) = answer.coordinators
        return found.node_id if found.error_code is ErrorCode.none else -1

    for _ in poll(TIMEOUT_S, f"{group} to have a coordinator other than {other_than}"):
        for broker in BROKERS:
            try:
                found = asyncio.run(ask(cluster.brokers.port(broker)))
            except OSError:
                continue
            if found not in (-1, other_than):
                return found
    raise AssertionError("unreachable: poll raises")


def topic_of(cluster: WholeCluster, name: str) -> str:
    create_topic(cluster.servers, name, replicas=3, configs={"min.insync.replicas": "2"})
    Librdkafka().produce(cluster.servers, name, VALUES, "none")
    return name


def committed(member: Member, count: int) -> list[bytes]:
    values = member.read(count)
    member.consumer.commit(asynchronous=False)
    return values


def test_C5_a_group_does_not_notice_that_the_active_controller_is_killed(cluster: WholeCluster) -> None:
    topic = topic_of(cluster, "controller")
    with Member(cluster.servers, "a", topic) as member:
        assert committed(member, 50) == VALUES[:50]
        cluster.quorum.kill(cluster.quorum.leader())
        assert committed(member, 50) == VALUES[50:100]
        with Member(cluster.servers, "a", topic) as second:
            until_assigned(lambda: bool(second.partitions) != bool(member.partitions), member, second)
    assert read_with_librdkafka(cluster.servers, "a", topic, 100) == VALUES[100:]


def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: WholeCluster) -> None:
    topic = topic_of(cluster, "coordinator")
    with Member(cluster.servers, GROUP, topic) as member:
        assert committed(member, 50) == VALUES[:50]
        old = coordinator(cluster, GROUP)
        cluster.brokers.kill(old)
        new = coordinator(cluster, GROUP, other_than=old)
        assert committed(member, 50) == VALUES[50:100]
        assert coordinator(cluster, GROUP) == new
    assert read_with_librdkafka(cluster.servers, GROUP, topic, 100) == VALUES[100:]


def test_C5_a_group_goes_on_when_both_are_killed_at_once(cluster: WholeCluster) -> None:
    topic = topic_of(cluster, "both")
    with Member(cluster.servers, "b", topic) as member:
        assert committed(member, 50) == VALUES[:50]
        old = coordinator(cluster, "b")
        cluster.quorum.kill(cluster.quorum.leader())
        cluster.brokers.kill(old)
        coordinator(cluster, "b", other_than=old)
        assert committed(member, 50) == VALUES[50:100]
    assert read_with_librdkafka(cluster.servers, "b", topic, 100) == VALUES[100:]
    cluster.wait(topic, "to have a leader", lambda part: part.leader_id != -1)
