"""SASL PLAIN (RFC 4616): user name and password in one message, so it needs TLS.

    client -> server   authorization id NUL user NUL password

The password of an unknown user is compared too, so that the time taken says nothing about which users exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from .mechanism import Accepted, Outcome, Rejected, SaslClientError

PLAIN: Final = "PLAIN"
REFUSAL: Final = "Authentication failed: Invalid username or password"
_NO_PASSWORD: Final = b"\x00" * 32


class PlainServer:
    """`users` maps names to passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def step(self, data: bytes) -> Outcome:
        """Decide at once."""
        try:
            authorization_id, user, password = data.decode().split("\x00")
        except ValueError:  # UnicodeDecodeError is one
            message = "Invalid SASL/PLAIN response: expected authorization id, user and password, separated by NUL"
            return Rejected(message, message)
        if not user or not password:
            message = f"Authentication failed: {'password' if user else 'username'} not specified"
            return Rejected(message, message)
        known = self._users.get(user)
        is_right = compare_digest(_NO_PASSWORD if known is None else known.encode(), password.encode())
        if known is None or not is_right:
            return Rejected(REFUSAL, f"unknown user or wrong password for {user!r}")
        if authorization_id not in ("", user):
            message = "Authentication failed: Client requested an authorization id that is different from username"
            return Rejected(message, message)
        return Accepted(user)


class PlainClient:
    """Sends everything in its first message."""

    def __init__(self, user: str, password: str) -> None:
        self._message = f"\x00{user}\x00{password}".encode()

    @property
    def is_complete(self) -> bool:
        return True

    def first(self) -> bytes:
        return self._message

    def step(self, data: bytes) -> bytes | None:
        if data:
            raise SaslClientError(f"the server answered PLAIN with {len(data)} bytes, expected were none")
        return None
