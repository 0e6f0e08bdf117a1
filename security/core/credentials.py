"""The SCRAM credentials of a cluster, as the metadata image has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from .scram_credential import SCRAM_ITERATIONS_MIN, ScramCredential, ScramType, fake_credential


class ScramCredentials:
    """Credentials by user and type.

    What unknown users get is derived from the credentials of two users: every broker of a cluster gives the same fake
    salt, and no client knows enough to compute it. It stays while other credentials change, as a known user's salt
    does: a salt that changed with any of them would show who is unknown.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[ScramType, ScramCredential]] = {}
        self._digest: bytes | None = None
        """None after a change."""

    def put(self, user: str, type_: ScramType, credential: ScramCredential) -> None:
        """Set a user's credential."""
        self._known.setdefault(user, {})[type_] = credential
        self._digest = None

    def remove(self, user: str, type_: ScramType) -> None:
        """Remove a user's credential if there is one."""
        of_user = self._known.get(user, {})
        of_user.pop(type_, None)
        if not of_user:
            self._known.pop(user, None)
        self._digest = None

    def users(self) -> Iterator[str]:
        """Yield the users that have a credential, by name."""
        yield from sorted(self._known)

    def of_user(self, user: str) -> dict[ScramType, ScramCredential]:
        """Return a user's credentials; none for an unknown one."""
        return dict(sorted(self._known.get(user, {}).items()))

    def get(self, user: str, type_: ScramType) -> ScramCredential | None:
        """Return a user's credential, or None."""
        return self._known.get(user, {}).get(type_)

    def fake(self, user: str, type_: ScramType) -> ScramCredential:
        """Return what an unknown user gets, with the iteration count that some known user has."""
        counts = sorted({of[type_].iterations for of in self._known.values() if type_ in of}) or [SCRAM_ITERATIONS_MIN]
        secret = self._secret()
        drawn = int.from_bytes(hashlib.sha256(secret + user.encode()).digest()[:4], "big")
        return fake_credential(type_, user, secret, counts[drawn % len(counts)])

    def _secret(self) -> bytes:
        if self._digest is None:
            keys = sorted(min(known.server_key for known in of_user.values()) for of_user in self._known.values())
            self._digest = hashlib.sha256(b"".join(keys[:2])).digest()
        return self._digest
