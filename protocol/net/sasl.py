"""SASL on a connection (KIP-43, KIP-152, KIP-368): what the listener answers to SaslHandshake and SaslAuthenticate.

    NEW --SaslHandshake--> HAS_MECHANISM --SaslAuthenticate, until the mechanism decides--> AUTHENTICATED
     ^                                                                                           |
     |          an unknown mechanism, a refusal, a frame out of order: FAILED                    |
     +----- SaslHandshake again: re-authentication, as the same principal by the same mechanism -+

| what comes | in the state | answer | afterwards |
|---|---|---|---|
| SaslHandshake | NEW, AUTHENTICATED | NONE, or UNSUPPORTED_SASL_MECHANISM with those offered | FAILED if refused |
| SaslAuthenticate | HAS_MECHANISM | the mechanism's bytes, or SASL_AUTHENTICATION_FAILED | FAILED if refused |
| either | any other | ILLEGAL_SASL_STATE | FAILED |

After FAILED the connection ends once the answer has left, which is delayed so that guessing takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from ...light_dataclass import dataclass
from ...security import ANONYMOUS, USER, KafkaPrincipal, ListenerIdentity
from ...security.core import Accepted, Challenge, Rejected, SaslServer
from ..errors import ErrorCode
from ..messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

REAUTHENTICATION_MIN_S: Final = 1.0
"""A client that re-authenticates more often is refused, as in Kafka."""
SESSION_LIFETIME_SINCE: Final = 1


class SaslState(Enum):
    """Where an authentication is."""

    NEW = "new"
    HAS_MECHANISM = "has mechanism"
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SaslAnswer:
    """A response; `refusal` is for the log if the authentication has failed, and the connection must end."""

    response: SaslHandshakeResponse | SaslAuthenticateResponse
    refusal: str | None = None


class SaslAuthentication:
    """One connection's. `now_ms` is the wall clock, for tokens; sessions are measured by the loop's clock."""

    def __init__(self, identity: ListenerIdentity, now_ms: Callable[[], int]) -> None:
        self._identity = identity
        self._now_ms = now_ms
        self.state = SaslState.NEW
        self.principal: KafkaPrincipal = ANONYMOUS
        self.expires_at_s: float | None = None
        """When the client must have authenticated again, by the loop's clock; None: never."""
        self._mechanism: str | None = None
        self._server: SaslServer | None = None
        self._is_first = True
        self._began_s = 0.0

    def handshake(self, request: SaslHandshakeRequest, now_s: float) -> SaslAnswer:
        """Answer a SaslHandshake."""
        offered = tuple(self._identity.mechanisms)
        if self.state not in (SaslState.NEW, SaslState.AUTHENTICATED):
            return self._handshake_failed(ErrorCode.illegal_sasl_state, f"SaslHandshake while {self.state.value}")
        if request.mechanism not in offered:
            reason = f"mechanism {request.mechanism!r}, expected {' or '.join(offered)}"
            return self._handshake_failed(ErrorCode.unsupported_sasl_mechanism, reason)
        if self.state is SaslState.AUTHENTICATED:
            self._is_first = False
            if request.mechanism != self._mechanism:
                reason = f"re-authentication by {request.mechanism}, expected {self._mechanism} as before"
                return self._handshake_failed(ErrorCode.illegal_sasl_state, reason)
            if now_s < self._began_s + REAUTHENTICATION_MIN_S:
                return self._handshake_failed(ErrorCode.illegal_sasl_state, "re-authentication within a second")
        self._began_s = now_s
        self._mechanism = request.mechanism
        self._server = self._identity.authentication(request.mechanism)
        self.state = SaslState.HAS_MECHANISM
        return SaslAnswer(SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=offered))

    def authenticate(self, request: SaslAuthenticateRequest, api_version: int, now_s: float) -> SaslAnswer:
        """Answer a SaslAuthenticate."""
        if self.state is not SaslState.HAS_MECHANISM or self._server is None:
            reason = f"SaslAuthenticate while {self.state.value}, expected SaslHandshake"
            return self._failed(ErrorCode.illegal_sasl_state, reason, reason)
        match self._server.step(request.auth_bytes):
            case Challenge(data):
                return SaslAnswer(_authenticated(data))
            case Rejected(message, reason):
                return self._failed(ErrorCode.sasl_authentication_failed, message, f"{self._mechanism}: {reason}")
            case Accepted() as accepted:
                return self._accepted(accepted, api_version, now_s)

    def _accepted(self, accepted: Accepted, api_version: int, now_s: float) -> SaslAnswer:
        principal = KafkaPrincipal(USER, accepted.name)
        if not self._is_first and principal != self.principal:
            message = f"Cannot change principals during re-authentication from {self.principal}: {principal}"
            return self._failed(ErrorCode.sasl_authentication_failed, message, message)
        lifetime_ms = self._lifetime_ms(accepted)
        if lifetime_ms is not None and lifetime_ms <= 0:
            message = "Authentication failed: the token has expired"
            return self._failed(ErrorCode.sasl_authentication_failed, message, message)
        self.principal = principal
        self.state = SaslState.AUTHENTICATED
        self._server = None
        self.expires_at_s = None if lifetime_ms is None else now_s + lifetime_ms / 1000
        told = (lifetime_ms or 0) if api_version >= SESSION_LIFETIME_SINCE else 0
        return SaslAnswer(_authenticated(accepted.data, told))

    def _lifetime_ms(self, accepted: Accepted) -> int | None:
        """The time until the client must authenticate again; None without a limit."""
        assert self._mechanism is not None, self.state
        max_reauth_ms = self._identity.mechanisms[self._mechanism].max_reauth_ms
        limits = [max_reauth_ms] if max_reauth_ms > 0 else []
        if accepted.expires_at_ms is not None:
            limits.append(accepted.expires_at_ms - self._now_ms())
        return min(limits, default=None)

    def _handshake_failed(self, code: ErrorCode, reason: str) -> SaslAnswer:
        self.state, self._server = SaslState.FAILED, None
        response = SaslHandshakeResponse(error_code=code, mechanisms=tuple(self._identity.mechanisms))
        return SaslAnswer(response, reason)

    def _failed(self, code: ErrorCode, message: str, reason: str) -> SaslAnswer:
        self.state, self._server = SaslState.FAILED, None
        response = SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")
        return SaslAnswer(response, reason)


def _authenticated(data: bytes, lifetime_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_message=None, auth_bytes=data, session_lifetime_ms=lifetime_ms)
