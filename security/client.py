"""How connections to other nodes are protected, and what this side presents: from a `ClientSettings`.

The parsers of certificates, tokens and SCRAM are imported for an identity that needs them, when it is made: a node in
plaintext starts without them, and no connection waits for an import.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial

from .contexts import ReloadingContext
from .core import oauthbearer, plain
from .core.jaas import JaasConfig
from .core.mechanism import SaslClient
from .core.oauthbearer import OAuthBearerClient
from .core.plain import PlainClient
from .core.scram_credential import ScramType
from .core.settings import PLAINTEXT_CLIENT, ClientSettings, SecurityConfigError, TlsSettings
from .principal import SecurityProtocol

_Login = Callable[[], Awaitable[SaslClient]]


class ClientIdentity:
    """SecurityConfigError if the settings' files cannot be used."""

    def __init__(self, settings: ClientSettings = PLAINTEXT_CLIENT) -> None:
        self._settings = settings
        self._context = None if settings.tls is None else _reloading(settings.tls)
        self._login: _Login | None = None
        if settings.protocol.has_sasl:
            check_login(settings)
            self._login = _login(settings)

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
        assert self._login is not None, "SASL has a login module"
        return await self._login()


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


def _login(settings: ClientSettings) -> _Login:
    """Return what begins an authentication. The settings have been checked."""
    assert settings.jaas is not None, "SASL has a login module"
    if settings.mechanism == oauthbearer.MECHANISM:
        return _token_login(settings)
    make = _password_client(settings.mechanism or "", settings.jaas)

    async def login() -> SaslClient:
        return make()

    return login


def _token_login(settings: ClientSettings) -> _Login:
    from .token_source import bearer_token

    async def login() -> SaslClient:
        return OAuthBearerClient(await asyncio.to_thread(bearer_token, settings))

    return login


def _password_client(mechanism: str, jaas: JaasConfig) -> Callable[[], SaslClient]:
    user, password = jaas.required("username"), jaas.required("password")
    if mechanism == plain.PLAIN:
        return partial(PlainClient, user, password)
    type_ = ScramType.of(mechanism)
    assert type_ is not None, mechanism
    from .core.scram import ScramClient

    return partial(ScramClient, type_, user, password)


def open_client(settings: ClientSettings) -> ClientIdentity | None:
    """Return the identity of a node's connections, None for PLAINTEXT. SecurityConfigError."""
    return None if settings.protocol is SecurityProtocol.PLAINTEXT else ClientIdentity(settings)
