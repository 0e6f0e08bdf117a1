"""A relay passes everything, in order, and not before its time."""

from __future__ import annotations

import asyncio
import socket
import time

from tierfetch.bench.lab.relay import PIECE_BYTES, relay, relay_process

DELAY_S = 0.05


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(PIECE_BYTES):
        writer.write(data)
        await writer.drain()
    writer.close()


async def connected(delay_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to an echo behind a relay; the loop of the test ends both."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    passing = await relay(server.sockets[0].getsockname()[1], delay_s)
    return await asyncio.open_connection("127.0.0.1", passing.sockets[0].getsockname()[1])


async def test_every_byte_passes_in_order() -> None:
    reader, writer = await connected(0.001)
    data = bytes(range(256)) * 8_000
    writer.write(data)
    writer.write_eof()
    assert await reader.read(-1) == data
    writer.close()


async def test_a_round_trip_takes_both_delays() -> None:
    reader, writer = await connected(DELAY_S)
    for _ in range(3):
        began = time.perf_counter()
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        assert time.perf_counter() - began >= 2 * DELAY_S
    writer.close()


async def test_a_side_that_leaves_ends_the_other() -> None:
    reader, writer = await connected(0.001)
    writer.write(b"x")
    assert await reader.readexactly(1) == b"x"
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()


def test_a_relay_can_be_a_process() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        relay_process(listener.getsockname()[1], 0.002) as port,
        socket.create_connection(("127.0.0.1", port)) as near,
    ):
        far, _ = listener.accept()
        with far:
            near.sendall(b"abc")
            assert far.recv(3, socket.MSG_WAITALL) == b"abc"


async def test_how_far_it_is_depends_on_who_connects() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    passing = await relay(server.sockets[0].getsockname()[1], 0.0, {"127.0.0.2": 10 * DELAY_S})
    for source, is_far in (("127.0.0.1", False), ("127.0.0.2", True)):
        reader, writer = await asyncio.open_connection(*passing.sockets[0].getsockname(), local_addr=(source, 0))
        began = time.perf_counter()
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        assert (time.perf_counter() - began >= 20 * DELAY_S) == is_far
        writer.close()
