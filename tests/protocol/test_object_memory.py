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
from tierfetch.protocol.net.request_memory import SMALL_REQUEST_SIZE
from tierfetch.protocol.wire.produce import ProduceResponse

from .wire_fakes import Gate, RawPeer, produce, raw_peer, serving, until

MIB = 1024 * 1024
PARTITIONS = 300
MANY = [bytes(300)] * PARTITIONS
"""A request of many partitions and more than `SMALL_REQUEST_SIZE`."""


async def taking(memory: ObjectMemory, log: list[str], *named: tuple[str, int]) -> list[asyncio.Task[None]]:
    """Tasks that wait, begun in this order. A name is an address and a number."""

    async def take(name: str, size: int) -> None:
        await memory.take(name[0], size)
        log.append(name)

    tasks = [asyncio.create_task(take(*each)) for each in named]
    await asyncio.sleep(0)
    return tasks


async def test_addresses_take_turns_and_of_each_the_smallest_comes_first() -> None:
    memory, log = ObjectMemory(100), list[str]()
    await memory.take("z", 100)
    tasks = await taking(memory, log, ("a1", 90), ("a2", 50), ("b1", 70), ("a3", 50))
    assert (memory.waiting, memory.waits, memory.is_pressed, log) == (4, 4, True, [])
    for size in (100, 50, 70, 50, 90):
        memory.change(-size)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert log == ["a2", "b1", "a3", "a1"]
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


async def test_a_request_of_many_elements_waits_for_the_objects_of_others_and_one_of_many_bytes_does_not() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, request_memory_max=2 * MIB) as server, AsyncExitStack() as stack:
        first, second, bytes_alone = [await stack.enter_async_context(raw_peer(server.port)) for _ in range(3)]
        first.send(ApiKey.PRODUCE, 9, 1, produce(*MANY))
        await until(lambda: len(gate.gates) == 1)
        objects = server.memory.others.objects
        assert ELEMENT_BYTES * PARTITIONS <= objects.used < guess(gate.contexts[0].request_bytes)
        second.send(ApiKey.PRODUCE, 9, 2, produce(*MANY))
        await until(lambda: objects.is_pressed)
        bytes_alone.send(ApiKey.PRODUCE, 9, 3, produce(bytes(300_000)))
        await until(lambda: len(gate.gates) == 2)
        gate.gates[1].set_result(ProduceResponse(topics=()))
        assert (await bytes_alone.response(ApiKey.PRODUCE, 9))[0] == 3
        assert len(gate.gates) == 2, "the second one is not made into objects yet"
        gate.gates[0].set_result(ProduceResponse(topics=()))
        await until(lambda: len(gate.gates) == 3)
        gate.gates[2].set_result(ProduceResponse(topics=()))
        assert (await second.response(ApiKey.PRODUCE, 9))[0] == 2
        await until(lambda: server.memory.used == 0)


async def test_a_small_request_counts_and_does_not_wait() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, request_memory_max=8) as server, AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(raw_peer(server.port)) for _ in range(2)]
        for peer in (first, second):
            peer.send(ApiKey.PRODUCE, 9, 1, produce(*[b""] * PARTITIONS))
        await until(lambda: len(gate.gates) == 2)
        assert gate.contexts[0].request_bytes < SMALL_REQUEST_SIZE
        assert server.memory.others.objects.used >= 2 * ELEMENT_BYTES * PARTITIONS
        for each in gate.gates:
            each.set_result(ProduceResponse(topics=()))
        await until(lambda: server.memory.used == 0)


async def test_a_request_that_waits_is_not_made_for_a_client_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, request_memory_max=2 * MIB) as server, raw_peer(server.port) as first:
        first.send(ApiKey.PRODUCE, 9, 1, produce(*MANY))
        await until(lambda: len(gate.gates) == 1)
        async with raw_peer(server.port) as gone:
            gone.send(ApiKey.PRODUCE, 9, 2, produce(*MANY))
            await until(lambda: server.memory.others.objects.is_pressed)
            gone.reset()
            await until(lambda: any(connection.is_cut_off() for connection in server.connections))
        gate.gates[0].set_result(ProduceResponse(topics=()))
        await first.response(ApiKey.PRODUCE, 9)
        await until(lambda: server.memory.used == 0)
        assert len(gate.gates) == 1
    assert "has closed its connection" in caplog.text


# Responses that are not read.

NAMES = tuple(MetadataRequestTopic(name=f"{number:0100}") for number in range(1_000))
ANSWER_BYTES = 20_000 * len(NAMES)
"""More than the kernel takes."""


async def long_answer(context: RequestContext, request: Any) -> MetadataResponse:
    topic = MetadataResponseTopic(name="x" * 20_000, partitions=())
    return MetadataResponse(brokers=(), topics=(topic,) * len(request.topics))


def ask(peer: RawPeer) -> None:
    peer.send(ApiKey.METADATA, 9, 1, MetadataRequest(topics=NAMES))


async def test_a_response_that_is_sent_holds_its_own_bytes_alone() -> None:
    async with serving({ApiKey.METADATA: long_answer}) as server, raw_peer(server.port) as peer:
        ask(peer)
        await until(lambda: any(not connection._writable.is_set() for connection in server.connections))
        assert server.memory.others.used == 0, "the request"
        assert ANSWER_BYTES <= server.memory.others.objects.used < 1.01 * ANSWER_BYTES
        await peer.frame()
        await until(lambda: server.memory.used == 0)


@pytest.mark.parametrize("reads", [True, False])
async def test_who_does_not_read_a_response_is_closed_once_others_wait_for_its_memory(
    reads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving({ApiKey.METADATA: long_answer}, request_memory_max=2 * MIB) as server, AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(raw_peer(server.port)) for _ in range(2)]
        ask(first)
        await until(lambda: any(not connection._writable.is_set() for connection in server.connections))
        (sending,) = [each for each in server.connections if each._send_deadline_s is not None]
        now_s = asyncio.get_running_loop().time()
        sending.expire(now_s)
        sending.expire(now_s + 100)
        assert not sending.transport.is_closing(), "no other waits"
        ask(second)
        await until(lambda: server.memory.others.objects.is_pressed)
        sending.expire(now_s + 100)
        if reads:
            await first.reader.readexactly(8 * MIB)
        sending.expire(now_s + 101.9)
        assert not sending.transport.is_closing()
        sending.expire(now_s + 102)
        assert sending.transport.is_closing() is not reads
        if reads:
            await first.reader.readexactly(ANSWER_BYTES - 8 * MIB)
        assert await second.frame()
    assert ("bytes of a response left in 2 s" in caplog.text) is not reads
