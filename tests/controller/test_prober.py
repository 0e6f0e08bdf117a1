"""Looking whether a broker's process is gone"""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.controller import prober
from tierfetch.controller.fast_failover import ProbeOutcome, Verdict
from tierfetch.controller.records import BrokerEndpoint

ENDPOINT = BrokerEndpoint(name="PLAINTEXT", host="h", port=1, security_protocol=0)


async def test_C1_a_decided_probe_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it goes on, the next lost connection of this broker is not looked at."""

    async def refused(_: BrokerEndpoint) -> ProbeOutcome:
        return ProbeOutcome.REFUSED

    async def tell(_: int, outcome: ProbeOutcome) -> Verdict:
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
    await prober.probe_until_decided(1, ENDPOINT, tell)
    assert told == [ProbeOutcome.REFUSED] * 2
    assert pauses == [prober.PAUSE_S]
