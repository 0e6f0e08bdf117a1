"""Envelopes at a listener of a controller: over a real socket, from clients that SASL has identified."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest

from tierfetch.controller.envelope import unwrap
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.authorization.gate import guarded
from tierfetch.protocol.codec import RequestHeader, read_response, write_request
from tierfetch.protocol.envelope import joined_parts
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Message
from tierfetch.protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from tierfetch.protocol.messages.quorum import VoteRequest
from tierfetch.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierfetch.protocol.net.client import Address, KafkaClient
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.net.slicing import ELEMENT_BYTES
from tierfetch.security.authorizer import StandardAuthorizer
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.acl import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclRules,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from tierfetch.security.core.acls import Acls
from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.settings import client_settings, listener_settings
from tierfetch.security.listener import ListenerIdentity
from tierfetch.security.principal import SecurityProtocol

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ALICE = b"\0\0\x05User\x06alice\0\0"
HOST = b"\x0a\0\0\x07"


def acls() -> Acls:
    """The broker may forward, and alice may delete topics; the broker itself may not."""
    rights = [
        ("User:broker", AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster"),
        ("User:alice", AclOperation.DELETE, ResourceType.TOPIC, "*"),
        ("User:alice", AclOperation.DESCRIBE, ResourceType.TOPIC, "*"),
    ]
    allowed = Acls()
    for number, (user, operation, kind, name) in enumerate(rights):
        pattern = ResourcePattern(kind, name, PatternType.LITERAL)
        allowed.put(UUID(int=number), AclBinding(pattern, user, "*", operation, AclPermissionType.ALLOW))
    return allowed


@dataclass
class Controller:
    """A listener that takes Envelopes around DeleteTopics; what reached the handler."""

    contexts: list[RequestContext] = field(default_factory=list)
    topics: list[int] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        users = 'user_broker="b" user_eve="e"'
        properties = {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": f"{PLAIN} {users};"}
        settings = listener_settings(properties, "CONTROLLER", SecurityProtocol.SASL_PLAINTEXT)
        rules = acls()
        authorizer = StandardAuthorizer(AclRules(), lambda: rules, lambda: 0.0)
        self._of_clients = guarded({ApiKey.DELETE_TOPICS: self._delete}, authorizer, lambda _: None)
        self.server = Server(
            guarded({ApiKey.ENVELOPE: self._envelope}, authorizer, lambda _: None, is_controller=True),
            listener_name="CONTROLLER",
            identity=ListenerIdentity(settings, ScramCredentials),
        )

    async def _envelope(self, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
        return await unwrap(context, request, self._of_clients)

    async def _delete(self, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        self.contexts.append(context)
        self.topics.append(len(request.topics))
        self.charged.append(self.server.memory.others.used)
        return DeleteTopicsResponse(
            responses=tuple(DeletableTopicResult(name=topic.name, topic_id=UUID(int=0)) for topic in request.topics)
        )

    async def send(self, request: EnvelopeRequest, user: str = "broker") -> EnvelopeResponse:
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} username="{user}" password="{user[0]}";',
        }
        client = KafkaClient(client_id="b", random=Random(1), identity=ClientIdentity(client_settings(properties)))
        try:
            return await client.send(Address("localhost", self.server.port), request, timeout_s=30)
        finally:
            await client.close()


@pytest.fixture
async def controller() -> AsyncIterator[Controller]:
    controller = Controller()
    await controller.server.start("localhost", 0)
    yield controller
    await controller.server.close(deadline_s=1)


def request_bytes(api: ApiKey, version: int, body: Message) -> bytes:
    return joined_parts(write_request(RequestHeader(api, version, 99, "client"), body))[4:]


def delete(count: int) -> bytes:
    topics = tuple(DeleteTopicState(name=f"t{number}", topic_id=UUID(int=0)) for number in range(count))
    return request_bytes(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=topics, timeout_ms=5))


def envelope(data: bytes, principal: bytes | None = ALICE, host: bytes = HOST) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)


def inner_codes(response: EnvelopeResponse) -> set[ErrorCode]:
    assert response.error_code is ErrorCode.none
    assert response.response_data is not None
    answer = read_response(ApiKey.DELETE_TOPICS, 6, memoryview(response.response_data))
    return {topic.error_code for topic in answer.responses}


async def test_the_client_is_authorized_and_not_the_broker(controller: Controller) -> None:
    assert inner_codes(await controller.send(envelope(delete(1)))) == {ErrorCode.none}
    (context,) = controller.contexts
    assert (str(context.principal), context.client_host, context.client_id) == ("User:alice", "10.0.0.7", "client")
    of_the_broker = envelope(delete(1), b"\0\0\x05User\x07broker\0\0")
    assert ErrorCode.none not in inner_codes(await controller.send(of_the_broker))
    assert controller.topics == [1, 0], "the handler gets no topic that is denied"


async def test_only_principals_with_cluster_action_may_forward(controller: Controller) -> None:
    response = await controller.send(envelope(delete(1)), "eve")
    assert (response.error_code, response.response_data) == (ErrorCode.cluster_authorization_failed, None)
    assert not controller.contexts


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (envelope(delete(1), None), ErrorCode.principal_deserialization_failure),
        (envelope(delete(1), b""), ErrorCode.principal_deserialization_failure),
        (envelope(delete(1), b"\0\1" + ALICE[2:]), ErrorCode.principal_deserialization_failure),
        (envelope(delete(1), ALICE[:-1]), ErrorCode.principal_deserialization_failure),
        (envelope(delete(1), host=b"\x0a"), ErrorCode.invalid_request),
        (
            envelope(request_bytes(ApiKey.ENVELOPE, 0, envelope(delete(1)))),
            ErrorCode.invalid_request,
        ),
        (
            envelope(request_bytes(ApiKey.VOTE, 0, VoteRequest(cluster_id=None, topics=()))),
            ErrorCode.invalid_request,
        ),
        (envelope(delete(3)[:-4]), ErrorCode.unsupported_version),
        (envelope(b""), ErrorCode.unsupported_version),
    ],
    ids=[
        "no principal",
        "an empty principal",
        "a principal of version 1",
        "a principal cut off",
        "no address",
        "another Envelope",
        "not forwardable",
        "a request cut off",
        "no request",
    ],
)
async def test_envelopes_that_are_refused(controller: Controller, request_: EnvelopeRequest, code: ErrorCode) -> None:
    response = await controller.send(request_)
    assert (response.error_code, response.response_data) == (code, None)
    assert not controller.contexts
    assert controller.server.memory.others.used == 0


async def test_a_large_request_is_charged_and_handled_in_pieces(controller: Controller) -> None:
    data = delete(250)
    assert inner_codes(await controller.send(envelope(data))) == {ErrorCode.none}
    assert controller.topics == [100, 100, 50]
    assert min(controller.charged) >= len(data) + 250 * ELEMENT_BYTES
    assert controller.server.memory.others.used == 0
