"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84) over the library scramp.

    client -> server   n,,n=user,r=nonce                  server: credential, or a fake one for an unknown user
    server -> client   r=nonces,s=salt,i=iterations
    client -> server   c=biws,r=nonces,p=proof
    server -> client   v=signature                        the server has proven that it knows the credential

An unknown user gets a salt and an iteration count as a known one would, the same ones each time, and is refused at the
end with the same words (RFC 5802, section 9): nothing says which users exist. Apache Kafka refuses it at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scramp import ScramClient as _Client
from scramp import ScramException, ScramMechanism

from .mechanism import Accepted, Challenge, Outcome, Rejected, SaslClientError, invalid_credentials
from .scram_credential import CredentialOf, ScramCredential, ScramType

_TOKEN_AUTH: Final = "tokenauth=true"


def make_credential(type_: ScramType, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a password. ValueError if salt or iterations are out of range."""
    try:
        made = ScramMechanism(type_.mechanism).make_auth_info(password, iteration_count=iterations, salt=salt)
    except ScramException as error:
        raise ValueError(str(error.args[0])) from None
    return ScramCredential(made[0], made[1], made[2], made[3])


class ScramServer:
    """`fake_of` gives what an unknown user gets; `nonce` is the server's part, printable and without a comma."""

    def __init__(
        self, type_: ScramType, credential_of: CredentialOf, fake_of: Callable[[str], ScramCredential], nonce: str
    ) -> None:
        self._type = type_
        self._credential_of = credential_of
        self._fake_of = fake_of
        self._is_known = False
        self._user = ""
        self._has_begun = False
        self._machine = ScramMechanism(type_.mechanism).make_server(self._look_up, s_nonce=nonce)

    def _look_up(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        found = self._credential_of(user)
        self._user, self._is_known = user, found is not None
        credential = self._fake_of(user) if found is None else found
        return credential.salt, credential.stored_key, credential.server_key, credential.iterations

    def step(self, data: bytes) -> Outcome:
        """Take the client's first message, then its final one."""
        try:
            text = data.decode()
            if self._has_begun:
                return self._finish(text)
            self._has_begun = True
            if _TOKEN_AUTH in text.split(","):
                message = "Authentication failed: delegation tokens are not supported, use a user's own credential"
                return Rejected(message, message)
            self._machine.set_client_first(text)
            return Challenge(self._machine.get_server_first().encode())
        except (ScramException, UnicodeDecodeError) as error:
            reason = error.args[0] if isinstance(error, ScramException) else "not UTF-8"
            return Rejected(invalid_credentials(self._type.mechanism), f"bad message of user {self._user!r}: {reason}")

    def _finish(self, text: str) -> Outcome:
        refused = invalid_credentials(self._type.mechanism)
        try:
            self._machine.set_client_final(text)
        except ScramException as error:
            what = f"{error.args[0]}" if self._is_known else "unknown user"
            return Rejected(refused, f"user {self._user!r}: {what}")
        if not self._is_known:
            return Rejected(refused, f"user {self._user!r}: unknown user")
        return Accepted(self._user, self._machine.get_server_final().encode())


class ScramClient:
    """`nonce` None draws one."""

    def __init__(self, type_: ScramType, user: str, password: str, nonce: str | None = None) -> None:
        self._type = type_
        try:
            self._machine = _Client([type_.mechanism], user, password, c_nonce=nonce)
        except ScramException as error:
            raise SaslClientError(f"{type_.mechanism}: {error.args[0]}") from None
        self._steps = 0

    @property
    def is_complete(self) -> bool:
        return self._steps == 2

    def first(self) -> bytes:
        message: str = self._machine.get_client_first()
        return message.encode()

    def step(self, data: bytes) -> bytes | None:
        self._steps += 1
        try:
            if self._steps > 1:
                self._machine.set_server_final(data.decode())
                return None
            self._machine.set_server_first(data.decode())
            message: str = self._machine.get_client_final()
        except (ScramException, UnicodeDecodeError) as error:
            self._steps = 0
            reason = error.args[0] if isinstance(error, ScramException) else "not UTF-8"
            raise SaslClientError(f"{self._type.mechanism}: the server's message is wrong: {reason}") from None
        return message.encode()
