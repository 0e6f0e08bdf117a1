"""What both ends of a connection share: frames from the transport, and waiting until it takes more."""

from __future__ import annotations

import asyncio
import fcntl
import select
import socket
import struct
import sys
import termios
from typing import Final, cast

from ..wire.framing import FrameAssembler
from ..wire.primitives import BUFFER_TYPES, Buffer, Sendable

WRITE_CHUNK_SIZE = 256 * 1024
"""A large buffer is written in pieces, because a transport copies what the kernel does not take at once."""

WAKE_BYTES_MAX: Final = 512 * 1024
WAKE_BYTES_MIN: Final = 64 * 1024
"""While a large frame arrives, the kernel wakes the reader for this much of it, and not for each segment: on loopback
a fifth less CPU for replication, both sides together.
"""


class StreamProtocol(asyncio.BufferedProtocol):
    """A connection's protocol. asyncio sets TCP_NODELAY on every TCP transport."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, frame_size_max: int, *, recycles: bool = False) -> None:
        self.loop = loop
        self.peer = "not connected"
        self.host = ""
        """The peer's address without its port."""
        self.frames = FrameAssembler(frame_size_max, recycles=recycles)
        self.is_lost = False
        self._socket: socket.socket | None = None
        """Whose bytes are those of the frames, one to one; None for TLS and where the kernel does not do it."""
        self.handed_bytes = 0
        """Bytes of buffers that the transport was given to send."""
        self._wake_bytes = 1
        self._writable = asyncio.Event()
        self._writable.set()

    def bytes_received(self) -> None:
        """More bytes are in `frames`."""
        raise NotImplementedError

    async def send_part(self, part: Buffer | Sendable) -> None:
        """Hand the bytes to the transport. Nothing else may write meanwhile. OSError, or what the slice raises."""
        if not isinstance(part, BUFFER_TYPES):
            try:
                await part.send(self.transport)
            finally:
                part.release()
            return
        if len(part) <= WRITE_CHUNK_SIZE:
            await self._hand(part)
            return
        view = memoryview(part)
        for start in range(0, len(view), WRITE_CHUNK_SIZE):
            await self._hand(view[start : start + WRITE_CHUNK_SIZE])

    async def _hand(self, data: Buffer) -> None:
        await self.drain()
        self.transport.write(data)
        self.handed_bytes += len(data)

    async def drain(self) -> None:
        """Wait until the transport takes more. ConnectionResetError if it is closed."""
        if not self._writable.is_set():
            await self._writable.wait()
        self.check_open()

    def check_open(self) -> None:
        """ConnectionResetError if it is not."""
        if self.is_lost or self.transport.is_closing():
            raise ConnectionResetError(f"the connection to {self.peer} is closed")

    # From the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer = peer_name(transport)
        self.host = peer_host(transport)
        self._socket = _plain_socket(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.frames.filled(nbytes)
        self.bytes_received()
        if self._socket is not None:
            self._set_wake_bytes(self._socket)

    def eof_received(self) -> None:
        """The transport closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def pending_bytes(self) -> int | None:
        """Return the number of bytes that wait in the kernel; None where that is not known."""
        if self._socket is None or self.transport.is_closing():
            return None
        (pending,) = struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.FIONREAD, bytes(4)))
        return int(pending)

    def is_cut_off(self) -> bool:
        """Return whether the connection is closed, or was reset by the peer. The kernel knows the latter also while
        reading is paused, when asyncio does not look.
        """
        if self.is_lost or self.transport.is_closing():
            return True
        connected = self.transport.get_extra_info("socket")
        if connected is None:
            return False
        look = select.poll()
        look.register(connected.fileno(), 0)  # a reset is always reported; a peer that only stops writing still reads
        return bool(look.poll(0))

    def _set_wake_bytes(self, connected: socket.socket) -> None:
        """Never more than must still come: less may follow. The end of the stream wakes in any case."""
        missing = self.frames.missing
        wake_bytes = min(missing, WAKE_BYTES_MAX) if missing >= WAKE_BYTES_MIN else 1
        if wake_bytes != self._wake_bytes and not self.transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wake_bytes)
            self._wake_bytes = wake_bytes


def _plain_socket(transport: asyncio.BaseTransport) -> socket.socket | None:
    """TLS holds back parts of what it has read, so that more may be missing than the kernel will ever get."""
    if sys.platform != "linux" or transport.get_extra_info("sslcontext") is not None:
        return None
    return cast(socket.socket | None, transport.get_extra_info("socket"))


def peer_name(transport: asyncio.BaseTransport) -> str:
    """Return the address and port of the other end."""
    address = transport.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)


def peer_host(transport: asyncio.BaseTransport) -> str:
    """Return the address of the other end without its port."""
    address = transport.get_extra_info("peername")
    return str(address[0]) if isinstance(address, tuple) else ""
