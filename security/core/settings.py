"""Security settings from Kafka's keys: of a listener, and of a client. Pure; files are read elsewhere.

| key of a listener is looked up as | example |
|---|---|
| `listener.name.<listener>.<mechanism>.<key>` (SASL) | `listener.name.external.plain.sasl.jaas.config` |
| `listener.name.<listener>.<key>` | `listener.name.external.ssl.keystore.location` |
| `<key>` | `ssl.keystore.location` |

A client's file has the plain keys, with the names that Java's clients have. Everything that is wrong is a
`SecurityConfigError` that names the key and what was expected; a secret's value is never repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Final, TypeVar

from ...errors import OperatorError
from ...light_dataclass import dataclass
from ..principal import SecurityProtocol
from . import oauthbearer, plain, scram_credential
from .authorization import AUTHORIZER_KEYS
from .jaas import JaasConfig, parse_jaas
from .principal_mapping import DEFAULT_RULES, MappingRule, parse_rules

SUPPORTED_MECHANISMS: Final = (plain.PLAIN, *scram_credential.MECHANISMS, oauthbearer.MECHANISM)
STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
SECRET_KEYS: Final = frozenset(
    {
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "sasl.jaas.config",
    }
)
"""The keys whose values are shown nowhere; Kafka's type PASSWORD."""
LISTENER_KEYS: Final = frozenset(
    {
        *SECRET_KEYS,
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
        "ssl.principal.mapping.rules",
        "sasl.enabled.mechanisms",
        "sasl.server.max.receive.size",
        "connections.max.reauth.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""The keys that a listener may have of its own."""
DYNAMIC_KEYS: Final = frozenset(
    {"ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type"}
)
"""The keys of a listener that may change while it runs. No secrets: the metadata log keeps what is changed."""
NODE_KEYS: Final = frozenset(
    {
        "listener.security.protocol.map",
        "security.inter.broker.protocol",
        "inter.broker.listener.name",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.mechanism.controller.protocol",
        "connection.failed.authentication.delay.ms",
    }
)
_LISTENER_KEY = re.compile(
    rf"listener\.name\.[^.]+\.(?:(?:{'|'.join(item.lower() for item in SUPPORTED_MECHANISMS)})\.)?(?P<key>.+)"
)
_DEFAULT_MAP: Final = {item.name: item for item in SecurityProtocol}

Find = Callable[[str], str | None]
T = TypeVar("T", bound=Enum)


class SecurityConfigError(OperatorError, ValueError):
    """Security settings are wrong; the message names the key."""


class ClientAuth(Enum):
    """`ssl.client.auth`: whether a listener asks its clients for a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A keystore or a truststore: a file, or PEM text in the configuration. `name` is the keys' common part."""

    name: str
    type: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Everything that makes a TLS context. None of a store: no certificate of one's own, the system's authorities."""

    keystore: StoreSettings | None = None
    truststore: StoreSettings | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    versions: tuple[str, ...] = TLS_VERSIONS
    cipher_suites: tuple[str, ...] = ()
    checks_host: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """The files whose change makes another context."""
        stores = (self.keystore, self.truststore)
        return tuple(store.location for store in stores if store is not None and store.location is not None)


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """How a listener checks bearer tokens (KIP-768). `jwks_url` is an http, https or file URL."""

    jwks_url: str
    refresh_ms: int = 3_600_000
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


@dataclass(frozen=True, slots=True)
class MechanismSettings:
    """A mechanism that a listener offers. `users` are PLAIN's passwords; `tokens` is OAUTHBEARER's."""

    name: str
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: TokenSettings | None = None
    max_reauth_ms: int = 0


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """How a listener protects and identifies its connections."""

    name: str
    protocol: SecurityProtocol
    tls: TlsSettings | None = None
    mechanisms: Mapping[str, MechanismSettings] = field(default_factory=dict)
    rules: tuple[MappingRule, ...] = DEFAULT_RULES
    receive_size_max: int = 524_288
    failed_delay_ms: int = 100


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a client protects its connections, and what it presents."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    mechanism: str | None = None
    jaas: JaasConfig | None = None
    token_url: str | None = None


PLAINTEXT_CLIENT: Final = ClientSettings()


def is_security_key(key: str) -> bool:
    """Whether a node's key belongs here, a listener's own keys included."""
    match = _LISTENER_KEY.fullmatch(key)
    return key in LISTENER_KEYS | NODE_KEYS | AUTHORIZER_KEYS or (match is not None and match["key"] in LISTENER_KEYS)


def is_dynamic_key(key: str) -> bool:
    """Whether a key is that of one listener, and may change while it runs."""
    match = _LISTENER_KEY.fullmatch(key)
    return match is not None and match["key"] in DYNAMIC_KEYS


def is_secret(key: str) -> bool:
    """Whether the value of a key must not be shown."""
    match = _LISTENER_KEY.fullmatch(key)
    return key in SECRET_KEYS or (match is not None and match["key"] in SECRET_KEYS)


def protocol_map(properties: Mapping[str, str]) -> Mapping[str, SecurityProtocol]:
    """Return the security protocol of each listener name, from `listener.security.protocol.map`."""
    text = properties.get("listener.security.protocol.map", "")
    if not text.strip():
        return _DEFAULT_MAP
    protocols: dict[str, SecurityProtocol] = {}
    for item in text.split(","):
        name, colon, protocol = (part.strip() for part in item.partition(":"))
        if not (colon and name and protocol.upper() in SecurityProtocol.__members__):
            raise SecurityConfigError(
                f"listener.security.protocol.map: expected NAME:PROTOCOL pairs with a comma between, where PROTOCOL "
                f"is {_one_of(SecurityProtocol.__members__)}; found {item.strip()!r}"
            )
        protocols[name.upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def protocol_of(properties: Mapping[str, str], listener: str, *, is_controller: bool = False) -> SecurityProtocol:
    """Return a listener's security protocol. Without a map a controller listener is PLAINTEXT, as in Kafka."""
    protocols = protocol_map(properties)
    found = protocols.get(listener.upper())
    if found is None and is_controller and protocols is _DEFAULT_MAP:
        return SecurityProtocol.PLAINTEXT
    if found is None:
        raise SecurityConfigError(
            f"listener.security.protocol.map: expected an entry for listener {listener}, such as {listener}:SASL_SSL"
        )
    return found


def listener_settings(properties: Mapping[str, str], name: str, protocol: SecurityProtocol) -> ListenerSettings:
    """Return what a listener's keys say."""
    find = _finder(properties, f"listener.name.{name.lower()}.")
    tls = _tls(find, is_server=True) if protocol.has_tls else None
    rules = _rules(find("ssl.principal.mapping.rules"))
    mechanisms: dict[str, MechanismSettings] = {}
    if protocol.has_sasl:
        for mechanism in _mechanisms(find("sasl.enabled.mechanisms"), name):
            mechanisms[mechanism] = _mechanism(properties, name, mechanism)
    return ListenerSettings(
        name=name,
        protocol=protocol,
        tls=tls,
        mechanisms=mechanisms,
        rules=rules,
        receive_size_max=_integer(find, "sasl.server.max.receive.size", 524_288, low=1),
        failed_delay_ms=_integer(properties.get, "connection.failed.authentication.delay.ms", 100, low=0),
    )


def client_settings(properties: Mapping[str, str]) -> ClientSettings:
    """Return what a client's file says, with the names that Java's clients have."""
    protocol = _protocol(properties.get("security.protocol", "PLAINTEXT"), "security.protocol")
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    return _client(properties.get, protocol, mechanism, "sasl.mechanism", "sasl.jaas.config")


def node_client_settings(
    properties: Mapping[str, str], listener: str, protocol: SecurityProtocol, mechanism_key: str
) -> ClientSettings:
    """Return how a node connects to a listener of other nodes: with that listener's own keys."""
    mechanism = properties.get(mechanism_key, "GSSAPI")
    prefix = f"listener.name.{listener.lower()}."
    find = _finder(properties, f"{prefix}{mechanism.lower()}.", prefix)
    return _client(find, protocol, mechanism, mechanism_key, f"{prefix}{mechanism.lower()}.sasl.jaas.config")


def _client(
    find: Find, protocol: SecurityProtocol, mechanism: str, mechanism_key: str, jaas_key: str
) -> ClientSettings:
    tls = _tls(find, is_server=False) if protocol.has_tls else None
    if not protocol.has_sasl:
        return ClientSettings(protocol, tls)
    if mechanism not in SUPPORTED_MECHANISMS:
        raise SecurityConfigError(f"{mechanism_key}: expected {_one_of(SUPPORTED_MECHANISMS)}; found {mechanism!r}")
    text = find("sasl.jaas.config")
    if text is None:
        raise SecurityConfigError(f"{jaas_key} is missing: {protocol.name} needs a login module and its options")
    return ClientSettings(protocol, tls, mechanism, _jaas(text, jaas_key), find("sasl.oauthbearer.token.endpoint.url"))


def _mechanisms(text: str | None, listener: str) -> tuple[str, ...]:
    names = tuple(item.strip() for item in (text or "GSSAPI").split(",") if item.strip())
    unknown = [name for name in names if name not in SUPPORTED_MECHANISMS]
    if unknown:
        raise SecurityConfigError(
            f"sasl.enabled.mechanisms: the listener {listener} can offer {_one_of(SUPPORTED_MECHANISMS)}; "
            f"found {unknown[0]!r}"
        )
    return names


def _mechanism(properties: Mapping[str, str], listener: str, name: str) -> MechanismSettings:
    prefix = f"listener.name.{listener.lower()}."
    find = _finder(properties, f"{prefix}{name.lower()}.", prefix)
    users: dict[str, str] = {}
    key = f"{prefix}{name.lower()}.sasl.jaas.config"
    if name == plain.PLAIN:
        text = find("sasl.jaas.config")
        if text is None:
            raise SecurityConfigError(f'{key} is missing: PLAIN needs its users there, as user_NAME="PASSWORD"')
        options = _jaas(text, key).options
        users = {option[5:]: value for option, value in options.items() if option.startswith("user_") and value}
    return MechanismSettings(
        name,
        users=users,
        tokens=_tokens(find) if name == oauthbearer.MECHANISM else None,
        max_reauth_ms=_integer(find, "connections.max.reauth.ms", 0, low=0),
    )


def _tokens(find: Find) -> TokenSettings:
    url = find("sasl.oauthbearer.jwks.endpoint.url")
    if url is None:
        raise SecurityConfigError(
            "sasl.oauthbearer.jwks.endpoint.url is missing: OAUTHBEARER needs the keys that sign tokens, as a https, "
            "http or file URL"
        )
    if not url.startswith(("https://", "http://", "file:/")):
        raise SecurityConfigError("sasl.oauthbearer.jwks.endpoint.url: expected a https, http or file URL")
    audiences = find("sasl.oauthbearer.expected.audience") or ""
    return TokenSettings(
        jwks_url=url,
        refresh_ms=_integer(find, "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, low=1_000),
        audiences=tuple(item.strip() for item in audiences.split(",") if item.strip()),
        issuer=find("sasl.oauthbearer.expected.issuer"),
        clock_skew_s=_integer(find, "sasl.oauthbearer.clock.skew.seconds", 30, low=0),
        scope_claim=find("sasl.oauthbearer.scope.claim.name") or "scope",
        subject_claim=find("sasl.oauthbearer.sub.claim.name") or "sub",
    )


def _tls(find: Find, *, is_server: bool) -> TlsSettings:
    keystore, truststore = _store(find, "ssl.keystore"), _store(find, "ssl.truststore")
    if is_server and keystore is None:
        raise SecurityConfigError(
            "ssl.keystore.location is missing: a TLS listener needs a certificate, in a PEM, PKCS12 or JKS file or as "
            "PEM text in ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    algorithm = find("ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.strip().lower() not in ("", "https"):
        raise SecurityConfigError("ssl.endpoint.identification.algorithm: expected https, or nothing to check no host")
    versions = _list(find("ssl.enabled.protocols")) or TLS_VERSIONS
    if not set(versions) & set(TLS_VERSIONS):
        raise SecurityConfigError(f"ssl.enabled.protocols: expected {_one_of(TLS_VERSIONS)}; found {versions[0]}")
    return TlsSettings(
        keystore=keystore,
        truststore=truststore,
        client_auth=_member(ClientAuth, find("ssl.client.auth"), ClientAuth.NONE, "ssl.client.auth"),
        versions=tuple(version for version in TLS_VERSIONS if version in versions),
        cipher_suites=_list(find("ssl.cipher.suites")),
        checks_host=algorithm is None or bool(algorithm.strip()),
    )


def _store(find: Find, name: str) -> StoreSettings | None:
    is_keystore = name == "ssl.keystore"
    inline = find(f"{name}.certificate.chain" if is_keystore else f"{name}.certificates")
    key = find(f"{name}.key") if is_keystore else None
    location = find(f"{name}.location")
    if location is None and inline is None and key is None:
        return None
    type_ = (find(f"{name}.type") or ("JKS" if inline is None and key is None else "PEM")).upper()
    if type_ not in STORE_TYPES:
        raise SecurityConfigError(f"{name}.type: expected {_one_of(STORE_TYPES)}; found {type_}")
    if location is None and type_ != "PEM":
        raise SecurityConfigError(f"{name}.location is missing: only a store of type PEM can be in the configuration")
    if location is not None and (inline is not None or key is not None):
        raise SecurityConfigError(
            f"{name}.location: the configuration has the store too, as PEM text; give one of them"
        )
    if location is None and is_keystore and (inline is None or key is None):
        missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
        raise SecurityConfigError(f"{missing} is missing: a PEM keystore needs the key and the certificate chain")
    return StoreSettings(name, type_, location, find(f"{name}.password"), find("ssl.key.password"), key, inline)


def _rules(text: str | None) -> tuple[MappingRule, ...]:
    try:
        return parse_rules(text or "")
    except ValueError as error:
        raise SecurityConfigError(f"ssl.principal.mapping.rules: {error}") from None


def _jaas(text: str, key: str) -> JaasConfig:
    try:
        return parse_jaas(text)
    except ValueError as error:
        raise SecurityConfigError(f"{key}: {error}") from None


def _finder(properties: Mapping[str, str], *prefixes: str) -> Find:
    """Return a look-up that tries the prefixes in their order, then the plain key."""

    def find(key: str) -> str | None:
        for prefix in (*prefixes, ""):
            value = properties.get(prefix + key)
            if value is not None:
                return value
        return None

    return find


def _protocol(text: str, key: str) -> SecurityProtocol:
    found = SecurityProtocol.__members__.get(text.strip().upper())
    if found is None:
        raise SecurityConfigError(f"{key}: expected {_one_of(SecurityProtocol.__members__)}; found {text!r}")
    return found


def _member(kind: type[T], text: str | None, default: T, key: str) -> T:
    if text is None:
        return default
    for member in kind:
        if member.value == text.strip().lower():
            return member
    raise SecurityConfigError(f"{key}: expected {_one_of([str(item.value) for item in kind])}; found {text!r}")


def _integer(find: Find, key: str, default: int, *, low: int) -> int:
    text = find(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < low:
        raise SecurityConfigError(f"{key}: expected a whole number from {low} on; found {text!r}")
    return int(text)


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(item.strip() for item in (text or "").split(",") if item.strip())


def _one_of(names: Mapping[str, object] | tuple[str, ...] | list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
