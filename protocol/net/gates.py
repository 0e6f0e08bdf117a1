"""The gate of a connection: which requests it lets through, and as which principal they come.

| listener | gate | principal |
|---|---|---|
| PLAINTEXT | `OpenGate` | ANONYMOUS |
| SSL | `OpenGate` | of the client's certificate, ANONYMOUS without one |
| SASL_PLAINTEXT, SASL_SSL | `SaslGate`: until it is authenticated, ApiVersions and SASL's own requests only | of SASL |

A request that the gate does not let through is a `RefusedRequestError`: the connection ends, for no response of another
API says that. What is refused is not parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ...security import ANONYMOUS, KafkaPrincipal, ListenerIdentity, SecurityProtocol
from ..api import ApiKey
from ..codec import RequestHeader, UnsupportedVersionError, read_request_body, request_body_steps
from ..errors import PeerError
from ..messages.base import Message
from ..messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from ..wire.primitives import Reader
from ..wire.stepping import Steps
from .dispatch import Handler
from .sasl import SaslAnswer, SaslAuthentication, SaslState

AUTHENTICATION_TIMEOUT_S: Final = 30.0
"""A connection that has not authenticated within this time is closed."""
READ_AT_ONCE_BYTES: Final = 4096
"""A request of so many bytes has too few elements to be read in steps."""


def body_steps(header: RequestHeader, reader: Reader) -> Steps[Message]:
    """Return the steps in which a request is read; a small one is read by now."""
    if reader.remaining <= READ_AT_ONCE_BYTES:
        return done(read_request_body(header, reader))
    return request_body_steps(header, reader)


def done(body: Message) -> Steps[Message]:
    """Return steps of which none is left."""
    yield from ()
    return body


class RefusedRequestError(PeerError):
    """A request that may not come now; the connection ends."""


class Gate(Protocol):
    """What a connection asks for each request."""

    security_protocol: SecurityProtocol

    @property
    def principal(self) -> KafkaPrincipal:
        """The principal of a request that comes now."""

    @property
    def request_size_max(self) -> int | None:
        """The largest request, in bytes, that may come now; None: as the listener limits it."""

    @property
    def deadline_s(self) -> float | None:
        """The loop's time at which the connection must have authenticated; None if it has."""

    @property
    def refusal(self) -> str | None:
        """Why the connection must end once its answers have left."""

    def admit(self, header: RequestHeader, reader: Reader) -> tuple[Handler, Steps[Message]]:
        """Return the handler of a request, and the steps in which its body is read.

        RefusedRequestError, UnsupportedVersionError, MalformedMessageError.
        """


class OpenGate:
    """Lets through what the listener has a handler for."""

    request_size_max = None
    deadline_s = None
    refusal = None

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        principal: KafkaPrincipal = ANONYMOUS,
        security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT,
    ) -> None:
        self._handlers = handlers
        self.principal = principal
        self.security_protocol = security_protocol

    def admit(self, header: RequestHeader, reader: Reader) -> tuple[Handler, Steps[Message]]:
        handler = self._handlers.get(header.api)
        if handler is None:
            raise UnsupportedVersionError(header.api, header.correlation_id, f"{header.api.name} is not offered here")
        return handler, body_steps(header, reader)


class SaslGate:
    """Decides authentication at the moment a request arrives, so that what follows it in one packet is judged right."""

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        identity: ListenerIdentity,
        now_s: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        self._open = OpenGate(handlers)
        self._identity = identity
        self._now_s = now_s
        self._authentication = SaslAuthentication(identity, now_ms)
        self._began_s = now_s()
        self.security_protocol = identity.settings.protocol
        self.refusal: str | None = None

    @property
    def principal(self) -> KafkaPrincipal:
        return self._authentication.principal

    @property
    def _is_authenticated(self) -> bool:
        return self._authentication.state is SaslState.AUTHENTICATED

    @property
    def request_size_max(self) -> int | None:
        return None if self._is_authenticated else self._identity.settings.receive_size_max

    @property
    def deadline_s(self) -> float | None:
        return None if self._is_authenticated else self._began_s + AUTHENTICATION_TIMEOUT_S

    def admit(self, header: RequestHeader, reader: Reader) -> tuple[Handler, Steps[Message]]:
        api, state = header.api, self._authentication.state
        if api is ApiKey.SASL_HANDSHAKE:
            self._began_s = self._now_s() if self._is_authenticated else self._began_s
            body = read_request_body(header, reader)
            assert isinstance(body, SaslHandshakeRequest), body
            return self._answering(self._authentication.handshake(body, self._now_s())), done(body)
        if api is ApiKey.SASL_AUTHENTICATE:
            body = read_request_body(header, reader)
            assert isinstance(body, SaslAuthenticateRequest), body
            answer = self._authentication.authenticate(body, header.api_version, self._now_s())
            return self._answering(answer), done(body)
        if api is not ApiKey.API_VERSIONS or state is SaslState.HAS_MECHANISM:
            self._check_authenticated(api)
        return self._open.admit(header, reader)

    def _check_authenticated(self, api: ApiKey) -> None:
        if not self._is_authenticated:
            state = self._authentication.state.value
            raise RefusedRequestError(f"{api.name} on a connection that is not authenticated ({state})")
        expires_at_s = self._authentication.expires_at_s
        if expires_at_s is not None and self._now_s() >= expires_at_s:
            raise RefusedRequestError(
                f"{api.name} of {self.principal} after its session expired: re-authentication is due"
            )

    def _answering(self, answer: SaslAnswer) -> Handler:
        self.refusal = answer.refusal
        delay_s = 0.0 if answer.refusal is None else self._identity.settings.failed_delay_ms / 1000

        async def respond(*_: object) -> Message:
            if delay_s:
                await asyncio.sleep(delay_s)
            return answer.response

        return respond
