"""A process that sends prepared fetches, one at a time on each connection, and counts what comes. It decodes nothing.

Each connection has a thread and one buffer. An answer costs a call for its size and a call for the rest, which the
kernel fills without the interpreter (`MSG_WAITALL`); so the process takes little more than the kernel's copy.

An answer that is smaller than expected is asked for again, as a consumer would: a read of the tier that took longer
than a broker waits for it. One that is larger, or that never comes whole, ends the reading with an error.

The process lives for the session; its imports are the standard library's.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from .requests import PreparedRequest

SIZE: Final = struct.Struct(">i")
REPEATS_MAX: Final = 60
"""How often in all a connection asks again."""
TIMEOUT_S: Final = 120.0
_RECEIVE_BUFFER: Final = 4 << 20

Share = Sequence["PreparedRequest"]


class ReadingFailedError(OSError):
    """Something other than what was prepared came."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What all connections received, and what that took; `cpu_s` is the reader's own."""

    received_bytes: int
    wall_s: float
    cpu_s: float
    first_answer_s: float
    repeats: int


@dataclass(slots=True)
class Count:
    """What one connection has received so far. `first_at` is the time of its first answer."""

    received_bytes: int = 0
    repeats: int = 0
    first_at: float | None = None
    failure: str | None = None

    def may_go_on(self, expected: int, received: int) -> bool:
        """Count an answer; return whether it was the one that was expected, and must not be asked for again."""
        self.first_at = time.perf_counter() if self.first_at is None else self.first_at
        if received > expected:
            raise ReadingFailedError(f"an answer of {received} bytes came where {expected} were expected")
        if received < expected:
            self.repeats += 1
            if self.repeats > REPEATS_MAX:
                raise ReadingFailedError(f"an answer of {received} bytes came, and not {expected}, once too often")
            return False
        self.received_bytes += received
        return True


def read_all(port: int, shares: Sequence[Share]) -> Reading:
    """Send each share on a connection of its own, all at the same time. ReadingFailedError if one does not get its
    answers.
    """
    shares = [share for share in shares if share]
    counts = [Count() for _ in shares]
    with ExitStack() as stack:
        connections = [stack.enter_context(_connected(port)) for _ in shares]
        buffers = [bytearray(max(SIZE.size, *(request.answer_bytes for request in share))) for share in shares]
        threads = [
            threading.Thread(target=_drain, args=each, daemon=True)
            for each in zip(connections, shares, buffers, counts, strict=True)
        ]
        began, cpu_s = time.perf_counter(), _cpu_seconds()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall_s, cpu_s = time.perf_counter() - began, _cpu_seconds() - cpu_s
    for count in counts:
        if count.failure is not None:
            raise ReadingFailedError(count.failure)
    first_s = min(count.first_at for count in counts if count.first_at is not None) - began
    received = sum(count.received_bytes for count in counts)
    return Reading(received, wall_s, cpu_s, first_s, sum(count.repeats for count in counts))


def _connected(port: int) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    connection.settimeout(None)  # a timeout makes the socket non-blocking, and each call two
    seconds = struct.pack("ll", int(TIMEOUT_S), 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.connect(("127.0.0.1", port))
    return connection


def _drain(connection: socket.socket, share: Share, buffer: bytearray, count: Count) -> None:
    view = memoryview(buffer)
    try:
        for request in share:
            is_whole = False
            while not is_whole:
                connection.sendall(request.frame)
                is_whole = count.may_go_on(request.answer_bytes, receive_answer(connection, view))
    except OSError as error:
        count.failure = str(error) or type(error).__name__


def receive_answer(connection: socket.socket, buffer: memoryview) -> int:
    """Receive one frame into the buffer, and return its size. ReadingFailedError if it is larger than the buffer."""
    fill(connection, buffer[: SIZE.size])
    size: int = SIZE.unpack_from(buffer)[0]
    if not 0 <= size <= len(buffer):
        raise ReadingFailedError(f"an answer of {size} bytes was announced, at most {len(buffer)} were expected")
    fill(connection, buffer[:size])
    return size


def fill(connection: socket.socket, buffer: memoryview) -> None:
    """Receive until the buffer is full. ConnectionResetError if the stream ends before."""
    filled = 0
    while filled < len(buffer):
        count = connection.recv_into(buffer[filled:], 0, socket.MSG_WAITALL)
        if not count:
            raise ConnectionResetError(f"the connection was closed after {filled} of {len(buffer)} bytes")
        filled += count


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Reader:
    """The reader's process, as the measuring one has it."""

    def __init__(self, pipe: multiprocessing.connection.Connection) -> None:
        self._pipe = pipe

    def read(self, port: int, shares: Sequence[Share]) -> Reading:
        """Read all shares. ReadingFailedError as `read_all`."""
        return asked(self._pipe, (port, [list(share) for share in shares]))


@contextmanager
def reader_process() -> Iterator[Reader]:
    """Run the reader's process as long as the block lasts."""
    with reading_process(_serve) as (pipe, _):
        yield Reader(pipe)


def _serve(pipe: multiprocessing.connection.Connection) -> None:
    answer_all(pipe, lambda question: read_all(*question))


def asked(pipe: multiprocessing.connection.Connection, question: object) -> Reading:
    """Return what a process that reads has to say to this. ReadingFailedError."""
    pipe.send(question)
    answer = pipe.recv()
    if isinstance(answer, str):
        raise ReadingFailedError(answer)
    assert isinstance(answer, Reading), answer
    return answer


def answer_all(pipe: multiprocessing.connection.Connection, read: Callable[[Any], Reading]) -> NoReturn:
    """Answer each question with a reading, or with why there is none. The process ends once the other end is closed."""
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send(read(question))
        except OSError as error:
            pipe.send(str(error) or type(error).__name__)


@contextmanager
def reading_process(
    serve: Callable[..., None], *arguments: object
) -> Iterator[tuple[multiprocessing.connection.Connection, int]]:
    """Run `serve(pipe, *arguments)` in a process as long as the block lasts; yields our end of the pipe, and its id."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=serve, args=(its, *arguments), daemon=True)
    process.start()
    its.close()
    assert process.pid is not None, "a started process has an id"
    try:
        yield ours, process.pid
    finally:
        ours.close()
        process.join(TIMEOUT_S)
