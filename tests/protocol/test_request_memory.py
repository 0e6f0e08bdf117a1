"""Memory of requests as it arrives, progress of those that send, and which connections are accepted."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack
from functools import partial

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.net.admission import Admission
from tierfetch.protocol.net.arrival import Arrival, RequestMemories
from tierfetch.protocol.net.object_memory import ObjectMemory
from tierfetch.protocol.net.request_memory import READ_SIZE_MAX, RequestMemory
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.net.server_limits import ServerLimits
from tierfetch.protocol.wire.framing import FrameAssembler
from tierfetch.protocol.wire.primitives import MalformedMessageError
from tierfetch.protocol.wire.produce import ProduceResponse

from .wire_fakes import Gate, produce, raw_peer, serving, until

MIB = 1024 * 1024


class Waiting:
    """A connection that waits."""

    def __init__(self, address: str, name: str, log: list[str]) -> None:
        self.address = address
        self._name = name
        self._log = log

    def memory_granted(self) -> None:
        self._log.append(self._name)


def holders(*names: str) -> tuple[list[Waiting], list[str]]:
    log: list[str] = []
    return [Waiting(name[0], name, log) for name in names], log


async def test_hosts_take_turns_and_the_oldest_of_each_is_first() -> None:
    (first, *waiting), log = holders("z", "a1", "a2", "a3", "b1", "b2")
    memory = RequestMemory(10 * READ_SIZE_MAX)
    memory.charge(10 * READ_SIZE_MAX)
    memory.complete(first, 10 * READ_SIZE_MAX)
    assert not any([memory.may_read(each) for each in waiting])
    assert (memory.waiting, memory.waits) == (5, 5)
    memory.give_back(10 * READ_SIZE_MAX)
    await asyncio.sleep(0)
    assert log == ["a1", "b1", "a2", "b2", "a3"]
    assert memory.waiting == 0


async def test_as_many_are_granted_memory_as_have_room_to_read() -> None:
    (first, *waiting), log = holders("z", "a1", "a2", "a3")
    memory = RequestMemory(2 * READ_SIZE_MAX)
    memory.charge(2 * READ_SIZE_MAX)
    memory.complete(first, 2 * READ_SIZE_MAX)
    assert not any([memory.may_read(each) for each in waiting])
    memory.give_back(READ_SIZE_MAX + 1)
    await asyncio.sleep(0)
    assert log == ["a1", "a2"]


async def test_one_may_exceed_the_limit_when_no_request_could_become_whole() -> None:
    (first, second), log = holders("a1", "b1")
    memory = RequestMemory(100)
    memory.charge(60)
    assert memory.may_read(first)
    memory.charge(60)
    assert not memory.may_read(second)
    await asyncio.sleep(0)
    assert log == ["b1"], "nothing but parts of requests is held"
    assert not memory.may_read(first)
    memory.charge(200)
    assert memory.may_read(second)
    memory.complete(second, 260)
    await asyncio.sleep(0)
    assert log == ["b1"], "now a whole request will give memory back"
    memory.give_back(260)
    await asyncio.sleep(0)
    assert log == ["b1", "a1"]
    memory.abandon(first, 60)
    assert memory.used == 0


async def test_D9_who_is_privileged_and_ends_makes_room_for_the_next() -> None:
    (first, second), log = holders("a1", "b1")
    memory = RequestMemory(100)
    memory.charge(120)
    assert not memory.may_read(first)
    memory.charge(120)
    assert not memory.may_read(second)
    memory.abandon(first, 120)
    await asyncio.sleep(0)
    assert log == ["a1", "b1"]


async def test_waiting_is_logged_but_not_for_each(caplog: pytest.LogCaptureFixture) -> None:
    (first, *waiting), _ = holders("z", "a1", "a2", "a3")
    memory = RequestMemory(100, "PLAINTEXT")
    memory.charge(100)
    memory.complete(first, 100)
    for each in waiting:
        memory.may_read(each)
    assert [record.getMessage() for record in caplog.records] == [
        "PLAINTEXT: 1 connections from 1 hosts wait: requests hold 100 bytes (0 of them of requests that still "
        "arrive), the limit is 100; raise queued.max.request.bytes, or look for clients that send slowly"
    ]


class Peer:
    """Bytes that arrive on one connection."""

    def __init__(self, memory: int = 10 * MIB, **limits: int) -> None:
        self.limits = ServerLimits(progress_window_s=5, progress_bytes_min=1000, **limits)
        self.memories = RequestMemories(RequestMemory(memory), RequestMemory(memory), ObjectMemory(memory))
        self.frames = FrameAssembler(100 * MIB)
        self.arrival = Arrival(self.memories, self.limits, lambda: None)

    def begin(self, api: ApiKey, size: int) -> None:
        self.send(struct.pack(">ih", size, api), 0)

    def send(self, data: bytes, now_s: float) -> None:
        while data:
            buffer = self.frames.get_buffer()
            count = min(len(buffer), len(data))
            buffer[:count], data = data[:count], data[count:]
            self.frames.filled(count)
            self.arrival.next_frame(self.frames, now_s)


def test_what_is_announced_costs_nothing_and_what_has_arrived_is_charged() -> None:
    peer = Peer()
    peer.begin(ApiKey.PRODUCE, 100 * MIB)
    assert peer.memories.others.used == 2
    peer.send(bytes(10_000), 0)
    assert (peer.memories.others.used, peer.memories.fetches.used) == (10_002, 0)


async def test_D9_a_fetch_has_memory_of_its_own_and_a_smaller_limit() -> None:
    peer = Peer(memory=1000)
    peer.memories.others.charge(1000)
    peer.begin(ApiKey.FETCH, 200_000)
    assert (peer.arrival.is_waiting, peer.memories.fetches.used) == (False, 2)
    with pytest.raises(MalformedMessageError, match="FETCH request of 2000000 bytes, allowed are 1000000"):
        Peer(fetch_request_size_max=1_000_000).begin(ApiKey.FETCH, 2_000_000)


def test_a_peer_that_stops_sending_a_large_request_is_stalled() -> None:
    peer = Peer()
    peer.begin(ApiKey.PRODUCE, 200_000)
    peer.send(bytes(5000), 1)
    assert [peer.arrival.stalled(None, now_s) for now_s in (2, 4.9, 5)] == [False, False, False], "5000 bytes came"
    peer.send(bytes(999), 6)
    assert [peer.arrival.stalled(None, now_s) for now_s in (9.9, 10)] == [False, True]


def test_bytes_in_the_kernel_are_progress() -> None:
    peer = Peer()
    peer.begin(ApiKey.PRODUCE, 200_000)
    assert [peer.arrival.stalled(pending, now_s) for pending, now_s in ((1000, 5), (2000, 10), (2500, 15))] == [
        False,
        False,
        True,
    ]


def test_a_small_request_is_not_judged_by_its_progress() -> None:
    peer = Peer()
    peer.begin(ApiKey.PRODUCE, 60_000)
    assert not peer.arrival.stalled(None, 100)


async def test_progress_is_judged_more_often_while_others_wait() -> None:
    peer = Peer(memory=150_000)
    peer.memories.others.charge(150_000)
    peer.begin(ApiKey.PRODUCE, 200_000)
    assert peer.arrival.is_waiting
    other = Arrival(peer.memories, peer.limits, lambda: None)
    frames = FrameAssembler(100 * MIB)
    frames.get_buffer()[:6] = struct.pack(">ih", 200_000, 0)
    frames.filled(6)
    other.next_frame(frames, 0)
    other.is_waiting = False  # it was granted memory before
    assert [other.stalled(None, now_s) for now_s in (0.9, 1)] == [False, True]


async def test_one_that_waits_for_memory_is_stalled_only_if_it_sends_nothing() -> None:
    peer = Peer(memory=1000)
    peer.memories.others.charge(1000)
    peer.memories.others.complete(peer.arrival, 1000)
    peer.begin(ApiKey.PRODUCE, 200_000)
    assert peer.arrival.is_waiting
    assert [peer.arrival.stalled(20_000, now_s) for now_s in (0, 5, 10)] == [False, False, False]
    assert [peer.arrival.stalled(None, now_s) for now_s in (11, 17)] == [False, False], "not known, so not judged"
    assert [peer.arrival.stalled(0, now_s) for now_s in (17.9, 18)] == [False, True]


async def test_D9_connections_that_announce_much_do_not_keep_others_waiting() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, request_memory_max=150_000) as server, AsyncExitStack() as peers:
        for _ in range(7):
            peer = await peers.enter_async_context(raw_peer(server.port))
            peer.writer.write(struct.pack(">i", 100 * MIB) + bytes(44))
        await until(lambda: server.memory.used == 7 * 44)
        honest = await peers.enter_async_context(raw_peer(server.port))
        honest.send(ApiKey.PRODUCE, 9, 1, produce(bytes(100_000)))
        await until(lambda: len(gate.gates) == 1)
        gate.gates[0].set_result(ProduceResponse(topics=()))
        assert (await honest.response(ApiKey.PRODUCE, 9))[0] == 1


async def test_one_connection_holds_a_part_of_the_memory_only() -> None:
    gate = Gate()
    async with serving({ApiKey.PRODUCE: gate}, request_memory_max=400_000) as server, raw_peer(server.port) as peer:
        for number in range(5):
            peer.send(ApiKey.PRODUCE, 9, number, produce(bytes(50_000)))
        await until(lambda: len(gate.gates) == 2)
        for number in range(5):
            await until(partial(lambda index: len(gate.gates) > index, number))
            gate.gates[number].set_result(ProduceResponse(topics=()))
            assert (await peer.response(ApiKey.PRODUCE, 9))[0] == number
        await until(lambda: server.memory.used == 0)


def test_connections_are_limited_by_number_by_address_and_by_rate() -> None:
    admission = Admission(ServerLimits(connections_max=4, connections_per_ip_max=2, connection_rate_max=4))
    assert [admission.accept("a", 0), admission.accept("a", 0)] == [None, None]
    assert admission.accept("a", 0) == "2 of its address are connected (max.connections.per.ip)"
    assert admission.accept("b", 0) is None
    assert admission.accept("b", 0) == "more than 4 came within a second (max.connection.creation.rate)"
    assert admission.accept("b", 0.26) is None
    assert admission.accept("c", 9) == "4 are connected (max.connections)"
    admission.ended("a")
    assert (admission.accept("c", 9), admission.total) == (None, 4)


def test_a_connection_refused_for_its_address_counts_in_the_rate_and_one_refused_for_the_number_does_not() -> None:
    admission = Admission(ServerLimits(connections_max=2, connections_per_ip_max=1, connection_rate_max=3))
    assert admission.accept("a", 0) is None
    assert admission.accept("a", 0) == "1 of its address are connected (max.connections.per.ip)"
    assert admission.accept("b", 0) is None
    assert admission.accept("c", 0) == "2 are connected (max.connections)"
    admission.ended("b")
    assert admission.accept("c", 0) == "more than 3 came within a second (max.connection.creation.rate)"


async def test_a_connection_above_its_addresses_quota_takes_nothing_from_the_rate() -> None:
    server = Server({}, listener_name="TEST", limits=ServerLimits(connection_rate_max=1))
    counted: list[str] = []

    def quota(address: str) -> str | None:
        counted.append(address)
        return "above its quota" if address == "a" else None

    server.address_quota = quota
    assert [server.admit("a"), server.admit("a"), server.admit("b")] == ["above its quota"] * 2 + [None]
    assert counted == ["a", "a", "b"]
