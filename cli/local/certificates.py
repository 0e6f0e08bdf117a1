"""Certificates of a cluster that lives for a demo or a test: an authority, and what it signs.

They are valid for two days, and keys exist only in the files that `write_pem` writes.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from ...light_dataclass import dataclass

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key; `issuer` None signs itself."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"node", self.key, self.certificate, None, serialization.BestAvailableEncryption(password.encode())
        )

    def write_pem(self, folder: Path, name: str, password: str | None = None) -> Path:
        """Write key and certificate into one file, readable by its owner only."""
        path = folder / f"{name}.pem"
        path.write_text(self.key_pem(password) + self.pem)
        path.chmod(0o600)
        return path


def make_certificate(
    name: str = "node",
    *,
    issuer: Certificate | None = None,
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
    starts: timedelta = -_DAY,
    ends: timedelta = 2 * _DAY,
    is_authority: bool = False,
) -> Certificate:
    """Make a certificate that is valid from `starts` to `ends`, counted from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"), x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + starts)
        .not_valid_after(now + ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    signer = key if issuer is None else issuer.key
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    if is_authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_general_name, hosts))), critical=False)
    return Certificate(builder.sign(signer, hashes.SHA256()), key)


def make_authority(name: str = "authority") -> Certificate:
    """Make a self-signed authority."""
    return make_certificate(name, is_authority=True)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
