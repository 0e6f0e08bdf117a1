"""Looks whether a broker's process is gone, when its connection to the controller has ended (see `fast_failover`).

A connect that every listener refuses shows that nobody listens there any more: one alone may be meant for others than
the controllers, and be refused on the way. A connect that is taken is followed by the question which
incarnation answers (a tagged field of ApiVersions, which brokers of Apache Kafka do not fill): the registered one
lives, another one is proof that it does not. Listeners with TLS come last, and are not asked. Anything else shows
nothing. The decision stays with the core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from ..protocol.errors import OUTSIDE
from ..protocol.messages.cluster import ApiVersionsRequest
from ..protocol.net.client import Address, KafkaClient
from ..security.principal import SecurityProtocol
from .core.fast_failover import ProbeOutcome, Verdict
from .image.registrations import BrokerRegistration
from .records import BrokerEndpoint

PROBE_TIMEOUT_S: Final = 0.25
PAUSE_S: Final = 0.03
"""Between two probes: a process that dies closes its sockets one by one."""
_QUESTION: Final = ApiVersionsRequest(client_software_name="tierfetch", client_software_version="prober")

Tell = Callable[[BrokerRegistration, ProbeOutcome], Awaitable[Verdict]]


async def probe(broker: BrokerRegistration, random: Random) -> ProbeOutcome:
    """One connect to each of its listeners, as long as they refuse, and one question to the one that does not."""
    loop, outcome = asyncio.get_running_loop(), ProbeOutcome.NO_PROOF
    for end_point in sorted(broker.end_points, key=_has_tls):
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                transport, _ = await loop.create_connection(asyncio.Protocol, end_point.host, end_point.port)
        except ConnectionRefusedError:
            outcome = ProbeOutcome.REFUSED
            continue
        except OSError:  # a timeout among them
            return ProbeOutcome.NO_PROOF
        transport.abort()
        if _has_tls(end_point):
            return ProbeOutcome.NO_PROOF
        return await _compare(broker, Address(end_point.host, end_point.port), random)
    return outcome


def _has_tls(end_point: BrokerEndpoint) -> bool:
    """Whether the question could not be asked there: a controller has no part in the brokers' TLS."""
    return end_point.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)


async def _compare(broker: BrokerRegistration, address: Address, random: Random) -> ProbeOutcome:
    client = KafkaClient(client_id="tierfetch-prober", random=random)
    try:
        answer = await client.send(address, _QUESTION, timeout_s=PROBE_TIMEOUT_S)
    except OUTSIDE:
        return ProbeOutcome.NO_PROOF
    finally:
        await client.close()
    if answer.incarnation_id is None:
        return ProbeOutcome.NO_PROOF
    is_same = answer.incarnation_id == broker.incarnation_id
    return ProbeOutcome.SAME_INCARNATION if is_same else ProbeOutcome.OTHER_INCARNATION


async def probe_until_decided(broker: BrokerRegistration, random: Random, tell: Tell) -> None:
    """Probe as long as the core wants to know more."""
    while True:
        verdict = await tell(broker, await probe(broker, random))
        if verdict is not Verdict.PROBE:
            return
        await asyncio.sleep(PAUSE_S)
