"""What a server knows of a SCRAM user: all that the metadata image and the settings need, without the exchange."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import field
from enum import IntEnum
from typing import Final

from ...light_dataclass import dataclass

SCRAM_ITERATIONS_MIN: Final = 4096
SCRAM_ITERATIONS_MAX: Final = 16384
SCRAM_SALT_BYTES: Final = 26
SCRAM_SALT_BYTES_MIN: Final = 12


class ScramType(IntEnum):
    """A mechanism's number in requests and metadata records (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramType.SCRAM_SHA_256 else "sha512"

    @classmethod
    def of(cls, mechanism: str) -> ScramType | None:
        """Return the type of a mechanism's name, None if it is no SCRAM mechanism of Kafka's."""
        return next((item for item in cls if item.mechanism == mechanism), None)


MECHANISMS: Final = tuple(item.mechanism for item in ScramType)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server knows of a password: enough to check a proof, not enough to make one."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


CredentialOf = Callable[[str], ScramCredential | None]


def credential_of_salted_password(
    type_: ScramType, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a password that the client has salted already (KIP-554)."""
    client_key = hmac.digest(salted_password, b"Client Key", type_.digest)
    stored_key = hashlib.new(type_.digest, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted_password, b"Server Key", type_.digest), iterations)


def fake_credential(type_: ScramType, user: str, secret: bytes, iterations: int) -> ScramCredential:
    """Return a credential that no password fits, the same each time for one user. Clients must not know `secret`."""
    seed = hmac.digest(secret, f"{type_.mechanism}/{user}".encode(), "sha512")
    return ScramCredential(seed[:SCRAM_SALT_BYTES], seed[SCRAM_SALT_BYTES:], seed[SCRAM_SALT_BYTES:], iterations)
