"""The keys of Aiven's envelope encryption: an AES-256 key for each segment, itself encrypted with an RSA key.

    KEY ID:base64 -> RSA-OAEP (SHA3-512, MGF1 with the same) -> AES key -> each chunk: 12 bytes nonce, AES-GCM, 16 tag

pycryptodomex does all of it (`tierfetch[encryption]`; pyca/cryptography has no OAEP with SHA-3). Keys are in no
message.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from ...extras import missing
from ...remote import RemoteStorageCorruptError, RemoteStorageError

NONCE_SIZE: Final = 12
TAG_SIZE: Final = 16
DATA_KEYS_MAX: Final = 1024
"""Data keys that are kept decrypted: RSA takes a millisecond or two for each."""


class KeyRing:
    """`private_keys`: PEM by the id of the key; Spark folds the case of option names, so ids are compared without."""

    def __init__(self, private_keys: Mapping[str, str]) -> None:
        self._pems = {key_id.lower(): pem for key_id, pem in private_keys.items()}
        self._keys: dict[str, Any] = {}
        self._unwrapped = lru_cache(DATA_KEYS_MAX)(self._unwrap)

    def data_key(self, wrapped: str) -> bytes:
        """RemoteStorageError names the key that is missing or wrong."""
        return self._unwrapped(wrapped)

    def _unwrap(self, wrapped: str) -> bytes:
        _, oaep, hash_module, _ = _library()
        key_id, _, text = wrapped.partition(":")
        try:
            return bytes(oaep.new(self._private_key(key_id), hashAlgo=hash_module).decrypt(b64decode(text)))
        except (ValueError, TypeError, Base64Error):
            raise RemoteStorageError(
                f"the data key cannot be decrypted with the private key that encryption.{key_id} gives: give the one "
                "that belongs to it"
            ) from None

    def _private_key(self, key_id: str) -> Any:
        pem = self._pems.get(key_id.lower())
        if pem is None:
            given = ", ".join(sorted(self._pems)) or "none"
            raise RemoteStorageError(
                f"the tier is encrypted with the key {key_id!r}, which is not given (given: {given}): set the option "
                f"encryption.{key_id} to its private key in PEM, or to a file with it"
            )
        if key_id not in self._keys:
            rsa, *_ = _library()
            try:
                self._keys[key_id] = rsa.import_key(pem)
            except (ValueError, IndexError, TypeError):
                raise RemoteStorageError(f"encryption.{key_id}: not a private RSA key in PEM") from None
        return self._keys[key_id]


def decrypt_chunk(chunk: bytes | memoryview, data_key: bytes, aad: bytes, what: str) -> bytes:
    """RemoteStorageCorruptError, with `what` in front, if a byte of it was changed."""
    *_, aes = _library()
    if len(chunk) < NONCE_SIZE + TAG_SIZE:
        raise RemoteStorageCorruptError(f"{what}: {len(chunk)} bytes are not an encrypted chunk")
    cipher = aes.new(data_key, aes.MODE_GCM, nonce=bytes(chunk[:NONCE_SIZE]), mac_len=TAG_SIZE)
    cipher.update(aad)
    try:
        return bytes(cipher.decrypt_and_verify(chunk[NONCE_SIZE:-TAG_SIZE], chunk[-TAG_SIZE:]))
    except ValueError:
        raise RemoteStorageCorruptError(
            f"{what}: it was changed after encryption, or encrypted with another key"
        ) from None


def _library() -> tuple[Any, Any, Any, Any]:
    try:
        from Cryptodome.Cipher import AES, PKCS1_OAEP
        from Cryptodome.Hash import SHA3_512
        from Cryptodome.PublicKey import RSA
    except ImportError as error:
        raise RemoteStorageError(f"the tier is encrypted: {missing('Cryptodome', 'encryption')}") from error
    return RSA, PKCS1_OAEP, SHA3_512, AES
