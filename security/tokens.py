"""Checks bearer tokens: a JWT whose signature one of the JWKS' keys proves (KIP-768).

    JWKS: read at the start, then every `refresh_ms`, and after an unknown key id, at most every `REFRESH_MIN_S`;
    in a thread; an error leaves the keys that are known

| claim | rule |
|---|---|
| `alg` | an asymmetric algorithm of `ALGORITHMS`; `none` and shared secrets are refused |
| `exp`, `iat` | must be there; `exp`, `nbf` and `iat` hold with the clock skew |
| `iss`, `aud` | those expected, where the configuration expects some |
| the subject | must be there; it is the principal's name |
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.parse
import urllib.request
from typing import Any, Final

import jwt

from .core.oauthbearer import InvalidToken, ValidToken
from .core.settings import SecurityConfigError, TokenSettings
from .secret_files import read_file
from .token_source import fetch

JWKS_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
REFRESH_MIN_S: Final = 10.0
ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

log = logging.getLogger(__name__)


class TokenValidator:
    """`load` before use; `validate` never waits."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._loaded_s = -REFRESH_MIN_S
        self._loading: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read the keys; blocks. OSError or SecurityConfigError if there are none."""
        url = self._settings.jwks_url
        self._loaded_s = time.monotonic()
        if url.startswith("file:"):
            body = read_file(urllib.request.url2pathname(urllib.parse.urlparse(url).path), JWKS_KEY)
        else:
            body = fetch(url, JWKS_KEY)
        try:
            document = json.loads(body)
            found = jwt.PyJWKSet.from_dict(document if isinstance(document, dict) else {})
        except (jwt.PyJWTError, ValueError) as error:
            raise SecurityConfigError(f"{JWKS_KEY}={url}: expected a JSON Web Key Set ({error})") from None
        self._keys = {key.key_id: key for key in found.keys}

    def validate(self, token: str) -> ValidToken | InvalidToken:
        """Check a token."""
        self._refresh_if(time.monotonic() >= self._loaded_s + self._settings.refresh_ms / 1000)
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header.get("kid"))
            if header.get("alg") not in ALGORITHMS:
                return InvalidToken(f"the token's algorithm is {header.get('alg')!r}, expected an asymmetric one")
            if key is None:
                self._refresh_if(True)
                return InvalidToken(f"no key of {self._settings.jwks_url} has the token's key id {header.get('kid')!r}")
            return self._checked(token, key)
        except jwt.PyJWTError as error:
            return InvalidToken(f"{type(error).__name__}: {error}")

    def _key(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _checked(self, token: str, key: jwt.PyJWK) -> ValidToken | InvalidToken:
        settings = self._settings
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            audience=list(settings.audiences) or None,
            issuer=settings.issuer,
            leeway=settings.clock_skew_s,
            options={"require": ["exp", "iat"], "verify_aud": bool(settings.audiences)},
        )
        subject = claims.get(settings.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            return InvalidToken(f"the token has no claim {settings.subject_claim!r}, expected the principal's name")
        return ValidToken(subject, int(claims["exp"]) * 1000)

    def _refresh_if(self, is_due: bool) -> None:
        if not is_due or self._loading is not None or time.monotonic() < self._loaded_s + REFRESH_MIN_S:
            return
        self._loading = asyncio.get_running_loop().create_task(self._refresh(), name="jwks")

    async def _refresh(self) -> None:
        try:
            await asyncio.to_thread(self.load)
        except (OSError, SecurityConfigError) as error:
            log.warning("the keys that are known stay in use: %s", error)
        finally:
            self._loading = None
