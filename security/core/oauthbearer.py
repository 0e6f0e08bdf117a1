"""SASL OAUTHBEARER (RFC 7628, KIP-255): a bearer token in one message. Who checks the token is given as a function.

client -> server   n,,^Aauth=Bearer TOKEN^A^A      ^A is the byte 1
server -> client   nothing: accepted; or {"status":"invalid_token"}
client -> server   ^A                              after an error; then the server refuses
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from ...light_dataclass import dataclass
from .mechanism import Accepted, Challenge, Outcome, Rejected, SaslClientError, invalid_credentials

MECHANISM: Final = "OAUTHBEARER"
_FIRST = re.compile(r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)*)\x01")
_BEARER = re.compile(r"bearer +(?P<token>[-A-Za-z0-9._~+/]+=*)", re.IGNORECASE)
_INVALID_TOKEN: Final = b'{"status":"invalid_token"}'


@dataclass(frozen=True, slots=True)
class ValidToken:
    """A token that was checked. `expires_at_ms` is wall-clock time."""

    principal: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """Why a token is refused, for the log: what was expected, without the token."""

    reason: str


Validate = Callable[[str], ValidToken | InvalidToken]


class OAuthBearerServer:
    """`validate` checks a token."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal: Rejected | None = None

    def step(self, data: bytes) -> Outcome:
        """Take the client's message; after a token that is refused, its empty answer."""
        if self._refusal is not None:
            return self._refusal
        match = _FIRST.fullmatch(data.decode("utf-8", "replace"))
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair) if match else {}
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None:
            message = "Invalid OAUTHBEARER client first message: expected n,, and auth=Bearer TOKEN"
            return Rejected(message, message)
        verdict = self._validate(bearer["token"])
        if isinstance(verdict, InvalidToken):
            self._refusal = Rejected(invalid_credentials(MECHANISM), verdict.reason)
            return Challenge(_INVALID_TOKEN)
        if match["authzid"] not in (None, "", verdict.principal):
            message = "Authentication failed: Client requested an authorization id that is different from the token's"
            return Rejected(message, message)
        return Accepted(verdict.principal, expires_at_ms=verdict.expires_at_ms)


class OAuthBearerClient:
    """Sends the token; reports the server's error."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._error: str | None = None

    @property
    def is_complete(self) -> bool:
        return self._error is None

    def first(self) -> bytes:
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def step(self, data: bytes) -> bytes | None:
        if not data:
            return None
        if self._error is not None:
            raise SaslClientError(f"OAUTHBEARER: the server refused the token: {self._error}")
        try:
            status = json.loads(data).get("status", "no status")
        except (ValueError, AttributeError):
            status = "its error is no JSON object"
        self._error = str(status)
        return b"\x01"
