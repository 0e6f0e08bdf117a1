"""So many clients of a broker: a process with a connection for each, which sends a prepared record again and again.

A client sends its next record when the last one is acknowledged. It decodes an error code, and nothing else; a library
for each client would be measured itself, and a thousand of them take more memory than the brokers.

    connect -> send -> answer, no error -> send ... until it has been acknowledged so often
                    -> answer with an error, connection closed -> after `RETRY_S` connect again, where that is wanted
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from tierfetch.cli.local import end_with_parent
from tierfetch.protocol import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.wire import ProducePartition, ProduceRequest, ProduceTopic

from ..measure import pss_mib

PRODUCE_VERSION: Final = 7
"""The last version whose answer has its error code at a place that only the topic's name moves."""
TIMEOUT_MS: Final = 30_000
LOAD_TIMEOUT_S: Final = 300.0
RETRY_S: Final = 0.02
CONNECTING_MAX: Final = 128
"""Connections that are made at the same time: a listener's backlog is no larger."""
_SIZE: Final = struct.Struct(">i")
_ERROR: Final = struct.Struct(">h")
ACKS_ALL: Final = -1


class RefusedError(OSError):
    """A broker answered with an error code, or closed the connection."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the clients sent; `pss_mib` is the broker's memory while all of them were connected."""

    requests: int
    wall_s: float
    latencies_ms: list[float]
    pss_mib: float


def produce_frame(topic: str, partition: int, value: bytes) -> bytes:
    """Return a request with one record, as it goes to the socket."""
    records = bytes(build_batch([Record(0, int(time.time() * 1000), value=value)], base_offset=0))
    request = ProduceRequest(ACKS_ALL, TIMEOUT_MS, (ProduceTopic((ProducePartition(partition, records),), topic),))
    parts = write_request(RequestHeader(ApiKey.PRODUCE, PRODUCE_VERSION, 0, "bench"), request)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # one small record is no slice


def error_code(topic: str, answer: bytes) -> int:
    """Return the error code of the one partition in an answer, which begins with its size."""
    at = _SIZE.size + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    found: int = _ERROR.unpack_from(answer, at)[0]
    return found


class Client:
    """One connection, one record at a time."""

    def __init__(self, port: int, topic: str, partition: int, value: bytes) -> None:
        self._port = port
        self._topic = topic
        self._frame = produce_frame(topic, partition, value)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)

    async def produce(self) -> None:
        """Return once the record is acknowledged. OSError if it is not."""
        assert self._streams is not None, "connect first"
        reader, writer = self._streams
        writer.write(self._frame)
        try:
            size = await reader.readexactly(_SIZE.size)
            answer = size + await reader.readexactly(_SIZE.unpack(size)[0])
        except asyncio.IncompleteReadError as error:
            raise RefusedError(f"port {self._port} closed the connection") from error
        code = error_code(self._topic, answer)
        if code:
            raise RefusedError(f"port {self._port} answered with error {code}")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def clients_of(port: int, topic: str, partitions: int, count: int) -> list[Client]:
    value = os.urandom(1_000)
    return [Client(port, topic, number % partitions, value) for number in range(count)]


def share(requests: int, count: int, number: int) -> int:
    """Return how many of the requests are this client's: all have as many, or one less."""
    return requests // count + (number < requests % count)


async def send(clients: Sequence[Client], requests: int, broker_pid: int) -> Load:
    """Connect all, and have them send. OSError if one fails."""
    await _connect(clients)
    latencies_ms: list[float] = []
    failures: list[str] = []

    async def run(client: Client, count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            await client.produce()
            latencies_ms.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                group.create_task(run(client, share(requests, len(clients), number)))
    except* OSError as errors:
        failures += [str(error) for error in errors.exceptions]
    if failures:
        raise RefusedError(f"{len(failures)} clients failed: {failures[0]}")
    wall_s = time.perf_counter() - began
    memory_mib = pss_mib(broker_pid)
    for client in clients:
        client.close()
    return Load(len(latencies_ms), wall_s, latencies_ms, memory_mib)


async def recover(clients: Sequence[Client]) -> float:
    """Return the seconds until each client has had a record acknowledged, trying again as often as it takes."""
    slots = asyncio.Semaphore(CONNECTING_MAX)

    async def run(client: Client) -> None:
        while True:
            try:
                async with slots:
                    await client.connect()
                while True:
                    try:
                        return await client.produce()
                    except RefusedError:
                        await asyncio.sleep(RETRY_S)
            except OSError:
                client.close()
                await asyncio.sleep(RETRY_S)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(run(client))
    for client in clients:
        client.close()
    return time.perf_counter() - began


async def _connect(clients: Sequence[Client]) -> None:
    for first in range(0, len(clients), CONNECTING_MAX):
        await asyncio.gather(*(client.connect() for client in clients[first : first + CONNECTING_MAX]))


def sent(port: int, topic: str, partitions: int, count: int, requests: int, broker_pid: int) -> Load:
    """Run `send` in this process, within its time."""
    work = send(clients_of(port, topic, partitions, count), requests, broker_pid)
    return asyncio.run(asyncio.wait_for(work, LOAD_TIMEOUT_S))


def recovered(port: int, topic: str, partitions: int, count: int) -> float:
    """Run `recover` in this process, within its time."""
    return asyncio.run(asyncio.wait_for(recover(clients_of(port, topic, partitions, count)), LOAD_TIMEOUT_S))


def load_process() -> ProcessPoolExecutor:
    """Return a process for the clients, that has imported what they need."""
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent())
    warm: Callable[[], int] = os.getpid
    pool.submit(warm).result()
    return pool
