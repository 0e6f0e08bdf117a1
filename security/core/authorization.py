"""What the configuration says about authorization: the keys of Kafka's StandardAuthorizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from ...errors import OperatorError
from ...light_dataclass import dataclass
from .acl import AclRules

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLASS_KEY: Final = "authorizer.class.name"
SUPER_USERS_KEY: Final = "super.users"
ALLOW_KEY: Final = "allow.everyone.if.no.acl.found"
EARLY_KEY: Final = "early.start.listeners"
AUTHORIZER_KEYS: Final = frozenset({CLASS_KEY, SUPER_USERS_KEY, ALLOW_KEY, EARLY_KEY})

_BOOLEANS: Final = {"true": True, "false": False}


class AuthorizerConfigError(OperatorError, ValueError):
    """A value that no authorizer can be made of."""


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """Without an authorizer every request is allowed."""

    is_configured: bool = False
    rules: AclRules = field(default_factory=AclRules)


def authorizer_settings(properties: Mapping[str, str]) -> AuthorizerSettings:
    """Return what the properties say. AuthorizerConfigError."""
    name = properties.get(CLASS_KEY, "").strip()
    if name not in ("", STANDARD_AUTHORIZER):
        raise AuthorizerConfigError(f"{CLASS_KEY}={name}: expected {STANDARD_AUTHORIZER}, or nothing for no authorizer")
    allow = properties.get(ALLOW_KEY, "false").strip().lower()
    if allow not in _BOOLEANS:
        raise AuthorizerConfigError(f"{ALLOW_KEY}={allow}: expected true or false")
    return AuthorizerSettings(
        bool(name), AclRules(frozenset(_super_users(properties.get(SUPER_USERS_KEY, ""))), _BOOLEANS[allow])
    )


def _super_users(text: str) -> list[str]:
    """Return the principals of `User:alice;User:bob`."""
    users = [item.strip() for item in text.split(";") if item.strip()]
    for user in users:
        kind, colon, name = user.partition(":")
        if not (kind and colon and name):
            raise AuthorizerConfigError(f"{SUPER_USERS_KEY}: {user!r} is no principal such as User:alice")
    return users
