"""Keystores and truststores: PEM, PKCS12 and JKS, and what is said about those that cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import jks
import pytest
from cryptography.hazmat.primitives import serialization

from tierfetch import extras
from tierfetch.cli.local.certificates import Certificate, make_authority, make_certificate
from tierfetch.security.core.settings import SecurityConfigError, client_settings, listener_settings
from tierfetch.security.keystores import load_authorities, load_keys
from tierfetch.security.principal import SecurityProtocol
from tierfetch.security.secret_files import secrets_readable
from tierfetch.security.tls import client_context, name_of, openssl_name, server_context

AUTHORITY = make_authority()
NODE = make_certificate(issuer=AUTHORITY)


def jks_store(certificate: Certificate, password: str, key_password: str | None = None) -> bytes:
    der = certificate.certificate.public_bytes(serialization.Encoding.DER)
    key = certificate.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    entry = jks.PrivateKeyEntry.new("node", [der], key, "pkcs8")
    if key_password is not None:
        entry.encrypt(key_password)
    return jks.KeyStore.new("jks", [entry]).saves(password)


def jks_truststore(certificate: Certificate, password: str) -> bytes:
    der = certificate.certificate.public_bytes(serialization.Encoding.DER)
    return jks.KeyStore.new("jks", [jks.TrustedCertEntry.new("ca", der)]).saves(password)


def write(folder: Path, data: bytes | str) -> str:
    path = folder / "store"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    path.chmod(0o600)
    return str(path)


def keystore(location: str, **more: str) -> dict[str, str]:
    return {"ssl.keystore.location": location} | {f"ssl.{key.replace('_', '.')}": text for key, text in more.items()}


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (lambda: NODE.key_pem() + NODE.pem, {"keystore_type": "PEM"}),
        (lambda: NODE.key_pem("secret") + NODE.pem, {"keystore_type": "PEM", "key_password": "secret"}),
        (lambda: NODE.pkcs12("secret"), {"keystore_type": "PKCS12", "keystore_password": "secret"}),
        (lambda: NODE.pkcs12("secret"), {"keystore_password": "secret"}),
        (lambda: jks_store(NODE, "secret"), {"keystore_password": "secret"}),
        (
            lambda: jks_store(NODE, "secret", "other"),
            {"keystore_type": "jks", "keystore_password": "secret", "key_password": "other"},
        ),
    ],
)
def test_keystores(tmp_path: Path, data: Callable[[], bytes | str], keys: dict[str, str]) -> None:
    properties = keystore(write(tmp_path, data()), **keys)
    tls = listener_settings(properties, "A", SecurityProtocol.SSL).tls
    assert tls is not None
    assert tls.keystore is not None
    assert NODE.pem in load_keys(tls.keystore).pem
    server_context(tls)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (lambda: AUTHORITY.pem, {"type": "PEM"}),
        (lambda: jks_truststore(AUTHORITY, "secret"), {"password": "secret"}),
        (lambda: jks_truststore(AUTHORITY, "secret"), {"type": "JKS", "password": "secret"}),
        (lambda: AUTHORITY.pkcs12("secret"), {"type": "PKCS12", "password": "secret"}),
    ],
)
def test_truststores(tmp_path: Path, data: Callable[[], bytes | str], keys: dict[str, str]) -> None:
    location = {"ssl.truststore.location": write(tmp_path, data())}
    properties = {"security.protocol": "SSL", **location, **{f"ssl.truststore.{key}": keys[key] for key in keys}}
    tls = client_settings(properties).tls
    assert tls is not None
    assert tls.truststore is not None
    assert load_authorities(tls.truststore) == AUTHORITY.pem
    client_context(tls)


@pytest.mark.parametrize(
    ("data", "keys", "expected"),
    [
        (lambda: NODE.pem, {"keystore_type": "PEM"}, "expected a PEM file with a private key"),
        (lambda: NODE.key_pem(), {"keystore_type": "PEM"}, "expected a PEM file with a private key"),
        (lambda: NODE.pkcs12("secret"), {"keystore_type": "PEM"}, "set ssl.keystore.type to PKCS12 or JKS"),
        (lambda: NODE.key_pem("secret") + NODE.pem, {"keystore_type": "PEM"}, "ssl.key.password is not set"),
        (
            lambda: NODE.key_pem("secret") + NODE.pem,
            {"keystore_type": "PEM", "key_password": "hunter2"},
            "a private key that ssl.key.password opens",
        ),
        (lambda: AUTHORITY.key_pem() + NODE.pem, {"keystore_type": "PEM"}, "KEY_VALUES_MISMATCH"),
        (lambda: NODE.pkcs12("secret"), {"keystore_password": "hunter2"}, "ssl.keystore.password opens"),
        (lambda: jks_store(NODE, "secret"), {"keystore_password": "hunter2"}, "ssl.keystore.password opens"),
        (
            lambda: jks_store(NODE, "secret", "other"),
            {"keystore_password": "secret", "key_password": "hunter2"},
            "set ssl.key.password",
        ),
        (lambda: jks_truststore(AUTHORITY, "secret"), {"keystore_password": "secret"}, "an entry with a private key"),
        (lambda: b"garbage", {"keystore_password": "secret"}, "no PKCS12 store"),
    ],
)
def test_keystores_that_cannot_be_used(
    tmp_path: Path, data: Callable[[], bytes | str], keys: dict[str, str], expected: str
) -> None:
    tls = listener_settings(keystore(write(tmp_path, data()), **keys), "A", SecurityProtocol.SSL).tls
    assert tls is not None
    with pytest.raises(SecurityConfigError, match=expected) as refused:
        server_context(tls)
    assert "hunter2" not in str(refused.value)


def test_a_missing_file_is_named() -> None:
    tls = listener_settings(keystore("nowhere/store", keystore_type="PEM"), "A", SecurityProtocol.SSL).tls
    assert tls is not None
    with pytest.raises(
        SecurityConfigError, match=r"ssl\.keystore\.location=nowhere/store: cannot be read: No such file"
    ):
        server_context(tls)


def test_a_truststore_without_certificates() -> None:
    properties = {"security.protocol": "SSL", "ssl.truststore.certificates": "none"}
    tls = client_settings(properties).tls
    assert tls is not None
    with pytest.raises(SecurityConfigError, match=r"ssl\.truststore: expected at least one certificate"):
        client_context(tls)


def test_jks_without_its_extra_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jks", None)
    tls = listener_settings(keystore(write(tmp_path, b"\xfe\xed\xfe\xed")), "A", SecurityProtocol.SSL).tls
    assert tls is not None
    with pytest.raises(extras.MissingExtraError, match=r"the extra \[jks\] brings it"):
        server_context(tls)


def test_a_file_with_secrets_that_all_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = NODE.write_pem(tmp_path, "node")
    tls = listener_settings(keystore(str(path), keystore_type="PEM"), "A", SecurityProtocol.SSL).tls
    assert tls is not None
    server_context(tls)
    assert not caplog.records
    path.chmod(0o644)
    server_context(tls)
    assert "every user can read it (mode 0644): expected 0600" in caplog.text


def test_a_certificate_out_of_date_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    path = make_certificate(ends=timedelta(hours=-1)).write_pem(tmp_path, "old")
    tls = listener_settings(keystore(str(path), keystore_type="PEM"), "A", SecurityProtocol.SSL).tls
    assert tls is not None
    server_context(tls)
    assert "the certificate has expired on" in caplog.text


def test_the_name_of_a_certificate() -> None:
    der = make_certificate("A, B").certificate.public_bytes(serialization.Encoding.DER)
    assert name_of(der) == "CN=A\\, B,C=DE"


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
    ],
)
def test_cipher_suites_have_javas_names(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    tls = client_settings({"security.protocol": "SSL", "ssl.cipher.suites": java}).tls
    assert tls is not None
    assert openssl in [cipher["name"] for cipher in client_context(tls).get_ciphers()]


def test_unknown_cipher_suites_are_refused() -> None:
    tls = client_settings({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_X_WITH_Y"}).tls
    assert tls is not None
    with pytest.raises(SecurityConfigError, match="none of TLS_X_WITH_Y is known"):
        client_context(tls)


@pytest.mark.parametrize(
    ("mode", "keys", "is_warned"),
    [
        (0o644, ["node.id", "ssl.keystore.password"], True),
        (0o644, ["listener.name.x.plain.sasl.jaas.config"], True),
        (0o640, ["ssl.keystore.password"], False),
        (0o644, ["node.id", "ssl.keystore.location"], False),
    ],
)
def test_a_nodes_file_with_secrets(tmp_path: Path, mode: int, keys: list[str], is_warned: bool) -> None:
    path = tmp_path / "server.properties"
    path.touch()
    path.chmod(mode)
    assert bool(secrets_readable(path, keys)) is is_warned
