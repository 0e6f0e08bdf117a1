"""The quotas of clients at work: every request of every listener passes here (KIP-13, KIP-124, KIP-219, KIP-612).

| quota | measured | shared by | above the bound |
|---|---|---|---|
| producer_byte_rate | bytes of Produce requests | user, client id | the response says how long; muted |
| consumer_byte_rate | bytes of records in a Fetch response | the same | the same, and no records |
| request_percentage | time on the event loop, in percent | the same | the same, for one window at most |
| connection_creation_rate | accepted connections | address | the connection is closed |

The response leaves at once: a muted connection is not read until its time is over (KIP-219). What a throttled fetch
would have sent is not counted. Replicas' fetches are exempt, and everything on a listener that only brokers use.
A response that says already that its client has to wait is the controller's (KIP-599): the connection is muted as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar, cast

from ...controller import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, ClientQuotas, QuotaLimit
from ...protocol.api import ApiKey
from ...protocol.fetch.messages import FetchRequest
from ...protocol.messages.base import Message
from ...protocol.messages.registry import MESSAGES, response_class
from ...protocol.net.clock import monotonic_ms
from ...protocol.net.dispatch import Handler, RequestContext
from .core.sensors import Sensors

LIMITS_MAX: Final = 10_000
"""Clients whose bounds are remembered; beyond, they are looked up again."""


class _ToldToWait(Message):
    """A response that can say that its client has to wait; `has_throttle_time` says of which APIs."""

    __slots__ = ()
    throttle_time_ms: int


CLIENT_QUOTAS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)


T = TypeVar("T")


class Processing(Generic[T]):
    """`await` it in place of the coroutine; `spent_s` is the time that it has taken of the event loop: that of its own
    steps, not of what it waits for. Tasks that it starts are not counted.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], clock_s: Callable[[], float]) -> None:
        self.spent_s = 0.0
        self._coroutine = coroutine
        self._clock_s = clock_s

    def __await__(self) -> Generator[Any, Any, T]:
        send, throw = self._coroutine.send, self._coroutine.throw
        error: BaseException | None = None
        while True:
            began_s = self._clock_s()
            try:
                awaited = send(None) if error is None else throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.spent_s += self._clock_s() - began_s
            error = None
            try:
                yield awaited
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is the coroutine's
                error = thrown


class BrokerQuotas:
    """One broker's, of all its listeners. `quotas` returns those in force, `broker_listener` is the one that only
    brokers use, None if there is none.
    """

    def __init__(
        self,
        quotas: Callable[[], ClientQuotas],
        *,
        samples: int,
        window_s: int,
        broker_listener: str | None = None,
        clock_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._quotas = quotas
        self._window_ms = window_s * 1000
        self._broker_listener = broker_listener
        self._clock_s = clock_s
        self.sensors: dict[str, Sensors] = {key: Sensors(samples, self._window_ms) for key in CLIENT_QUOTAS}
        self.connections = Sensors(samples, self._window_ms)
        self.refused_connections = 0
        self._limits: dict[tuple[str, str, str], QuotaLimit | None] = {}
        self._limits_of: tuple[ClientQuotas, int] | None = None
        """The quotas and the revision that `_limits` were looked up in."""

    # Requests.

    def limited(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers of the APIs whose responses can say that the client has to wait, within the quotas."""
        return {
            api: self._limited(handler) if has_throttle_time(ApiKey(api)) else handler
            for api, handler in handlers.items()
        }

    def _limited(self, handler: Handler) -> Handler:
        async def limited(context: RequestContext, request: Message) -> Message | None:
            if self._is_exempt(context, request):
                return await handler(context, request)
            response = await self._metered(handler, context, request)
            wait_ms = max(self._throttle_of_request(context), 0 if response is None else response.throttle_time_ms)
            if wait_ms:
                context.mute(wait_ms / 1000)
            if response is None or wait_ms == response.throttle_time_ms:
                return response
            return replace(response, throttle_time_ms=wait_ms)

        return limited

    async def _metered(self, handler: Handler, context: RequestContext, request: Message) -> _ToldToWait | None:
        limit = self._limit(REQUEST_PERCENTAGE, context)
        if limit is None:
            return cast("_ToldToWait | None", await handler(context, request))
        processing = Processing(handler(context, request), self._clock_s)
        response = cast("_ToldToWait | None", await processing)
        wait_ms = self._record(REQUEST_PERCENTAGE, limit, processing.spent_s * 100)
        if response is None or not wait_ms:
            return response
        return replace(response, throttle_time_ms=max(response.throttle_time_ms, min(wait_ms, self._window_ms)))

    def _throttle_of_request(self, context: RequestContext) -> int:
        if context.api is not ApiKey.PRODUCE:
            return 0
        limit = self._limit(PRODUCER_BYTE_RATE, context)
        return 0 if limit is None else self._record(PRODUCER_BYTE_RATE, limit, context.request_bytes)

    def _is_exempt(self, context: RequestContext, request: Message) -> bool:
        if context.listener == self._broker_listener:
            return True
        return isinstance(request, FetchRequest) and request.replica_id >= 0

    # Fetch responses.

    def fetch_bytes_max(self, context: RequestContext) -> int | None:
        """Return how many bytes a consumer may be sent at once; None: any number."""
        limit = self._limit_of_consumer(context)
        return None if limit is None else max(1, int(self.sensors[CONSUMER_BYTE_RATE].burst(limit.bound)))

    def throttle_fetch(self, context: RequestContext, size: int) -> int:
        """Record what a consumer is about to be sent. If it has to wait, return for how many milliseconds: it is to be
        sent nothing then, and nothing is recorded.

        A consumer that was sent nothing lately may have a batch that alone is above its bound: it would never get it
        otherwise. Its next fetch waits for that.
        """
        limit = self._limit_of_consumer(context)
        if limit is None:
            return 0
        sensors, name, now_ms = self.sensors[CONSUMER_BYTE_RATE], (limit.user, limit.client_id), monotonic_ms()
        was_quiet = sensors.is_quiet(name, now_ms)
        wait_ms = self._record(CONSUMER_BYTE_RATE, limit, size)
        if not wait_ms or was_quiet:
            return 0
        sensors.take_back(name, size, now_ms)
        return wait_ms

    def _limit_of_consumer(self, context: RequestContext) -> QuotaLimit | None:
        return None if context.listener == self._broker_listener else self._limit(CONSUMER_BYTE_RATE, context)

    # Connections.

    def accept(self, address: str) -> str | None:
        """Count a new connection, and return None; or return why it is refused, uncounted."""
        bound = self._quotas().address_limit(address)
        if bound is None:
            return None
        now_ms = monotonic_ms()
        if not self.connections.record((address, ""), 1, bound, now_ms):
            return None
        self.connections.take_back((address, ""), 1, now_ms)
        self.refused_connections += 1
        return f"its address makes more than {bound:g} connections a second (connection_creation_rate)"

    # Bounds.

    def _record(self, key: str, limit: QuotaLimit, value: float) -> int:
        return self.sensors[key].record((limit.user, limit.client_id), value, limit.bound, monotonic_ms())

    def _limit(self, key: str, context: RequestContext) -> QuotaLimit | None:
        quotas = self._quotas()
        if quotas.is_empty:
            return None
        if self._limits_of != (quotas, quotas.revision) or len(self._limits) >= LIMITS_MAX:
            self._limits, self._limits_of = {}, (quotas, quotas.revision)
        client = key, context.principal.name, context.client_id or ""
        if client not in self._limits:
            self._limits[client] = quotas.client_limit(*client)
        return self._limits[client]


def has_throttle_time(api: ApiKey) -> bool:
    """Return whether the API's responses can say that the client has to wait."""
    if api in (ApiKey.PRODUCE, ApiKey.FETCH):
        return True
    return api in MESSAGES and "throttle_time_ms" in response_class(api).__slots__
