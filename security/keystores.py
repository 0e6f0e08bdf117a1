"""Keys and certificates from keystores and truststores: PEM, PKCS12 and JKS. All of them end as PEM text.

| type | read by | note |
|---|---|---|
| PEM | `ssl`, once it is loaded | a file has the private key and the chain; or they are in the configuration |
| PKCS12 | cryptography | Java's keytool writes it, also under the type JKS |
| JKS | pyjks, of the extra [jks] | the old Java format, known by its first four bytes |

A store that cannot be used is a `SecurityConfigError` that names the key, the file and what was expected.
"""

from __future__ import annotations

import ssl
from dataclasses import field
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ..extras import needing
from ..light_dataclass import dataclass
from .core.settings import SecurityConfigError, StoreSettings
from .secret_files import read_file, read_secret_file

JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_BEGIN_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key and its certificate chain as PEM. `password` decrypts the key."""

    pem: str = field(repr=False)
    password: str | None = field(default=None, repr=False)


def load_keys(store: StoreSettings) -> KeyMaterial:
    """Return the key and chain of a keystore."""
    if store.location is None:
        return KeyMaterial(f"{store.key}\n{store.certificates}", store.key_password)
    data = read_secret_file(store.location, f"{store.name}.location")
    if store.type == "PEM":
        text = _text(data, store)
        if "PRIVATE KEY-----" not in text or _BEGIN_CERTIFICATE not in text:
            raise _wrong(store, "expected a PEM file with a private key and its certificate chain")
        return KeyMaterial(text, store.key_password)
    if data[:4] in JKS_MAGIC:
        return _jks_keys(store, data)
    return _pkcs12_keys(store, data)


def load_authorities(store: StoreSettings) -> str:
    """Return the certificates of a truststore as PEM."""
    if store.location is None:
        found = store.certificates or ""
    else:
        data = read_file(store.location, f"{store.name}.location")
        if store.type == "PEM":
            found = _text(data, store)
        elif data[:4] in JKS_MAGIC:
            found = _jks_authorities(store, data)
        else:
            found = _pkcs12_authorities(store, data)
    if _BEGIN_CERTIFICATE not in found:
        raise _wrong(store, "expected at least one certificate of an authority")
    return found


def _pkcs12_keys(store: StoreSettings, data: bytes) -> KeyMaterial:
    found = _pkcs12(store, data)
    if found.key is None or found.cert is None:
        raise _wrong(store, "expected an entry with a private key and its certificate")
    key = found.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = (found.cert, *found.additional_certs)
    return KeyMaterial(b"".join((key, *(item.certificate.public_bytes(_PEM) for item in chain))).decode())


def _pkcs12_authorities(store: StoreSettings, data: bytes) -> str:
    found = _pkcs12(store, data)
    certificates = [item for item in (found.cert, *found.additional_certs) if item is not None]
    return "".join(item.certificate.public_bytes(_PEM).decode() for item in certificates)


_PEM: Final = serialization.Encoding.PEM


def _pkcs12(store: StoreSettings, data: bytes) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, None if store.password is None else store.password.encode())
    except ValueError as error:
        raise _wrong(store, f"no PKCS12 store that {store.name}.password opens ({error})") from None


def _jks_keys(store: StoreSettings, data: bytes) -> KeyMaterial:
    with needing("jks"):
        import jks
    opened = _jks(store, data)
    for entry in opened.private_keys.values():
        try:
            if not entry.is_decrypted():
                entry.decrypt(store.key_password or store.password or "")
        except (jks.KeystoreException, ValueError):
            raise _wrong(store, "the private key's password is another one: set ssl.key.password") from None
        chain = "".join(ssl.DER_cert_to_PEM_cert(certificate) for _, certificate in entry.cert_chain)
        key = serialization.load_der_private_key(entry.pkey_pkcs8, None).private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return KeyMaterial(key.decode() + chain)
    raise _wrong(store, "expected an entry with a private key and its certificate")


def _jks_authorities(store: StoreSettings, data: bytes) -> str:
    return "".join(ssl.DER_cert_to_PEM_cert(entry.cert) for entry in _jks(store, data).certs.values())


def _jks(store: StoreSettings, data: bytes) -> Any:
    with needing("jks"):
        import jks
    try:
        return jks.KeyStore.loads(data, store.password or "", try_decrypt_keys=True)
    except (jks.KeystoreException, ValueError) as error:
        raise _wrong(store, f"no JKS store that {store.name}.password opens ({type(error).__name__})") from None


def _text(data: bytes, store: StoreSettings) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise _wrong(store, f"expected PEM text; set {store.name}.type to PKCS12 or JKS for such a store") from None


def _wrong(store: StoreSettings, what: str) -> SecurityConfigError:
    return SecurityConfigError(
        f"{store.name}.location={store.location}: {what}" if store.location else f"{store.name}: {what}"
    )
