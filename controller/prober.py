"""Looks whether a broker's process is there: connects to its listeners, and asks which incarnation answers.

Every address of every listener is tried, one after another, until the registered incarnation answers or an address that
cannot be asked takes the connect. The question is a tagged field of ApiVersions, which brokers of Apache Kafka do not
fill. A listener with TLS comes last, and is asked where the controller's own client configuration is for such a one.

What a look shows is decided by `reachability`, and what follows by the core (`fast_failover`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final
from uuid import UUID

from ..errors import OperatorError
from ..protocol import OUTSIDE
from ..protocol.messages.cluster import ApiVersionsRequest
from ..protocol.net import Address, KafkaClient, connect, resolve
from ..security import ClientIdentity, SecurityProtocol
from .core.fast_failover import Verdict
from .image.image import MetadataImage
from .image.registrations import BrokerRegistration
from .reachability import AddressKey, Attempt, Reachability, Sight
from .records import BrokerEndpoint

PROBE_TIMEOUT_S: Final = 0.25
PAUSE_S: Final = 0.03
"""Between two probes: a process that dies closes its sockets one by one, a live one sends a heartbeat."""
AT_ONCE_MAX: Final = 8
"""Brokers that are looked at together to learn who can be reached."""
_NO_WAY: Final = frozenset({errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
_QUESTION: Final = ApiVersionsRequest(client_software_name="tierfetch", client_software_version="prober")

_log = logging.getLogger(__name__)

Report = Callable[[BrokerRegistration, Sight], Awaitable[Verdict]]


class Prober:
    """`identity` is what this controller presents to others; None connects in plaintext."""

    def __init__(self, random: Random, identity: ClientIdentity | None = None) -> None:
        self._random = random
        self._identity = identity

    async def look(self, broker: BrokerRegistration) -> Sight:
        """Return what its addresses show."""
        attempts: dict[AddressKey, Attempt] = {}
        incarnations: dict[AddressKey, UUID] = {}
        for end_point in sorted(broker.end_points, key=_has_tls):
            for address in await _addresses(end_point):
                if address in attempts:
                    continue
                attempts[address] = await _connect(address)
                if attempts[address] is not Attempt.TAKEN:
                    continue
                incarnation = await self._ask(end_point, address)
                if incarnation is not None:
                    incarnations[address] = incarnation
                if incarnation in (None, broker.incarnation_id):
                    return Sight(attempts, incarnations)
        return Sight(attempts, incarnations)

    async def until_decided(self, broker: BrokerRegistration, report: Report) -> None:
        """Look until the core needs no further look."""
        while True:
            if await report(broker, await self.look(broker)) is not Verdict.PROBE:
                return
            await asyncio.sleep(PAUSE_S)

    async def keep_reaching(
        self, reachability: Reachability, image: Callable[[], MetadataImage], changed: asyncio.Event
    ) -> None:
        """Keep finding out which brokers can be reached: each broker once it serves, until an address takes a connect.
        One that is not reached waits as `reachability` says. `changed` says that there are other brokers.
        """
        loop = asyncio.get_running_loop()
        while True:
            changed.clear()
            due = reachability.due(image(), loop.time())
            for first in range(0, len(due), AT_ONCE_MAX):
                looks = (self._reach(broker, reachability) for broker in due[first : first + AT_ONCE_MAX])
                await asyncio.gather(*looks)
            with suppress(TimeoutError):
                async with asyncio.timeout(reachability.pause_s(image(), loop.time())):
                    await changed.wait()

    async def _reach(self, broker: BrokerRegistration, reachability: Reachability) -> None:
        sight = await self.look(broker)
        news = reachability.note(broker, sight, asyncio.get_running_loop().time())
        if news is not None:
            _log.info("broker %d: %s", broker.broker_id, news.value)

    async def _ask(self, end_point: BrokerEndpoint, address: AddressKey) -> UUID | None:
        """Return the incarnation that answers; None where the answer names none."""
        identity, target = None, Address(*address)
        if _has_tls(end_point):
            identity, target = self._identity, Address(end_point.host, end_point.port)  # its certificate has the name
            if identity is None or identity.protocol != end_point.security_protocol:
                return None
        client = KafkaClient(client_id="tierfetch-prober", random=self._random, identity=identity)
        try:
            answer = await client.send(target, _QUESTION, timeout_s=PROBE_TIMEOUT_S)
        except (*OUTSIDE, OperatorError):
            return None
        finally:
            await client.close()
        return answer.incarnation_id


async def _addresses(end_point: BrokerEndpoint) -> list[AddressKey]:
    """Return all addresses of a listener's name; the name itself, which no connect will reach, where it has none."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            found = await resolve(end_point.host, end_point.port)
    except OSError:  # a timeout among them
        return [(end_point.host, end_point.port)]
    return [(address, end_point.port) for address in found]


async def _connect(address: AddressKey) -> Attempt:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            transport, _ = await connect(asyncio.Protocol, *address)
    except ConnectionRefusedError:
        return Attempt.REFUSED
    except OSError as error:  # a timeout among them
        return Attempt.NO_WAY if error.errno in _NO_WAY else Attempt.SILENT
    transport.abort()
    return Attempt.TAKEN


def _has_tls(end_point: BrokerEndpoint) -> bool:
    return end_point.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
