"""Requests that a broker passes on for a client, wrapped whole in an Envelope (KIP-590).

Brokers forward all administrative requests like this, whatever their own clients speak. The inner request goes to the
handler that it would have reached by itself, a large one piece by piece, and the client is judged, not the broker. A
controller that is no longer the active one when it answers says so in the Envelope: the broker then asks another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address

from ..protocol import (
    ErrorCode,
    UnsupportedVersionError,
    envelope_principal,
    joined_parts,
    read_request_header,
    response_steps,
)
from ..protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from ..protocol.net import Handler, RequestContext, answered, body_steps, exhausted
from ..protocol.wire import SIZE_BYTES, MalformedMessageError
from .core.refusals import is_from_another


async def unwrap(
    context: RequestContext, envelope: EnvelopeRequest, handlers: Mapping[int, Handler]
) -> EnvelopeResponse:
    """The response of an Envelope around a request that one of `handlers` answers.

    The checks, their order and their codes are those of Kafka's EnvelopeUtils. Nobody is taken for the broker: an
    Envelope without a principal is refused, and so is one around what clients may not ask through a broker, another
    Envelope above all.
    """
    try:
        principal = envelope_principal(envelope.request_principal)
    except MalformedMessageError:
        return refused(ErrorCode.principal_deserialization_failure)
    try:
        client_host = str(ip_address(envelope.client_host_address))
    except ValueError:
        return refused(ErrorCode.invalid_request)
    try:
        header, reader = read_request_header(memoryview(envelope.request_data))
        if header.api not in handlers:
            return refused(ErrorCode.invalid_request)
        body = await exhausted(body_steps(header, reader))
    except (UnsupportedVersionError, MalformedMessageError):
        # As Kafka: INVALID_REQUEST would be a mistake in the Envelope itself.
        return refused(ErrorCode.unsupported_version)
    inner = replace(
        context,
        api=header.api,
        api_version=header.api_version,
        client_id=header.client_id,
        principal=principal,
        client_host=client_host,
    )
    response = await answered(handlers[header.api], inner, body, reader.elements)
    if is_from_another(response):
        return refused(ErrorCode.not_controller)
    assert response is not None, header
    parts = await exhausted(response_steps(header.api, header.api_version, header.correlation_id, response))
    return EnvelopeResponse(response_data=joined_parts(parts)[SIZE_BYTES:])


def refused(code: ErrorCode) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code)
