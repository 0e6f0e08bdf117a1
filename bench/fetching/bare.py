"""Answer fetches from files without any broker: what the machine allows to a process that serves them.

A request names a file, a place and a count; its answer is a frame with these bytes. Each connection has a thread, whose
calls run without the interpreter. There are two ways to send, and neither is the faster one on every machine, so that
both are measured, and the better one is what brokers are compared with.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .reader import SIZE, fill
from .requests import PARTITION_BYTES, PreparedRequest, pieces

PLACE: Final = struct.Struct(">iqi")
"""The number of a file, an offset in it, and a count of bytes."""
COPY_BYTES: Final = 256 << 10
"""Small enough to be still in the processor's cache when it is sent."""

Send = Callable[[int, int, int, int, memoryview], None]
"""Send (from this file, from this offset, so many bytes, to this socket, through this buffer)."""


def bare_requests(sizes: Sequence[int], first_file: int = 0) -> list[PreparedRequest]:
    """Return the requests that read files of these sizes one after another, as much at once as a fetch."""
    return [
        PreparedRequest(SIZE.pack(PLACE.size) + PLACE.pack(first_file + number, offset, count), count)
        for number, size in enumerate(sizes)
        for offset, count in pieces(size, PARTITION_BYTES)
    ]


def send_file(file: int, offset: int, count: int, target: int, buffer: memoryview) -> None:
    """Send within the kernel; the buffer is not needed."""
    while count:
        sent = os.sendfile(target, file, offset, count)
        if not sent:
            raise EOFError(f"the file ends {count} bytes before what was asked for")
        offset, count = offset + sent, count - sent


def read_and_send(file: int, offset: int, count: int, target: int, buffer: memoryview) -> None:
    """Read into the buffer, and send that."""
    while count:
        size = os.preadv(file, [buffer[:count]], offset)
        if not size:
            raise EOFError(f"the file ends {count} bytes before what was asked for")
        rest = buffer[:size]
        while rest:
            rest = rest[os.write(target, rest) :]
        offset, count = offset + size, count - size


WAYS: Final[dict[str, Send]] = {"sendfile": send_file, "pread and send": read_and_send}


@dataclass(frozen=True, slots=True)
class BareServer:
    """A server's process, which serves one way."""

    port: int
    pid: int


@contextmanager
def bare_server(way: str, paths: Sequence[Path]) -> Iterator[BareServer]:
    """Run a server of these files as long as the block lasts."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=_serve, args=(way, list(paths), its), daemon=True)
    process.start()
    its.close()
    port = ours.recv()
    assert process.pid is not None, "a started process has an id"
    try:
        yield BareServer(port, process.pid)
    finally:
        ours.close()
        process.join()


def _serve(way: str, paths: Sequence[Path], pipe: multiprocessing.connection.Connection) -> None:
    files = [os.open(path, os.O_RDONLY) for path in paths]
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(listener, files, WAYS[way]), daemon=True).start()
    pipe.send(listener.getsockname()[1])
    with suppress(EOFError):
        pipe.recv()
    os._exit(0)


def accept(listener: socket.socket, files: Sequence[int], send: Send) -> None:
    """Serve each connection that comes, until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=answer_all, args=(connection, files, send), daemon=True).start()


def answer_all(connection: socket.socket, files: Sequence[int], send: Send) -> None:
    """Answer the requests of a connection until its end."""
    request = memoryview(bytearray(SIZE.size + PLACE.size))
    buffer = memoryview(bytearray(COPY_BYTES))
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                fill(connection, request)
            except ConnectionResetError:
                return
            number, offset, count = PLACE.unpack_from(request, SIZE.size)
            connection.sendall(SIZE.pack(count))
            send(files[number], offset, count, connection.fileno(), buffer)
