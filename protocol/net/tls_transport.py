"""asyncio's TLS transport as both ends of a connection use it."""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from typing import Any, Final
from weakref import WeakKeyDictionary

RECEIVE_BYTES: Final = 256 * 1024
_received_into: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray]] = WeakKeyDictionary()


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
