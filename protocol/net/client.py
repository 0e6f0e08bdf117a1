"""Connections to brokers by address, dialled when needed and shared; see `client_connection` for what can happen.

An address is dialled again only after a back-off that doubles with each failure in a row, with jitter from the
`Random` that was given. Requests made meanwhile wait for it within their own deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from ...light_dataclass import dataclass
from ...security import ClientIdentity
from ..messages.base import Request, ResponseT
from .client_connection import Address, BrokerUnavailableError, ClientLimits, Connection, RequestTimedOutError

__all__ = [
    "Address",
    "BrokerUnavailableError",
    "ClientLimits",
    "Connection",
    "KafkaClient",
    "RequestTimedOutError",
]

JITTER: Final = 0.2
BACKOFF_EXPONENT_MAX: Final = 16
IDLE_ADDRESSES_MAX: Final = 256
"""From so many addresses on, those without a connection are forgotten once their back-off is over: where addresses
change with each start of a broker, every one of them would be kept for ever.
"""


@dataclass(eq=False, slots=True)
class _Broker:
    """What is known of one address. `failures` in a row; not dialled before `not_before_s` of the loop's clock."""

    connection: Connection | None = None
    dialling: asyncio.Task[Connection] | None = None
    failures: int = 0
    not_before_s: float = 0.0
    last_failure: str = ""
    """The failure of the last dial, in words; empty after one that succeeded."""


class KafkaClient:
    """Connections by address, shared by everyone in the process who asks the same brokers."""

    def __init__(
        self,
        *,
        client_id: str,
        random: Random,
        limits: ClientLimits | None = None,
        identity: ClientIdentity | None = None,
    ) -> None:
        """`identity` None connects in plaintext."""
        self._client_id = client_id
        self._random = random
        self._limits = limits or ClientLimits()
        self._identity = identity
        self.on_lost: Callable[[], None] | None = None
        """Called when a connection that was established has ended."""
        self._brokers: dict[Address, _Broker] = {}

    async def send(
        self,
        address: Address,
        request: Request[ResponseT],
        *,
        max_version: int | None = None,
        timeout_s: float | None = None,
    ) -> ResponseT:
        """As `Connection.send`, dialling within the same deadline if need be."""
        timeout_s = self._limits.request_timeout_s if timeout_s is None else timeout_s
        connection = self._live(address)
        if connection is None:
            loop = asyncio.get_running_loop()
            deadline_s = loop.time() + timeout_s
            try:
                async with asyncio.timeout_at(deadline_s):
                    connection = await self.connection(address)
            except TimeoutError:
                failure = self._last_failure(address)
                raise BrokerUnavailableError(
                    failure or f"{address} could not be reached within {timeout_s:g} s"
                ) from None
            timeout_s = deadline_s - loop.time()
        return await connection.send(request, max_version=max_version, timeout_s=timeout_s)

    async def connection(self, address: Address) -> Connection:
        """The address's live connection; dialled by the first who asks, after its back-off. BrokerUnavailableError."""
        connection = self._live(address)
        if connection is not None:
            return connection
        if address not in self._brokers and len(self._brokers) >= IDLE_ADDRESSES_MAX:
            self._forget_idle(asyncio.get_running_loop().time())
        broker = self._brokers.setdefault(address, _Broker())
        if broker.dialling is None:
            broker.dialling = asyncio.create_task(self._dial(address, broker))
            broker.dialling.add_done_callback(_dialled(broker))
        return await asyncio.shield(broker.dialling)

    async def close(self) -> None:
        """Close every connection and stop dialling."""
        dials = [broker.dialling for broker in self._brokers.values() if broker.dialling is not None]
        for dial in dials:
            dial.cancel()
        await asyncio.gather(*dials, return_exceptions=True)
        for broker in self._brokers.values():
            if broker.connection is not None:
                broker.connection.close()
        self._brokers.clear()

    def _forget_idle(self, now_s: float) -> None:
        self._brokers = {
            address: broker
            for address, broker in self._brokers.items()
            if broker.dialling is not None or broker.not_before_s > now_s or self._live(address) is not None
        }

    def _live(self, address: Address) -> Connection | None:
        broker = self._brokers.get(address)
        connection = None if broker is None else broker.connection
        return None if connection is None or connection.is_closed else connection

    def _last_failure(self, address: Address) -> str:
        broker = self._brokers.get(address)
        return "" if broker is None else broker.last_failure

    async def _dial(self, address: Address, broker: _Broker) -> Connection:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(broker.not_before_s - loop.time())
        try:
            broker.connection = await Connection.connect(
                address, client_id=self._client_id, limits=self._limits, identity=self._identity
            )
        except OSError as error:
            broker.last_failure = str(error)
            broker.not_before_s = loop.time() + self._backoff_s(broker.failures)
            broker.failures += 1
            raise
        broker.connection.on_lost = self.on_lost
        broker.failures = 0
        broker.last_failure = ""
        return broker.connection

    def _backoff_s(self, failures: int) -> float:
        limits = self._limits
        exponent = min(failures, BACKOFF_EXPONENT_MAX)
        delay_s = min(limits.backoff_max_s, limits.backoff_min_s * 2.0**exponent)
        return delay_s * self._random.uniform(1 - JITTER, 1 + JITTER)


def _dialled(broker: _Broker) -> Callable[[asyncio.Task[Connection]], None]:
    def done(dial: asyncio.Task[Connection]) -> None:
        broker.dialling = None
        if not dial.cancelled():
            dial.exception()  # mark it as seen: everyone who asked may have given up

    return done
