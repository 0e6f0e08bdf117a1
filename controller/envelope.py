"""Requests that a broker passes on for a client, wrapped whole in an Envelope (KIP-590).

Brokers forward all administrative requests like this, whatever their own clients speak. The inner request goes to the
handler that it would have reached by itself, a large one piece by piece, and the client is judged, not the broker. A
controller that is no longer the active one when it answers says so in the Envelope: the broker then asks another.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from ..protocol import ErrorCode
from ..protocol.codec import (
    UnsupportedVersionError,
    read_request_header,
    response_steps,
)
from ..protocol.envelope import joined, principal_of
from ..protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from ..protocol.net.dispatch import Handler, RequestContext
from ..protocol.net.gates import body_steps
from ..protocol.net.pace import exhausted
from ..protocol.net.slicing import answered
from ..protocol.wire.framing import SIZE_BYTES
from ..protocol.wire.primitives import MalformedMessageError
from .core.refusals import is_from_another


async def unwrap(
    context: RequestContext, envelope: EnvelopeRequest, handlers: Mapping[int, Handler]
) -> EnvelopeResponse:
    """The response of an Envelope around a request that one of `handlers` answers."""
    try:
        header, reader = read_request_header(memoryview(envelope.request_data))
        body = await exhausted(body_steps(header, reader))
    except UnsupportedVersionError:
        return refused(ErrorCode.unsupported_version)
    except MalformedMessageError:
        return refused(ErrorCode.invalid_request)
    if header.api not in handlers:
        return refused(ErrorCode.unsupported_version)
    try:
        principal = principal_of(envelope.request_principal) if envelope.request_principal else context.principal
        address = envelope.client_host_address
        client_host = str(ip_address(address)) if address else context.client_host
    except (MalformedMessageError, ValueError):
        return refused(ErrorCode.principal_deserialization_failure)
    inner = RequestContext(
        api=header.api,
        api_version=header.api_version,
        client_id=header.client_id,
        connection_id=context.connection_id,
        peer=context.peer,
        listener=context.listener,
        arrival_time_s=context.arrival_time_s,
        principal=principal,
        client_host=client_host,
        security_protocol=context.security_protocol,
    )
    response = await answered(handlers[header.api], inner, body, reader.elements)
    if is_from_another(response):
        return refused(ErrorCode.not_controller)
    assert response is not None, header
    parts = await exhausted(response_steps(header.api, header.api_version, header.correlation_id, response))
    return EnvelopeResponse(response_data=joined(parts)[SIZE_BYTES:])


def refused(code: ErrorCode) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code)
