"""The principal in an Envelope: the client that a broker forwards for."""

from __future__ import annotations

import pytest

from tierfetch.controller.envelope import unwrap
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.envelope import principal_bytes
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
    "principal",
    [
        None,
        b"",
        b"\0",
        b"\0\0\x05Us",
        b"\0\1\x05User\x06alice\0\0",
        b"\0\0\x05User\x06alice",
        b"\0\0\x05User\x06alice\0",
        b"\0\0\x05User\x01\0\0",
        b"\0\0\x01\x06alice\0\0",
        b"\0\0\0\0\0\0",
    ],
)
async def test_a_principal_that_is_not_there_or_cannot_be_read_is_refused(principal: bytes | None) -> None:
    assert await unwrapped(principal, b"\x0a\0\0\x07") == (ErrorCode.principal_deserialization_failure, [])


@pytest.mark.parametrize("address", [b"", b"\x0a\0", b"\x0a\0\0\x07\x01"])
async def test_an_address_that_is_none_is_refused(address: bytes) -> None:
    assert await unwrapped(ALICE, address) == (ErrorCode.invalid_request, [])


def test_the_bytes_are_those_of_kafkas_default_principal_data() -> None:
    assert principal_bytes(KafkaPrincipal("User", "alice")) == ALICE
