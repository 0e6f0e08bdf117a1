"""Sending a slice of a file to a transport: without a copy where it goes over a plain socket, else piece by piece.

`loop.sendfile` is not used. Its fallback shares a file position; and if the transport is aborted meanwhile, CPython
(seen on 3.11) leaves the closed descriptor in the loop's selector, where it breaks the next connection that gets the
same number. Here the socket's descriptor is duplicated for the time of the send, so it cannot be closed or given away
behind its back.

* What the transport has buffered goes out first. Nothing else may write to it meanwhile.
* `sendfile` must find its pages in memory, because it runs on the loop. Each piece is probed at a few places
  (`RWF_NOWAIT`) and, when cold, read once in a thread, while the kernel is told of the piece after it. A page that is
  evicted between probe and send blocks the loop for one device read.
* A transport that was closed is noticed when the socket becomes writable, and after `CLOSED_CHECK_S` at the latest.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final, Protocol, cast

PIECE_BYTES: Final = 1024 * 1024
PROBE_STRIDE_BYTES: Final = 128 * 1024
COPY_BYTES: Final = 256 * 1024
CLOSED_CHECK_S: Final = 1.0


class SendableFile(Protocol):
    """What a send needs of a file that stays open and untruncated meanwhile."""

    def fileno(self) -> int: ...

    def read_on_loop(self, offset: int, count: int) -> bytes | None: ...

    async def read_in_thread(self, offset: int, count: int) -> bytes: ...


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
    _refuse_closed(transport)
    descriptor = transport_socket(transport)
    assert descriptor is not None, transport
    descriptor = os.dup(descriptor)
    try:
        while transport.get_write_buffer_size():
            await _writable(descriptor)
            _refuse_closed(transport)
        sent = 0
        while sent < count:
            piece = min(PIECE_BYTES, count - sent)
            await _warm(file, offset + sent, piece, count - sent)
            gone = await _send_piece(file, offset + sent, piece, descriptor, transport)
            sent += gone
            if gone < piece:
                break
            await asyncio.sleep(0)
        return sent
    finally:
        os.close(descriptor)


async def send_copy(file: SendableFile, offset: int, count: int, transport: asyncio.WriteTransport) -> int:
    """As `send_native`. Flow control is the protocol's `drain`; without one the transport buffers what it must."""
    protocol = transport.get_protocol()
    sent = 0
    while sent < count:
        _refuse_closed(transport)
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


async def _send_piece(
    file: SendableFile, offset: int, count: int, descriptor: int, transport: asyncio.WriteTransport
) -> int:
    sent = 0
    while sent < count:
        _refuse_closed(transport)
        try:
            gone = os.sendfile(descriptor, file.fileno(), offset + sent, count - sent)
        except BlockingIOError:
            await _writable(descriptor)
            continue
        if gone == 0:
            break
        sent += gone
    return sent


async def _warm(file: SendableFile, offset: int, count: int, count_left: int) -> None:
    if _in_memory(file, offset, count):
        return
    if count_left > count:
        os.posix_fadvise(file.fileno(), offset + count, min(PIECE_BYTES, count_left - count), os.POSIX_FADV_WILLNEED)
    await file.read_in_thread(offset, count)


def _in_memory(file: SendableFile, offset: int, count: int) -> bool:
    """Whether bytes all over the range are in memory; where that cannot be known, no."""
    places = (*range(offset, offset + count, PROBE_STRIDE_BYTES), offset + count - 1)
    probe = [bytearray(1)]
    try:
        for place in places:
            os.preadv(file.fileno(), probe, place, os.RWF_NOWAIT)
    except OSError:
        return False
    return True


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


def _refuse_closed(transport: asyncio.WriteTransport) -> None:
    if transport.is_closing():
        raise ConnectionResetError("the connection was closed while a slice was being sent")
