"""How connections to other nodes are protected, and what this side presents: from a `ClientSettings`.

The parsers of certificates, tokens and SCRAM are imported by what uses them: a node in plaintext starts without them.
"""

from __future__ import annotations

import asyncio
import ssl

from .contexts import ReloadingContext
from .core import oauthbearer, plain
from .core.jaas import JaasConfig
from .core.mechanism import SaslClient
from .core.oauthbearer import OAuthBearerClient
from .core.plain import PlainClient
from .core.scram_credential import ScramType
from .core.settings import PLAINTEXT_CLIENT, ClientSettings, SecurityConfigError, TlsSettings
from .principal import SecurityProtocol


class ClientIdentity:
    """SecurityConfigError if the settings' files cannot be used."""

    def __init__(self, settings: ClientSettings = PLAINTEXT_CLIENT) -> None:
        self._settings = settings
        self._context = None if settings.tls is None else _reloading(settings.tls)
        if settings.protocol.has_sasl:
            check_login(settings)

    @property
    def settings(self) -> ClientSettings:
        return self._settings

    @property
    def protocol(self) -> SecurityProtocol:
        return self._settings.protocol

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism, None without SASL."""
        return self._settings.mechanism

    def tls(self) -> ssl.SSLContext | None:
        """Return the context for a new connection, None without TLS."""
        return None if self._context is None else self._context.get()

    async def sasl(self) -> SaslClient:
        """Return one authentication. OSError or SecurityConfigError if no token can be had."""
        settings = self._settings
        assert settings.jaas is not None, "SASL has a login module"
        if settings.mechanism == oauthbearer.MECHANISM:
            from .token_source import bearer_token

            return OAuthBearerClient(await asyncio.to_thread(bearer_token, settings))
        return _password_client(settings.mechanism or "", settings.jaas)


def _reloading(settings: TlsSettings) -> ReloadingContext:
    from .tls import client_context

    return ReloadingContext("client", settings, client_context)


def check_login(settings: ClientSettings) -> None:
    """SecurityConfigError if the login module lacks what the mechanism needs."""
    assert settings.jaas is not None, "SASL has a login module"
    if settings.mechanism == oauthbearer.MECHANISM:
        if settings.token_url is None and "unsecuredLoginStringClaim_sub" in settings.jaas.options:
            raise SecurityConfigError("sasl.jaas.config: unsecured tokens are not supported; expected a token endpoint")
        return
    settings.jaas.required("username")
    settings.jaas.required("password")


def _password_client(mechanism: str, jaas: JaasConfig) -> SaslClient:
    user, password = jaas.required("username"), jaas.required("password")
    if mechanism == plain.PLAIN:
        return PlainClient(user, password)
    type_ = ScramType.of(mechanism)
    assert type_ is not None, mechanism
    from .core.scram import ScramClient

    return ScramClient(type_, user, password)


def open_client(settings: ClientSettings) -> ClientIdentity | None:
    """Return the identity of a node's connections, None for PLAINTEXT. SecurityConfigError."""
    return None if settings.protocol is SecurityProtocol.PLAINTEXT else ClientIdentity(settings)
