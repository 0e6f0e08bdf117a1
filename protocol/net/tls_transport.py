"""asyncio's TLS transport as both ends of a connection use it, and how a client opens one.

dialled -> handshake -> the connection's protocol over the TLS transport
               | fails: the peer gets TLS's alert, then the connection is closed
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from ...security.tls import failure

RECEIVE_BYTES: Final = 256 * 1024
_received_into: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray]] = WeakKeyDictionary()

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


class AlertingTls(SSLProtocol):
    """asyncio's TLS, with two changes.

    The alert of a handshake that fails is sent: asyncio drops it, and the peer would see a closed connection only. And
    the connections of an event loop receive into the same buffer, as what has arrived is copied out of it at once:
    asyncio's 256 KiB for each are more than all else that an idle connection takes.
    """

    max_size: int = 0  # type: ignore[misc]  # what asyncio allocates for each

    def __init__(self, loop: asyncio.AbstractEventLoop, *args: Any, **options: Any) -> None:
        super().__init__(loop, *args, **options)
        self.max_size = RECEIVE_BYTES
        self._ssl_buffer = _received_into.setdefault(loop, bytearray(RECEIVE_BYTES))
        self._ssl_buffer_view = memoryview(self._ssl_buffer)

    def _fatal_error(self, exc: BaseException, message: str = "Fatal error on transport") -> None:
        self._process_outgoing()  # type: ignore[attr-defined]  # typeshed lacks it
        super()._fatal_error(exc, message)


async def dial(
    loop: asyncio.AbstractEventLoop,
    make: Callable[[], ProtocolT],
    host: str,
    port: int,
    context: ssl.SSLContext | None,
) -> ProtocolT:
    """Return a connected protocol, over TLS if there is a `context`. OSError, also if the handshake fails."""
    if context is None:
        _, plain = await loop.create_connection(make, host, port)
        return plain
    transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
    protocol = make()
    done: asyncio.Future[None] = loop.create_future()
    tls = AlertingTls(loop, protocol, context, done, server_side=False, server_hostname=host)
    transport.set_protocol(tls)
    tls.connection_made(transport)
    try:
        await done
    except OSError as error:
        raise ConnectionError(f"TLS handshake failed: {failure(error)}") from error
    except BaseException:
        transport.abort()
        raise
    return protocol
