"""A relay that is a known distance away: each byte passes so many milliseconds later, in order, in either direction.

It delays, and limits nothing: what comes within a moment passes within a moment. A new connection is accepted at once,
so a round trip is paid by requests, and not by the first packet of TCP. It is a process of its own, so that neither
side pays for it with its interpreter.

    read a piece -> queue (at most `PIECES_MAX`) -> wait until it is due -> write
"""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

PIECE_BYTES: Final = 256 << 10
PIECES_MAX: Final = 256

_Queue = asyncio.Queue["tuple[float, bytes]"]


async def relay(target_port: int, delay_s: float) -> asyncio.Server:
    """Listen on a free port, and pass what comes to `target_port` of the loopback interface and back."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target_port, limit=PIECE_BYTES)
            await asyncio.gather(_pass(reader, far_writer, delay_s), _pass(far_reader, writer, delay_s))
            far_writer.close()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0, limit=PIECE_BYTES)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Pass one direction until its end, which is passed too."""
    queue: _Queue = asyncio.Queue(PIECES_MAX)
    sending = asyncio.create_task(_send(queue, writer))
    now = asyncio.get_running_loop().time
    try:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE_BYTES):
                await queue.put((now() + delay_s, piece))
        await queue.put((now() + delay_s, b""))
        await sending
    finally:
        sending.cancel()


async def _send(queue: _Queue, writer: asyncio.StreamWriter) -> None:
    now = asyncio.get_running_loop().time
    is_whole = True
    while True:
        due_s, piece = await queue.get()
        await asyncio.sleep(max(0.0, due_s - now()))
        try:
            if not piece:
                writer.write_eof()
                return
            if is_whole:
                writer.write(piece)
                await writer.drain()
        except OSError:  # the other side has left: what still comes is read, so that the reader is not held up
            is_whole = False
            if not piece:
                return


@contextmanager
def relay_process(target_port: int, round_trip_s: float) -> Iterator[int]:
    """Run a relay as long as the block lasts; yields its port."""
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=_serve, args=(target_port, round_trip_s / 2, its), daemon=True)
    process.start()
    its.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


def _serve(target_port: int, delay_s: float, pipe: multiprocessing.connection.Connection) -> None:
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    asyncio.run(_run(target_port, delay_s, pipe))


async def _run(target_port: int, delay_s: float, pipe: multiprocessing.connection.Connection) -> None:
    server = await relay(target_port, delay_s)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _end_with(pipe: multiprocessing.connection.Connection) -> None:
    """End this process once the other end of the pipe is closed."""
    with suppress(EOFError, OSError):
        pipe.recv()
    os._exit(0)
