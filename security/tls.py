"""TLS contexts from settings. Secrets reach OpenSSL through memory, never through a file on a disk."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from .core.principal_mapping import Attribute, distinguished_name
from .core.settings import ClientAuth, SecurityConfigError, StoreSettings, TlsSettings
from .keystores import KeyMaterial, load_authorities, load_keys

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}

log = logging.getLogger(__name__)


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a listener's context. SecurityConfigError says which key is wrong."""
    assert settings.keystore is not None, "a TLS listener has a keystore"
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    _load_keys(context, settings.keystore)
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    if settings.client_auth is not ClientAuth.NONE:
        _load_authorities(context, settings.truststore, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a client's context: it verifies the chain always, the host name unless that is switched off."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = settings.checks_host
    _load_authorities(context, settings.truststore, ssl.Purpose.SERVER_AUTH)
    if settings.keystore is not None:
        _load_keys(context, settings.keystore)
    return context


def name_of(certificate: bytes) -> str:
    """Return the distinguished name of a certificate's subject; `certificate` is DER."""
    subject = x509.load_der_x509_certificate(certificate).subject
    return distinguished_name(
        [[Attribute(item.oid.dotted_string, _text(item), _der(item)) for item in relative] for relative in subject.rdns]
    )


def _text(attribute: x509.NameAttribute[str] | x509.NameAttribute[bytes] | x509.NameAttribute[str | bytes]) -> str:
    return attribute.value if isinstance(attribute.value, str) else attribute.value.hex()


def _der(attribute: x509.NameAttribute[str] | x509.NameAttribute[bytes] | x509.NameAttribute[str | bytes]) -> bytes:
    """Return the value as it is encoded: the part of the attribute's name that comes after its type."""
    encoded = x509.Name([attribute]).public_bytes()
    value = attribute.value.encode() if isinstance(attribute.value, str) else attribute.value
    return encoded[len(encoded) - len(value) - _header_bytes(len(value)) :]


def _header_bytes(length: int) -> int:
    return 2 if length < 0x80 else 2 + (length.bit_length() + 7) // 8


def _context(side: ssl._SSLMethod, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    versions = [_VERSIONS[version] for version in settings.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    old = [openssl_name(suite) for suite in settings.cipher_suites if not _is_tls13(suite)]
    if old:
        try:
            context.set_ciphers(":".join(old))
        except ssl.SSLError:
            raise SecurityConfigError(
                f"ssl.cipher.suites: none of {', '.join(settings.cipher_suites)} is known to {ssl.OPENSSL_VERSION}"
            ) from None
    return context


def _is_tls13(suite: str) -> bool:
    return suite.startswith("TLS_") and "_WITH_" not in suite


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite that has Java's: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_")
    name = re.sub(r"AES_(128|256)_CBC", r"AES\1", name)
    name = re.sub(r"AES_(128|256)", r"AES\1", name).replace("POLY1305_SHA256", "POLY1305")
    return name.removeprefix("RSA_").replace("_", "-")


def _load_keys(context: ssl.SSLContext, store: StoreSettings) -> None:
    material = load_keys(store)
    _warn_of_dates(material, store)
    try:
        with _in_memory(material.pem) as path:
            context.load_cert_chain(path, password=material.password or _no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
        where = store.location or "the configuration"
        raise SecurityConfigError(
            f"{store.name} in {where}: expected a private key that ssl.key.password opens, and its "
            f"certificate chain ({reason})"
        ) from None


def _no_password() -> str:
    raise ValueError("the private key is encrypted, and ssl.key.password is not set")


def _load_authorities(context: ssl.SSLContext, store: StoreSettings | None, purpose: ssl.Purpose) -> None:
    if store is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=load_authorities(store))
    except (ssl.SSLError, ValueError) as error:
        where = store.location or "the configuration"
        raise SecurityConfigError(f"{store.name} in {where}: expected certificates of authorities ({error})") from None


def _warn_of_dates(material: KeyMaterial, store: StoreSettings) -> None:
    try:
        certificate = x509.load_pem_x509_certificates(material.pem.encode())[0]
    except ValueError:
        return  # load_cert_chain says what is wrong
    now = datetime.now(UTC)
    name = store.location or store.name
    if certificate.not_valid_after_utc < now:
        log.warning("%s: the certificate has expired on %s: peers refuse it", name, certificate.not_valid_after_utc)
    elif certificate.not_valid_before_utc > now:
        log.warning("%s: the certificate is valid from %s on only", name, certificate.not_valid_before_utc)


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Give the text a path: OpenSSL's interface in Python takes files only."""
    descriptor = os.memfd_create("tierfetch-keys")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
