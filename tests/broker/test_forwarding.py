"""Clients' requests reach the active controller in an Envelope, with who sent them (KIP-590)."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from tierfetch.broker.cluster.controller_channel import ControllerChannel
from tierfetch.broker.handlers.forwarding import Forwarding
from tierfetch.controller.envelope import refused, unwrap
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.envelope import envelope_principal, principal_bytes
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from tierfetch.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.net.dispatch import Handler, RequestContext
from tierfetch.security.principal import KafkaPrincipal
from tierfetch.tests.protocol.wire_fakes import serving

ALICE = RequestContext(
    ApiKey.DELETE_TOPICS, 5, "tool", 1, "10.0.0.7:4711", "CLIENTS", 0.0, KafkaPrincipal("User", "alice"), "10.0.0.7"
)
TOPICS = DeleteTopicsRequest(topics=(DeleteTopicState(name="t", topic_id=None),), timeout_ms=10)


class Controller:
    """What arrives in Envelopes; `inner` is the code of its answer, `outer` that of the Envelope."""

    def __init__(self, *, inner: ErrorCode = ErrorCode.none, outer: ErrorCode = ErrorCode.none) -> None:
        self.inner, self.outer = inner, outer
        self.seen: list[RequestContext] = []

    def table(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.ENVELOPE: self.envelope, ApiKey.DELETE_TOPICS: self.delete}

    async def envelope(self, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
        if self.outer is not ErrorCode.none:
            return refused(self.outer)
        return await unwrap(context, request, {ApiKey.DELETE_TOPICS: self.delete})

    async def delete(self, context: RequestContext, _: DeleteTopicsRequest) -> DeleteTopicsResponse:
        self.seen.append(context)
        return DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", error_code=self.inner),))


@asynccontextmanager
async def forwarding_to(*controllers: Controller) -> AsyncIterator[Forwarding]:
    rng = random.Random(1)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(each.table())) for each in controllers]
        addresses = [Address("127.0.0.1", server.port) for server in servers]
        client = KafkaClient(client_id="broker", random=rng)
        channel = ControllerChannel(client, rng, leader=lambda: None, others=lambda: addresses)
        stack.push_async_callback(channel.close)
        yield Forwarding(channel, 5.0)


async def test_the_controller_sees_the_client_and_its_version() -> None:
    controller = Controller()
    async with forwarding_to(controller) as forwarding:
        answer = await forwarding.forward(ALICE, TOPICS)
    assert [(topic.name, topic.error_code) for topic in answer.responses] == [("t", ErrorCode.none)]
    (seen,) = controller.seen
    assert (seen.principal, seen.client_host) == (KafkaPrincipal("User", "alice"), "10.0.0.7")
    assert (seen.api, seen.api_version, seen.client_id) == (ApiKey.DELETE_TOPICS, 5, "tool")


async def test_an_address_of_ipv6_arrives_without_its_zone() -> None:
    controller = Controller()
    async with forwarding_to(controller) as forwarding:
        await forwarding.forward(replace(ALICE, client_host="fe80::1%eth0"), TOPICS)
    assert controller.seen[0].client_host == "fe80::1"


@pytest.mark.parametrize(
    "old", [Controller(inner=ErrorCode.not_controller), Controller(outer=ErrorCode.not_controller)]
)
async def test_a_controller_that_is_no_longer_active_is_not_the_last_to_be_asked(old: Controller) -> None:
    active = Controller()
    async with forwarding_to(active, old) as forwarding:
        answer = await forwarding.forward(ALICE, TOPICS)
    assert [topic.error_code for topic in answer.responses] == [ErrorCode.none]
    assert len(active.seen) == 1


async def test_a_broker_that_may_not_forward_says_so_in_its_log_and_not_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with forwarding_to(Controller(outer=ErrorCode.cluster_authorization_failed)) as forwarding:
        with caplog.at_level(logging.WARNING, "tierfetch"):
            answer = await forwarding.forward(ALICE, TOPICS)
    assert [topic.error_code for topic in answer.responses] == [ErrorCode.unknown_server_error]
    assert "DELETE_TOPICS of User:alice cannot be forwarded: " in caplog.text
    assert "needs ClusterAction on the cluster" in caplog.text


async def test_no_controller_in_time_closes_the_connection() -> None:
    async with forwarding_to(Controller(outer=ErrorCode.not_controller)) as forwarding:
        forwarding._timeout_s = 0.1
        with pytest.raises(KafkaError) as caught:
            await forwarding.forward(ALICE, TOPICS)
    assert caught.value.code is ErrorCode.request_timed_out


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    alice = KafkaPrincipal("User", "alice")
    assert principal_bytes(alice) == b"\0\0\x05User\x06alice\0\0"
    assert envelope_principal(principal_bytes(alice)) == alice
