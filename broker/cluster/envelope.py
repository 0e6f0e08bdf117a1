"""Requests of clients wrapped in an Envelope, so that the controller knows who asks (KIP-590); `controller.envelope`
unwraps them.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from ...protocol.codec import RequestHeader, read_response_to, write_request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.base import Request, ResponseT
from ...protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from ...protocol.net.dispatch import RequestContext
from ...protocol.wire.framing import SIZE_BYTES
from ...protocol.wire.primitives import Writer
from ...security.principal import KafkaPrincipal

_PRINCIPAL_VERSION: Final = 0


def wrapped(context: RequestContext, request: Request[ResponseT]) -> EnvelopeRequest:
    """Return the request in an Envelope that names its client."""
    header = RequestHeader(context.api, context.api_version, 0, context.client_id)
    parts = write_request(header, request)
    frame = b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))
    return EnvelopeRequest(
        request_data=frame[SIZE_BYTES:],
        request_principal=_principal(context.principal),
        client_host_address=_address(context.client_host),
    )


def unwrapped(context: RequestContext, request: Request[ResponseT], response: EnvelopeResponse) -> ResponseT:
    """Return the response to the request in the Envelope. KafkaError if it was not looked at."""
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, f"the controller refuses a forwarded {context.api.name}")
    return read_response_to(request, context.api_version, memoryview(response.response_data or b""))


def _principal(principal: KafkaPrincipal) -> bytes:
    """Return the principal as Kafka's DefaultPrincipalBuilder writes it: without a delegation token."""
    writer = Writer(flexible=True)
    writer.int16(_PRINCIPAL_VERSION)
    writer.string(principal.principal_type)
    writer.string(principal.name)
    writer.out += b"\0"
    writer.end_structure()
    return bytes(writer.out)


def _address(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return b""
