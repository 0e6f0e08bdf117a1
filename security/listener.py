"""What a listener needs to protect and identify its connections: its TLS context and its SASL mechanisms.

The parsers of certificates, tokens and SCRAM are imported for an identity that needs them, when it is made: a node in
plaintext starts without them, and no connection waits for an import.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .contexts import ReloadingContext
from .core import oauthbearer, plain
from .core.credentials import ScramCredentials
from .core.mechanism import SaslServer
from .core.node import openness
from .core.oauthbearer import OAuthBearerServer
from .core.plain import PlainServer
from .core.principal_mapping import principal_name
from .core.scram_credential import ScramType
from .core.settings import ListenerSettings, MechanismSettings, TlsSettings
from .principal import ANONYMOUS, USER, KafkaPrincipal, SecurityProtocol

if TYPE_CHECKING:
    from .core.scram import ScramServer
    from .tokens import TokenValidator

log = logging.getLogger(__name__)


class ListenerIdentity:
    """Made from a listener's settings. SecurityConfigError or OSError if files or keys cannot be read."""

    def __init__(self, settings: ListenerSettings, credentials: Callable[[], ScramCredentials]) -> None:
        """`credentials` gives those of the newest metadata image."""
        self.settings = settings
        self._credentials = credentials
        name = f"listener {settings.name}"
        self._context = None if settings.tls is None else _reloading(name, settings.tls)
        self._validators = {
            mechanism.name: validator
            for mechanism in settings.mechanisms.values()
            if (validator := _validator(mechanism)) is not None
        }
        self._scram_server = _scram_server(settings)

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for a new connection, None without TLS."""
        return None if self._context is None else self._context.get()

    def reconfigure(self, settings: ListenerSettings) -> None:
        """Use other TLS settings for new connections. SecurityConfigError if they cannot be used."""
        if self._context is not None and settings.tls is not None and settings.tls != self._context.settings:
            self._context.replace(settings.tls)

    @property
    def mechanisms(self) -> Mapping[str, MechanismSettings]:
        """The SASL mechanisms that the listener offers, by name."""
        return self.settings.mechanisms

    def principal_of(self, certificate: bytes | None) -> KafkaPrincipal | None:
        """Return the principal of a client certificate (DER), ANONYMOUS without one; None if no rule matches it."""
        if certificate is None:
            return ANONYMOUS
        from .tls import name_of

        name = principal_name(name_of(certificate), self.settings.rules)
        return None if name is None else KafkaPrincipal(USER, name)

    def authentication(self, mechanism: str) -> SaslServer:
        """Begin an authentication with one of `mechanisms`."""
        if mechanism == plain.PLAIN:
            return PlainServer(self.mechanisms[mechanism].users)
        if mechanism == oauthbearer.MECHANISM:
            return OAuthBearerServer(self._validators[mechanism].validate)
        type_ = ScramType.of(mechanism)
        assert type_ is not None, mechanism
        assert self._scram_server is not None, mechanism
        credentials = self._credentials()
        return self._scram_server(
            type_,
            lambda user: credentials.get(user, type_),
            lambda user: credentials.fake(user, type_),
            secrets.token_urlsafe(24),
        )


def _reloading(name: str, settings: TlsSettings) -> ReloadingContext:
    from .tls import server_context

    return ReloadingContext(name, settings, server_context)


def _scram_server(settings: ListenerSettings) -> type[ScramServer] | None:
    if not any(map(ScramType.of, settings.mechanisms)):
        return None
    from .core.scram import ScramServer

    return ScramServer


def _validator(mechanism: MechanismSettings) -> TokenValidator | None:
    if mechanism.tokens is None:
        return None
    from .tokens import TokenValidator

    validator = TokenValidator(mechanism.tokens)
    validator.load()
    return validator


async def open_listener(
    settings: ListenerSettings, credentials: Callable[[], ScramCredentials], host: str
) -> ListenerIdentity | None:
    """Return a listener's identity, None for PLAINTEXT, and log what is open on it. SecurityConfigError, OSError."""
    what = openness(settings, host)
    if what is not None:
        log.warning("listener %s on %s is open: %s", settings.name, host or "every address", what)
    if settings.protocol is SecurityProtocol.PLAINTEXT:
        return None
    return await asyncio.to_thread(ListenerIdentity, settings, credentials)
