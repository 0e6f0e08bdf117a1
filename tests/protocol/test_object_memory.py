"""The memory of what large requests are made into: who waits, whose turn it is, and what a response holds."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.object_memory import ELEMENT_BYTES, ObjectMemory, guess
from tierfetch.protocol.wire.produce import ProduceResponse

from .wire_fakes import Gate, RawPeer, produce, raw_peer, serving, until

MIB = 1024 * 1024
NAMES = tuple(MetadataRequestTopic(name=f"{number:0100}") for number in range(1_000))
"""Those of a request above 64 KiB."""


async def taking(memory: ObjectMemory, log: list[str], *named: tuple[str, int]) -> list[asyncio.Task[None]]:
    """Tasks that wait, begun in this order. A name is an address and a number."""

    async def take(name: str, size: int) -> None:
        await memory.take(name[0], size)
        log.append(name)

    tasks = [asyncio.create_task(take(*each)) for each in named]
    await asyncio.sleep(0)
    return tasks


async def test_addresses_take_turns_and_of_each_the_oldest_comes_first() -> None:
    memory, log = ObjectMemory(100), list[str]()
    await memory.take("z", 100)
    tasks = await taking(memory, log, ("a1", 90), ("a2", 50), ("b1", 70), ("a3", 60))
    assert (memory.waiting, memory.waits, memory.is_pressed, log) == (4, 4, True, [])
    for size in (100, 90, 70, 50, 60):
        memory.change(-size)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert log == ["a1", "b1", "a2", "a3"]
    await asyncio.gather(*tasks)
    assert (memory.used, memory.waiting, memory.is_pressed) == (0, 0, False)


async def test_nothing_overtakes_the_one_whose_turn_it_is() -> None:
    memory, log = ObjectMemory(100), list[str]()
    await memory.take("z", 60)
    tasks = await taking(memory, log, ("a1", 50), ("b1", 10))
    assert log == [], "it would fit"
    memory.change(-60)
    await asyncio.gather(*tasks)
    assert (log, memory.used) == (["a1", "b1"], 60)


async def test_what_is_larger_than_the_limit_comes_alone() -> None:
    memory, log = ObjectMemory(100), list[str]()
    await memory.take("a", 500)
    (task,) = await taking(memory, log, ("b1", 500))
    memory.change(-499)
    await asyncio.sleep(0)
    assert log == []
    memory.change(-1)
    await task
    assert memory.used == 500


async def test_who_is_cancelled_holds_nothing_and_nothing_up() -> None:
    memory, log = ObjectMemory(100), list[str]()
    await memory.take("z", 100)
    first, granted, last = await taking(memory, log, ("a1", 10), ("b1", 100), ("c1", 100))
    first.cancel()
    await asyncio.sleep(0)
    memory.change(-100)
    assert memory.used == 100, "granted, but not told yet"
    granted.cancel()
    await last
    assert (log, memory.used, memory.waiting) == (["c1"], 100, 0)


def test_no_request_is_made_into_more_elements_than_it_may_have() -> None:
    assert guess(4_000, 50_000) == 1_000 * ELEMENT_BYTES
    assert guess(100 * MIB, 50_000) == 50_000 * ELEMENT_BYTES


# Requests.


class Answering:
    """A handler of Metadata: none of its pieces is answered before `may_answer`."""

    def __init__(self, name: str = "t") -> None:
        self.pieces = 0
        self.may_answer = asyncio.Event()
        self._topic = MetadataResponseTopic(name=name, partitions=())

    async def __call__(self, context: RequestContext, request: Any) -> MetadataResponse:
        self.pieces += 1
        await self.may_answer.wait()
        return MetadataResponse(brokers=(), topics=(self._topic,) * len(request.topics))


def ask(peer: RawPeer, *names: MetadataRequestTopic) -> None:
    peer.send(ApiKey.METADATA, 9, 1, MetadataRequest(topics=names or NAMES))


async def test_a_large_request_that_asks_waits_for_the_objects_of_others_and_no_other_request_does() -> None:
    answering, gate = Answering(), Gate()
    handlers = {ApiKey.METADATA: answering, ApiKey.PRODUCE: gate}
    async with serving(handlers, request_memory_max=2 * MIB) as server, AsyncExitStack() as stack:
        first, second, small, large = [await stack.enter_async_context(raw_peer(server.port)) for _ in range(4)]
        objects = server.memory.objects
        ask(first)
        await until(lambda: answering.pieces == 1)
        assert objects.used == ELEMENT_BYTES * len(NAMES), "what it is, and not what it was taken for"
        ask(second)
        await until(lambda: objects.is_pressed)
        ask(small, *NAMES[:300])
        await until(lambda: answering.pieces == 2)
        for peer, records in ((large, [bytes(300_000)]), (large, [bytes(300)] * 300)):
            peer.send(ApiKey.PRODUCE, 9, 3, produce(*records))
            await until(lambda: bool(gate.gates))
            gate.gates.pop().set_result(ProduceResponse(topics=()))
            assert (await peer.response(ApiKey.PRODUCE, 9))[0] == 3
        assert answering.pieces == 2, "the second one is not made into objects yet"
        answering.may_answer.set()
        for peer in (first, second, small):
            assert (await peer.response(ApiKey.METADATA, 9))[0] == 1
        await until(lambda: server.memory.used == 0)


async def test_a_request_that_waits_is_not_made_for_a_client_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    answering = Answering()
    async with (
        serving({ApiKey.METADATA: answering}, request_memory_max=2 * MIB) as server,
        raw_peer(server.port) as first,
    ):
        ask(first)
        await until(lambda: answering.pieces == 1)
        async with raw_peer(server.port) as gone:
            ask(gone)
            await until(lambda: server.memory.objects.is_pressed)
            gone.reset()
            await until(lambda: any(connection.is_cut_off() for connection in server.connections))
        answering.may_answer.set()
        await first.response(ApiKey.METADATA, 9)
        await until(lambda: server.memory.used == 0)
        assert answering.pieces == 10
    assert "has closed its connection" in caplog.text


# Responses that are not read.

LONG = 20_000
"""So long a name that the kernel does not take a thousand of them."""


async def test_a_response_that_is_sent_holds_its_own_bytes_and_no_objects() -> None:
    answering = Answering("x" * LONG)
    answering.may_answer.set()
    async with serving({ApiKey.METADATA: answering}) as server, raw_peer(server.port) as peer:
        ask(peer)
        await until(lambda: any(not connection._writable.is_set() for connection in server.connections))
        assert LONG * len(NAMES) <= server.memory.objects.used < 1.01 * LONG * len(NAMES)
        (connection,) = server.connections
        assert connection._requests[0].response is None
        await peer.frame()
        await until(lambda: server.memory.used == 0)


@pytest.mark.parametrize("reads", [True, False])
async def test_who_does_not_read_a_response_is_closed_once_others_wait_for_its_memory(
    reads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    answering = Answering("x" * LONG)
    answering.may_answer.set()
    async with (
        serving({ApiKey.METADATA: answering}, request_memory_max=2 * MIB) as server,
        raw_peer(server.port) as first,
        raw_peer(server.port) as second,
    ):
        ask(first)
        await until(lambda: any(not connection._writable.is_set() for connection in server.connections))
        (sending,) = [each for each in server.connections if each._requests]
        now_s = asyncio.get_running_loop().time()
        sending.expire(now_s)
        sending.expire(now_s + 100)
        assert not sending.transport.is_closing(), "no other waits"
        ask(second)
        await until(lambda: server.memory.objects.is_pressed)
        sending.expire(now_s + 100)
        if reads:
            await first.reader.readexactly(8 * MIB)
        sending.expire(now_s + 101.9)
        assert not sending.transport.is_closing()
        sending.expire(now_s + 102)
        assert sending.transport.is_closing() is not reads
        if reads:
            await first.reader.readexactly(LONG * len(NAMES) - 8 * MIB)
        assert await second.frame()
    assert ("bytes of a response left in 2 s" in caplog.text) is not reads
