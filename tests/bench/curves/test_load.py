"""Clients send what a broker understands, and see whether it was acknowledged."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.curves.load import (
    PRODUCE_VERSION,
    RefusedError,
    clients_of,
    error_code,
    produce_frame,
    recover,
    send,
    share,
)
from tierfetch.protocol import ApiKey, ErrorCode
from tierfetch.protocol.codec import read_request_body, read_request_header, write_response
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.wire import ProduceRequest
from tierfetch.protocol.wire.produce import ProducePartitionResponse, ProduceResponse, ProduceTopicResponse

TOPIC = "curve-of-a-long-name"


def answer(topic: str, code: ErrorCode, offset: int = 5) -> bytes:
    partition = ProducePartitionResponse(3, code, base_offset=offset, log_append_time_ms=offset, log_start_offset=0)
    response = ProduceResponse((ProduceTopicResponse((partition,), topic),))
    return b"".join(bytes(part) for part in write_response(ApiKey.PRODUCE, PRODUCE_VERSION, 0, response))


@given(st.integers(0, 1_000), st.binary(max_size=2_000))
def test_a_frame_is_a_record_for_all_replicas(partition: int, value: bytes) -> None:
    frame = memoryview(bytearray(produce_frame(TOPIC, partition, value)))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header, reader = read_request_header(frame[4:])
    assert (header.api, header.api_version) == (ApiKey.PRODUCE, PRODUCE_VERSION)
    request = read_request_body(header, reader)
    assert isinstance(request, ProduceRequest)
    assert request.acks == -1
    (topic,) = request.topics
    (found,) = topic.partitions
    assert (topic.topic, found.partition) == (TOPIC, partition)
    assert found.records is not None
    (_, batch), *more = iter_batches(memoryview(bytes(found.records)), check_crc=True)
    assert (batch.record_count, more) == (1, [])


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.not_leader_or_follower, ErrorCode.unknown_server_error])
@pytest.mark.parametrize("topic", ["t", TOPIC, "x" * 249])
def test_the_error_code_is_found_in_an_answer(topic: str, code: ErrorCode) -> None:
    assert error_code(topic, answer(topic, code)) == int(code)


@given(st.integers(1, 50), st.integers(0, 500))
def test_all_requests_are_shared_out_evenly(count: int, requests: int) -> None:
    shares = [share(requests, count, number) for number in range(count)]
    assert sum(shares) == requests
    assert max(shares) - min(shares) <= 1


@asynccontextmanager
async def broker(respond: Callable[[], ErrorCode | None]) -> AsyncIterator[int]:
    """A broker that answers each request with an error code, or closes the connection at None; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                await reader.readexactly(size)
                code = respond()
                if code is None:
                    break
                writer.write(answer(TOPIC, code))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_every_request_is_sent_and_timed() -> None:
    async with broker(lambda: ErrorCode.none) as port:
        load = await send(clients_of(port, TOPIC, 3, 7), 50, os.getpid())
    assert load.requests == len(load.latencies_ms) == 50
    assert load.pss_mib > 0


@pytest.mark.parametrize("code", [ErrorCode.not_leader_or_follower, None])
async def test_a_load_that_is_not_acknowledged_is_an_error(code: ErrorCode | None) -> None:
    answers = iter([ErrorCode.none] * 5)
    async with broker(lambda: next(answers, code)) as port:
        with pytest.raises(RefusedError, match="clients failed: port"):
            await send(clients_of(port, TOPIC, 3, 3), 50, os.getpid())


async def test_after_a_failover_clients_try_until_they_are_acknowledged() -> None:
    answers = iter([ErrorCode.not_leader_or_follower, None, ErrorCode.not_leader_or_follower, None])
    async with broker(lambda: next(answers, ErrorCode.none)) as port:
        assert await recover(clients_of(port, TOPIC, 3, 2)) > 0
    assert next(answers, "all were asked for") == "all were asked for"
