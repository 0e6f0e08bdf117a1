"""TLS and SASL between our own listener and client: who gets in, and what both sides say to those who do not."""

from __future__ import annotations

import asyncio
import json
import struct
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tierfetch.cli.certificates import Certificate, make_authority, make_certificate
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, read_request_header, read_response, write_request
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tierfetch.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tierfetch.protocol.net import client_connection, gates, sasl
from tierfetch.protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.protocol.net.client_connection import AuthenticationFailedError
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.gates import RefusedRequestError, SaslGate
from tierfetch.protocol.net.server import Server
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.mechanism import SaslServer
from tierfetch.security.core.scram import ScramType, make_credential
from tierfetch.security.core.settings import client_settings, listener_settings
from tierfetch.security.credentials import ScramCredentials
from tierfetch.security.listener import ListenerIdentity
from tierfetch.security.principal import SecurityProtocol
from tierfetch.tests.protocol.wire_fakes import FileSlice

FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
AUTHORITY = make_authority()
DAY = timedelta(days=1)


def store(certificate: Certificate) -> dict[str, str]:
    """A keystore in the configuration."""
    return {"ssl.keystore.key": certificate.key_pem(), "ssl.keystore.certificate.chain": certificate.pem}


def trust(certificate: Certificate) -> dict[str, str]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificate.pem}


NODE = store(make_certificate(issuer=AUTHORITY))
TRUST = trust(AUTHORITY)


class Listening:
    """A listener that answers Fetch; `contexts` are those of the requests that came."""

    def __init__(self, properties: Mapping[str, str], protocol: SecurityProtocol) -> None:
        self.contexts: list[RequestContext] = []
        self.credentials = ScramCredentials()
        self.response = FetchResponse(topics=())
        settings = listener_settings(properties, "TEST", protocol)
        self.identity = ListenerIdentity(settings, lambda: self.credentials)
        self.server = Server({ApiKey.FETCH: self._fetch}, listener_name="TEST", identity=self.identity)

    async def _fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        self.contexts.append(context)
        return self.response

    async def handshakes_ended(self) -> None:
        tasks = [handshake._task for handshake in self.server.handshakes]
        await asyncio.gather(*tasks)

    @property
    def address(self) -> Address:
        return Address("localhost", self.server.port)

    async def ask(self, properties: Mapping[str, str], address: Address | None = None) -> str:
        """Send a Fetch as a client with these properties, and return the principal that the listener saw."""
        identity = ClientIdentity(client_settings(properties))
        client = KafkaClient(client_id="test", random=Random(1), identity=identity)
        try:
            connection = await client.connection(address or self.address)
            await connection.fetch(FETCH)
            return str(self.contexts[-1].principal)
        finally:
            await client.close()


@asynccontextmanager
async def listening(properties: Mapping[str, str], protocol: SecurityProtocol) -> AsyncIterator[Listening]:
    listener = Listening(properties, protocol)
    await listener.server.start("localhost", 0)
    try:
        yield listener
    finally:
        await listener.server.close(deadline_s=1)


async def test_tls_carries_slices_of_files(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(range(256)) * 8000)
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        partitions = tuple(FetchPartitionResponse(i, records=FileSlice(path, 0, 2_048_000)) for i in range(3))
        listener.response = FetchResponse(topics=(FetchTopicResponse(partitions, "t"),))
        client = KafkaClient(
            client_id="test",
            random=Random(1),
            identity=ClientIdentity(client_settings({"security.protocol": "SSL", **TRUST})),
        )
        response = await client.send(listener.address, FETCH)
        assert all(partition.records == path.read_bytes() for partition in response.topics[0].partitions)
        await client.close()
        context = listener.contexts[0]
        assert (str(context.principal), context.security_protocol) == ("User:ANONYMOUS", SecurityProtocol.SSL)


IDLE = 60
IDLE_BYTES_MAX = 64 * 1024


async def test_a_connection_that_says_nothing_takes_little_memory() -> None:
    """Less than what asyncio's TLS allocates for each: 256 KiB that any stranger could have taken."""
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        await listener.ask({"security.protocol": "SSL", **TRUST})
        tracemalloc.start()
        try:
            idle = [await asyncio.open_connection("localhost", listener.server.port) for _ in range(IDLE)]
            while len(listener.server.handshakes) < IDLE:  # noqa: ASYNC110  # until all are accepted
                await asyncio.sleep(0)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken < IDLE * IDLE_BYTES_MAX
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
async def test_each_version_of_tls(versions: str) -> None:
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        assert await listener.ask({"security.protocol": "SSL", "ssl.enabled.protocols": versions, **TRUST})


@pytest.mark.parametrize(
    ("server", "client", "expected"),
    [
        (NODE, {}, "certificate is not accepted: unable to get local issuer certificate"),
        (store(make_certificate(issuer=AUTHORITY, ends=-DAY / 2)), TRUST, "certificate has expired"),
        (store(make_certificate(issuer=AUTHORITY, starts=DAY)), TRUST, "certificate is not yet valid"),
        (store(make_certificate()), TRUST, "self-signed certificate"),
        (store(make_certificate(issuer=AUTHORITY, hosts=("elsewhere",))), TRUST, "Hostname mismatch"),
        (store(make_certificate(issuer=make_authority())), TRUST, "certificate is not accepted"),
        (
            {**NODE, "ssl.enabled.protocols": "TLSv1.3"},
            {**TRUST, "ssl.enabled.protocols": "TLSv1.2"},
            "tlsv1 alert protocol version",
        ),
    ],
)
async def test_a_client_refuses_what_it_cannot_trust(
    server: dict[str, str], client: dict[str, str], expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(server, SecurityProtocol.SSL) as listener:
        with pytest.raises(BrokerUnavailableError, match=expected):
            await listener.ask({"security.protocol": "SSL", **client})
        await listener.handshakes_ended()
        assert "TLS handshake with" in caplog.text
        assert not listener.contexts


async def test_the_host_is_not_checked_where_that_is_switched_off() -> None:
    async with listening(store(make_certificate(issuer=AUTHORITY, hosts=("other",))), SecurityProtocol.SSL) as listener:
        properties = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "", **TRUST}
        assert await listener.ask(properties) == "User:ANONYMOUS"


MUTUAL = {**NODE, **TRUST, "ssl.client.auth": "required"}
RULES = "RULE:^CN=([^,]+),C=DE$/$1/L"


@pytest.mark.parametrize(
    ("server", "client", "principal"),
    [
        (MUTUAL, store(make_certificate("Alice", issuer=AUTHORITY)), "User:CN=Alice,C=DE"),
        (
            {**MUTUAL, "ssl.principal.mapping.rules": RULES},
            store(make_certificate("Alice", issuer=AUTHORITY)),
            "User:alice",
        ),
        ({**MUTUAL, "ssl.client.auth": "requested"}, {}, "User:ANONYMOUS"),
        (
            {**MUTUAL, "ssl.client.auth": "requested"},
            store(make_certificate("Bob", issuer=AUTHORITY)),
            "User:CN=Bob,C=DE",
        ),
        (NODE, store(make_certificate("Bob", issuer=AUTHORITY)), "User:ANONYMOUS"),
    ],
)
async def test_the_principal_of_a_certificate(server: dict[str, str], client: dict[str, str], principal: str) -> None:
    async with listening(server, SecurityProtocol.SSL) as listener:
        assert await listener.ask({"security.protocol": "SSL", **TRUST, **client}) == principal


@pytest.mark.parametrize(
    ("server", "client", "expected"),
    [
        (MUTUAL, {}, "certificate required"),
        (MUTUAL, store(make_certificate("Eve")), "unknown ca|handshake|certificate"),
        (MUTUAL, store(make_certificate("Old", issuer=AUTHORITY, ends=-DAY / 2)), "certificate expired"),
        (
            {**MUTUAL, "ssl.principal.mapping.rules": "RULE:^UID=(.*)$/$1/"},
            store(make_certificate("Bob", issuer=AUTHORITY)),
            "closed|reset",
        ),
    ],
)
async def test_a_listener_refuses_certificates(server: dict[str, str], client: dict[str, str], expected: str) -> None:
    async with listening(server, SecurityProtocol.SSL) as listener:
        with pytest.raises(BrokerUnavailableError, match=f"(?i){expected}"):
            await listener.ask({"security.protocol": "SSL", **TRUST, **client})
        assert not listener.contexts


async def test_a_plaintext_client_at_a_tls_listener(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        with pytest.raises(BrokerUnavailableError):
            await listener.ask({})
        assert "does not speak TLS" in caplog.text


async def test_a_tls_client_at_a_plaintext_listener(caplog: pytest.LogCaptureFixture) -> None:
    async with listening({}, SecurityProtocol.PLAINTEXT) as listener:
        with pytest.raises(BrokerUnavailableError, match=r"TLS handshake failed|cannot be reached"):
            await listener.ask({"security.protocol": "SSL", **TRUST})
        assert "it looks like TLS" in caplog.text


async def test_a_handshake_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.protocol.net.tls_acceptor.TLS_HANDSHAKE_TIMEOUT_S", 0.05)
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        reader, writer = await asyncio.open_connection(*listener.address)
        writer.write(b"\x16\x03\x01")
        assert await reader.read() == b""
        writer.close()
        assert not listener.server.handshakes


async def test_new_connections_get_new_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.security.contexts.CHECK_INTERVAL_S", 0.0)
    path = make_certificate(issuer=AUTHORITY).write_pem(tmp_path, "node")
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    other = make_authority("other")
    async with listening(properties, SecurityProtocol.SSL) as listener:
        assert await listener.ask({"security.protocol": "SSL", **TRUST})
        make_certificate(issuer=other).write_pem(tmp_path, "node")
        assert await listener.ask({"security.protocol": "SSL", **trust(other)})
        with pytest.raises(BrokerUnavailableError, match="certificate is not accepted"):
            await listener.ask({"security.protocol": "SSL", **TRUST})


async def test_files_that_cannot_be_used_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tierfetch.security.contexts.CHECK_INTERVAL_S", 0.0)
    path = make_certificate(issuer=AUTHORITY).write_pem(tmp_path, "node")
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    async with listening(properties, SecurityProtocol.SSL) as listener:
        path.write_text("half a file")
        assert await listener.ask({"security.protocol": "SSL", **TRUST})
        assert "changed TLS files cannot be used" in caplog.text


# SASL.

SASL_PLAIN = {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": f'{PLAIN} user_alice="pencil" user_bob="pen";'}
FAST = {"connection.failed.authentication.delay.ms": "0"}
ALICE = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="alice" password="pencil";'}


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


class Raw:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, listener: Listening) -> Raw:
        return cls(*await asyncio.open_connection(*listener.address))

    def send(self, api: ApiKey, version: int, body: object) -> None:
        for part in write_request(RequestHeader(api, version, 7, "raw"), body):
            self._writer.write(bytes(part))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def response(self, api: ApiKey, version: int) -> object:
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        return read_response(api, version, memoryview(await self._reader.readexactly(size)))

    async def is_closed(self) -> bool:
        try:
            return await self._reader.read() == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._writer.close()


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
    "data",
    [struct.pack(">i", 524_289), struct.pack(">ihhih", 100_000_000, 36, 2, 1, -1), b"\xff\xff\xff\xff", b"\x00" * 64],
)
async def test_oversized_and_broken_frames_end_the_connection(data: bytes) -> None:
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send_bytes(data)
        assert await client.is_closed()
        client.close()


async def test_a_client_that_never_authenticates_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "AUTHENTICATION_TIMEOUT_S", 0.0)
    async with listening({**SASL_PLAIN, **FAST}, SecurityProtocol.SASL_PLAINTEXT) as listener:
        client = await Raw.connect(listener)
        client.send(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        await client.response(ApiKey.SASL_HANDSHAKE, 1)
        for connection in list(listener.server.connections):
            connection.expire(asyncio.get_running_loop().time())
        assert await client.is_closed()
        client.close()


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
