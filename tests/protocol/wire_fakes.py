"""Fakes for the tests of server and client: slices of a file, and peers that say exactly what a test tells them."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tierfetch.protocol import codec
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader
from tierfetch.protocol.net.client import Address, ClientLimits, Connection
from tierfetch.protocol.net.dispatch import Handlers, RequestContext
from tierfetch.protocol.net.server import Server, ServerLimits
from tierfetch.protocol.wire.primitives import Part
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.tests.messages import request_of

HOST = "127.0.0.1"
LISTENER = "PLAINTEXT"


def joined(parts: Sequence[Part]) -> bytearray:
    """A message of buffers only."""
    whole = bytearray()
    for part in parts:
        assert isinstance(part, bytes | bytearray | memoryview), part
        whole += part
    return whole


class MemorySlice:
    """A slice of what may be in memory, and cannot be sent."""

    def __init__(self, data: bytes, *, is_in_memory: bool = True) -> None:
        self._data = data
        self._is_in_memory = is_in_memory
        self.size = len(data)

    def at_once(self) -> bytes | None:
        return self._data if self._is_in_memory else None

    async def send(self, transport: asyncio.WriteTransport) -> None:
        raise NotImplementedError

    def release(self) -> None:
        """It holds nothing."""


class FileSlice:
    """A slice of a real file, sent by `sendfile`."""

    def __init__(self, path: Path, offset: int, size: int) -> None:
        self._file = path.open("rb")
        self._offset = offset
        self.size = size
        self.releases = 0

    def at_once(self) -> bytes | None:
        return None

    async def send(self, transport: asyncio.WriteTransport) -> None:
        assert os.fstat(self._file.fileno()).st_size >= self._offset + self.size
        loop = asyncio.get_running_loop()
        if transport.get_extra_info("sslcontext") is not None:
            transport.write(os.pread(self._file.fileno(), self.size, self._offset))
            await transport.get_protocol().drain()
            return
        sent = await loop.sendfile(transport, self._file, self._offset, self.size, fallback=False)
        assert sent == self.size

    def release(self) -> None:
        self.releases += 1
        self._file.close()


class BrokenSlice:
    """A slice whose file turns out to be shorter than it should be."""

    size = 1000

    def __init__(self) -> None:
        self.releases = 0

    def at_once(self) -> bytes | None:
        return None

    async def send(self, transport: asyncio.WriteTransport) -> None:
        transport.write(b"x" * 10)
        raise OSError("the file ends at byte 10")

    def release(self) -> None:
        self.releases += 1


@asynccontextmanager
async def serving(handlers: Handlers, **limits: Any) -> AsyncIterator[Server]:
    server = Server(handlers, listener_name=LISTENER, limits=ServerLimits(**limits))
    await server.start(HOST, 0)
    try:
        yield server
    finally:
        await server.close(deadline_s=0)


@asynccontextmanager
async def connected(port: int, **limits: Any) -> AsyncIterator[Connection]:
    connection = await Connection.connect(Address(HOST, port), client_id="test", limits=ClientLimits(**limits))
    try:
        yield connection
    finally:
        connection.close()
        await asyncio.sleep(0)


class RawPeer:
    """A client that writes bytes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, api: ApiKey, version: int, correlation_id: int, body: Any) -> None:
        self.writer.write(
            joined(
                codec.write_request(RequestHeader(api, version, correlation_id, "raw"), request_of(api, body, version))
            )
        )

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def response(self, api: ApiKey, version: int) -> tuple[int, Any]:
        frame = memoryview(await self.frame())
        return codec.correlation_id_of(frame), codec.read_response(api, version, frame)

    def reset(self) -> None:
        """Be gone, with all that was not read."""
        connected = self.writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def is_closed(self) -> bool:
        """Wait until the other side closes; False if bytes come instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def raw_peer(port: int) -> AsyncIterator[RawPeer]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield RawPeer(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def fake_broker(script: Callable[[RawPeer], Awaitable[None]]) -> AsyncIterator[int]:
    """A broker that runs `script` for each connection; yields its port."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(RawPeer(reader, writer))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(on_connection, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until the condition holds; the test's own timeout is the limit."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.001)


class Gate:
    """A handler that answers when the test lets it; the throttle time is the order in which requests were started."""

    def __init__(self) -> None:
        self.contexts: list[RequestContext] = []
        self.requests: list[Any] = []
        self.gates: list[asyncio.Future[Any]] = []
        self.cancelled = 0

    async def __call__(self, context: RequestContext, request: Any) -> Any:
        self.contexts.append(context)
        self.requests.append(request)
        gate: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        try:
            return await gate
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def produce(*records: bytes, acks: int = -1) -> ProduceRequest:
    partitions = tuple(ProducePartition(i, data) for i, data in enumerate(records))
    return ProduceRequest(acks=acks, timeout_ms=1000, topics=(ProduceTopic(partitions, "t"),))
