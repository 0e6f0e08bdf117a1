"""A listener: order, limits, slices, and peers that misbehave."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tierfetch.limited_log import SOURCE_LINES_MAX
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tierfetch.protocol.net.dispatch import Handler, RequestContext
from tierfetch.protocol.wire.produce import ProduceRequest, ProduceResponse
from tierfetch.tests.protocol.wire_fakes import (
    BrokenSlice,
    FileSlice,
    Gate,
    connected,
    joined,
    produce,
    raw_peer,
    serving,
    until,
)
from tierfetch.tests.turns import turns

FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())


def fetched(*records: Any) -> FetchResponse:
    partitions = tuple(FetchPartitionResponse(i, records=data) for i, data in enumerate(records))
    return FetchResponse(topics=(FetchTopicResponse(partitions, "t"),))


async def empty_fetch(context: RequestContext, request: Any) -> FetchResponse:
    return fetched()


# Order and pipelining.


async def test_handlers_start_in_order_run_at_once_and_are_answered_in_order() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}) as server, raw_peer(server.port) as peer:
        for i in range(5):
            peer.send(ApiKey.PRODUCE, 9, 100 + i, produce(b"%d" % i))
        await until(lambda: len(gate.gates) == 5)
        assert [bytes(request.topics[0].partitions[0].records) for request in gate.requests] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]
        for i in (4, 2, 0, 3, 1):
            gate.gates[i].set_result(ProduceResponse(topics=(), throttle_time_ms=i))
        answers = [await peer.response(ApiKey.PRODUCE, 9) for _ in range(5)]
    assert [(number, answer.throttle_time_ms) for number, answer in answers] == [(100 + i, i) for i in range(5)]


async def test_the_context_says_who_asks() -> None:
    gate = Gate()
    async with serving({ApiKey.FETCH: gate}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.FETCH, 11, 1, FETCH)
        await until(lambda: len(gate.contexts) == 1)
        context = gate.contexts[0]
        host, port = peer.writer.get_extra_info("sockname")
        assert (context.api, context.api_version, context.client_id) == (ApiKey.FETCH, 11, "raw")
        assert (context.peer, context.client_host, context.listener) == (f"{host}:{port}", host, "PLAINTEXT")
        assert context.arrival_time_s <= asyncio.get_running_loop().time()


async def test_produce_without_acks_is_not_answered() -> None:
    async def on_produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
        return None if request.acks == 0 else ProduceResponse(topics=())

    async with serving({ApiKey.PRODUCE: on_produce}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.PRODUCE, 9, 1, produce(b"a", acks=0))
        peer.send(ApiKey.PRODUCE, 9, 2, produce(b"a", acks=1))
        assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 2


async def test_records_of_a_produce_are_writable() -> None:
    seen = bytearray()

    async def on_produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse:
        records = request.topics[0].partitions[0].records
        assert isinstance(records, memoryview)
        records[0:2] = b"OK"
        seen.extend(records)
        return ProduceResponse(topics=())

    async with serving({ApiKey.PRODUCE: on_produce}) as server, connected(server.port) as client:
        await client.send(produce(b"--" + bytes(100_000)))
    assert seen == b"OK" + bytes(100_000)


# Backpressure.


async def test_beyond_the_requests_in_flight_the_connection_is_not_read() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, in_flight_max=2) as server, raw_peer(server.port) as peer:
        for i in range(6):
            peer.send(ApiKey.PRODUCE, 9, i, produce(bytes(3000)))
        await until(lambda: len(gate.gates) == 2)
        await turns()
        assert len(gate.gates) == 2
        for i in range(6):
            await until(partial(lambda count: len(gate.gates) > count, i))
            assert len(gate.gates) <= i + 2
            gate.gates[i].set_result(ProduceResponse(topics=()))
            assert (await peer.response(ApiKey.PRODUCE, 9))[0] == i


async def test_large_requests_wait_for_memory_and_small_ones_do_not() -> None:
    gate, fetches = Gate(), Gate()
    handlers = {ApiKey.PRODUCE: gate, ApiKey.FETCH: fetches}
    async with serving(handlers, request_memory_max=150_000) as server:
        async with raw_peer(server.port) as first, raw_peer(server.port) as second, raw_peer(server.port) as follower:
            first.send(ApiKey.PRODUCE, 9, 1, produce(bytes(200_000)))
            await until(lambda: len(gate.gates) == 1)
            second.send(ApiKey.PRODUCE, 9, 2, produce(bytes(100_000)))
            follower.send(ApiKey.FETCH, 12, 3, FETCH)
            await until(lambda: len(fetches.gates) == 1)
            await turns()
            assert len(gate.gates) == 1, "the second producer waits for the first one's memory"
            gate.gates[0].set_result(ProduceResponse(topics=()))
            await until(lambda: len(gate.gates) == 2)
            gate.gates[1].set_result(ProduceResponse(topics=()))
            fetches.gates[0].set_result(fetched())
            assert (await second.response(ApiKey.PRODUCE, 9))[0] == 2
            assert (await follower.response(ApiKey.FETCH, 12))[0] == 3
        await until(lambda: not server.connections)
        assert server.memory.used == 0


async def test_memory_granted_to_a_connection_that_is_gone_is_given_back() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, request_memory_max=150_000) as server:
        async with raw_peer(server.port) as first:
            first.send(ApiKey.PRODUCE, 9, 1, produce(bytes(200_000)))
            await until(lambda: len(gate.gates) == 1)
            async with raw_peer(server.port) as second:
                second.send(ApiKey.PRODUCE, 9, 2, produce(bytes(100_000)))
                await until(lambda: any(connection._arrival.is_waiting for connection in server.connections))
                waiting = next(connection for connection in server.connections if connection._arrival.is_waiting)
                waiting.transport.abort()
                await until(lambda: waiting not in server.connections)
            gate.gates[0].set_result(ProduceResponse(topics=()))
            await first.response(ApiKey.PRODUCE, 9)
        await until(lambda: not server.connections)
        assert server.memory.used == 0


ARRIVED = 4000
"""Bytes of half a request, few enough that the kernel reports them at once."""


async def test_memory_of_half_a_request_is_given_back() -> None:
    async with serving({ApiKey.PRODUCE: Gate()}) as server:
        async with raw_peer(server.port) as peer:
            peer.writer.write(framed(bytes(1_000_000))[: 4 + ARRIVED])
            await until(lambda: server.memory.used == ARRIVED)
            (connection,) = server.connections
        await until(lambda: not server.connections)
        assert server.memory.used == 0
        assert connection.frames.arriving is None, "its buffer is free at once, not when garbage is collected"


async def test_memory_of_half_a_request_behind_one_that_fails_is_given_back_once() -> None:
    """The writer's end and the transport's end come in either order; each connection counts for itself."""
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}) as server:
        async with raw_peer(server.port) as bystander:
            bystander.writer.write(framed(bytes(1_000_000))[: 4 + ARRIVED])
            async with raw_peer(server.port) as peer:
                peer.send(ApiKey.PRODUCE, 9, 1, produce(b"x"))
                peer.writer.write(framed(bytes(500_000))[: 4 + ARRIVED])
                await until(lambda: server.memory.used > 2 * ARRIVED)
                gate.gates[0].set_exception(KafkaError(ErrorCode.invalid_request, "told to fail"))
                assert await peer.is_closed()
            await until(lambda: len(server.connections) == 1)
            assert server.memory.used == ARRIVED
        await until(lambda: not server.connections)
        assert server.memory.used == 0


async def test_a_peer_that_does_not_read_does_not_fill_our_memory() -> None:
    chunk = bytes(1024 * 1024)

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        return fetched(*[chunk] * 64)

    async with serving({ApiKey.FETCH: on_fetch}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.FETCH, 12, 1, FETCH)
        await until(lambda: any(not connection._writable.is_set() for connection in server.connections))
        (connection,) = server.connections
        assert connection.transport.get_write_buffer_size() < 1024 * 1024
        assert len(await peer.frame()) > 64 * len(chunk)


# Slices.


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(os.urandom(3 * 1024 * 1024 + 17))
    return path


async def test_slices_of_a_file_go_out_between_the_headers(data_file: Path) -> None:
    slices = [FileSlice(data_file, 0, 3 * 1024 * 1024), FileSlice(data_file, 17, 1000), FileSlice(data_file, 5, 0)]

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        return fetched(slices[0], b"remote" * 2000, slices[1], None, slices[2])

    async with serving({ApiKey.FETCH: on_fetch}) as server, connected(server.port) as client:
        response = await client.fetch(FETCH)
    whole = data_file.read_bytes()
    assert [partition.records for partition in response.topics[0].partitions] == [
        whole[: 3 * 1024 * 1024],
        b"remote" * 2000,
        whole[17:1017],
        None,
        b"",
    ]
    assert all(item.releases for item in slices)


async def test_pipelined_slices_and_small_responses_do_not_mix(data_file: Path) -> None:
    whole = data_file.read_bytes()

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        return fetched(FileSlice(data_file, request.min_bytes, 400_000))

    async def on_produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(topics=(), throttle_time_ms=request.timeout_ms)

    handlers: dict[int, Handler] = {ApiKey.FETCH: on_fetch, ApiKey.PRODUCE: on_produce}
    async with serving(handlers) as server, connected(server.port) as client:
        fetches = [client.fetch(FetchRequest(max_wait_ms=0, min_bytes=i, topics=())) for i in range(20)]
        produces = [client.send(produce(b"x")) for _ in range(20)]
        answers = await asyncio.gather(*[item for pair in zip(fetches, produces, strict=True) for item in pair])
    for i in range(20):
        assert answers[2 * i].topics[0].partitions[0].records == whole[i : i + 400_000]
        assert answers[2 * i + 1].throttle_time_ms == 1000


async def test_slices_are_released_when_the_peer_is_gone(data_file: Path) -> None:
    """Those of the response that is being sent, of one that waits behind it, and of one whose handler ends later."""
    gate = Gate()
    slices = [FileSlice(data_file, 0, 3 * 1024 * 1024) for _ in range(12)]
    async with serving({ApiKey.FETCH: gate, ApiKey.PRODUCE: gate}) as server:
        async with raw_peer(server.port) as peer:
            for i in range(3):
                peer.send(ApiKey.FETCH, 12, i, FETCH)
            peer.send(ApiKey.PRODUCE, 9, 3, produce(b"late"))
            await until(lambda: len(gate.gates) == 4)
            gate.gates[0].set_result(fetched(*slices[:10]))
            gate.gates[1].set_result(fetched(slices[10]))
            await peer.reader.readexactly(4)
        await until(lambda: all(item.releases for item in slices[:11]))
        await until(lambda: gate.cancelled == 1)
        assert not gate.gates[3].cancelled(), "a produce runs to its end"
        gate.gates[3].set_result(fetched(slices[11]))
        await until(lambda: bool(slices[11].releases))
        assert server.memory.used == 0
        assert not server.orphans


async def test_a_slice_is_released_as_soon_as_it_has_left() -> None:
    """Truncation waits for slices; it should not wait for the whole response."""
    released: list[int] = []

    class Slice:
        size = 10

        def __init__(self, number: int) -> None:
            self.number = number

        def at_once(self) -> bytes | None:
            return None

        async def send(self, transport: asyncio.WriteTransport) -> None:
            assert released == list(range(self.number))
            transport.write(bytes(10))

        def release(self) -> None:
            if self.number not in released:
                released.append(self.number)

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        return fetched(*map(Slice, range(3)))

    async with serving({ApiKey.FETCH: on_fetch}) as server, connected(server.port) as client:
        await client.fetch(FETCH)
    assert released == [0, 1, 2]


async def test_a_slice_that_fails_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    broken = BrokenSlice()

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        return fetched(broken)

    with caplog.at_level(logging.INFO):
        async with serving({ApiKey.FETCH: on_fetch}) as server, raw_peer(server.port) as peer:
            peer.send(ApiKey.FETCH, 12, 1, FETCH)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await peer.frame()
    assert broken.releases
    assert "the file ends at byte 10" in caplog.text


# Versions.


async def test_api_versions_offers_what_has_a_handler() -> None:
    async with serving({ApiKey.FETCH: empty_fetch}) as server, raw_peer(server.port) as peer:
        peer.send(
            ApiKey.API_VERSIONS, 4, 9, {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}
        )
        number, response = await peer.response(ApiKey.API_VERSIONS, 4)
    assert number == 9
    offered = {item.api_key: (item.min_version, item.max_version) for item in response.api_keys}
    assert offered == {ApiKey.FETCH: (4, 18), ApiKey.API_VERSIONS: (0, 4)}


@pytest.mark.parametrize("version", [5, 99, -1])
async def test_api_versions_in_an_unknown_version_gets_version_0_and_the_connection_goes_on(version: int) -> None:
    """KIP-511: how librdkafka and the Java client find out what an older broker speaks."""
    async with serving({ApiKey.FETCH: empty_fetch}) as server, raw_peer(server.port) as peer:
        body = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 9, 1) + b"x" + b"\0unknown to us"
        peer.writer.write(struct.pack(">i", len(body)) + body)
        number, response = await peer.response(ApiKey.API_VERSIONS, 0)
        assert (number, response.error_code) == (9, ErrorCode.unsupported_version)
        assert {item.api_key for item in response.api_keys} == {ApiKey.FETCH, ApiKey.API_VERSIONS}
        peer.send(ApiKey.API_VERSIONS, 0, 10, {})
        assert (await peer.response(ApiKey.API_VERSIONS, 0))[1].error_code == ErrorCode.none


async def test_a_bad_software_name_is_an_invalid_request() -> None:
    async with serving({}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.API_VERSIONS, 3, 1, {"client_software_name": "-x-", "client_software_version": "1"})
        assert (await peer.response(ApiKey.API_VERSIONS, 3))[1].error_code == ErrorCode.invalid_request


# Peers that misbehave.


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes is announced"),
        (struct.pack(">i", -1), "a frame of -1 bytes is announced"),
        (framed(b""), "10 bytes are needed at byte 0"),
        (framed(struct.pack(">hhih", 9999, 0, 1, -1)), "API key 9999 is unknown"),
        (framed(struct.pack(">hhih", 3, 99, 1, -1)), "METADATA version 99"),
        (framed(struct.pack(">hhih", 3, 0, 1, -1)), "METADATA is not offered here"),
        (framed(struct.pack(">hhih", 1, 4, 1, -1) + b"\0" * 5), "bytes are needed at byte"),
        (framed(struct.pack(">hhih", 1, 4, 1, 50) + b"\0" * 5), "50 bytes are needed at byte 10"),
        (framed(struct.pack(">hhih", 1, 4, 1, -1) + bytes(6000)), "FETCH request of 6010 bytes, allowed are 5000"),
    ],
)
async def test_a_request_that_cannot_be_understood_closes_the_connection(
    data: bytes, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"request_size_max": 1_000_000, "fetch_request_size_max": 5000}
    async with serving({ApiKey.FETCH: empty_fetch}, **limits) as server:
        async with raw_peer(server.port) as peer:
            host, port = peer.writer.get_extra_info("sockname")
            peer.writer.write(data)
            assert await peer.is_closed()
        async with connected(server.port) as client:
            await client.fetch(FETCH)
    assert f"connection of {host}:{port} is closed: " in caplog.text
    assert message in caplog.text


async def test_refusals_without_end_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({ApiKey.FETCH: empty_fetch}) as server:
        for number in range(10 * SOURCE_LINES_MAX):
            async with raw_peer(server.port) as peer:
                peer.writer.write(framed(struct.pack(">hhih", 9000 + number, 0, 1, -1)))
                assert await peer.is_closed()
    closed = [line for line in caplog.messages if " is closed: " in line]
    assert len(closed) == SOURCE_LINES_MAX


async def test_a_handler_that_fails_closes_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        if request.min_bytes == 13:
            raise ValueError("a bug")
        return fetched()

    handlers = {ApiKey.FETCH: on_fetch}
    async with serving(handlers) as server, connected(server.port) as other, raw_peer(server.port) as peer:
        peer.send(ApiKey.FETCH, 12, 1, FetchRequest(max_wait_ms=0, min_bytes=13, topics=()))
        assert await peer.is_closed()
        await other.fetch(FETCH)
    assert caplog.text.count("FETCH of 127.0.0.1") == 1
    assert caplog.text.count("ValueError: a bug") == 1


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(ErrorCode.not_leader_or_follower, "t-0 is led by another"),
        TimeoutError("its parts took longer than 30 s"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_refusal_that_no_response_can_say_closes_the_connection(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def on_produce(context: RequestContext, request: ProduceRequest) -> None:
        raise error

    async with serving({ApiKey.PRODUCE: on_produce}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.PRODUCE, 9, 1, produce(b"x", acks=0))
        assert await peer.is_closed()
    (record,) = [item for item in caplog.records if item.levelno >= logging.WARNING]
    assert f"is not answered: {error}" in record.getMessage()
    assert record.exc_info is None


async def test_an_answer_that_cannot_be_written_closes_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def on_fetch(context: RequestContext, request: FetchRequest) -> Any:
        return {"not": "a fetch response"}

    async with serving({ApiKey.FETCH: on_fetch}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.FETCH, 12, 1, FETCH)
        assert await peer.is_closed()
    assert "is closed: internal error" in caplog.text


async def test_half_a_request_times_out(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({ApiKey.FETCH: empty_fetch}, receive_timeout_s=30.0) as server, raw_peer(server.port) as peer:
        peer.writer.write(framed(bytes(100))[:50])
        await until(lambda: any(connection._receive_deadline_s is not None for connection in server.connections))
        (connection,) = server.connections
        now = asyncio.get_running_loop().time()
        connection.expire(now + 29.0)
        assert not connection.transport.is_closing()
        connection.expire(now + 30.1)
        assert await peer.is_closed()
    assert "a request did not arrive within 30 s of its first byte" in caplog.text


async def test_each_request_has_its_own_time_to_arrive() -> None:
    """In a stream of pipelined requests there is always a part of one."""
    gate = Gate()
    request = framed(struct.pack(">hhih", ApiKey.FETCH, 4, 1, -1) + bytes(4 + 4 + 4 + 4 + 1 + 4))
    async with serving({ApiKey.FETCH: gate}) as server, raw_peer(server.port) as peer:
        peer.writer.write(request[:2])
        await until(lambda: any(connection._receive_deadline_s is not None for connection in server.connections))
        (connection,) = server.connections
        first = connection._receive_deadline_s
        assert first is not None
        peer.writer.write(request[2:] + request[:2])
        await until(lambda: len(gate.gates) == 1)
        second = connection._receive_deadline_s
        assert second is not None
        assert second > first


async def test_an_idle_connection_is_closed_but_not_one_that_waits_for_its_answer() -> None:
    gate = Gate()
    async with serving({ApiKey.FETCH: gate}, idle_timeout_s=600.0) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.FETCH, 12, 1, FETCH)
        await until(lambda: len(gate.gates) == 1)
        (connection,) = server.connections
        now = asyncio.get_running_loop().time()
        connection.expire(now + 10_000)
        assert not connection.transport.is_closing()
        gate.gates[0].set_result(fetched())
        await peer.frame()
        connection.expire(now + 599)
        assert not connection.transport.is_closing()
        connection.expire(asyncio.get_running_loop().time() + 600)
        assert await peer.is_closed()


async def test_a_response_that_does_not_leave_in_time_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        return fetched(*[bytes(1024 * 1024)] * 64)

    async with serving({ApiKey.FETCH: on_fetch}, send_timeout_s=30.0) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.FETCH, 12, 1, FETCH)
        await until(lambda: any(connection._send_deadline_s is not None for connection in server.connections))
        (connection,) = server.connections
        now = asyncio.get_running_loop().time()
        connection.expire(now + 29.0)
        assert not connection.transport.is_closing()
        connection.expire(now + 30.1)
        await until(lambda: not server.connections)
    assert "a response did not leave within 30 s" in caplog.text


async def test_beyond_the_connections_allowed_a_new_one_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({ApiKey.FETCH: empty_fetch}, connections_max=1) as server, connected(server.port) as client:
        async with raw_peer(server.port) as refused:
            assert await refused.is_closed()
        await client.fetch(FETCH)
    assert "refused: 1 are connected (max.connections)" in caplog.text


async def test_the_send_buffer_is_as_large_as_is_allowed() -> None:
    async with (
        serving({ApiKey.FETCH: empty_fetch}, send_buffer_size=50_000) as server,
        connected(server.port) as client,
    ):
        await client.fetch(FETCH)
        (connection,) = server.connections
        accepted: socket.socket = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (50_000, 100_000), "Linux doubles it"


async def test_a_reset_by_the_peer_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    async with serving({ApiKey.FETCH: empty_fetch}) as server:
        async with raw_peer(server.port) as peer:
            peer.send(ApiKey.FETCH, 12, 1, FETCH)
            await peer.frame()
            peer.reset()
        await until(lambda: not server.connections)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# Closing.


async def test_closing_answers_what_is_under_way_and_reads_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes meanwhile is thrown away: the kernel resets a connection that is closed with bytes left to be read."""
    gate = Gate()
    more = [joined(write_request(RequestHeader(ApiKey.FETCH, 12, 2 + i, "raw"), FETCH)) for i in range(1000)]
    async with serving({ApiKey.FETCH: gate}) as server, raw_peer(server.port) as peer, raw_peer(server.port) as idle:
        peer.send(ApiKey.FETCH, 12, 1, FETCH)
        await until(lambda: len(gate.gates) == 1 and len(server.connections) == 2)
        closing = asyncio.create_task(server.close(deadline_s=5))
        assert await idle.is_closed()
        (connection,) = server.connections
        thrown_away = 0
        buffer_updated = connection.buffer_updated

        def count(nbytes: int) -> None:
            nonlocal thrown_away
            thrown_away += nbytes
            buffer_updated(nbytes)

        monkeypatch.setattr(connection, "buffer_updated", count)
        peer.writer.write(b"".join(more))
        await until(lambda: thrown_away == sum(map(len, more)))
        gate.gates[0].set_result(fetched(bytes(1024 * 1024)))
        assert (await peer.response(ApiKey.FETCH, 12))[0] == 1
        assert await peer.is_closed()
        await closing
    assert len(gate.gates) == 1


async def test_closing_cuts_off_what_is_under_way_at_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.PRODUCE, 9, 1, produce(b"x"))
        await until(lambda: len(gate.gates) == 1)
        await server.close(deadline_s=0.01)
        assert await peer.is_closed()
    assert gate.cancelled == 1
    assert not server.connections
    assert server.memory.used == 0
    assert "1 connections and 0 requests did not end within 0.01 s" in caplog.text


async def test_closing_waits_for_a_handler_whose_peer_is_gone() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}) as server:
        async with raw_peer(server.port) as peer:
            peer.send(ApiKey.PRODUCE, 9, 1, produce(b"x"))
            await until(lambda: len(gate.gates) == 1)
        await until(lambda: not server.connections)
        closing = asyncio.create_task(server.close(deadline_s=5))
        await turns()
        assert not closing.done()
        gate.gates[0].set_result(ProduceResponse(topics=()))
        await closing
        assert gate.cancelled == 0


async def test_closing_twice_and_before_the_start_is_harmless() -> None:
    async with serving({}) as server:
        await server.close(deadline_s=1)
        await server.close(deadline_s=1)
