"""The quotas of clients at work: every request of every listener passes here (KIP-13, KIP-124, KIP-219, KIP-612).

| quota | measured | shared by | above the bound |
|---|---|---|---|
| producer_byte_rate | bytes of Produce requests | user, client id | the response says how long; muted |
| consumer_byte_rate | bytes of records in a Fetch response | the same | the same, and no records |
| request_percentage | time on the event loop, in percent | the same | the same, for one window at most |
| connection_creation_rate | accepted connections | address | the connection is closed |

The response leaves at once: a muted connection is not read until its time is over (KIP-219). What a throttled fetch
would have sent is not counted. A response that says already that its client has to wait is the controller's (KIP-599):
the connection is muted as long.

Exempt are, as in Kafka, the fetches of followers and the cluster actions that the authorizer allowed; and everything on
a listener that only brokers use. While some client has a request_percentage, the time of what is exempt has a rate of
its own (KIP-124). ApiVersions before SASL has ended is no client's yet, and is not measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar, cast

from ...controller import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, ClientQuotas, QuotaLimit
from ...protocol import ApiKey, ErrorCode
from ...protocol.fetch import FetchRequest
from ...protocol.messages import MESSAGES, Message, response_class
from ...protocol.messages.producers import WriteTxnMarkersResponse
from ...protocol.net import Handler, RequestContext, monotonic_ms
from ...security import ANONYMOUS
from .core.rate import SampledRate
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
        self.exempt = SampledRate(samples, self._window_ms)
        """The time of exempt requests on the event loop, in percent."""
        self.connections = Sensors(samples, self._window_ms)
        self.refused_connections = 0
        self._limits: dict[tuple[str, str, str], QuotaLimit | None] = {}
        self._limits_of: tuple[ClientQuotas, int] | None = None
        """The quotas and the revision that `_limits` were looked up in."""
        self._has_percentage = False

    # Requests.

    def limited(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return the handlers, within the quotas. A client whose response cannot say that it has to wait is muted."""
        return {api: self._limited(handler, has_throttle_time(ApiKey(api))) for api, handler in handlers.items()}

    def _limited(self, handler: Handler, has_throttle_ms: bool) -> Handler:
        async def limited(context: RequestContext, request: Message) -> Message | None:
            spent_s, response = await self._timed(handler, context, request)
            if self._is_exempt(context, request, response):
                if spent_s:
                    self.exempt.record(spent_s * 100, monotonic_ms())
                return response
            said_ms = cast(_ToldToWait, response).throttle_time_ms if has_throttle_ms and response is not None else 0
            wait_ms = max(self._throttle_of_time(context, spent_s), self._throttle_of_request(context), said_ms)
            if wait_ms:
                context.mute(wait_ms / 1000)
            if response is None or not has_throttle_ms or wait_ms == said_ms:
                return response
            return replace(cast(_ToldToWait, response), throttle_time_ms=wait_ms)

        return limited

    async def _timed(self, handler: Handler, context: RequestContext, request: Message) -> tuple[float, Message | None]:
        """Return a request's seconds on the event loop (0 while no client has such a quota), and its response."""
        if not self._measures_time():
            return 0.0, await handler(context, request)
        processing = Processing(handler(context, request), self._clock_s)
        response = await processing
        return processing.spent_s, response

    def _is_exempt(self, context: RequestContext, request: Message, response: Message | None) -> bool:
        if context.listener == self._broker_listener or is_unauthenticated(context):
            return True
        if isinstance(request, FetchRequest):
            return request.replica_id >= 0
        return isinstance(response, WriteTxnMarkersResponse) and not was_denied(response)

    def _throttle_of_time(self, context: RequestContext, spent_s: float) -> int:
        limit = self._limit(REQUEST_PERCENTAGE, context) if spent_s else None
        return 0 if limit is None else min(self._record(REQUEST_PERCENTAGE, limit, spent_s * 100), self._window_ms)

    def _throttle_of_request(self, context: RequestContext) -> int:
        if context.api is not ApiKey.PRODUCE:
            return 0
        limit = self._limit(PRODUCER_BYTE_RATE, context)
        return 0 if limit is None else self._record(PRODUCER_BYTE_RATE, limit, context.request_bytes)

    # Fetch responses.

    def fetch_bytes_max(self, context: RequestContext) -> int | None:
        """Return how many bytes a consumer may be sent at once; None: any number."""
        limit = self._limit_of_consumer(context)
        return None if limit is None else max(1, int(self.sensors[CONSUMER_BYTE_RATE].burst(limit.bound)))

    def throttle_fetch(self, context: RequestContext, size: int) -> int:
        """Record what a consumer is about to be sent. If it has to wait, return for how many milliseconds: it is to be
        sent nothing then, and nothing is recorded.

        A consumer that was sent nothing in the last window may have a batch that alone is above its bound: it would
        never get it otherwise. Its next fetch waits for that.
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
        if self._quotas().is_empty:
            return None
        quotas = self._current()
        if len(self._limits) >= LIMITS_MAX:
            self._limits = {}
        client = key, context.principal.name, context.client_id or ""
        if client not in self._limits:
            self._limits[client] = quotas.client_limit(*client)
        return self._limits[client]

    def _measures_time(self) -> bool:
        """Return whether any client has a request_percentage."""
        if self._quotas().is_empty:
            return False
        self._current()
        return self._has_percentage

    def _current(self) -> ClientQuotas:
        """Return the quotas in force; forget what was looked up in others."""
        quotas = self._quotas()
        if self._limits_of != (quotas, quotas.revision):
            self._limits, self._limits_of = {}, (quotas, quotas.revision)
            self._has_percentage = any(REQUEST_PERCENTAGE in values for _, values in quotas.items())
        return quotas


def is_unauthenticated(context: RequestContext) -> bool:
    """Return whether the request may come before SASL has ended, and came so."""
    may_come = context.api is ApiKey.API_VERSIONS and context.security_protocol.has_sasl
    return may_come and context.principal == ANONYMOUS


def was_denied(response: WriteTxnMarkersResponse) -> bool:
    """Return whether the authorizer denied the request: it then denies every partition."""
    partitions = (item for marker in response.markers for topic in marker.topics for item in topic.partitions)
    first = next(partitions, None)
    return first is not None and first.error_code is ErrorCode.cluster_authorization_failed


def has_throttle_time(api: ApiKey) -> bool:
    """Return whether the API's responses can say that the client has to wait."""
    if api in (ApiKey.PRODUCE, ApiKey.FETCH):
        return True
    return api in MESSAGES and "throttle_time_ms" in response_class(api).__slots__
