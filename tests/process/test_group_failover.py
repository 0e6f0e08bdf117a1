"""A consumer group whose coordinator, controller, or both are killed: no record is skipped, no commit forgotten."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from tierfetch.cli.processes import poll
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.tests.process.clients import Librdkafka, create_topic
from tierfetch.tests.process.consumers import Member, read_with_librdkafka, until_assigned
from tierfetch.tests.process.governed import BROKERS, TIMEOUT_S, Governed, governed_cluster

VALUES = [b"%04d" % number for number in range(200)]
GROUP = "survivors"


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    with governed_cluster(tmp_path_factory.mktemp("groups")) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(governed: Governed) -> Iterator[None]:
    """Whoever was killed comes back."""
    yield
    for nodes in (governed.quorum, governed.brokers):
        down = [node for node in nodes.nodes if not nodes.is_running(node)]
        for node in down:
            nodes.start(node)
        for node in down:
            nodes.wait_serving(node)


def coordinator(governed: Governed, group: str, *, other_than: int = -1) -> int:
    """Who coordinates the group, as a broker that lives says."""

    async def ask(port: int) -> int:
        client = KafkaClient(client_id="test", random=random.Random())
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
                found = asyncio.run(ask(governed.brokers.port(broker)))
            except OSError:
                continue
            if found not in (-1, other_than):
                return found
    raise AssertionError("unreachable: poll raises")


def topic_of(governed: Governed, name: str) -> str:
    create_topic(governed.servers, name, replicas=3, configs={"min.insync.replicas": "2"})
    Librdkafka().produce(governed.servers, name, VALUES, "none")
    return name


def committed(member: Member, count: int) -> list[bytes]:
    values = member.read(count)
    member.consumer.commit(asynchronous=False)
    return values


def test_C5_a_group_does_not_notice_that_the_active_controller_is_killed(governed: Governed) -> None:
    topic = topic_of(governed, "controller")
    with Member(governed.servers, "a", topic) as member:
        assert committed(member, 50) == VALUES[:50]
        governed.quorum.kill(governed.quorum.leader())
        assert committed(member, 50) == VALUES[50:100]
        with Member(governed.servers, "a", topic) as second:
            until_assigned(lambda: bool(second.partitions) != bool(member.partitions), member, second)
    assert read_with_librdkafka(governed.servers, "a", topic, 100) == VALUES[100:]


def test_a_group_goes_on_when_its_coordinator_is_killed(governed: Governed) -> None:
    topic = topic_of(governed, "coordinator")
    with Member(governed.servers, GROUP, topic) as member:
        assert committed(member, 50) == VALUES[:50]
        old = coordinator(governed, GROUP)
        governed.brokers.kill(old)
        new = coordinator(governed, GROUP, other_than=old)
        assert committed(member, 50) == VALUES[50:100]
        assert coordinator(governed, GROUP) == new
    assert read_with_librdkafka(governed.servers, GROUP, topic, 100) == VALUES[100:]


def test_C5_a_group_goes_on_when_both_are_killed_at_once(governed: Governed) -> None:
    topic = topic_of(governed, "both")
    with Member(governed.servers, "b", topic) as member:
        assert committed(member, 50) == VALUES[:50]
        old = coordinator(governed, "b")
        governed.quorum.kill(governed.quorum.leader())
        governed.brokers.kill(old)
        coordinator(governed, "b", other_than=old)
        assert committed(member, 50) == VALUES[50:100]
    assert read_with_librdkafka(governed.servers, "b", topic, 100) == VALUES[100:]
    governed.wait(topic, "to have a leader", lambda part: part.leader_id != -1)
