"""Looking whether a broker's process is gone"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from tierfetch.broker.handlers.versions import VersionsHandler
from tierfetch.cli.processes import free_ports
from tierfetch.controller import prober
from tierfetch.controller.core.fast_failover import ProbeOutcome, Verdict
from tierfetch.controller.image.registrations import BrokerRegistration
from tierfetch.controller.records import BrokerEndpoint
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.server import Server

INCARNATION = UUID(int=4711)
BROKER = BrokerRegistration(1, 7, INCARNATION, fenced=False)


def broker_on(port: int) -> BrokerRegistration:
    return replace(
        BROKER, end_points=(BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0),)
    )


class _View:
    """As much of a cluster view as ApiVersions needs."""

    image = SimpleNamespace(features={})


@pytest.mark.parametrize(
    ("answering", "outcome"),
    [
        (INCARNATION, ProbeOutcome.SAME_INCARNATION),
        (UUID(int=4712), ProbeOutcome.OTHER_INCARNATION),
        (None, ProbeOutcome.NO_PROOF),
    ],
    ids=["the registered one", "another one", "a broker that does not tell"],
)
async def test_C1_who_answers_is_asked_which_incarnation_it_is(answering: UUID | None, outcome: ProbeOutcome) -> None:
    versions = VersionsHandler(_View(), lambda: [ApiKey.API_VERSIONS], lambda: 1, answering)
    server = Server({ApiKey.API_VERSIONS: versions.api_versions}, listener_name="PLAINTEXT")
    await server.start("127.0.0.1", 0)
    try:
        assert await prober.probe(broker_on(server.port), random.Random(1)) is outcome
    finally:
        await server.close(deadline_s=1)


async def test_C1_silence_after_accept_proves_nothing_and_a_refusal_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "PROBE_TIMEOUT_S", 0.05)
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await prober.probe(broker_on(port), random.Random(1)) is ProbeOutcome.NO_PROOF
    server.close()
    await server.wait_closed()
    assert await prober.probe(broker_on(port), random.Random(1)) is ProbeOutcome.REFUSED


async def test_C1_a_listener_that_refuses_is_no_refusal_where_another_one_takes_the_connect() -> None:
    """Of several, one may be meant for clients elsewhere: nobody listens there on this machine."""
    versions = VersionsHandler(_View(), lambda: [ApiKey.API_VERSIONS], lambda: 1, INCARNATION)
    server = Server({ApiKey.API_VERSIONS: versions.api_versions}, listener_name="INTERNAL")
    await server.start("127.0.0.1", 0)
    (closed,) = free_ports(1)
    both = [broker_on(port).end_points[0] for port in (closed, server.port)]
    for end_points in (both, both[::-1]):
        broker = replace(BROKER, end_points=tuple(end_points))
        assert await prober.probe(broker, random.Random(1)) is ProbeOutcome.SAME_INCARNATION
    await server.close(deadline_s=1)
    assert await prober.probe(broker, random.Random(1)) is ProbeOutcome.REFUSED
    assert await prober.probe(BROKER, random.Random(1)) is ProbeOutcome.NO_PROOF


async def test_C1_a_decided_probe_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it goes on, the next lost connection of this broker is not looked at."""

    async def refused(*_: object) -> ProbeOutcome:
        return ProbeOutcome.REFUSED

    async def tell(_: BrokerRegistration, outcome: ProbeOutcome) -> Verdict:
        told.append(outcome)
        return Verdict.PROBE if len(told) < 2 else Verdict.WAIT

    told: list[ProbeOutcome] = []
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(delay_s: float) -> None:
        pauses.append(delay_s)
        await sleep(0)

    monkeypatch.setattr(prober, "probe", refused)
    monkeypatch.setattr(prober.asyncio, "sleep", note)
    await prober.probe_until_decided(BROKER, random.Random(1), tell)
    assert told == [ProbeOutcome.REFUSED] * 2
    assert pauses == [prober.PAUSE_S]
