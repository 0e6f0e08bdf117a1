"""Sending a slice of a file to a transport: straight to its socket where that is a plain one, else piece by piece.

Over a plain socket the bytes go through one buffer that all sends of a disk share: `preadv(RWF_NOWAIT)` fills it from
memory and never waits for the device, `write` empties it. `os.sendfile` would save that copy, but it cannot say
beforehand whether it will block the loop.

* What the transport has buffered goes out first. Nothing else may write to it meanwhile.
* Nothing stays in the shared buffer over an `await`: what the socket does not take is read again.
* What is not in memory is sent by a thread with `os.sendfile`, while the kernel is advised of what follows: reading it
  in the thread and writing it on the loop took twice the CPU. The thread waits for the device, never for the peer.
* The socket's descriptor is duplicated for the time of the send, so it cannot be closed or reused meanwhile.
  That a transport was closed is noticed when the socket becomes writable, and after `CLOSED_CHECK_S` at the latest.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final, Protocol, cast

PIECE_BYTES: Final = 1024 * 1024
"""Sent by a thread at once."""
TURN_BYTES: Final = 512 * 1024
"""Sent before others have a turn."""
BUFFER_BYTES: Final = 256 * 1024
"""Small enough to be still in the processor's cache when it is sent."""
COPY_BYTES: Final = 256 * 1024
CLOSED_CHECK_S: Final = 1.0


class CopiedFile(Protocol):
    """What a copying send needs of a file that stays open and untruncated meanwhile."""

    def read_on_loop(self, offset: int, count: int) -> bytes | None: ...

    async def read_in_thread(self, offset: int, count: int) -> bytes: ...


class SendableFile(CopiedFile, Protocol):
    """What a send over a plain socket needs besides."""

    @property
    def send_buffer(self) -> memoryview:
        """`BUFFER_BYTES`, shared by all sends of the loop."""

    def fileno(self) -> int: ...

    async def send_in_thread(self, offset: int, count: int, socket: int) -> int:
        """How many bytes the socket took, 0 at the end of the file; BlockingIOError if it takes none now."""

    def read_now(self, offset: int, buffer: memoryview) -> int | None:
        """How many bytes were put into `buffer` from memory, 0 at the end of the file; None if a thread must look."""


class _Draining(Protocol):
    """A protocol that can be waited for until its transport takes more."""

    async def drain(self) -> None: ...


def transport_socket(transport: asyncio.WriteTransport) -> int | None:
    """The descriptor of a transport whose bytes go to a socket as they are; None for TLS and what is no socket."""
    if transport.get_extra_info("sslcontext") is not None:
        return None
    socket = transport.get_extra_info("socket")
    return None if socket is None else cast(int, socket.fileno())


async def send_native(file: SendableFile, offset: int, count: int, transport: asyncio.WriteTransport) -> int:
    """How many bytes went out; fewer than `count` if the file ends before. Errors are OSErrors."""
    _check_not_closed(transport)
    descriptor = transport_socket(transport)
    assert descriptor is not None, transport
    descriptor = os.dup(descriptor)
    try:
        while transport.get_write_buffer_size():
            await _writable(descriptor)
            _check_not_closed(transport)
        sent = 0
        turn_ends = TURN_BYTES
        while sent < count:
            if sent >= turn_ends:
                turn_ends = sent + TURN_BYTES
                await asyncio.sleep(0)
            written = await _send_some(file, offset + sent, count - sent, descriptor, transport)
            if written is None:
                break
            sent += written
        return sent
    finally:
        os.close(descriptor)


async def send_copy(file: CopiedFile, offset: int, count: int, transport: asyncio.WriteTransport) -> int:
    """As `send_native`. Flow control is the protocol's `drain`; without one the transport buffers what it must."""
    protocol = transport.get_protocol()
    sent = 0
    while sent < count:
        _check_not_closed(transport)
        size = min(COPY_BYTES, count - sent)
        data = file.read_on_loop(offset + sent, size)
        if data is None:
            data = await file.read_in_thread(offset + sent, size)
        transport.write(data)
        sent += len(data)
        if len(data) < size:
            break
        if hasattr(protocol, "drain"):
            await cast(_Draining, protocol).drain()
    return sent


async def _send_some(
    file: SendableFile, offset: int, count: int, descriptor: int, transport: asyncio.WriteTransport
) -> int | None:
    """How many bytes went out, 0 if the socket had to be waited for; None at the end of the file."""
    _check_not_closed(transport)
    buffer = file.send_buffer[:count]
    size = file.read_now(offset, buffer)
    if size is None:
        return await _send_cold(file, offset, count, descriptor)
    if size == 0:
        return None
    written = _write(descriptor, buffer[:size])
    if written < size:
        await _writable(descriptor)
    return written


async def _send_cold(file: SendableFile, offset: int, count: int, descriptor: int) -> int | None:
    size = min(PIECE_BYTES, count)
    if count > size:
        ahead = min(PIECE_BYTES, count - size)
        os.posix_fadvise(file.fileno(), offset + size, ahead, os.POSIX_FADV_WILLNEED)
    try:
        return await file.send_in_thread(offset, size, descriptor) or None
    except BlockingIOError:
        await _writable(descriptor)
        return 0


def _write(descriptor: int, data: memoryview) -> int:
    """How many bytes the socket takes now."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0


async def _writable(descriptor: int) -> None:
    """Until the socket takes bytes, or `CLOSED_CHECK_S` have passed."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def is_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(descriptor, is_ready)
    check = loop.call_later(CLOSED_CHECK_S, is_ready)
    try:
        await ready
    finally:
        check.cancel()
        loop.remove_writer(descriptor)


def _check_not_closed(transport: asyncio.WriteTransport) -> None:
    if transport.is_closing():
        raise ConnectionResetError("the connection was closed while a slice was being sent")
