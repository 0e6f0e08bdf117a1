"""Bearer tokens: which are valid, which are not, and why."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tierfetch.security.core.oauthbearer import InvalidToken, ValidToken
from tierfetch.security.core.settings import SecurityConfigError, TokenSettings
from tierfetch.security.tokens import TokenValidator

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
SECRET = "s" * 64


def jwks() -> str:
    keys = [
        {**jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa", "alg": "RS256"},
        {**jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec", "alg": "ES256"},
    ]
    return json.dumps({"keys": keys})


@pytest.fixture
def location(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(jwks())
    return path


def validator(location: Path, **more: Any) -> TokenValidator:
    made = TokenValidator(TokenSettings(f"file://{location}", **more))
    made.load()
    return made


def token(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
    now = int(time.time())
    merged = {"sub": "alice", "iat": now, "exp": now + 600, **claims}
    present = {name: claim for name, claim in merged.items() if claim is not None}
    return jwt.encode(present, key, algorithm=algorithm, headers={} if kid is None else {"kid": kid})


def test_a_valid_token(location: Path) -> None:
    expires_s = int(time.time()) + 600
    assert validator(location).validate(token(exp=expires_s)) == ValidToken("alice", expires_s * 1000)
    assert isinstance(validator(location).validate(token(EC_KEY, "ES256", "ec")), ValidToken)


@pytest.mark.parametrize(
    ("more", "claims", "principal"),
    [
        ({"audiences": ("kafka", "other")}, {"aud": "kafka"}, "alice"),
        ({"audiences": ("kafka",)}, {"aud": ["x", "kafka"]}, "alice"),
        ({"issuer": "https://id"}, {"iss": "https://id"}, "alice"),
        ({"subject_claim": "client_id"}, {"client_id": "job"}, "job"),
        ({}, {"exp": -10}, "alice"),
        ({}, {"nbf": 10}, "alice"),
        ({}, {"aud": "anything"}, "alice"),
    ],
)
def test_what_is_expected_of_a_token(location: Path, more: Any, claims: Any, principal: str) -> None:
    """Times are in seconds from now."""
    now = int(time.time())
    absolute = {name: now + claim if name in {"exp", "nbf"} else claim for name, claim in claims.items()}
    found = validator(location, **more).validate(token(**absolute))
    assert isinstance(found, ValidToken)
    assert found.principal == principal


@pytest.mark.parametrize(
    ("more", "made", "reason"),
    [
        ({}, lambda: token(OTHER_RSA_KEY), "InvalidSignatureError"),
        ({}, lambda: token(None, "none"), "the token's algorithm is 'none', expected an asymmetric one"),
        ({}, lambda: token(SECRET, "HS256"), "the token's algorithm is 'HS256', expected an asymmetric one"),
        ({}, lambda: token(EC_KEY, "ES256", "rsa"), "Invalid"),
        ({}, lambda: token(exp=int(time.time()) - 31), "ExpiredSignatureError"),
        ({"clock_skew_s": 0}, lambda: token(exp=int(time.time()) - 1), "ExpiredSignatureError"),
        ({}, lambda: token(nbf=int(time.time()) + 60), "ImmatureSignatureError"),
        ({}, lambda: token(iat=int(time.time()) + 60), "ImmatureSignatureError"),
        ({}, lambda: token(exp=None), "MissingRequiredClaimError"),
        ({}, lambda: token(iat=None), "MissingRequiredClaimError"),
        ({}, lambda: token(sub=None), "the token has no claim 'sub'"),
        ({"subject_claim": "client_id"}, lambda: token(client_id=7), "the token has no claim 'client_id'"),
        ({"audiences": ("kafka",)}, lambda: token(aud="other"), "InvalidAudienceError"),
        ({"audiences": ("kafka",)}, token, "MissingRequiredClaimError"),
        ({"issuer": "https://id"}, lambda: token(iss="https://evil"), "InvalidIssuerError"),
        ({"issuer": "https://id"}, token, "MissingRequiredClaimError"),
        ({}, lambda: "not.a.token", "DecodeError"),
        ({}, lambda: "", "DecodeError"),
    ],
)
def test_tokens_that_are_refused(location: Path, more: Any, made: Any, reason: str) -> None:
    text = made()
    found = validator(location, **more).validate(text)
    assert isinstance(found, InvalidToken)
    assert reason in found.reason
    assert not text or text not in found.reason


async def test_an_unknown_key_id_has_the_keys_read_again(location: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.security.tokens.REFRESH_MIN_S", 0.0)
    checker = validator(location)
    fresh = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key = {**jwt.algorithms.RSAAlgorithm.to_jwk(fresh.public_key(), as_dict=True), "kid": "fresh", "alg": "RS256"}
    location.write_text(json.dumps({"keys": [key]}))
    found = checker.validate(token(fresh, kid="fresh"))
    assert isinstance(found, InvalidToken)
    assert "no key of" in found.reason
    assert checker._loading is not None
    await checker._loading
    assert isinstance(checker.validate(token(fresh, kid="fresh")), ValidToken)


async def test_keys_stay_in_use_when_they_cannot_be_read_again(
    location: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tierfetch.security.tokens.REFRESH_MIN_S", 0.0)
    checker = validator(location)
    location.unlink()
    checker.validate(token(kid="unknown"))
    assert checker._loading is not None
    await checker._loading
    assert "the keys that are known stay in use" in caplog.text
    assert isinstance(checker.validate(token()), ValidToken)


@pytest.mark.parametrize("text", ["", "{}", '{"keys": []}', "[]", "garbage"])
def test_what_is_no_key_set(location: Path, text: str) -> None:
    location.write_text(text)
    with pytest.raises(SecurityConfigError, match="expected a JSON Web Key Set"):
        validator(location)
