"""SASL between our own listener and client: who gets in, and what both sides say to those who do not."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tierfetch.limited_log import SOURCE_LINES_MAX
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, read_request_header, write_request
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchRequest
from tierfetch.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tierfetch.protocol.net import client_connection, gates, sasl
from tierfetch.protocol.net.client import BrokerUnavailableError, KafkaClient
from tierfetch.protocol.net.client_connection import AuthenticationFailedError
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.gates import RefusedRequestError, SaslGate
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.mechanism import SaslServer
from tierfetch.security.core.scram import make_credential
from tierfetch.security.core.scram_credential import SCRAM_SALT_BYTES, ScramType
from tierfetch.security.core.settings import client_settings, listener_settings
from tierfetch.security.listener import ListenerIdentity
from tierfetch.security.principal import SecurityProtocol
from tierfetch.tests.protocol.listening import (
    ALICE,
    FAST,
    FETCH,
    NODE,
    PLAIN,
    SASL_PLAIN,
    SCRAM,
    TRUST,
    Listening,
    Raw,
    listening,
)


def scram_client(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    jaas = f'{SCRAM} username="{user}" password="{password}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


async def test_plain_over_tls() -> None:
    async with listening({**NODE, **SASL_PLAIN}, SecurityProtocol.SASL_SSL) as listener:
        assert await listener.ask({"security.protocol": "SASL_SSL", **TRUST, **ALICE}) == "User:alice"
        assert listener.contexts[0].security_protocol is SecurityProtocol.SASL_SSL


@pytest.mark.parametrize("type_", list(ScramType))
async def test_scram(type_: ScramType) -> None:
    properties = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512", **FAST}
    async with listening(properties, SecurityProtocol.SASL_PLAINTEXT) as listener:
        credential = make_credential(type_, "pencil", b"0123456789abcdef", 4096)
        listener.credentials.put("alice", type_, credential)
        assert await listener.ask(scram_client("alice", "pencil", type_.mechanism)) == "User:alice"
        listener.credentials.remove("alice", type_)
        with pytest.raises(AuthenticationFailedError, match="refuses the SCRAM"):
            await listener.ask(scram_client("alice", "pencil", type_.mechanism))


@pytest.mark.parametrize(
    ("client", "expected", "logged"),
    [
        (
            {**ALICE, "sasl.jaas.config": f'{PLAIN} username="alice" password="hunter2";'},
            "refuses the PLAIN credentials: Authentication failed: Invalid username or password",
            "unknown user or wrong password for 'alice'",
        ),
        (
            scram_client("alice", "pencil"),
            r"refuses sasl.mechanism=SCRAM-SHA-256 \(UNSUPPORTED_SASL_MECHANISM\): it offers PLAIN",
            "mechanism 'SCRAM-SHA-256', expected PLAIN",
        ),
        ({"security.protocol": "PLAINTEXT"}, "closed", "FETCH on a connection that is not authenticated"),
    ],
)
async def test_a_listener_refuses_clients(
    client: dict[str, str], expected: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        with pytest.raises(BrokerUnavailableError, match=expected):
            await listener.ask({"security.protocol": "SASL_PLAINTEXT", **client})
        assert logged in caplog.text
        assert "hunter2" not in caplog.text
        assert not listener.contexts


async def test_wrong_passwords_without_end_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    wrong = {**ALICE, "sasl.jaas.config": f'{PLAIN} username="alice" password="hunter2";'}
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        for _ in range(2 * SOURCE_LINES_MAX):
            with pytest.raises(BrokerUnavailableError):
                await listener.ask({"security.protocol": "SASL_PLAINTEXT", **wrong})
    assert len([line for line in caplog.messages if "authentication of " in line]) == SOURCE_LINES_MAX


async def test_a_sasl_client_at_a_listener_without_sasl() -> None:
    async with listening({}, SecurityProtocol.PLAINTEXT) as listener:
        with pytest.raises(AuthenticationFailedError, match=r"offers no SASL: check security\.protocol"):
            await listener.ask({"security.protocol": "SASL_PLAINTEXT", **ALICE})


def oauth_files(folder: Path, **claims: object) -> tuple[dict[str, str], dict[str, str]]:
    """Return the properties of a listener and of a client: a key set and a token, both as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = {**jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "k", "alg": "ES256"}
    now = int(time.time())
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    token = jwt.encode(
        {"sub": "job", "iat": now, "exp": now + 60, "aud": "kafka", **claims}, key, "ES256", {"kid": "k"}
    )
    (folder / "token").write_text(token)
    (folder / "token").chmod(0o600)
    listener = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.token.endpoint.url": (folder / "token").as_uri(),
    }
    return listener, client


async def test_oauthbearer(tmp_path: Path) -> None:
    properties, client = oauth_files(tmp_path)
    async with listening({**properties, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        assert await listener.ask(client) == "User:job"


async def test_a_token_for_another_audience_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    properties, client = oauth_files(tmp_path, aud="other")
    async with listening({**properties, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        with pytest.raises(AuthenticationFailedError, match="invalid credentials with SASL mechanism OAUTHBEARER"):
            await listener.ask(client)
        assert "InvalidAudienceError" in caplog.text
        assert (tmp_path / "token").read_text() not in caplog.text


@pytest.mark.parametrize(
    ("algorithm", "logged"),
    [("none", "the token's algorithm is 'none'"), ("ES256", "InvalidSignatureError")],
    ids=["without a signature", "by another key"],
)
async def test_a_token_that_is_not_signed_by_the_provider_is_refused(
    tmp_path: Path, algorithm: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    properties, client = oauth_files(tmp_path)
    now = int(time.time())
    claims = {"sub": "job", "iat": now, "exp": now + 60, "aud": "kafka"}
    key = None if algorithm == "none" else ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "token").write_text(jwt.encode(claims, key, algorithm, {"kid": "k"}))
    async with listening({**properties, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        with pytest.raises(AuthenticationFailedError, match="invalid credentials with SASL mechanism OAUTHBEARER"):
            await listener.ask(client)
        assert logged in caplog.text
        assert not listener.contexts


async def test_authenticate_before_the_handshake() -> None:
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00pencil"))
        answer = await client.response(ApiKey.SASL_AUTHENTICATE, 2)
        assert answer.error_code is ErrorCode.illegal_sasl_state
        assert await client.is_closed()
        client.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_second_handshake_before_the_first_has_authenticated(mechanism: str) -> None:
    properties = {**SASL_PLAIN, **FAST, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    async with listening(properties, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        assert (await client.response(ApiKey.SASL_HANDSHAKE, 1)).error_code is ErrorCode.none
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))
        assert (await client.response(ApiKey.SASL_HANDSHAKE, 1)).error_code is ErrorCode.illegal_sasl_state
        assert await client.is_closed()
        client.close()


async def test_an_unknown_mechanism_is_refused_with_those_that_are_offered(caplog: pytest.LogCaptureFixture) -> None:
    properties = {**SASL_PLAIN, **FAST, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}
    async with listening(properties, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="GSSAPI"))
        answer = await client.response(ApiKey.SASL_HANDSHAKE, 1)
        assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
        assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-512")
        assert await client.is_closed()
        client.close()
    assert "mechanism 'GSSAPI', expected PLAIN or SCRAM-SHA-512" in caplog.text


async def test_a_session_is_not_renewed_by_another_mechanism(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sasl, "REAUTHENTICATION_MIN_S", 0.0)
    properties = {**SASL_PLAIN, **FAST, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    async with listening(properties, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        await client.response(ApiKey.SASL_HANDSHAKE, 1)
        client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00pencil"))
        assert (await client.response(ApiKey.SASL_AUTHENTICATE, 2)).error_code is ErrorCode.none
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        assert (await client.response(ApiKey.SASL_HANDSHAKE, 1)).error_code is ErrorCode.illegal_sasl_state
        assert await client.is_closed()
        client.close()
    assert "re-authentication by SCRAM-SHA-256, expected PLAIN as before" in caplog.text


async def scram_attempt(listener: Listening, user: str) -> tuple[bytes, object]:
    """Return what a listener answers to a false proof: its challenge without the nonces, and its verdict."""
    client = await Raw.connect(listener)
    client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    await client.response(ApiKey.SASL_HANDSHAKE, 1)
    first = f"n,,n={user},r=nonce".encode()
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=first))
    challenge = await client.response(ApiKey.SASL_AUTHENTICATE, 2)
    assert challenge.error_code is ErrorCode.none
    nonces, salt, iterations = challenge.auth_bytes.split(b",")
    proof = b"c=biws," + nonces + b",p=" + base64.b64encode(bytes(32))
    client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=proof))
    verdict = await client.response(ApiKey.SASL_AUTHENTICATE, 2)
    assert await client.is_closed()
    client.close()
    assert len(base64.b64decode(salt.removeprefix(b"s="))) == SCRAM_SALT_BYTES
    return iterations, verdict


async def test_scram_answers_a_wrong_password_and_an_unknown_user_alike(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", **FAST}
    async with listening(properties, SecurityProtocol.SASL_PLAINTEXT) as listener:
        credential = make_credential(ScramType.SCRAM_SHA_256, "pencil", bytes(SCRAM_SALT_BYTES), 8192)
        listener.credentials.put("alice", ScramType.SCRAM_SHA_256, credential)
        known, unknown = [await scram_attempt(listener, user) for user in ("alice", "mallory")]
    assert known == unknown
    assert known[0] == b"i=8192"
    assert known[1].error_code is ErrorCode.sasl_authentication_failed
    assert "user 'mallory': unknown user" in caplog.text


async def test_a_failed_authentication_is_answered_after_the_delay_and_alike_for_every_user() -> None:
    delayed = {**SASL_PLAIN, "connection.failed.authentication.delay.ms": "150"}
    answers = []
    async with listening(delayed, SecurityProtocol.SASL_PLAINTEXT) as listener:
        for login in (b"\x00alice\x00wrong", b"\x00mallory\x00pencil"):
            client = await Raw.connect(listener)
            client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            await client.response(ApiKey.SASL_HANDSHAKE, 1)
            began_s = time.monotonic()
            client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=login))
            answers.append(await client.response(ApiKey.SASL_AUTHENTICATE, 2))
            assert time.monotonic() - began_s >= 0.14, "the loop's clock may be a tick early"
            assert await client.is_closed()
            client.close()
    assert answers[0] == answers[1]
    assert answers[0].error_code is ErrorCode.sasl_authentication_failed


async def test_what_follows_a_refusal_in_one_packet_is_not_served() -> None:
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(ApiKey.SASL_AUTHENTICATE, 0, SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00wrong"))
        client.send(ApiKey.FETCH, 12, FETCH)
        assert (await client.response(ApiKey.SASL_HANDSHAKE, 1)).error_code is ErrorCode.none
        answer = await client.response(ApiKey.SASL_AUTHENTICATE, 0)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert await client.is_closed()
        client.close()
        assert not listener.contexts


@pytest.mark.parametrize(
    ("data", "logged"),
    [
        (struct.pack(">i", 524_289), "a request of 524289 bytes before authentication, allowed are 524288"),
        (struct.pack(">ihhih", 100_000_000, 36, 2, 1, -1), "a request of 100000000 bytes before authentication"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes is announced"),
        (b"\x00" * 64, "the message has only 0 left"),
    ],
)
async def test_oversized_and_broken_frames_end_the_connection(
    data: bytes, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send_bytes(data)
        assert await client.is_closed()
        client.close()
    assert logged in caplog.text


@pytest.mark.parametrize("begun", [b"", struct.pack(">ih", 100, 36)], ids=["nothing", "half a frame"])
async def test_a_client_that_never_authenticates_is_closed(
    begun: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gates, "AUTHENTICATION_TIMEOUT_S", 0.0)
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        await client.response(ApiKey.SASL_HANDSHAKE, 1)
        client.send_bytes(begun)
        for connection in list(listener.server.connections):
            connection.expire(asyncio.get_running_loop().time())
        assert await client.is_closed()
        client.close()
    assert "it did not authenticate in time" in caplog.text


async def test_a_session_is_renewed_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl, "REAUTHENTICATION_MIN_S", 0.0)
    monkeypatch.setattr(client_connection, "RENEWAL_AT", 0.0)
    properties = {**SASL_PLAIN, **FAST, "listener.name.test.plain.connections.max.reauth.ms": "60000"}
    async with listening(properties, SecurityProtocol.SASL_PLAINTEXT) as listener:
        authentications = []
        begin = listener.identity.authentication

        def count(mechanism: str) -> SaslServer:
            authentications.append(mechanism)
            return begin(mechanism)

        monkeypatch.setattr(listener.identity, "authentication", count)
        identity = ClientIdentity(client_settings({"security.protocol": "SASL_PLAINTEXT", **ALICE}))
        client = KafkaClient(client_id="test", random=Random(1), identity=identity)
        connection = await client.connection(listener.address)
        while len(authentications) < 4:
            await connection.fetch(FETCH)
        assert {str(context.principal) for context in listener.contexts} == {"User:alice"}
        assert {context.connection_id for context in listener.contexts} == {1}
        await client.close()


async def unused(context: RequestContext, request: FetchRequest) -> None:
    raise AssertionError("no request is handled")


def gate_of(properties: Mapping[str, str], now: list[float]) -> SaslGate:
    settings = listener_settings(properties, "TEST", SecurityProtocol.SASL_PLAINTEXT)
    identity = ListenerIdentity(settings, ScramCredentials)
    return SaslGate({int(ApiKey.FETCH): unused}, identity, lambda: now[0], lambda: int(now[0] * 1000))


def admit(gate: SaslGate, api: ApiKey, version: int, body: object) -> None:
    parts = write_request(RequestHeader(api, version, 7, "raw"), body)
    header, reader = read_request_header(memoryview(b"".join(map(bytes, parts)))[4:])
    gate.admit(header, reader)


def test_a_session_that_is_not_renewed_ends() -> None:
    now = [100.0]
    gate = gate_of({**SASL_PLAIN, "connections.max.reauth.ms": "5000"}, now)
    assert gate.deadline_s == 130.0
    admit(gate, ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    admit(gate, ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00pencil"))
    assert (str(gate.principal), gate.refusal) == ("User:alice", None)
    assert gate.deadline_s is None
    now[0] = 104.9
    admit(gate, ApiKey.FETCH, 12, FETCH)
    now[0] = 105.0
    with pytest.raises(RefusedRequestError, match="session expired"):
        admit(gate, ApiKey.FETCH, 12, FETCH)
    admit(gate, ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    with pytest.raises(RefusedRequestError, match="not authenticated"):
        admit(gate, ApiKey.FETCH, 12, FETCH)
    admit(gate, ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00pencil"))
    admit(gate, ApiKey.FETCH, 12, FETCH)


def test_renewals_come_at_most_once_a_second() -> None:
    now = [100.0]
    gate = gate_of(SASL_PLAIN, now)
    for refusal in (None, "re-authentication within a second"):
        admit(gate, ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        assert gate.refusal == refusal
        if refusal is None:
            admit(gate, ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\x00alice\x00pencil"))


async def test_the_principal_stays_the_same_over_a_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl, "REAUTHENTICATION_MIN_S", 0.0)
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        for token in (b"\x00alice\x00pencil", b"\x00bob\x00pen"):
            client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            client.send(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=token))
            await client.response(ApiKey.SASL_HANDSHAKE, 1)
            answer = await client.response(ApiKey.SASL_AUTHENTICATE, 2)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert "Cannot change principals" in answer.error_message
        assert await client.is_closed()
        client.close()
