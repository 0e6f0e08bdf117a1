"""A listener: accepts connections, keeps their number, memory and time within limits, ends them in order.

    start --accept--> ServerConnection (server_connection.py) ... --close(deadline)--> drained or aborted

| limit | Kafka's name | what happens beyond it |
|---|---|---|
| `connections_max` | max.connections | the new connection is closed |
| `request_size_max` | socket.request.max.bytes | the connection is closed |
| `connections_per_ip_max` | max.connections.per.ip | the new connection is closed |
| `connection_rate_max` | max.connection.creation.rate | the same |
| `fetch_request_size_max` | - | a larger Fetch closes its connection: Fetch has memory of its own |
| `in_flight_max` | - | the connection is not read until a response has left |
| `request_memory_max` | queued.max.request.bytes | large requests are not read until memory is given back |
| `fetch_memory_max` | - | the same, for large requests of Fetch |
| half of `request_memory_max` | - | large requests that only ask wait until memory is given back (`object_memory`) |
| `progress_bytes_min` | - | a large request of which less comes in `progress_window_s` closes its connection |
| `idle_timeout_s` | connections.max.idle.ms | a connection without a request under way is closed |
| `receive_timeout_s` | - | a request that began and did not end in time closes its connection |
| `send_buffer_size` | socket.send.buffer.bytes | the kernel buffers at most this; None: it decides, up to 4 MiB |
| `send_timeout_s` | - | a response that does not leave in time closes its connection |

Requests up to `SMALL_REQUEST_SIZE` never wait for memory, and Fetch has memory of its own: produce requests that wait
for their followers may hold all the rest, and the followers' fetches must get through (`request_memory`, `arrival`).

Closing: no new connections, no new requests; what is under way ends and is answered until the deadline; then
connections are aborted and handlers cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from typing import Final

from ... import limited_log
from ...security import ListenerIdentity, SecurityProtocol
from ..api import ApiKey
from ..messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from .admission import Admission
from .arrival import RequestMemories
from .dispatch import Handler, Handlers, RequestContext, api_versions_error, api_versions_response
from .gates import Gate, OpenGate, RefusedRequestError, SaslGate
from .server_connection import ServerConnection
from .server_limits import ServerLimits
from .tls_acceptor import TlsAcceptor

__all__ = ["Server", "ServerLimits"]

log = logging.getLogger(__name__)

SWEEP_INTERVAL_S: Final = 1.0
LISTEN_BACKLOG: Final = 128


class Server:
    """One listener. `handlers` decides which APIs it offers; ApiVersions is answered from them unless it is among
    them.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        listener_name: str,
        limits: ServerLimits | None = None,
        identity: ListenerIdentity | None = None,
    ) -> None:
        """`identity` None makes a PLAINTEXT listener."""
        self.limits = limits or ServerLimits()
        self.listener_name = listener_name
        self.identity = identity
        self.memory = RequestMemories.of_listener(self.limits, listener_name)
        self.admission = Admission(self.limits)
        self.handlers: dict[int, Handler] = {ApiKey.API_VERSIONS: self._api_versions} | dict(handlers.items())
        if identity is not None and identity.settings.protocol.has_sasl:
            self.handlers |= dict.fromkeys((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), _answered_by_gate)
        self.connections: dict[ServerConnection, None] = {}
        self.handshakes: dict[TlsAcceptor, None] = {}
        """Accepted connections whose TLS handshake is under way."""
        self.orphans: dict[asyncio.Future[None], None] = {}
        """Handlers whose connection is closed and that run to their end."""
        self.connection_watcher: Callable[[int], None] | None = None
        """Called with the id of each connection that has ended (`RequestContext.connection_id`)."""
        self.address_quota: Callable[[str], str | None] = lambda _: None
        """Counts a new connection of an address, and returns None; or returns why it is refused."""
        self.is_closing = False
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._connection_ids = 0

    async def start(self, host: str, port: int) -> None:
        """Bind and accept. Port 0 takes a free one; see `port`."""
        await self.bind(host, port)
        await self.serve()

    async def bind(self, host: str, port: int) -> None:
        """Take the port without accepting yet: who connects is refused."""
        loop = asyncio.get_running_loop()
        assert self._server is None, f"listener {self.listener_name} was started before"
        self._server = await loop.create_server(
            self._protocol_factory(loop), host, port, backlog=LISTEN_BACKLOG, start_serving=False
        )

    def _protocol_factory(self, loop: asyncio.AbstractEventLoop) -> Callable[[], asyncio.BaseProtocol]:
        """Return what makes the protocol of an accepted connection: two kinds share one port's code."""

        if self.identity is None or not self.identity.settings.protocol.has_tls:
            return lambda: ServerConnection(self, loop)
        return lambda: TlsAcceptor(self, loop, lambda: ServerConnection(self, loop, is_admitted=True))

    async def serve(self) -> None:
        """Accept from now on."""
        assert self._server is not None, f"listener {self.listener_name} is not bound"
        await self._server.start_serving()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep)
        log.info("listener %s on port %d", self.listener_name, self.port)

    @property
    def port(self) -> int:
        assert self._server is not None, f"listener {self.listener_name} is not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self, *, deadline_s: float) -> None:
        """Let what is under way end and leave, at most `deadline_s`; then cut it off. Idempotent."""
        self.is_closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for handshake in list(self.handshakes):
            handshake.abort()
        for connection in list(self.connections):
            connection.begin_close()
        try:
            async with asyncio.timeout(deadline_s):
                await self._all_gone()
        except TimeoutError:
            left = len(self.connections), len(self.orphans)
            if any(left):
                message = "listener %s: %d connections and %d requests did not end within %g s and are cut off"
                log.warning(message, self.listener_name, *left, deadline_s)
        for connection in list(self.connections):
            connection.abort()
        for orphan in self.orphans:
            orphan.cancel()
        await self._all_gone()

    async def _all_gone(self) -> None:
        while self.connections or self.orphans:
            self._changed.clear()
            await self._changed.wait()

    # Called by connections.

    def admit(self, address: str) -> str | None:
        """Count a new connection, and return None; or return why it is refused."""
        if self.is_closing:
            return "closing"
        return self.address_quota(address) or self.admission.accept(address, asyncio.get_running_loop().time())

    def handshake_failed(self, address: str) -> None:
        """Account for a connection that was admitted, and ended with its TLS handshake."""
        self.admission.ended(address)

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context of a new connection."""
        context = None if self.identity is None else self.identity.tls()
        assert context is not None, f"listener {self.listener_name} has no TLS"
        return context

    def gate_of(self, transport: asyncio.Transport) -> Gate:
        """Return the gate of a new connection. RefusedRequestError if no rule maps its certificate."""
        identity = self.identity
        if identity is None or identity.settings.protocol is SecurityProtocol.PLAINTEXT:
            return OpenGate(self.handlers)
        if identity.settings.protocol.has_sasl:
            loop = asyncio.get_running_loop()
            return SaslGate(self.handlers, identity, loop.time, lambda: time.time_ns() // 1_000_000)
        connected: ssl.SSLObject = transport.get_extra_info("ssl_object")
        principal = identity.principal_of(connected.getpeercert(binary_form=True))
        if principal is None:
            raise RefusedRequestError("no rule of ssl.principal.mapping.rules matches the name of its certificate")
        return OpenGate(self.handlers, principal, identity.settings.protocol)

    def next_connection_id(self) -> int:
        self._connection_ids += 1
        return self._connection_ids

    def connection_ended(self, connection: ServerConnection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self.admission.ended(connection.address)
        self._changed.set()
        if self.connection_watcher is not None and not self.is_closing:
            self.connection_watcher(connection.id)

    def adopt(self, handler: asyncio.Future[None]) -> None:
        """Watch over a handler that outlives its connection."""
        self.orphans[handler] = None
        handler.add_done_callback(self._orphan_ended)

    def _orphan_ended(self, handler: asyncio.Future[None]) -> None:
        self.orphans.pop(handler, None)
        self._changed.set()

    async def _api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        error = api_versions_error(request, context.api_version)
        return api_versions_response(self.handlers, context.api_version, error_code=error)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection in list(self.connections):
            connection.expire(now_s)
        limited_log.settle()
        self._sweeper = loop.call_later(SWEEP_INTERVAL_S, self._sweep)


async def _answered_by_gate(*_: object) -> None:
    raise AssertionError("SASL requests are answered by the gate")
