"""The principal in an Envelope: the client that a broker forwards for."""

from __future__ import annotations

import pytest

from tierfetch.controller.envelope import unwrap
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.brokers import EnvelopeRequest, UnregisterBrokerRequest, UnregisterBrokerResponse
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.security.principal import KafkaPrincipal
from tierfetch.tests.broker.requests import context_of

ALICE = b"\0\0\x05User\x06alice\0\0"


async def unwrapped(principal: bytes | None, address: bytes) -> tuple[ErrorCode, list[RequestContext]]:
    contexts: list[RequestContext] = []

    async def handle(context: RequestContext, _: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        contexts.append(context)
        return UnregisterBrokerResponse(error_message=None)

    header = RequestHeader(ApiKey.UNREGISTER_BROKER, 0, 1, "client")
    frame = b"".join(bytes(part) for part in write_request(header, UnregisterBrokerRequest(broker_id=1)))
    request = EnvelopeRequest(request_data=frame[4:], request_principal=principal, client_host_address=address)
    handlers = {ApiKey.UNREGISTER_BROKER: handle}
    response = await unwrap(context_of(ApiKey.ENVELOPE, 0), request, handlers)
    return response.error_code, contexts


async def test_the_client_is_judged_and_not_the_broker() -> None:
    code, (context,) = await unwrapped(ALICE, b"\x0a\0\0\x07")
    assert code is ErrorCode.none
    assert (context.principal, context.client_host) == (KafkaPrincipal("User", "alice"), "10.0.0.7")


@pytest.mark.parametrize(
    ("principal", "address"), [(b"\0\0\x05Us", b"\x0a\0\0\x07"), (b"\0", b"\x0a\0\0\x07"), (ALICE, b"\x0a\0")]
)
async def test_a_principal_that_cannot_be_read_is_refused(principal: bytes, address: bytes) -> None:
    assert await unwrapped(principal, address) == (ErrorCode.principal_deserialization_failure, [])
