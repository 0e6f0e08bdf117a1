"""What every SASL mechanism has in common (RFC 4422): bytes in, bytes out, one outcome at the end. Pure.

    server                               client
    ------                               ------
    step(client's bytes)                 first()
      -> Challenge: send, await more       -> bytes
      -> Accepted: send, authenticated   step(server's bytes)
      -> Rejected: it has failed           -> bytes, or None: nothing more to send
                                         is_complete

A machine that has accepted or rejected takes no further step. What a peer sends is never repeated in a message, a
log line included: it may be a password or a token.
"""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from ...errors import PeerError
from ...light_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Challenge:
    """The next bytes for the client; it must answer."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The client has proven to be `name`. `expires_at_ms` is the wall-clock time at which its token expires."""

    name: str
    data: bytes = field(default=b"", repr=False)
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client has proven nothing. `message` is for the client and reveals nothing that it did not know; `reason` is
    for the broker's log.
    """

    message: str
    reason: str


Outcome = Challenge | Accepted | Rejected


class SaslServer(Protocol):
    """One authentication, on the server."""

    def step(self, data: bytes) -> Outcome:
        """Take what the client sent."""


class SaslClient(Protocol):
    """One authentication, on the client."""

    @property
    def is_complete(self) -> bool:
        """Whether the server has proven what the mechanism makes it prove."""

    def first(self) -> bytes:
        """Return the first bytes for the server."""

    def step(self, data: bytes) -> bytes | None:
        """Return the answer to what the server sent, None if there is none. SaslClientError if the server's bytes are
        wrong or prove nothing.
        """


class SaslClientError(PeerError):
    """The server's side of an authentication is wrong, or it refused."""


def invalid_credentials(mechanism: str) -> str:
    """Return the error for a client that failed, whatever was wrong: neither the user nor the password is named."""
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
