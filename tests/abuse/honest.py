"""An honest client: pings each 20 ms, and produces and fetches back a small and a large record each 200 ms.

    python -m tierfetch.tests.abuse.honest PORT TOPIC FILE      # TOPIC "-": it only pings

Each operation is one line of FILE: its name, its time in seconds, and "ok" or the error.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages.cluster import ApiVersionsRequest
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.net.client_connection import ClientLimits, Connection
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.wire.produce import ACKS_ALL, ProducePartition, ProduceRequest, ProduceTopic

PING_INTERVAL_S: Final = 0.02
RECORD_INTERVAL_S: Final = 0.2
OPERATION_TIMEOUT_S: Final = 60.0
SIZES: Final = (100, 200_000)
MAX_VERSION_BY_NAME: Final = 12


async def ping(connection: Connection) -> None:
    await connection.send(
        ApiVersionsRequest(client_software_name="x", client_software_version="1"),
        timeout_s=OPERATION_TIMEOUT_S,
    )


async def produce_and_fetch(connection: Connection, topic: str, size: int) -> None:
    value = bytes(size)
    batch = bytearray(build_batch([Record(0, int(time.time() * 1000), b"k", value)], base_offset=0))
    partition = ProducePartition(0, batch)
    request = ProduceRequest(ACKS_ALL, 30_000, (ProduceTopic((partition,), topic),))
    response = await connection.send(request, max_version=MAX_VERSION_BY_NAME, timeout_s=OPERATION_TIMEOUT_S)
    (produced,) = response.topics[0].partitions
    assert not produced.error_code, produced
    wanted = FetchPartition(0, fetch_offset=produced.base_offset, partition_max_bytes=1 << 20)
    fetched = await connection.send(
        FetchRequest(max_wait_ms=100, min_bytes=1, topics=(FetchTopic((wanted,), topic),)),
        max_version=MAX_VERSION_BY_NAME,
        timeout_s=OPERATION_TIMEOUT_S,
    )
    (read,) = fetched.topics[0].partitions
    assert not read.error_code, read
    assert len(read.records or b"") > size, f"{len(read.records or b'')} bytes at {produced.base_offset}"


async def repeat(name: str, interval_s: float, port: int, out: TextIO, work: Callable[[Any], Awaitable[None]]) -> None:
    connection = await Connection.connect(Address("127.0.0.1", port), client_id="honest", limits=ClientLimits())
    while True:
        began = time.monotonic()
        outcome = "ok"
        try:
            await work(connection)
        except Exception as error:  # noqa: BLE001 - it is what the test looks for
            outcome = repr(error).replace("\n", " ")
        out.write(f"{name} {time.monotonic() - began:.4f} {outcome}\n")
        out.flush()
        await asyncio.sleep(interval_s)


async def main(port: int, topic: str, out: TextIO) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(repeat("ping", PING_INTERVAL_S, port, out, ping))
        for size in SIZES if topic != "-" else ():
            work = partial(produce_and_fetch, topic=topic, size=size)
            group.create_task(repeat(f"record-{size}", RECORD_INTERVAL_S, port, out, work))


if __name__ == "__main__":
    with Path(sys.argv[3]).open("w") as file:
        asyncio.run(main(int(sys.argv[1]), sys.argv[2], file))
