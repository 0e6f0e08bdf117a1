"""TLS between our own listener and client: who gets in, and what both sides say to those who do not."""

from __future__ import annotations

import asyncio
import re
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from tierfetch.cli.local.certificates import make_authority, make_certificate
from tierfetch.limited_log import SOURCE_LINES_MAX
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchResponse, FetchTopicResponse
from tierfetch.protocol.net.client import Address, BrokerUnavailableError, KafkaClient
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.settings import client_settings
from tierfetch.security.principal import SecurityProtocol
from tierfetch.tests.protocol.listening import (
    ALICE,
    AUTHORITY,
    DAY,
    FETCH,
    NODE,
    TRUST,
    listening,
    store,
    trust,
)
from tierfetch.tests.protocol.wire_fakes import FileSlice


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
    ("server", "client", "expected", "logged"),
    [
        (NODE, {}, "certificate is not accepted: unable to get local issuer certificate", "alert is: unknown ca"),
        (
            store(make_certificate(issuer=AUTHORITY, ends=-DAY / 2)),
            TRUST,
            "certificate has expired",
            "alert is: certificate expired",
        ),
        (
            store(make_certificate(issuer=AUTHORITY, starts=DAY)),
            TRUST,
            "certificate is not yet valid",
            "alert is: bad certificate",
        ),
        (store(make_certificate()), TRUST, "self-signed certificate", "alert is: unknown ca"),
        (
            store(make_certificate(issuer=AUTHORITY, hosts=("elsewhere",))),
            TRUST,
            "Hostname mismatch, certificate is not valid for 'localhost'",
            "alert is: bad certificate",
        ),
        (store(make_certificate(issuer=make_authority())), TRUST, "certificate is not accepted", "unknown ca"),
        (
            {**NODE, "ssl.enabled.protocols": "TLSv1.3"},
            {**TRUST, "ssl.enabled.protocols": "TLSv1.2"},
            "alert is: protocol version",
            "unsupported protocol",
        ),
    ],
)
async def test_a_client_refuses_what_it_cannot_trust_and_both_sides_say_why(
    server: dict[str, str], client: dict[str, str], expected: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(server, SecurityProtocol.SSL) as listener:
        with pytest.raises(BrokerUnavailableError, match=f"TLS handshake failed: .*{expected}"):
            await listener.ask({"security.protocol": "SSL", **client})
        await listener.handshakes_ended()
        assert re.search(f"TLS handshake with 127.0.0.1:.* failed: .*{logged}", caplog.text)
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
    ("server", "client", "expected", "logged"),
    [
        (MUTUAL, {}, "alert is: certificate required", "peer did not return a certificate"),
        (MUTUAL, store(make_certificate("Eve")), "alert is: unknown ca", "self-signed certificate"),
        (
            MUTUAL,
            store(make_certificate("Eve", issuer=make_authority())),
            "alert is: unknown ca",
            "unable to get local issuer certificate",
        ),
        (
            MUTUAL,
            store(make_certificate("Old", issuer=AUTHORITY, ends=-DAY / 2)),
            "alert is: certificate expired",
            "certificate has expired",
        ),
        (
            MUTUAL,
            store(make_certificate("Young", issuer=AUTHORITY, starts=DAY)),
            "alert is: bad certificate",
            "certificate is not yet valid",
        ),
        (
            {**MUTUAL, "ssl.principal.mapping.rules": "RULE:^UID=(.*)$/$1/"},
            store(make_certificate("Bob", issuer=AUTHORITY)),
            "closed|reset",
            "no rule of ssl.principal.mapping.rules matches the name of its certificate",
        ),
    ],
)
async def test_a_listener_refuses_certificates_and_both_sides_say_why(
    server: dict[str, str], client: dict[str, str], expected: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(server, SecurityProtocol.SSL) as listener:
        with pytest.raises(BrokerUnavailableError, match=expected):
            await listener.ask({"security.protocol": "SSL", **TRUST, **client})
        assert logged in caplog.text
        assert not listener.contexts


async def test_failed_handshakes_without_end_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        for _ in range(2 * SOURCE_LINES_MAX):
            with pytest.raises(BrokerUnavailableError):
                await listener.ask({})
        await listener.handshakes_ended()
    assert len([line for line in caplog.messages if "TLS handshake with " in line]) == SOURCE_LINES_MAX


async def test_a_plaintext_client_at_a_tls_listener(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(NODE, SecurityProtocol.SSL) as listener:
        with pytest.raises(BrokerUnavailableError):
            await listener.ask({})
        assert "does not speak TLS" in caplog.text


async def test_a_tls_client_at_a_plaintext_listener(caplog: pytest.LogCaptureFixture) -> None:
    async with listening({}, SecurityProtocol.PLAINTEXT) as listener:
        with pytest.raises(BrokerUnavailableError, match="TLS handshake failed: the peer closed the connection"):
            await listener.ask({"security.protocol": "SSL", **TRUST})
        assert "it looks like TLS" in caplog.text


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
async def test_no_password_leaves_a_client_whose_peer_speaks_another_protocol(protocol: str) -> None:
    """A peer that takes what comes and closes: no client tries again with less."""
    received: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(65536))
        writer.close()

    async with await asyncio.start_server(take, "localhost", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with listening({}, SecurityProtocol.PLAINTEXT) as unused_listener:
            with pytest.raises(BrokerUnavailableError):
                await unused_listener.ask({"security.protocol": protocol, **TRUST, **ALICE}, Address("localhost", port))
    assert len(received) == 1
    assert b"alice" not in received[0]
    assert b"pencil" not in received[0]


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
