"""Requests that a broker passes on for a client, wrapped whole in an Envelope (KIP-590).

    Envelope { request: header and body as the client sent them, principal, client's address }
    Envelope response { response: header and body for the client, error of the passing on }

A broker of Apache Kafka passes all administrative requests on like this, whatever its own clients speak to it. Here the
inner request goes to the handler that it would have reached by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from ..protocol.codec import (
    UnsupportedVersionError,
    read_request_body,
    read_request_header,
    write_response,
)
from ..protocol.errors import ErrorCode
from ..protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from ..protocol.net.dispatch import Handler, RequestContext
from ..protocol.wire.framing import SIZE_BYTES
from ..protocol.wire.primitives import MalformedMessageError, Reader
from ..security.principal import KafkaPrincipal

_VERSION_BYTES: Final = 2


async def unwrap(
    context: RequestContext, envelope: EnvelopeRequest, handlers: Mapping[int, Handler]
) -> EnvelopeResponse:
    """The response of an Envelope around a request that one of `handlers` answers."""
    try:
        header, reader = read_request_header(memoryview(envelope.request_data))
        body = read_request_body(header, reader)
    except UnsupportedVersionError:
        return refused(ErrorCode.unsupported_version)
    except MalformedMessageError:
        return refused(ErrorCode.invalid_request)
    if header.api not in handlers:
        return refused(ErrorCode.unsupported_version)
    try:
        principal = _principal(envelope.request_principal) if envelope.request_principal else context.principal
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
    response = await handlers[header.api](inner, body)
    assert response is not None, header
    parts = write_response(header.api, header.api_version, header.correlation_id, response)
    data = b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))
    return EnvelopeResponse(response_data=data[SIZE_BYTES:])


def _principal(data: bytes) -> KafkaPrincipal:
    """Return the client's principal: version, type and name, as Kafka's DefaultPrincipalBuilder writes them."""
    reader = Reader(memoryview(data), _VERSION_BYTES, flexible=True)
    kind, name = reader.nullable_string(), reader.nullable_string()
    if not (kind and name):
        raise MalformedMessageError("an Envelope with a principal without a name")
    return KafkaPrincipal(kind, name)


def refused(code: ErrorCode) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code)
