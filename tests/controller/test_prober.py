"""Looking whether a broker's process is gone"""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.handlers.versions import VersionsHandler
from tierfetch.cli.local.certificates import Certificate, make_authority, make_certificate
from tierfetch.cli.local.processes import free_ports
from tierfetch.controller import prober, reachability
from tierfetch.controller.core.fast_failover import ProbeOutcome, Verdict
from tierfetch.controller.image.registrations import BrokerRegistration
from tierfetch.controller.prober import Prober
from tierfetch.controller.reachability import Attempt, Reachability, Sight
from tierfetch.controller.records import BrokerEndpoint
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.server import Server
from tierfetch.security.client import ClientIdentity
from tierfetch.security.core.credentials import ScramCredentials
from tierfetch.security.core.settings import client_settings, listener_settings
from tierfetch.security.listener import ListenerIdentity
from tierfetch.security.principal import SecurityProtocol

LOOPBACK = "127.0.0.1"
INCARNATION = UUID(int=4711)
OTHER = UUID(int=4712)
NOW_S = 1e12
"""Later than any pause."""
AUTHORITY = make_authority()
SSL = 1
BROKER = BrokerRegistration(1, 7, INCARNATION, fenced=False)


def broker_on(port: int, host: str = LOOPBACK) -> BrokerRegistration:
    return replace(BROKER, end_points=(BrokerEndpoint(name="PLAINTEXT", host=host, port=port, security_protocol=0),))


async def look(broker: BrokerRegistration) -> Sight:
    return await Prober(random.Random(1)).look(broker)


def give_two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve a name to two, whatever this machine's resolver says."""
    loop = asyncio.get_running_loop()

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        addresses = ["::1", LOOPBACK] if host == "two.addresses" else [host]
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)


class _View:
    """As much of a cluster view as ApiVersions needs."""

    image = SimpleNamespace(features={})


async def serving(incarnation: UUID | None) -> Server:
    versions = VersionsHandler(_View(), lambda: [ApiKey.API_VERSIONS], lambda: 1, incarnation)
    server = Server({ApiKey.API_VERSIONS: versions.api_versions}, listener_name="PLAINTEXT")
    await server.start(LOOPBACK, 0)
    return server


@pytest.mark.parametrize(
    "answering", [INCARNATION, OTHER, None], ids=["the registered one", "another one", "a broker that does not tell"]
)
async def test_C1_who_answers_is_asked_which_incarnation_it_is(answering: UUID | None) -> None:
    server = await serving(answering)
    address = (LOOPBACK, server.port)
    try:
        sight = await look(broker_on(server.port))
        assert sight == Sight({address: Attempt.TAKEN}, {} if answering is None else {address: answering})
    finally:
        await server.close(deadline_s=1)


def trusting(authority: Certificate, **store: str) -> ClientIdentity:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem}
    return ClientIdentity(client_settings({"security.protocol": "SSL"} | trust | store))


def store(certificate: Certificate) -> dict[str, str]:
    return {"ssl.keystore.key": certificate.key_pem(), "ssl.keystore.certificate.chain": certificate.pem}


@pytest.mark.parametrize("answering", [INCARNATION, OTHER])
@pytest.mark.parametrize(
    ("identity", "is_told"),
    [
        (trusting(AUTHORITY, **store(make_certificate(issuer=AUTHORITY))), True),
        (trusting(AUTHORITY), False),
        (trusting(make_authority()), False),
        (None, False),
    ],
    ids=["both prove who they are", "no certificate of its own", "another authority", "plaintext"],
)
async def test_C1_behind_tls_an_incarnation_counts_that_was_proven_and_nothing_else_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, answering: UUID, identity: ClientIdentity | None, is_told: bool
) -> None:
    monkeypatch.setattr(prober, "PROBE_TIMEOUT_S", 5.0)
    properties = store(make_certificate(issuer=AUTHORITY)) | {
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem,
    }
    settings = listener_settings(properties, "TLS", SecurityProtocol.SSL)
    versions = VersionsHandler(_View(), lambda: [ApiKey.API_VERSIONS], lambda: 1, answering)
    server = Server(
        {ApiKey.API_VERSIONS: versions.api_versions},
        listener_name="TLS",
        identity=ListenerIdentity(settings, ScramCredentials),
    )
    await server.start("localhost", 0)
    end_point = BrokerEndpoint(name="TLS", host=LOOPBACK, port=server.port, security_protocol=SSL)
    broker, address = replace(BROKER, end_points=(end_point,)), (LOOPBACK, server.port)
    table = Reachability()
    try:
        sight = await Prober(random.Random(1), identity).look(broker)
        assert sight == Sight({address: Attempt.TAKEN}, {address: answering} if is_told else {})
        table.note(broker, Sight({address: Attempt.TAKEN}), 0.0)
        expected = ProbeOutcome.SAME_INCARNATION if answering == INCARNATION else ProbeOutcome.OTHER_INCARNATION
        assert table.outcome(broker, sight) is (expected if is_told else ProbeOutcome.NO_PROOF)
    finally:
        await server.close(deadline_s=1)


async def test_C1_silence_after_accept_tells_nothing_and_a_refusal_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "PROBE_TIMEOUT_S", 0.05)
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    assert await look(broker_on(port)) == Sight({(LOOPBACK, port): Attempt.TAKEN})
    server.close()
    await server.wait_closed()
    assert await look(broker_on(port)) == Sight({(LOOPBACK, port): Attempt.REFUSED})


async def test_C1_every_listener_is_tried_until_one_answers() -> None:
    """Of several, one may be meant for clients elsewhere: nobody listens there on this machine."""
    server = await serving(INCARNATION)
    (closed,) = free_ports(1)
    one, two = (broker_on(port).end_points[0] for port in (closed, server.port))
    sight = await look(replace(BROKER, end_points=(one, two)))
    assert sight.attempts == {(LOOPBACK, closed): Attempt.REFUSED, (LOOPBACK, server.port): Attempt.TAKEN}
    assert await look(replace(BROKER, end_points=(two, one))) == Sight(
        {(LOOPBACK, server.port): Attempt.TAKEN}, {(LOOPBACK, server.port): INCARNATION}
    )
    await server.close(deadline_s=1)
    sight = await look(replace(BROKER, end_points=(one, two)))
    assert set(sight.attempts.values()) == {Attempt.REFUSED}
    assert await look(BROKER) == Sight()


async def test_C1_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    give_two_addresses(monkeypatch)
    server = await serving(INCARNATION)
    broker = broker_on(server.port, "two.addresses")
    six, four = ("::1", server.port), (LOOPBACK, server.port)
    sight = await look(broker)
    assert sight.attempts[four] is Attempt.TAKEN
    assert sight.attempts[six] in (Attempt.REFUSED, Attempt.NO_WAY), "as this machine has IPv6 or not"
    assert sight.incarnations == {four: INCARNATION}
    await server.close(deadline_s=1)
    sight = await look(broker)
    assert sight.attempts[four] is Attempt.REFUSED
    assert sight.attempts.keys() == {six, four}


async def test_C1_a_name_that_is_unknown_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    assert await look(broker_on(9092, "nowhere")) == Sight({("nowhere", 9092): Attempt.SILENT})


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "\0", ""])
async def test_C1_what_is_no_host_name_is_silent(host: str) -> None:
    """A broker registers what it likes, and must not end the controller by it."""
    (attempt,) = (await look(broker_on(1, host))).attempts.values()
    assert attempt in (Attempt.SILENT, Attempt.REFUSED)


async def test_C1_reaching_goes_on_until_the_broker_takes_a_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachability, "AGAIN_S_MIN", 0.01)
    (port,) = free_ports(1)
    table, broker = Reachability(), broker_on(port)
    image: Any = SimpleNamespace(brokers={1: broker})
    looked, reached = asyncio.Event(), asyncio.Event()
    note = table.note

    def noted(broker: BrokerRegistration, sight: Sight, now_s: float) -> None:
        note(broker, sight, now_s)
        (reached if sight.attempts[LOOPBACK, port] is Attempt.TAKEN else looked).set()

    monkeypatch.setattr(table, "note", noted)
    reaching = asyncio.create_task(Prober(random.Random(1)).keep_reaching(table, lambda: image, asyncio.Event()))
    async with asyncio.timeout(5):
        await looked.wait()
        assert table.due(image, NOW_S) == [broker]
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, LOOPBACK, port)
        await reached.wait()
    assert table.due(image, NOW_S) == []
    reaching.cancel()
    server.close()


async def test_C1_a_decided_probe_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it goes on, the next lost connection of this broker is not looked at."""
    (port,) = free_ports(1)

    async def tell(_: BrokerRegistration, sight: Sight) -> Verdict:
        told.append(sight)
        return Verdict.PROBE if len(told) < 2 else Verdict.WAIT

    told: list[Sight] = []
    monkeypatch.setattr(prober, "PAUSE_S", 0.001)
    await Prober(random.Random(1)).until_decided(broker_on(port), tell)
    assert told == [Sight({(LOOPBACK, port): Attempt.REFUSED})] * 2
