"""The settings of a client by librdkafka's names, so that the same file serves commands that use librdkafka."""

from __future__ import annotations

import time
from typing import Any, Final

import jwt

from .core import oauthbearer
from .core.settings import ClientSettings, TlsSettings
from .keystores import load_authorities, load_keys
from .token_source import bearer_token

OPAQUE_TOKEN_LIFE_S: Final = 300
"""After this time librdkafka asks for another token where a token does not say when it expires."""


def librdkafka_properties(settings: ClientSettings) -> dict[str, Any]:
    """Return the properties of a connection without its servers. SecurityConfigError if a file cannot be used."""
    found: dict[str, Any] = {"security.protocol": settings.protocol.name}
    if settings.tls is not None:
        found |= _tls(settings.tls)
    if settings.mechanism == oauthbearer.MECHANISM:
        found |= {"sasl.mechanism": settings.mechanism, "oauth_cb": lambda _: _token(settings)}
    elif settings.mechanism is not None and settings.jaas is not None:
        found |= {
            "sasl.mechanism": settings.mechanism,
            "sasl.username": settings.jaas.required("username"),
            "sasl.password": settings.jaas.required("password"),
        }
    return found


def _tls(settings: TlsSettings) -> dict[str, Any]:
    found: dict[str, Any] = {"ssl.endpoint.identification.algorithm": "https" if settings.checks_host else "none"}
    if settings.truststore is not None:
        found["ssl.ca.pem"] = load_authorities(settings.truststore)
    if settings.keystore is not None:
        keys = load_keys(settings.keystore)
        found |= {"ssl.key.pem": keys.pem, "ssl.certificate.pem": keys.pem}
        if keys.password is not None:
            found["ssl.key.password"] = keys.password
    return found


def _token(settings: ClientSettings) -> tuple[str, float]:
    """Return a token and when it expires, in seconds since 1970. librdkafka calls this on a thread of its own."""
    token = bearer_token(settings)
    try:
        # The broker checks the signature; a client only has to know when to ask for the next token.
        claims = jwt.decode(token, options={"verify_signature": False})
        return token, float(claims["exp"])
    except (jwt.InvalidTokenError, KeyError, TypeError, ValueError):
        return token, time.time() + OPAQUE_TOKEN_LIFE_S
