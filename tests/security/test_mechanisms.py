"""SASL mechanisms, as transcripts: what one side sends, what the other one makes of it."""

from __future__ import annotations

import base64

import pytest

from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.mechanism import Accepted, Challenge, Rejected, SaslClient, SaslClientError, SaslServer
from tierfetch.security.core.oauthbearer import InvalidToken, OAuthBearerClient, OAuthBearerServer, ValidToken
from tierfetch.security.core.plain import PlainClient, PlainServer
from tierfetch.security.core.scram import ScramClient, ScramServer, make_credential
from tierfetch.security.core.scram_credential import (
    ScramCredential,
    ScramType,
    credential_of_salted_password,
    fake_credential,
)

USERS = {"alice": "pencil", "böb": "ünïcode"}
PLAIN_REFUSED = "Authentication failed: Invalid username or password"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_7677 = make_credential(ScramType.SCRAM_SHA_256, "pencil", SALT, 4096)
SCRAM_REFUSED = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)


def converse(client: SaslClient, server: SaslServer) -> Accepted | Rejected:
    """Carry messages between the two until the server has decided."""
    sent: bytes | None = client.first()
    while sent is not None:
        outcome = server.step(sent)
        if isinstance(outcome, Rejected):
            return outcome
        sent = client.step(outcome.data)
        if isinstance(outcome, Accepted):
            assert sent is None
            assert client.is_complete
            return outcome
    raise AssertionError("the client has nothing to say, and the server has not decided")


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (b"\x00alice\x00pencil", Accepted("alice")),
        (b"alice\x00alice\x00pencil", Accepted("alice")),
        ("\x00böb\x00ünïcode".encode(), Accepted("böb")),
        (b"\x00alice\x00Pencil", PLAIN_REFUSED),
        (b"\x00mallory\x00pencil", PLAIN_REFUSED),
        (b"\x00mallory\x00" + bytes(32).replace(b"\x00", b"\x01"), PLAIN_REFUSED),
        (b"bob\x00alice\x00pencil", "Client requested an authorization id that is different from username"),
        (b"\x00\x00pencil", "username not specified"),
        (b"\x00alice\x00", "password not specified"),
        (b"", "Invalid SASL/PLAIN response"),
        (b"alice\x00pencil", "Invalid SASL/PLAIN response"),
        (b"\x00a\x00b\x00c", "Invalid SASL/PLAIN response"),
        (b"\x00\xff\x00x", "Invalid SASL/PLAIN response"),
    ],
)
def test_plain(message: bytes, outcome: Accepted | str) -> None:
    decided = PlainServer(USERS).step(message)
    if isinstance(outcome, Accepted):
        assert decided == outcome
    else:
        assert isinstance(decided, Rejected)
        assert outcome in decided.message
        assert "pencil" not in decided.message + decided.reason


def test_plain_from_end_to_end() -> None:
    assert converse(PlainClient("alice", "pencil"), PlainServer(USERS)) == Accepted("alice")
    with pytest.raises(SaslClientError, match="expected were none"):
        PlainClient("alice", "pencil").step(b"x")


def scram_server(nonce: str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0") -> ScramServer:
    known = {"user": RFC_7677}
    fake = lambda user: fake_credential(ScramType.SCRAM_SHA_256, user, b"secret", 4096)  # noqa: E731
    return ScramServer(ScramType.SCRAM_SHA_256, known.get, fake, nonce)


def test_scram_speaks_the_transcript_of_rfc_7677() -> None:
    client = ScramClient(ScramType.SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    server = scram_server()
    first = client.first()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.step(first)
    nonces = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == Challenge(f"r={nonces},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    final = client.step(challenge.data)
    assert final == f"c=biws,r={nonces},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    accepted = server.step(final)
    assert accepted == Accepted("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert not client.is_complete
    assert client.step(accepted.data) is None
    assert client.is_complete


@pytest.mark.parametrize("type_", list(ScramType))
def test_scram_from_end_to_end(type_: ScramType) -> None:
    known = {"a=b,c": make_credential(type_, "secret", b"0123456789abcdef", 5000)}
    server = ScramServer(type_, known.get, lambda _: pytest.fail("a known user"), "servernonce")
    assert converse(ScramClient(type_, "a=b,c", "secret"), server).name == "a=b,c"


@pytest.mark.parametrize(("user", "password"), [("user", "Pencil"), ("mallory", "pencil")])
def test_a_wrong_password_and_an_unknown_user_look_the_same(user: str, password: str) -> None:
    server = scram_server()
    decided = converse(ScramClient(ScramType.SCRAM_SHA_256, user, password), server)
    assert isinstance(decided, Rejected)
    assert decided.message == SCRAM_REFUSED
    assert user in decided.reason
    assert password not in decided.reason


def test_an_unknown_user_gets_the_same_salt_each_time() -> None:
    answers = [scram_server("servernonce").step(b"n,,n=mallory,r=clientnonce") for _ in range(2)]
    assert isinstance(answers[0], Challenge)
    assert answers[0] == answers[1]
    other = scram_server("servernonce").step(b"n,,n=trudy,r=clientnonce")
    assert other != answers[0]
    assert b"i=4096" in answers[0].data


def test_an_unknown_users_salt_stays_while_the_credentials_of_others_change() -> None:
    type_ = ScramType.SCRAM_SHA_256
    credentials = ScramCredentials()

    def put(user: str, key: int) -> None:
        credentials.put(user, type_, ScramCredential(SALT, b"stored", bytes([key]) * 32, 4096))

    for number in range(5):
        put(f"user{number}", number)
    before = credentials.fake("mallory", type_)
    put("user4", 100)
    put("new", 50)
    credentials.remove("user3", type_)
    assert credentials.fake("mallory", type_) == before
    for user in ("user0", "user1"):
        put(user, 200)
        assert credentials.fake("mallory", type_) != before, "one client's own credential does not tell it"
        put(user, int(user[-1]))


def test_an_unknown_user_is_refused_whatever_it_proves() -> None:
    server = ScramServer(ScramType.SCRAM_SHA_256, lambda _: None, lambda _: RFC_7677, "servernonce")
    decided = converse(ScramClient(ScramType.SCRAM_SHA_256, "mallory", "pencil"), server)
    assert isinstance(decided, Rejected)
    assert decided.message == SCRAM_REFUSED


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"y,,n=user,r=",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,a=admin,n=user,r=abc",
    ],
)
def test_scram_refuses_bad_first_messages(message: bytes) -> None:
    decided = scram_server().step(message)
    assert isinstance(decided, Rejected)
    assert decided.message == SCRAM_REFUSED


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws,r=other,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"c=eSws,r=clientnonceservernonce,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"c=biws,r=clientnonceservernonce,p=AAAA",
        b"c=biws,r=clientnonceservernonce",
    ],
)
def test_scram_refuses_bad_final_messages(final: bytes) -> None:
    server = scram_server("servernonce")
    assert isinstance(server.step(b"n,,n=user,r=clientnonce"), Challenge)
    assert isinstance(server.step(final), Rejected)


def test_scram_refuses_delegation_tokens_with_a_reason() -> None:
    decided = scram_server().step(b"n,,n=user,r=abc,tokenauth=true")
    assert isinstance(decided, Rejected)
    assert "delegation tokens are not supported" in decided.message


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=clientnonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=clientnonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000000000",
        b"e=other-error",
        b"\xff",
    ],
)
def test_a_scram_client_believes_no_bad_server(challenge: bytes) -> None:
    client = ScramClient(ScramType.SCRAM_SHA_256, "user", "pencil", "clientnonce")
    client.first()
    with pytest.raises(SaslClientError, match="the server's message is wrong"):
        client.step(challenge)
    assert not client.is_complete


def test_a_scram_client_demands_the_servers_proof() -> None:
    client = ScramClient(ScramType.SCRAM_SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    challenge = scram_server().step(client.first())
    assert isinstance(challenge, Challenge)
    client.step(challenge.data)
    with pytest.raises(SaslClientError, match="the server's message is wrong"):
        client.step(b"v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert not client.is_complete


def test_a_salted_password_gives_the_same_credential() -> None:
    import hashlib

    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    assert credential_of_salted_password(ScramType.SCRAM_SHA_256, salted, SALT, 4096) == RFC_7677


@pytest.mark.parametrize(("salt", "iterations"), [(b"short", 4096), (b"0123456789abcdef", 100)])
def test_credentials_have_minimums(salt: bytes, iterations: int) -> None:
    with pytest.raises(ValueError, match="must"):
        make_credential(ScramType.SCRAM_SHA_256, "x", salt, iterations)


def test_secrets_are_not_printed() -> None:
    assert repr(ScramCredential(b"salt", b"stored", b"server", 4096)) == "ScramCredential(iterations=4096)"
    assert "server-final" not in repr(Accepted("a", b"server-final"))


def check(token: str) -> ValidToken | InvalidToken:
    return ValidToken("alice", 1_000) if token == "good.token" else InvalidToken("expected another token")


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (b"n,,\x01auth=Bearer good.token\x01\x01", Accepted("alice", expires_at_ms=1_000)),
        (b"n,,\x01auth=bearer good.token\x01traceId=7\x01\x01", Accepted("alice", expires_at_ms=1_000)),
        (b"n,a=alice,\x01auth=Bearer good.token\x01\x01", Accepted("alice", expires_at_ms=1_000)),
        (b"n,,\x01auth=Bearer bad.token\x01\x01", Challenge(b'{"status":"invalid_token"}')),
        (b"n,a=bob,\x01auth=Bearer good.token\x01\x01", "authorization id"),
        (b"n,,\x01auth=Basic good.token\x01\x01", "expected n,,"),
        (b"n,,\x01auth=Bearer good.token\x01", "expected n,,"),
        (b"n,,\x01\x01", "expected n,,"),
        (b"y,,\x01auth=Bearer good.token\x01\x01", "expected n,,"),
        (b"", "expected n,,"),
        (b"\xff", "expected n,,"),
    ],
)
def test_oauthbearer(message: bytes, outcome: Accepted | Challenge | str) -> None:
    decided = OAuthBearerServer(check).step(message)
    if isinstance(outcome, str):
        assert isinstance(decided, Rejected)
        assert outcome in decided.message
    else:
        assert decided == outcome


def test_a_bad_token_is_refused_after_the_clients_answer() -> None:
    assert converse(OAuthBearerClient("good.token"), OAuthBearerServer(check)) == Accepted("alice", expires_at_ms=1_000)
    decided = converse(OAuthBearerClient("bad.token"), OAuthBearerServer(check))
    assert isinstance(decided, Rejected)
    assert decided.reason == "expected another token"
    assert "bad.token" not in decided.message + decided.reason
