"""Questions to the active controller: found by what this node's replica of the metadata log knows, asked again until
answered.

| what comes back | next |
|---|---|
| an answer | done |
| NOT_CONTROLLER, anywhere in it | another controller: as the metadata log says by then, else the next in turn |
| no connection, no answer in time | the same |
| UNSUPPORTED_VERSION: no version of the controller can express the request | the error, as asking again is of no use |
| the controller does not let this broker forward | the same |

A version that the active controller lacks, or all controllers where none is known to be active, ends the request.

Until the deadline, with a pause that grows. After a failover all brokers ask at once, so pauses are drawn at random.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any, Final

from ...controller import is_from_another
from ...protocol import (
    OUTSIDE,
    ApiKey,
    EnvelopeError,
    ErrorCode,
    KafkaError,
    Unanswered,
    response_in_envelope,
    wrapped_in_envelope,
)
from ...protocol.messages import Request, ResponseT
from ...protocol.net import Address, KafkaClient, RequestContext, exhausted
from ...remote import Backoff

RETRY_MIN_MS: Final = 20
RETRY_MAX_MS: Final = 1_000
JITTER: Final = 0.2
ATTEMPT_TIMEOUT_S: Final = 5.0


class ControllerUnavailableError(OSError):
    """No controller has answered within the deadline. Whether one has done what was asked is not known."""


class ControllerChannel:
    """`leader` gives the active controller's address if it is known; `others` are all controllers."""

    def __init__(
        self,
        client: KafkaClient,
        rng: Random,
        *,
        leader: Callable[[], Address | None],
        others: Callable[[], Sequence[Address]],
    ) -> None:
        self._client = client
        self._rng = rng
        self._leader = leader
        self._others = others
        self._turn = 0
        self.unanswered = Unanswered()

    def on_connection_lost(self, lost: Callable[[], None]) -> None:
        """Have `lost` called whenever a connection to a controller has ended."""
        self._client.on_lost = lost

    async def close(self) -> None:
        await self._client.close()

    async def send(self, request: Request[ResponseT], *, timeout_s: float, max_version: int | None = None) -> ResponseT:
        """Return the active controller's response in its newest form. ControllerUnavailableError names what came last;
        KafkaError UNSUPPORTED_VERSION if the controller is too old for the request.
        """

        async def attempt(address: Address, attempt_timeout_s: float) -> ResponseT:
            return await self._client.send(address, request, max_version=max_version, timeout_s=attempt_timeout_s)

        return await self._ask(request, attempt, timeout_s)

    async def forward(self, request: Request[ResponseT], client: RequestContext, *, timeout_s: float) -> ResponseT:
        """Return the active controller's response to a client's request, in an Envelope with the client's principal and
        address (KIP-590). Errors as of `send`; KafkaError with the controller's code if it does not let this broker
        forward.
        """

        async def attempt(address: Address, attempt_timeout_s: float) -> ResponseT:
            async with asyncio.timeout(attempt_timeout_s):
                connection = await self._client.connection(address)
                version = connection.version_of(ApiKey(request.api_key), client.api_version)
                envelope = await exhausted(wrapped_in_envelope(request, version, client))
                response = await connection.send(envelope)
                return await exhausted(response_in_envelope(request, version, response))

        return await self._ask(request, attempt, timeout_s)

    async def _ask(
        self,
        request: Request[ResponseT],
        attempt: Callable[[Address, float], Coroutine[Any, Any, ResponseT]],
        timeout_s: float,
    ) -> ResponseT:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        backoff = Backoff(RETRY_MIN_MS, RETRY_MAX_MS, JITTER, self._rng)
        failure = "no controller is known"
        too_old: set[Address] = set()
        while (left_s := deadline_s - loop.time()) > 0:
            for address in self._candidates():
                try:
                    response = await attempt(address, min(left_s, ATTEMPT_TIMEOUT_S))
                except OUTSIDE as error:
                    self._check_version(address, error, too_old)
                    self.unanswered.failed(address, error)
                    failure = str(error)
                    continue
                self.unanswered.answered(address)
                if not is_from_another(response):
                    return response
                failure = f"{address} is not the active controller"
            await asyncio.sleep(min(backoff.next_delay_ms() / 1000, max(0.0, deadline_s - loop.time())))
        raise ControllerUnavailableError(
            f"{ApiKey(request.api_key).name} was not answered within {timeout_s:g} s: {failure}"
        )

    def _check_version(self, address: Address, error: Exception, too_old: set[Address]) -> None:
        """Raise the error if it says that no controller which may be active can read the request, or lets this broker
        send it.
        """
        if isinstance(error, EnvelopeError) and error.code is not ErrorCode.not_controller:
            raise error
        if not isinstance(error, KafkaError) or error.code is not ErrorCode.unsupported_version:
            return
        too_old.add(address)
        # A standby may be older than the active controller while a cluster is being upgraded.
        if address == self._leader() or too_old.issuperset(self._others()):
            raise error

    def _candidates(self) -> Iterator[Address]:
        """The one that is known to lead, or one more of all of them in turn."""
        leader = self._leader()
        if leader is not None:
            yield leader
            return
        others = self._others()
        if others:
            self._turn += 1
            yield others[self._turn % len(others)]
