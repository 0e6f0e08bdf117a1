"""Connections to brokers: order, deadlines, back-off, and brokers that misbehave."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from tierfetch.protocol import codec
from tierfetch.protocol.api import ApiKey, VersionRange
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tierfetch.protocol.messages.cluster import ApiVersion, ApiVersionsResponse
from tierfetch.protocol.messages.offsets import ListOffsetsRequest
from tierfetch.protocol.net.client import (
    IDLE_ADDRESSES_MAX,
    Address,
    BrokerUnavailableError,
    ClientLimits,
    Connection,
    KafkaClient,
    RequestTimedOutError,
    _Broker,
)
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION, SLICE_ELEMENTS
from tierfetch.protocol.wire.produce import ProduceRequest, ProduceResponse
from tierfetch.tests.protocol.wire_fakes import HOST, RawPeer, connected, fake_broker, joined, raw_peer, serving, until
from tierfetch.tests.turns import turns

FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())


async def echo_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
    """The session id of the answer is the asked minimum; a maximum wait is waited for."""
    await asyncio.sleep(request.max_wait_ms / 1000)
    return FetchResponse(topics=(), session_id=request.min_bytes)


def fetch_of(number: int, max_wait_ms: int = 0) -> FetchRequest:
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=number, topics=())


def client_of(**limits: Any) -> KafkaClient:
    return KafkaClient(client_id="test", random=Random(1), limits=ClientLimits(**limits))


def broker(
    answer: Callable[[RawPeer, int, bytes], Awaitable[None]], versions: dict[ApiKey, VersionRange] | None = None
) -> Callable[[RawPeer], Awaitable[None]]:
    """A script that answers ApiVersions, and gives every later request (correlation id, frame) to `answer`."""

    async def script(peer: RawPeer) -> None:
        while True:
            frame = await peer.frame()
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if key != ApiKey.API_VERSIONS:
                await answer(peer, correlation_id, frame)
                continue
            offered = versions or {ApiKey.FETCH: VersionRange(12, 12)}
            response = ApiVersionsResponse(
                api_keys=tuple(
                    ApiVersion(api_key=int(api), min_version=low, max_version=high)
                    for api, (low, high) in offered.items()
                )
            )
            peer.writer.write(joined(codec.write_response(ApiKey.API_VERSIONS, version, correlation_id, response)))

    return script


def fetch_frame(correlation_id: int, session_id: int = 0) -> bytes:
    response = FetchResponse(topics=(), session_id=session_id)
    return bytes(joined(codec.write_response(ApiKey.FETCH, 12, correlation_id, response)))


# Requests.


async def test_many_requests_are_under_way_at_once() -> None:
    async with serving({ApiKey.FETCH: echo_fetch}) as server, connected(server.port) as client:
        async with asyncio.timeout(1.0):
            answers = await asyncio.gather(*[client.fetch(fetch_of(i, max_wait_ms=100)) for i in range(10)])
    assert [answer.session_id for answer in answers] == list(range(10))


async def test_requests_beyond_the_limit_wait_their_turn() -> None:
    seen: list[int] = []

    async def hold(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        seen.append(correlation_id)
        if len(seen) > 2:
            peer.writer.write(fetch_frame(correlation_id))

    async with fake_broker(broker(hold)) as port, connected(port, in_flight_max=2) as client:
        first, second, third = [asyncio.create_task(client.fetch(FETCH)) for _ in range(3)]
        await until(lambda: len(seen) == 2)
        await turns()
        assert len(seen) == 2
        client.close()
        results = await asyncio.gather(first, second, third, return_exceptions=True)
        assert all(isinstance(result, BrokerUnavailableError) for result in results)


async def test_records_are_views_of_one_buffer() -> None:
    records = [bytes([i]) * 100_000 for i in range(4)]

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        partitions = tuple(FetchPartitionResponse(i, records=data) for i, data in enumerate(records))
        return FetchResponse(topics=(FetchTopicResponse(partitions, "t"),))

    async with serving({ApiKey.FETCH: on_fetch}) as server, connected(server.port) as client:
        response = await client.fetch(FETCH)
    views = [partition.records for partition in response.topics[0].partitions]
    assert views == records
    assert len({id(view.obj) for view in views if isinstance(view, memoryview)}) == 1


async def test_the_newest_common_version_is_spoken() -> None:
    contexts: list[RequestContext] = []

    async def on_fetch(context: RequestContext, request: FetchRequest) -> FetchResponse:
        contexts.append(context)
        return FetchResponse(topics=())

    async with serving({ApiKey.FETCH: on_fetch}) as server, connected(server.port) as client:
        await client.fetch(FETCH)
        await client.send(FETCH, max_version=13)
        assert [context.api_version for context in contexts] == [18, 13]
        assert client.version_of(ApiKey.FETCH) == 18
        with pytest.raises(KafkaError, match=r"offers LIST_OFFSETS not at all, needed is 1 to 11"):
            await client.send(ListOffsetsRequest(replica_id=-1, topics=()))
        with pytest.raises(KafkaError, match=r"offers FETCH 4 to 18, needed is 4 to 3"):
            await client.send(FETCH, max_version=3)
        await client.fetch(FETCH)


async def test_a_produce_without_acks_returns_at_once() -> None:
    async def on_produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
        return None if request.acks == 0 else ProduceResponse(topics=(), throttle_time_ms=7)

    async with serving({ApiKey.PRODUCE: on_produce}) as server, connected(server.port, in_flight_max=1) as client:
        for _ in range(3):
            assert await client.send(ProduceRequest(acks=0, timeout_ms=1, topics=())) is None
        answer = await client.send(ProduceRequest(acks=1, timeout_ms=1, topics=()))
        assert answer is not None
        assert answer.throttle_time_ms == 7


async def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    """It answers version 0 with UNSUPPORTED_VERSION, whatever was asked (KIP-511)."""
    asked: list[int] = []

    async def script(peer: RawPeer) -> None:
        while True:
            _, version, correlation_id = struct.unpack_from(">hhi", await peer.frame())
            asked.append(version)
            error = ErrorCode.none if version <= 2 else ErrorCode.unsupported_version
            keys = [
                ApiVersion(api_key=18, min_version=0, max_version=2),
                ApiVersion(api_key=7777, min_version=0, max_version=1),
            ]
            if version <= 2:
                keys.append(ApiVersion(api_key=1, min_version=0, max_version=11))
            response = ApiVersionsResponse(error_code=error, api_keys=tuple(keys))
            answered = version if version <= 2 else 0
            peer.writer.write(joined(codec.write_response(ApiKey.API_VERSIONS, answered, correlation_id, response)))

    async with fake_broker(script) as port, connected(port) as client:
        assert asked == [4, 2]
        assert client.version_of(ApiKey.FETCH) == 11


async def test_a_broker_that_refuses_api_versions_is_unavailable() -> None:
    async def script(peer: RawPeer) -> None:
        _, version, correlation_id = struct.unpack_from(">hhi", await peer.frame())
        response = ApiVersionsResponse(error_code=ErrorCode.cluster_authorization_failed, api_keys=())
        peer.writer.write(joined(codec.write_response(ApiKey.API_VERSIONS, version, correlation_id, response)))
        await peer.frame()

    async with fake_broker(script) as port:
        with pytest.raises(BrokerUnavailableError, match="refuses ApiVersions: cluster_authorization_failed"):
            await Connection.connect(Address(HOST, port), client_id="test")


# Deadlines and cancellation.


async def test_a_request_that_is_not_answered_in_time_closes_the_connection() -> None:
    async def silence(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        return

    async with fake_broker(broker(silence)) as port, connected(port) as client:
        patient = asyncio.create_task(client.fetch(FETCH, timeout_s=30))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimedOutError, match=r"did not answer FETCH within 0\.02 s"):
            await client.fetch(FETCH, timeout_s=0.02)
        with pytest.raises(BrokerUnavailableError, match="FETCH was not answered within"):
            await patient
        assert client.is_closed
        with pytest.raises(BrokerUnavailableError, match="is closed"):
            await client.fetch(FETCH)


async def test_a_request_that_gets_no_turn_in_time_does_no_harm() -> None:
    async def silence(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        return

    async with fake_broker(broker(silence)) as port, connected(port, in_flight_max=1) as client:
        first = asyncio.create_task(client.fetch(FETCH))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimedOutError):
            await client.fetch(FETCH, timeout_s=0.01)
        assert not client.is_closed
        first.cancel()


async def test_the_answer_to_a_cancelled_request_is_dropped() -> None:
    waiting: list[int] = []

    async def second_first(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        waiting.append(correlation_id)
        if len(waiting) == 2:
            for number in waiting:
                peer.writer.write(fetch_frame(number, session_id=number))

    async with fake_broker(broker(second_first)) as port, connected(port, in_flight_max=2) as client:
        cancelled = asyncio.create_task(client.fetch(FETCH))
        await until(lambda: len(waiting) == 1)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (await client.fetch(FETCH)).session_id == waiting[1]
        assert not client.is_closed
        assert not client._pending


# Brokers that misbehave.


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda number: fetch_frame(number + 1), "response to request"),
        (lambda number: fetch_frame(number) + fetch_frame(number), None),
        (lambda number: struct.pack(">i", 1_000_001), "a frame of 1000001 bytes is announced"),
        (lambda number: struct.pack(">i", -5), "a frame of -5 bytes is announced"),
        (lambda number: struct.pack(">ii", 4, number), "sent a bad FETCH response"),
        (lambda number: struct.pack(">ii", 30, number) + b"\xff" * 26, "sent a bad FETCH response"),
        (lambda number: struct.pack(">ih", 2, 1), "4 bytes are needed"),
    ],
)
async def test_nonsense_closes_the_connection(answer: Callable[[int], bytes], message: str | None) -> None:
    async def nonsense(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        peer.writer.write(answer(correlation_id))

    async with fake_broker(broker(nonsense)) as port, connected(port, response_size_max=1_000_000) as client:
        if message is None:
            await client.fetch(FETCH)
        else:
            with pytest.raises(BrokerUnavailableError, match=message):
                await client.fetch(FETCH)
        await until(lambda: client.is_closed)


async def test_A2_a_large_response_is_read_in_slices() -> None:
    """Other work has its turn every few hundred elements, and the answers to later requests are not late."""
    many = FetchResponse((FetchTopicResponse((FetchPartitionResponse(0),) * 20_000, "t"),))

    async def large(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        peer.writer.write(bytes(joined(codec.write_response(ApiKey.FETCH, 12, correlation_id, many))))

    async with fake_broker(broker(large)) as port, connected(port) as client:
        response = asyncio.create_task(client.fetch(FETCH))
        await until(lambda: client.frames.arriving is None and not client._pending)
        iterations = 0
        while not response.done():
            await asyncio.sleep(0)
            iterations += 1
        assert len((await response).topics[0].partitions) == 20_000
    assert iterations >= 20_000 // (ELEMENTS_PER_ITERATION + SLICE_ELEMENTS)


async def test_a_lost_connection_fails_all_its_requests() -> None:
    async def leave(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        if correlation_id >= 4:
            peer.writer.close()

    async with fake_broker(broker(leave)) as port, connected(port) as client:
        results = await asyncio.gather(*[client.fetch(FETCH) for _ in range(3)], return_exceptions=True)
    assert [str(result) for result in results] == [
        f"FETCH to {HOST}:{port} failed: the broker closed the connection" for _ in range(3)
    ]


# The pool.


async def test_everybody_shares_one_connection() -> None:
    async with serving({ApiKey.FETCH: echo_fetch}) as server:
        client, address = client_of(), Address(HOST, server.port)
        answers = await asyncio.gather(*[client.send(address, fetch_of(i)) for i in range(20)])
        assert [answer.session_id for answer in answers] == list(range(20))
        assert server._connection_ids == 1
        await client.close()


async def test_who_gives_up_waiting_does_not_stop_the_others_dial() -> None:
    async with serving({ApiKey.FETCH: echo_fetch}) as server:
        client, address = client_of(), Address(HOST, server.port)
        first = asyncio.create_task(client.send(address, FETCH))
        second = asyncio.create_task(client.send(address, fetch_of(2)))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).session_id == 2
        assert server._connection_ids == 1
        await client.close()


async def test_a_lost_connection_is_dialled_again() -> None:
    async with serving({ApiKey.FETCH: echo_fetch}) as server:
        client, address = client_of(), Address(HOST, server.port)
        await client.send(address, FETCH)
        (connection,) = server.connections
        connection.transport.abort()
        lost = await client.connection(address)
        await until(lambda: lost.is_closed)
        assert (await client.send(address, fetch_of(3))).session_id == 3
        await client.close()


async def test_after_a_failure_an_address_is_left_alone_for_a_while() -> None:
    dialled: list[int] = []

    async def hang_up(peer: RawPeer) -> None:
        dialled.append(1)

    async with fake_broker(hang_up) as port:
        client, address = client_of(backoff_min_s=100.0, backoff_max_s=100.0), Address(HOST, port)
        with pytest.raises(BrokerUnavailableError, match="API_VERSIONS to"):
            await client.send(address, FETCH)
        with pytest.raises(BrokerUnavailableError, match="API_VERSIONS to"):
            await client.send(address, FETCH, timeout_s=0.02)
        assert len(dialled) == 1
        await client.close()


def test_the_back_off_doubles_up_to_its_limit_with_jitter() -> None:
    client = client_of(backoff_min_s=0.1, backoff_max_s=1.0)
    for failures, delay_s in [(0, 0.1), (1, 0.2), (2, 0.4), (3, 0.8), (4, 1.0), (1000, 1.0)]:
        delays = {client._backoff_s(failures) for _ in range(100)}
        assert len(delays) > 50
        assert all(0.8 * delay_s <= delay <= 1.2 * delay_s for delay in delays)


async def test_a_port_that_nobody_listens_on_is_named() -> None:
    async with fake_broker(broker(lambda *_: asyncio.sleep(0))) as port:
        pass
    with pytest.raises(BrokerUnavailableError, match=rf"{HOST}:{port} cannot be reached: .*"):
        await Connection.connect(Address(HOST, port), client_id="test")


async def test_closing_the_pool_ends_dials_and_requests() -> None:
    async def silence(peer: RawPeer, correlation_id: int, frame: bytes) -> None:
        return

    async with fake_broker(broker(silence)) as port, raw_peer(port):
        client = client_of(backoff_min_s=100.0)
        request = asyncio.create_task(client.send(Address(HOST, port), FETCH))
        await until(lambda: any(item.connection is not None for item in client._brokers.values()))
        dial = asyncio.create_task(client.connection(Address(HOST, 1)))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(BrokerUnavailableError, match="closed by us"):
            await request
        with pytest.raises((asyncio.CancelledError, BrokerUnavailableError)):
            await dial


@pytest.mark.parametrize(
    ("host", "port"), [("a" * 64, 9092), ("a..b", 9092), ("\0", 9092), ("127.0.0.1", 70_000), ("127.0.0.1", -1)]
)
async def test_what_is_no_address_is_an_address_that_cannot_be_reached(host: str, port: int) -> None:
    """Brokers and voters are where the metadata log says, and any broker may have written that."""
    client = KafkaClient(client_id="test", random=Random(1))
    with pytest.raises(BrokerUnavailableError, match="cannot be reached"):
        await client.connection(Address(host, port))
    await client.close()


async def test_addresses_that_are_never_seen_again_are_forgotten_and_those_in_use_or_backing_off_are_not() -> None:
    async with serving({ApiKey.FETCH: echo_fetch}) as server:
        client, address = client_of(backoff_min_s=1e-9, backoff_max_s=1e-9), Address(HOST, server.port)
        connection = await client.connection(address)
        for number in range(2 * IDLE_ADDRESSES_MAX):
            with pytest.raises(BrokerUnavailableError):
                await client.connection(Address(f"127.0.{1 + number // 250}.{1 + number % 250}", 1))
            assert len(client._brokers) <= IDLE_ADDRESSES_MAX
        assert await client.connection(address) is connection
        for number in range(IDLE_ADDRESSES_MAX - len(client._brokers)):
            client._brokers[Address("later", number)] = _Broker(not_before_s=asyncio.get_running_loop().time() + 100.0)
        with pytest.raises(BrokerUnavailableError):
            await client.connection(Address("127.0.9.9", 1))
        assert sum(each.host == "later" for each in client._brokers), "its back-off lasts"
        await client.close()
