"""The SCRAM credentials that a node knows: those of the metadata image, kept up to date by the node that applies it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping

from .core.scram import ITERATIONS_MIN, ScramCredential, ScramType, fake_credential


class ScramCredentials:
    """Credentials by user and type.

    What unknown users get is derived from a digest of all credentials: every broker of a cluster gives the same fake
    salt, and no client knows enough to compute it. A node without credentials derives it from a random secret.
    """

    def __init__(self) -> None:
        self._known: Mapping[tuple[str, ScramType], ScramCredential] = {}
        self._secret = secrets.token_bytes()

    def replace(self, known: Mapping[tuple[str, ScramType], ScramCredential]) -> None:
        """Take the credentials of a new image."""
        self._known = known
        if known:
            digest = hashlib.sha256()
            for _, credential in sorted(known.items(), key=lambda item: (item[0][0], item[0][1])):
                digest.update(credential.server_key)
            self._secret = digest.digest()

    def get(self, user: str, type_: ScramType) -> ScramCredential | None:
        """Return a user's credential, or None."""
        return self._known.get((user, type_))

    def fake(self, user: str, type_: ScramType) -> ScramCredential:
        """Return what an unknown user gets, with the iteration count that some known user has."""
        counts = sorted(item.iterations for (_, of), item in self._known.items() if of is type_) or [ITERATIONS_MIN]
        drawn = int.from_bytes(hashlib.sha256(self._secret + user.encode()).digest()[:4], "big")
        return fake_credential(type_, user, self._secret, counts[drawn % len(counts)])
