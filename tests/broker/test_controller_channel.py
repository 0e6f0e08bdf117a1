"""The active controller is found, and asked until it answers; one that is too old ends the request"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tierfetch.broker.cluster.controller_channel import ControllerChannel, ControllerUnavailableError
from tierfetch.broker.handlers.forwarding import Forwarding
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.base import Message, Request, ResponseT
from tierfetch.protocol.messages.brokers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tierfetch.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tierfetch.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.net.dispatch import Handler, RequestContext
from tierfetch.tests.protocol.wire_fakes import serving

IDS = AllocateProducerIdsRequest(broker_id=1, broker_epoch=2)
TOPICS = DeleteTopicsRequest(topics=(DeleteTopicState(name="t", topic_id=None),), timeout_ms=10)


class Controllers:
    """Two of them, of which `active` answers."""

    def __init__(self) -> None:
        self.active = 0
        self.asked: list[int] = []
        self.addresses: list[Address] = []

    def allocate(self, number: int):
        async def handler(_: RequestContext, request: object) -> AllocateProducerIdsResponse:
            self.asked.append(number)
            code = ErrorCode.none if number == self.active else ErrorCode.not_controller
            return AllocateProducerIdsResponse(error_code=code, producer_id_start=100, producer_id_len=10)

        return handler

    def delete(self, number: int):
        async def handler(_: RequestContext, request: object) -> DeleteTopicsResponse:
            self.asked.append(number)
            code = ErrorCode.none if number == self.active else ErrorCode.not_controller
            return DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", error_code=code),))

        return handler


@pytest.fixture
async def controllers() -> AsyncIterator[Controllers]:
    fake = Controllers()
    async with AsyncExitStack() as stack:
        for number in range(2):
            handlers = {ApiKey.ALLOCATE_PRODUCER_IDS: fake.allocate(number), ApiKey.DELETE_TOPICS: fake.delete(number)}
            server = await stack.enter_async_context(serving(handlers))
            fake.addresses.append(Address("127.0.0.1", server.port))
        yield fake


async def ask(controllers: Controllers, leader: Address | None, request: Request[ResponseT], timeout_s: float = 5.0):
    rng = random.Random(1)
    channel = ControllerChannel(
        KafkaClient(client_id="test", random=rng), rng, leader=lambda: leader, others=lambda: controllers.addresses
    )
    try:
        return await channel.send(request, timeout_s=timeout_s)
    finally:
        await channel.close()


async def test_the_known_leader_is_asked_alone(controllers: Controllers) -> None:
    controllers.active = 1
    answer = await ask(controllers, controllers.addresses[1], IDS)
    assert answer.producer_id_start == 100
    assert controllers.asked == [1]


@pytest.mark.parametrize("request_", [IDS, TOPICS])
async def test_without_a_known_leader_all_are_asked_in_turn(
    controllers: Controllers, request_: Request[Message]
) -> None:
    """Whether the answer as a whole or its parts say that another is active."""
    for controllers.active in (0, 1):
        controllers.asked.clear()
        await ask(controllers, None, request_)
        assert controllers.asked[-1] == controllers.active
        assert len(controllers.asked) <= 2


async def test_the_last_reason_is_said_when_nobody_answers(controllers: Controllers) -> None:
    controllers.active = 7
    with pytest.raises(ControllerUnavailableError, match="is not the active controller"):
        await ask(controllers, controllers.addresses[0], IDS, timeout_s=0.2)
    assert len(controllers.asked) > 1


async def test_a_request_of_a_new_client_is_written_in_the_version_of_an_old_controller() -> None:
    """DeleteTopics has had names alone until version 5."""
    seen: list[object] = []

    async def delete(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        seen.append((context.api_version, request.topics))
        return DeleteTopicsResponse(responses=(DeletableTopicResult(name="t"),))

    rng = random.Random(1)
    async with serving({ApiKey.DELETE_TOPICS: delete}) as server:
        address = Address("127.0.0.1", server.port)
        client = KafkaClient(client_id="test", random=rng)
        channel = ControllerChannel(client, rng, leader=lambda: address, others=lambda: [address])
        try:
            for version in (5, 6):
                answer = await channel.send(TOPICS, timeout_s=5.0, max_version=version)
                assert [topic.name for topic in answer.responses] == ["t"]
        finally:
            await channel.close()
    assert seen == [(5, TOPICS.topics), (6, TOPICS.topics)]


HOUR_S = 3600.0
DRY_RUN = UpdateFeaturesRequest(
    feature_updates=(FeatureUpdateKey(feature="f", max_version_level=1),), validate_only=True
)


async def update(_: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_message="done")


@asynccontextmanager
async def channel_to(*handlers: Mapping[ApiKey, Handler], is_known: bool) -> AsyncIterator[ControllerChannel]:
    """Yield a channel to servers with these handlers; the first leads, which is known or not."""
    rng = random.Random(1)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(table)) for table in handlers]
        addresses = [Address("127.0.0.1", server.port) for server in servers]
        channel = ControllerChannel(
            KafkaClient(client_id="test", random=rng),
            rng,
            leader=lambda: addresses[0] if is_known else None,
            others=lambda: addresses,
        )
        stack.push_async_callback(channel.close)
        yield channel


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("handlers", "max_version"), [({}, None), ({ApiKey.UPDATE_FEATURES: update}, 0)])
async def test_a_request_that_no_controller_can_read_fails_at_once(
    handlers: Mapping[ApiKey, Handler], max_version: int | None, is_known: bool
) -> None:
    """Whether it lacks the API, or has only a version that cannot express the request."""
    async with channel_to(handlers, handlers, is_known=is_known) as channel:
        with pytest.raises(KafkaError) as caught:
            await channel.send(DRY_RUN, timeout_s=HOUR_S, max_version=max_version)
    assert caught.value.code is ErrorCode.unsupported_version


async def test_an_older_standby_does_not_end_a_request_that_another_controller_can_read() -> None:
    async with channel_to({ApiKey.UPDATE_FEATURES: update}, {}, is_known=False) as channel:
        answer = await channel.send(DRY_RUN, timeout_s=HOUR_S)
    assert answer.error_message == "done"


async def test_a_client_hears_of_a_controller_that_is_too_old() -> None:
    """A forwarded request is answered: a closed connection would make the client ask again."""
    context = RequestContext(ApiKey.UPDATE_FEATURES, 1, None, 1, "peer", "PLAINTEXT", 0.0)
    async with channel_to({}, is_known=True) as channel:
        answer = await Forwarding(channel, HOUR_S).forward(context, DRY_RUN)
    assert answer.error_code is ErrorCode.unsupported_version
