"""Who sends a request, as Kafka names it, and how a listener finds out."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ..light_dataclass import dataclass

USER: Final = "User"


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """The identity of a connection, such as `User:alice`. Names are compared as they are, letter case included."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection that proves nothing: PLAINTEXT, or SSL without a client certificate."""


class SecurityProtocol(IntEnum):
    """How a listener protects and identifies its connections; the numbers are Kafka's."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
