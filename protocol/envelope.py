"""Requests that a broker forwards for a client, whole, in an Envelope (KIP-590).

    Envelope { request: header and body as the client sent them, principal, client's address }
    Envelope response { response: header and body for the client, or the error of the forwarding itself }

The principal is what Kafka's DefaultKafkaPrincipalBuilder writes: version 0, type, name, whether a token stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, cast

from ..security import KafkaPrincipal
from .api import ApiKey
from .codec import RequestHeader, request_steps, response_body_steps
from .errors import ErrorCode, KafkaError
from .messages.base import Request, ResponseT
from .messages.brokers import EnvelopeRequest, EnvelopeResponse
from .net.dispatch import RequestContext
from .wire.framing import SIZE_BYTES
from .wire.primitives import MalformedMessageError, Part, Reader, Writer
from .wire.stepping import Steps

_CORRELATION_ID: Final = 0
"""There is one request in an Envelope, so any correlation id will do."""
_PRINCIPAL_VERSION: Final = b"\0\0"
_NO_TOKEN_NO_TAGS: Final = b"\0\0"
_NO_ADDRESS: Final = bytes(4)


class EnvelopeError(KafkaError):
    """The forwarding itself failed, not the request."""


def wrapped_in_envelope(request: Request[ResponseT], version: int, client: RequestContext) -> Steps[EnvelopeRequest]:
    """Write the Envelope of a client's request in steps, in a version that the controller knows."""
    header = RequestHeader(ApiKey(request.api_key), version, _CORRELATION_ID, client.client_id)
    parts = yield from request_steps(header, request)
    return EnvelopeRequest(
        request_data=joined_parts(parts)[SIZE_BYTES:],
        request_principal=principal_bytes(client.principal),
        client_host_address=_address_bytes(client.client_host),
    )


def response_in_envelope(request: Request[ResponseT], version: int, response: EnvelopeResponse) -> Steps[ResponseT]:
    """Read the response for the client, in steps. EnvelopeError has the code of the forwarding itself."""
    if response.error_code is not ErrorCode.none:
        raise EnvelopeError(response.error_code, f"the controller answers an Envelope with {response.error_code.name}")
    try:
        frame = memoryview(response.response_data or b"")
        answer = yield from response_body_steps(ApiKey(request.api_key), version, frame)
    except MalformedMessageError as error:
        raise EnvelopeError(ErrorCode.unknown_server_error, f"the controller's Envelope: {error}") from None
    return cast("ResponseT", answer)


def principal_bytes(principal: KafkaPrincipal) -> bytes:
    """Return a principal as it stands in an Envelope."""
    writer = Writer(_PRINCIPAL_VERSION, flexible=True)
    writer.string(principal.principal_type)
    writer.string(principal.name)
    return joined_parts(writer.finish()) + _NO_TOKEN_NO_TAGS


def envelope_principal(data: bytes | None) -> KafkaPrincipal:
    """Return the principal in an Envelope. MalformedMessageError if there is none, or it cannot be read."""
    if data is None or data[: len(_PRINCIPAL_VERSION)] != _PRINCIPAL_VERSION:
        raise MalformedMessageError("an Envelope without a principal of version 0")
    reader = Reader(memoryview(data), len(_PRINCIPAL_VERSION), flexible=True)
    kind, name = reader.string(), reader.string()
    reader.boolean()  # whether a delegation token stands for it: there are none here
    reader.tagged_fields()
    if not (kind and name):
        raise MalformedMessageError("an Envelope with a principal without a type or a name")
    return KafkaPrincipal(kind, name)


def joined_parts(parts: Iterable[Part]) -> bytes:
    """Return the bytes of a message without records."""
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))


def _address_bytes(host: str) -> bytes:
    """Return an IP address without its zone; 0.0.0.0 for a simulated host, which has only a name."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _NO_ADDRESS
