"""A relay that is a known distance away: each byte passes so many milliseconds later, in order, in either direction.

It delays, and limits nothing: what comes within a moment passes within a moment. A new connection is accepted at once,
so a round trip is paid by requests, and not by the first packet of TCP. It is a process of its own, so that neither
side pays for it with its interpreter. How far away it is may depend on the address of who connects:

    python -m tierfetch.bench.lab.relay HOST PORT TARGET TARGET_PORT 0 '{"10.0.0.2": 0.005}'    5 ms each way for this

    read a piece -> queue (at most `PIECES_MAX`) -> wait until it is due -> write
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

PIECE_BYTES: Final = 256 << 10
PIECES_MAX: Final = 256
LOOPBACK: Final = "127.0.0.1"
ANY_PORT: Final = (LOOPBACK, 0)

_Queue = asyncio.Queue["tuple[float, bytes]"]


async def relay(
    target_port: int,
    delay_s: float,
    of_address: Mapping[str, float] | None = None,
    at: tuple[str, int] = ANY_PORT,
    target: str = LOOPBACK,
) -> asyncio.Server:
    """Listen, and pass what comes to `target_port` and back. `of_address`: delays of those who connect from there; of
    all others it is `delay_s`.
    """
    delays = of_address or {}
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(target, target_port, limit=PIECE_BYTES)
            own_s = delays.get(writer.get_extra_info("peername")[0], delay_s)
            await asyncio.gather(_pass(reader, far_writer, own_s), _pass(far_reader, writer, own_s))
            far_writer.close()
        writer.close()

    return await asyncio.start_server(serve, *at, limit=PIECE_BYTES)


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


async def _main(host: str, port: str, target: str, target_port: str, delay_s: str, of_address: str) -> None:
    server = await relay(int(target_port), float(delay_s), json.loads(of_address), (host, int(port)), target)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
