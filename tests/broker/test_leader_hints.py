"""A client that asks the wrong broker is told who leads and where, at once (KIP-951)."""

from __future__ import annotations

import random

import pytest

from tierfetch.broker.cluster.view import NewTopic
from tierfetch.broker.handlers.fetch import FetchHandler
from tierfetch.broker.handlers.produce import ProduceHandler
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch import messages as fetch_messages
from tierfetch.protocol.fetch import wire as fetch_wire
from tierfetch.protocol.fetch.leader_sessions import FetchSessionCache
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.fetch.session import SESSION_ID_MAX
from tierfetch.protocol.wire import produce as produce_wire
from tierfetch.protocol.wire.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from tierfetch.protocol.wire.primitives import Reader, Writer
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.tests.broker.hosting import Host, batch
from tierfetch.tests.broker.requests import context_of

SECOND = NodeEndpoint(2, "127.0.0.1", 9002, None)


@pytest.fixture
async def host(host: Host) -> Host:
    """Broker 1 leads `own`; it led `moved`, which 2 leads in epoch 1; `elsewhere` was never its own."""
    await host.topic("own", 1, 2)
    moved = await host.topic("moved", 1, 2)
    await host.view.elect_leader(moved.partition, 2)
    await moved.step_down(host.view.image.topics["moved"].partitions[0])
    await host.view.create_topic(NewTopic("elsewhere", -1, -1, ((2, 3),)))
    return host


async def produced(host: Host, *topics: str) -> produce_wire.ProduceResponse:
    """As the client decodes it."""
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topics=tuple(ProduceTopic((ProducePartition(0, batch(b"x")),), topic) for topic in topics),
    )
    version = 12
    response = await ProduceHandler(host.hosted).produce(context_of(ApiKey.PRODUCE, version), request)
    assert response is not None
    writer = Writer(flexible=True)
    produce_wire.write_response(writer, response, version)
    return produce_wire.read_response(Reader(memoryview(bytes(writer.out)), 0, flexible=True), version)


async def fetched(host: Host, *topics: str, epoch: int = 0) -> fetch_messages.FetchResponse:
    ids = random.Random(1)
    sessions = FetchSessionCache(draw_id=lambda: ids.randint(1, SESSION_ID_MAX))
    handler = FetchHandler(host.hosted, sessions, None, max_bytes=1 << 20)
    wanted = tuple(
        FetchTopic((FetchPartition(0, current_leader_epoch=epoch),), topic, host.view.image.topics[topic].topic_id)
        for topic in topics
    )
    version = 16
    response = await handler.fetch(
        context_of(ApiKey.FETCH, version), FetchRequest(max_wait_ms=0, min_bytes=1, topics=wanted)
    )
    writer = Writer(flexible=True)
    fetch_wire.write_response(writer, response, version)
    return fetch_wire.read_response(Reader(memoryview(bytes(writer.out)), 0, flexible=True), version)


@pytest.mark.parametrize(("topic", "epoch"), [("moved", 1), ("elsewhere", 0)])
async def test_produce(host: Host, topic: str, epoch: int) -> None:
    response = await produced(host, topic, "own")
    wrong, right = (each.partitions[0] for each in response.topics)
    assert (wrong.error_code, wrong.current_leader) == (ErrorCode.not_leader_or_follower, LeaderIdAndEpoch(2, epoch))
    assert (right.error_code, right.current_leader) == (ErrorCode.none, None)
    assert response.node_endpoints == (SECOND,)
    assert (await produced(host, "own")).node_endpoints == ()


async def test_fetch(host: Host) -> None:
    response = await fetched(host, "moved", "elsewhere", "own")
    answers = [each.partitions[0] for each in response.topics]
    assert [(answer.error_code, answer.current_leader) for answer in answers] == [
        (ErrorCode.fenced_leader_epoch, LeaderIdAndEpoch(2, 1)),
        (ErrorCode.not_leader_or_follower, LeaderIdAndEpoch(2, 0)),
        (ErrorCode.none, None),
    ]
    assert response.node_endpoints == (SECOND,)
    assert (await fetched(host, "own")).node_endpoints == ()
