"""Looks whether a broker's process is gone, when its connection to the controller has ended (see `fast_failover`).

A connect that is refused shows that nobody listens there any more. One that is taken shows nothing: it may be the same
process, or the next one that has not registered yet. The decision stays with the core; this only connects and tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from .fast_failover import ProbeOutcome, Verdict
from .records import BrokerEndpoint

PROBE_TIMEOUT_S: Final = 0.25
PAUSE_S: Final = 0.03
"""Between two probes: a process that dies closes its sockets one by one."""

Tell = Callable[[int, ProbeOutcome], Awaitable[Verdict]]


async def probe(endpoint: BrokerEndpoint) -> ProbeOutcome:
    """One connect."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            transport, _ = await loop.create_connection(asyncio.Protocol, endpoint.host, endpoint.port)
    except ConnectionRefusedError:
        return ProbeOutcome.REFUSED
    except OSError:  # a timeout among them
        return ProbeOutcome.NO_PROOF
    transport.abort()
    return ProbeOutcome.NO_PROOF


async def probe_until_decided(broker_id: int, endpoint: BrokerEndpoint, tell: Tell) -> None:
    """Probe as long as the core wants to know more."""
    while True:
        verdict = await tell(broker_id, await probe(endpoint))
        if verdict is not Verdict.PROBE:
            return
        await asyncio.sleep(PAUSE_S)
