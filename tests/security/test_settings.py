"""Security settings from Kafka's keys."""

from __future__ import annotations

import pytest

from tierfetch.security.core.settings import (
    ClientAuth,
    SecurityConfigError,
    client_settings,
    is_secret,
    is_security_key,
    listener_settings,
    node_client_settings,
    protocol_of,
)
from tierfetch.security.principal import SecurityProtocol

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
STORE = {"ssl.keystore.location": "node.p12"}


@pytest.mark.parametrize(
    ("text", "listener", "expected"),
    [
        ("", "SASL_SSL", SecurityProtocol.SASL_SSL),
        ("", "CONTROLLER", SecurityProtocol.PLAINTEXT),
        ("EXTERNAL:SASL_SSL,INTERNAL:ssl", "INTERNAL", SecurityProtocol.SSL),
        (" external : SASL_PLAINTEXT ", "EXTERNAL", SecurityProtocol.SASL_PLAINTEXT),
    ],
)
def test_the_protocol_of_a_listener(text: str, listener: str, expected: SecurityProtocol) -> None:
    found = protocol_of({"listener.security.protocol.map": text}, listener, is_controller=listener == "CONTROLLER")
    assert found is expected


@pytest.mark.parametrize(
    ("text", "listener", "expected"),
    [
        ("", "EXTERNAL", "expected an entry for listener EXTERNAL"),
        ("INTERNAL:SSL", "CONTROLLER", "expected an entry for listener CONTROLLER"),
        ("EXTERNAL=SSL", "EXTERNAL", "expected NAME:PROTOCOL pairs"),
        ("EXTERNAL:TLS", "EXTERNAL", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    ],
)
def test_protocols_that_are_wrong(text: str, listener: str, expected: str) -> None:
    with pytest.raises(SecurityConfigError, match=expected):
        protocol_of({"listener.security.protocol.map": text}, listener, is_controller=listener == "CONTROLLER")


def test_a_listeners_own_keys_come_first() -> None:
    properties = {
        "ssl.keystore.location": "common.jks",
        "listener.name.external.ssl.keystore.location": "external.jks",
        "ssl.client.auth": "required",
        "listener.name.external.ssl.client.auth": "none",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.external.sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} user_a="1";',
        "listener.name.external.sasl.jaas.config": f'{PLAIN} user_b="2";',
        "listener.name.external.plain.sasl.jaas.config": f'{PLAIN} username="me" user_c="3";',
    }
    settings = listener_settings(properties, "EXTERNAL", SecurityProtocol.SASL_SSL)
    assert settings.tls is not None
    assert settings.tls.files == ("external.jks",)
    assert settings.tls.client_auth is ClientAuth.NONE
    assert list(settings.mechanisms) == ["PLAIN"]
    assert settings.mechanisms["PLAIN"].users == {"c": "3"}
    assert "user_c" not in repr(settings)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "ssl.keystore.location is missing"),
        ({**STORE, "ssl.keystore.type": "BCFKS"}, "ssl.keystore.type: expected PEM, PKCS12 or JKS; found BCFKS"),
        ({**STORE, "ssl.client.auth": "maybe"}, "ssl.client.auth: expected none, requested or required"),
        ({**STORE, "ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: expected TLSv1.2 or TLSv1.3"),
        ({**STORE, "ssl.endpoint.identification.algorithm": "LDAPS"}, "expected https"),
        ({**STORE, "ssl.keystore.key": "x"}, "give one of them"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain is missing"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "x"}, "ssl.keystore.key is missing"),
        ({**STORE, "ssl.principal.mapping.rules": "X"}, "ssl.principal.mapping.rules: rule 1"),
        (STORE, "sasl.enabled.mechanisms: the listener A can offer PLAIN"),
        ({**STORE, "sasl.enabled.mechanisms": "PLAIN"}, "listener.name.a.plain.sasl.jaas.config is missing"),
        ({**STORE, "sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": "x"}, "jaas.config: expected 'MODULE"),
        ({**STORE, "sasl.enabled.mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url is missing"),
        (
            {**STORE, "sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "ftp://x"},
            "expected a https, http or file URL",
        ),
        (
            {**STORE, "sasl.enabled.mechanisms": "SCRAM-SHA-256", "connections.max.reauth.ms": "soon"},
            "connections.max.reauth.ms: expected a whole number from 0 on; found 'soon'",
        ),
    ],
)
def test_listener_keys_that_are_wrong(properties: dict[str, str], expected: str) -> None:
    with pytest.raises(SecurityConfigError, match=expected):
        listener_settings(properties, "A", SecurityProtocol.SASL_SSL)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        (
            {"security.protocol": "SASL_SSL"},
            "sasl.mechanism: expected PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config is missing"),
    ],
)
def test_client_keys_that_are_wrong(properties: dict[str, str], expected: str) -> None:
    with pytest.raises(SecurityConfigError, match=expected):
        client_settings(properties)


def test_a_node_connects_with_the_listeners_keys() -> None:
    properties = {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": f'{PLAIN} username="node" password="x";',
        "listener.name.internal.ssl.truststore.location": "t.jks",
    }
    settings = node_client_settings(
        properties, "INTERNAL", SecurityProtocol.SASL_SSL, "sasl.mechanism.inter.broker.protocol"
    )
    assert settings.jaas is not None
    assert settings.jaas.required("username") == "node"
    assert settings.tls is not None
    assert settings.tls.files == ("t.jks",)


@pytest.mark.parametrize(
    ("key", "is_known", "secret"),
    [
        ("ssl.keystore.password", True, True),
        ("listener.name.x.ssl.keystore.location", True, False),
        ("listener.name.x.scram-sha-256.sasl.jaas.config", True, True),
        ("listener.name.x.log.dirs", False, False),
        ("sasl.kerberos.kinit.cmd", False, False),
        ("security.inter.broker.protocol", True, False),
    ],
)
def test_which_keys_are_known(key: str, is_known: bool, secret: bool) -> None:
    assert (is_security_key(key), is_secret(key)) == (is_known, secret)
