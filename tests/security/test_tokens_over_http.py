"""Tokens and the keys that prove them, fetched over HTTP: a key set and a token endpoint (KIP-768)."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tierfetch.security import tokens
from tierfetch.security.core.oauthbearer import InvalidToken, ValidToken
from tierfetch.security.core.settings import SecurityConfigError, TokenSettings, client_settings
from tierfetch.security.token_source import RESPONSE_BYTES_MAX, bearer_token
from tierfetch.security.tokens import TokenValidator
from tierfetch.tests.security.test_tokens import jwks, token

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@dataclass
class Asked:
    """One request that the server got."""

    path: str
    authorization: str | None
    form: dict[str, list[str]]


@dataclass
class Provider:
    """An identity provider: what it answers by path, and what it was asked."""

    url: str = ""
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            form = urllib.parse.parse_qs(self.rfile.read(size).decode())
            found.asked.append(Asked(self.path, self.headers.get("Authorization"), form))
            status, body = found.answers[self.path]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", body.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found
        server.shutdown()
        thread.join()


def validator(provider: Provider) -> TokenValidator:
    made = TokenValidator(TokenSettings(f"{provider.url}/jwks"))
    made.load()
    return made


def fetched(provider: Provider, scope: str = "") -> str:
    """Return the token that a client gets from the endpoint."""
    jaas = f'{LOGIN} clientId="job" clientSecret="job-secret"{scope};'
    return bearer_token(
        client_settings(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": jaas,
                "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
            }
        )
    )


def test_a_token_of_the_endpoint_is_proved_by_the_key_set(provider: Provider) -> None:
    provider.answers["/jwks"] = 200, jwks().encode()
    provider.answers["/token"] = 200, json.dumps({"access_token": token(), "token_type": "Bearer"}).encode()
    assert isinstance(validator(provider).validate(fetched(provider, ' scope="kafka"')), ValidToken)
    grant = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert provider.asked == [
        Asked("/jwks", None, {}),
        Asked("/token", "Basic am9iOmpvYi1zZWNyZXQ=", grant),
    ]


async def test_a_key_that_comes_later_is_read_over_http(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "REFRESH_MIN_S", 0.0)
    provider.answers["/jwks"] = 200, b'{"keys": []}'
    provider.answers["/broken"] = 500, b""
    with pytest.raises(SecurityConfigError, match="expected a JSON Web Key Set"):
        validator(provider)
    early = json.loads(jwks())
    early["keys"] = early["keys"][1:]
    provider.answers["/jwks"] = 200, json.dumps(early).encode()
    made = validator(provider)
    provider.answers["/jwks"] = 200, jwks().encode()
    assert isinstance(made.validate(token()), InvalidToken)
    assert made._loading is not None
    await made._loading
    assert isinstance(made.validate(token()), ValidToken)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((500, b"job-secret"), "the server answered 500 Internal Server Error"),
        ((401, b""), "the server answered 401 Unauthorized"),
        ((200, b"no JSON"), "expected a JSON object with access_token"),
        ((200, b"{}"), "expected a JSON object with access_token"),
        ((200, b"x" * (RESPONSE_BYTES_MAX + 1)), "more than 262144 bytes"),
    ],
)
def test_an_endpoint_that_gives_no_token(provider: Provider, answer: tuple[int, bytes], expected: str) -> None:
    provider.answers["/token"] = answer
    with pytest.raises(OSError, match=r"sasl\.oauthbearer\.token\.endpoint\.url: ") as caught:
        fetched(provider)
    assert expected in str(caught.value)
    assert "job-secret" not in str(caught.value)


def test_credentials_do_not_follow_a_redirection(provider: Provider) -> None:
    provider.answers["/token"] = 302, f"{provider.url}/elsewhere".encode()
    provider.answers["/elsewhere"] = 200, json.dumps({"access_token": token()}).encode()
    with pytest.raises(OSError, match="the server answered 302"):
        fetched(provider)
    assert [asked.path for asked in provider.asked] == ["/token"]
