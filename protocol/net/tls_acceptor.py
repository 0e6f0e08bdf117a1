"""The TLS side of a listener: the handshake of an accepted connection, before the connection proper begins.

    accepted -> handshake, at most `TLS_HANDSHAKE_TIMEOUT_S` -> ServerConnection over the TLS transport
                    | fails: one WARNING line that names the peer and the reason; the peer gets TLS's alert

Each handshake gets the newest context, so that certificates change without a restart. `tls_transport` does the work;
record slices are copied there, while PLAINTEXT connections send them from the file (see `log.disk.sending`).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final, Protocol, cast

from ...limited_log import LimitedLog
from ...security import tls_failure
from .stream import StreamProtocol, peer_host, peer_name
from .tls_transport import AlertingTls

TLS_HANDSHAKE_TIMEOUT_S: Final = 10

log = LimitedLog(logging.getLogger(__name__))


class TlsListener(Protocol):
    """What a handshake needs of the listener."""

    listener_name: str
    handshakes: dict[TlsAcceptor, None]

    def tls_context(self) -> ssl.SSLContext: ...

    def admit(self, address: str) -> str | None:
        """Count a new connection, and return None; or return why it is refused."""

    def handshake_failed(self, address: str) -> None:
        """Account for a connection that was admitted, and ended with its TLS handshake."""


class TlsAcceptor(asyncio.Protocol):
    """Made for each accepted connection; `make_connection` makes what takes over after the handshake."""

    def __init__(
        self,
        listener: TlsListener,
        loop: asyncio.AbstractEventLoop,
        make_connection: Callable[[], StreamProtocol],
    ) -> None:
        self._listener = listener
        self._loop = loop
        self._make_connection = make_connection
        self._task: asyncio.Task[None] | None = None
        self._is_handed_over = False
        """Whether the connection proper has taken over, and accounts for its end."""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        peer, address = peer_name(transport), peer_host(transport)
        refusal = self._listener.admit(address)
        if refusal is not None:
            log.warning(address, "%s: %s refused: %s", self._listener.listener_name, peer, refusal)
            self._transport.abort()
            return
        self._listener.handshakes[self] = None
        self._task = self._loop.create_task(self._shake_hands(), name="tls-handshake")
        self._task.add_done_callback(lambda _: self._ended(address))

    def _ended(self, address: str) -> None:
        self._listener.handshakes.pop(self, None)
        if not self._is_handed_over:
            self._listener.handshake_failed(address)

    def abort(self) -> None:
        """Give up the handshake."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    async def _shake_hands(self) -> None:
        listener, arrived = self._listener, _Arrived()
        peer, host = peer_name(self._transport), peer_host(self._transport)
        done: asyncio.Future[None] = self._loop.create_future()
        tls = AlertingTls(
            self._loop,
            arrived,
            listener.tls_context(),
            done,
            server_side=True,
            call_connection_made=False,
            ssl_handshake_timeout=TLS_HANDSHAKE_TIMEOUT_S,
        )
        self._transport.set_protocol(tls)
        tls.connection_made(self._transport)
        self._transport.resume_reading()
        try:
            await done
        except OSError as error:
            name = listener.listener_name
            log.warning(host, "%s: TLS handshake with %s failed: %s", name, peer, tls_failure(error))
            self._transport.abort()
            return
        if arrived.is_lost or self._transport.is_closing():
            return
        transport: asyncio.Transport = tls._get_app_transport()  # type: ignore[attr-defined]  # typeshed lacks it
        connection = self._make_connection()
        self._is_handed_over = True
        transport.set_protocol(connection)
        connection.connection_made(transport)
        arrived.hand_over(connection, transport)


class _Arrived(asyncio.Protocol):
    """Keeps what arrives between the end of the handshake and the connection proper: one turn of the event loop."""

    def __init__(self) -> None:
        self.is_lost = False
        self._data = bytearray()

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def hand_over(self, connection: StreamProtocol, transport: asyncio.Transport) -> None:
        """Give the connection what has arrived for it."""
        view = memoryview(bytes(self._data))
        while view and not transport.is_closing():
            buffer = connection.get_buffer(len(view))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            connection.buffer_updated(count)
            view = view[count:]
