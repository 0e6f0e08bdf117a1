"""A client's file, as Java's tools have it, by the names of librdkafka. Its own check of the names is the oracle."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

from tierfetch.cli.local.certificates import make_authority, make_certificate
from tierfetch.security.core.settings import client_settings
from tierfetch.security.librdkafka import librdkafka_properties
from tierfetch.tests.security.test_tokens import token

AUTHORITY = make_authority()
CLIENT = make_certificate(issuer=AUTHORITY)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


def accepted(properties: dict[str, object]) -> None:
    """Fail unless librdkafka knows every name and takes every value."""
    confluent_kafka.Producer({**properties, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_plaintext() -> None:
    assert librdkafka_properties(client_settings({})) == {"security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize(("algorithm", "checks"), [("https", "https"), ("", "none")])
def test_tls_with_a_certificate_in_pkcs12(tmp_path: Path, algorithm: str, checks: str) -> None:
    store, authority = tmp_path / "client.p12", tmp_path / "ca.pem"
    store.write_bytes(CLIENT.pkcs12("secret"))
    store.chmod(0o600)
    authority.write_text(AUTHORITY.pem)
    file = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "secret",
        "ssl.truststore.location": str(authority),
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": algorithm,
    }
    found = librdkafka_properties(client_settings(file))
    assert found["ssl.ca.pem"] == AUTHORITY.pem
    assert CLIENT.pem.strip() in found["ssl.certificate.pem"]
    assert "PRIVATE KEY" in found["ssl.key.pem"]
    assert found["ssl.endpoint.identification.algorithm"] == checks
    accepted(found)


def test_a_password_over_plaintext() -> None:
    file = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{PLAIN} username="alice" password="a;b\\"c";',
    }
    found = librdkafka_properties(client_settings(file))
    assert found == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": 'a;b"c',
    }
    accepted(found)


@pytest.mark.parametrize("is_jwt", [True, False])
def test_a_token_with_the_time_at_which_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_jwt: bool
) -> None:
    text = token(exp=4_000_000_000) if is_jwt else "opaque"
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    monkeypatch.setattr("time.time", lambda: 1000.0)
    file = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": BEARER,
        "sasl.oauthbearer.token.endpoint.url": f"file://{path}",
    }
    found = librdkafka_properties(client_settings(file))
    assert found["oauth_cb"](None) == (text, 4_000_000_000.0 if is_jwt else 1300.0)
