"""The simulated network: streams, their ends, and what blocks and crashes do to them."""

from __future__ import annotations

import asyncio
import errno
from random import Random

import pytest

from tierfetch.sim.machine import transport as sim_transport
from tierfetch.sim.machine.world import World

PORT = 9000


class Ear(asyncio.Protocol):
    """Hears and remembers."""

    def __init__(self) -> None:
        self.data = b""
        self.pieces = 0
        self.events = []
        self.lost = asyncio.Event()
        self.error = None
        self.is_writable = True

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        self.pieces += 1

    def eof_received(self):
        self.events.append("eof")

    def connection_lost(self, error):
        self.events.append("lost")
        self.error = error
        self.lost.set()

    def pause_writing(self):
        self.is_writable = False

    def resume_writing(self):
        self.is_writable = True


class Node:
    """Listens, and keeps what it accepts; an async context manager as every node."""

    def __init__(self, factory=Ear) -> None:
        self.accepted = []
        self._factory = factory

    def _make(self):
        self.accepted.append(self._factory())
        return self.accepted[-1]

    async def __aenter__(self):
        self.server = await asyncio.get_running_loop().create_server(self._make, "server", PORT)
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for protocol in self.accepted:
            protocol.transport.close()


class Pair:
    """A server on a host, and a connection of a client on another."""

    def __init__(self, world) -> None:
        self.world = world
        self.server = world.host("server")
        self.client = world.host("client")

    async def start(self, factory=Ear):
        self.node = await self.server.start(lambda environment: Node(factory))
        _, self.ours = await self.dial()
        await asyncio.sleep(0.1)
        self.theirs = self.node.accepted[0]

    async def dial(self):
        return await self.client.run(self.world.loop.create_connection(Ear, "server", PORT))


def simulate(scenario, seed: int = 1):
    """What the scenario returns."""
    with World(seed) as world:

        async def work():
            pair = Pair(world)
            await pair.start()
            return await scenario(pair, world)

        result = world.run(work(), limit_s=10_000)
        assert world.loop.failures == []
        return result


@pytest.mark.slow
def test_bytes_arrive_whole_in_order_and_in_other_pieces():
    async def scenario(pair, world):
        sent = b""
        for number in range(500):
            part = b"%d," % number
            sent += part
            pair.ours.transport.write(part)
            if number % 3 == 0:
                await asyncio.sleep(0.0001)
        await asyncio.sleep(1)
        assert pair.theirs.data == sent
        return pair.theirs.pieces

    pieces = {simulate(scenario, seed) for seed in range(4)}
    assert len(pieces) > 1
    assert all(50 < number < 400 for number in pieces)


def test_connections_overtake_each_other():
    async def scenario(pair, world):
        _, other = await pair.dial()
        order = []
        await asyncio.sleep(1)
        for number, ear in enumerate(pair.node.accepted):
            ear.data_received = lambda data, number=number: order.append(number)
        for _ in range(50):
            pair.ours.transport.write(b"x")
            other.transport.write(b"x")
            await asyncio.sleep(0.01)
        return order

    order = simulate(scenario)
    assert order != [0, 1] * 50
    assert sorted(order) == [0] * 50 + [1] * 50


def test_a_reader_that_pauses_fills_up_its_writer():
    async def scenario(pair, world):
        pair.theirs.transport.pause_reading()
        sent = 0
        while pair.ours.is_writable:
            pair.ours.transport.write(bytes(10_000))
            sent += 10_000
        assert sent < sim_transport.WINDOW_BYTES + sim_transport.HIGH_WATER_BYTES + 20_000
        assert pair.ours.transport.get_write_buffer_size() > sim_transport.HIGH_WATER_BYTES
        await asyncio.sleep(10)
        assert not pair.ours.is_writable
        pair.theirs.transport.resume_reading()
        await asyncio.sleep(1)
        assert pair.ours.is_writable
        assert len(pair.theirs.data) == sent

    simulate(scenario)


def test_a_buffered_protocol_gets_the_same_bytes():
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self):
            self.data = b""
            self.buffer = bytearray(7)

        def connection_made(self, transport):
            self.transport = transport

        def get_buffer(self, sizehint):
            return memoryview(self.buffer)

        def buffer_updated(self, nbytes):
            self.data += self.buffer[:nbytes]
            if len(self.data) % 5 == 0:
                self.transport.pause_reading()
                asyncio.get_running_loop().call_later(0.001, self.transport.resume_reading)

        def eof_received(self):
            return None

        def connection_lost(self, error):
            return None

    with World(1) as world:

        async def work():
            pair = Pair(world)
            await pair.start(Buffered)
            sent = bytes(range(256)) * 4
            pair.ours.transport.write(sent)
            await asyncio.sleep(5)
            assert pair.theirs.data == sent

        world.run(work(), limit_s=100)


def test_a_close_is_heard_after_all_that_was_written():
    async def scenario(pair, world):
        pair.ours.transport.write(b"last words")
        pair.ours.transport.close()
        assert pair.ours.transport.is_closing()
        await pair.theirs.lost.wait()
        await pair.ours.lost.wait()
        assert pair.theirs.data == b"last words"
        assert pair.theirs.events == ["eof", "lost"]
        assert pair.ours.events == ["lost"]
        assert pair.ours.error is pair.theirs.error is None

    simulate(scenario)


def test_who_writes_to_a_closed_connection_is_told():
    async def scenario(pair, world):
        pair.theirs.transport.abort()
        pair.ours.transport.write(b"too late")
        await pair.ours.lost.wait()
        return pair.ours.error

    error = simulate(scenario)
    assert error is None or isinstance(error, ConnectionResetError)


def test_unread_bytes_make_a_close_a_reset():
    async def scenario(pair, world):
        pair.theirs.transport.pause_reading()
        pair.ours.transport.write(b"unread")
        await asyncio.sleep(1)
        pair.theirs.transport.close()
        await pair.ours.lost.wait()
        return pair.ours.error

    assert isinstance(simulate(scenario), ConnectionResetError)


def test_a_process_crash_closes_its_connections_at_once():
    async def scenario(pair, world):
        pair.theirs.transport.write(b"sent before")
        pair.server.crash("process")
        crashed_at = world.now_s
        await pair.ours.lost.wait()
        assert world.now_s - crashed_at < 0.01
        assert pair.ours.data == b"sent before"
        with pytest.raises(ConnectionRefusedError):
            await pair.dial()

    simulate(scenario)


def test_a_machine_crash_leaves_connections_half_open_until_it_runs_again():
    async def scenario(pair, world):
        pair.server.crash("machine")
        pair.ours.transport.write(b"to nobody")
        await asyncio.sleep(60)
        assert pair.ours.events == []
        dial = asyncio.ensure_future(pair.dial())
        await asyncio.sleep(20)
        assert not dial.done()
        await pair.server.start(lambda environment: Node())
        began = world.now_s
        await pair.ours.lost.wait()
        assert world.now_s - began < 5
        assert isinstance(pair.ours.error, ConnectionResetError)
        await dial

    simulate(scenario)


def test_a_connection_to_a_dead_machine_is_given_up_at_last():
    async def scenario(pair, world):
        pair.server.crash("machine")
        pair.ours.transport.write(b"to nobody")
        await pair.ours.lost.wait()
        with pytest.raises(TimeoutError):
            await pair.dial()
        return world.now_s, pair.ours.error

    at_s, error = simulate(scenario)
    assert at_s > sim_transport.RETRANSMISSION_TIMEOUT_S
    assert error.errno == errno.ETIMEDOUT


def test_a_paused_process_is_connected_to_and_reads_later():
    async def scenario(pair, world):
        pair.server.pause()
        _, other = await pair.dial()
        other.transport.write(b"wait for me")
        await asyncio.sleep(30)
        assert len(pair.node.accepted) == 1
        pair.server.resume()
        await asyncio.sleep(0.1)
        assert pair.node.accepted[1].data == b"wait for me"

    simulate(scenario)


def test_a_block_holds_back_one_direction_and_loses_nothing():
    async def scenario(pair, world):
        pair.ours.transport.write(b"on its way")
        world.network.block("client", "server")
        pair.ours.transport.write(b" and later")
        pair.theirs.transport.write(b"the other way")
        await asyncio.sleep(30)
        assert pair.theirs.data == b""
        assert pair.ours.data == b"the other way"
        world.network.unblock("client", "server")
        await asyncio.sleep(sim_transport.RETRANSMISSION_BACKOFF_MAX_S + 0.1)
        assert pair.theirs.data == b"on its way and later"

    simulate(scenario)


def test_without_acknowledgements_a_window_is_all_that_arrives():
    async def scenario(pair, world):
        world.network.block("server", "client")
        for _ in range(10):
            pair.ours.transport.write(bytes(100_000))
        await asyncio.sleep(10)
        assert 0 < len(pair.theirs.data) <= sim_transport.WINDOW_BYTES
        assert not pair.ours.is_writable
        world.network.heal()
        await asyncio.sleep(5)
        assert len(pair.theirs.data) == 1_000_000
        assert pair.ours.is_writable

    simulate(scenario)


def test_a_partition_lasts_until_it_heals_and_dials_wait_for_it():
    async def scenario(pair, world):
        world.network.partition({"client"}, {"server"})
        dial = asyncio.ensure_future(pair.dial())
        pair.ours.transport.close()
        await asyncio.sleep(10)
        assert pair.theirs.events == []
        world.network.heal()
        await dial
        await pair.theirs.lost.wait()
        assert world.now_s < 20

    simulate(scenario)


def test_a_slow_link_is_slow():
    async def scenario(pair, world):
        times = []
        for factor in (1, 100):
            world.network.link("client", "server").slow_down(factor)
            began = world.now_s
            pair.theirs.data = b""
            pair.ours.transport.write(bytes(100_000))
            while len(pair.theirs.data) < 100_000:  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.000_01)
            times.append(world.now_s - began)
        return times

    fast, slow = simulate(scenario)
    assert slow > 20 * fast


def test_names_and_ports_are_those_of_the_hosts():
    async def scenario(pair, world):
        assert pair.ours.transport.get_extra_info("peername") == ("server", PORT)
        assert pair.theirs.transport.get_extra_info("peername")[0] == "client"
        assert pair.ours.transport.get_extra_info("socket") is None
        with pytest.raises(OSError, match="no such host"):
            await world.loop.create_connection(Ear, "nowhere", 1)
        with pytest.raises(OSError, match="not an address of host outside"):
            await world.loop.create_server(Ear, "server", PORT)
        with pytest.raises(ConnectionRefusedError):
            await pair.client.run(world.loop.create_connection(Ear, "server", PORT + 1))
        server = await world.loop.create_server(Ear, "localhost", 0, start_serving=False)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await world.loop.create_connection(Ear, "127.0.0.1", port)
        await server.start_serving()
        transport, _ = await world.loop.create_connection(Ear, "127.0.0.1", port)
        transport.close()
        server.close()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_blocked_slowed_and_paused_the_streams_stay_whole(seed):
    async def scenario(pair, world):
        rng = world.rng("test")
        network, ends = world.network, (pair.ours, pair.theirs)
        sent = [b"", b""]

        def write():
            side = rng.randrange(2)
            if ends[side].is_writable:
                data = rng.randbytes(rng.choice((1, 10, 1000, 70_000, 300_000)))
                sent[side] += data
                ends[side].transport.write(data)

        actions = [
            write,
            write,
            write,
            lambda: network.block("client", "server"),
            lambda: network.block("server", "client"),
            lambda: network.unblock("client", "server"),
            lambda: network.unblock("server", "client"),
            lambda: network.link("client", "server").slow_down(rng.choice((1, 50))),
            pair.server.pause,
            pair.server.resume,
            pair.theirs.transport.pause_reading,
            pair.theirs.transport.resume_reading,
        ]
        for _ in range(300):
            rng.choice(actions)()
            assert sent[0].startswith(pair.theirs.data)
            assert sent[1].startswith(pair.ours.data)
            if rng.random() < 0.7:
                await asyncio.sleep(rng.choice((0.0001, 0.01, 1)))
        network.heal()
        pair.server.resume()
        pair.theirs.transport.resume_reading()
        await asyncio.sleep(30)
        assert [pair.theirs.data, pair.ours.data] == sent
        assert all(end.is_writable for end in ends)
        pair.ours.transport.close()
        await asyncio.sleep(1)
        assert pair.theirs.events == ["eof", "lost"]
        assert not world.network.link("client", "server").transports

    simulate(scenario, seed)


def test_a_reset_ends_connections_at_both_ends_and_no_process():
    async def scenario(pair, world):
        pair.ours.transport.write(b"x")
        world.network.reset_connections("server")
        for ear in (pair.ours, pair.theirs):
            await ear.lost.wait()
            assert isinstance(ear.error, ConnectionResetError)
        assert pair.theirs.data == b""
        await pair.dial()
        await asyncio.sleep(0.1)
        assert len(pair.node.accepted) == 2

    simulate(scenario)


def test_a_flaky_host_refuses_every_other_connect():
    async def scenario(pair, world):
        world.network.flaky = {"server"}
        outcomes = []
        for _ in range(4):
            try:
                await pair.dial()
            except ConnectionRefusedError:
                outcomes.append("refused")
            else:
                outcomes.append("taken")
        assert outcomes == ["refused", "taken"] * 2

    simulate(scenario)


def test_a_flaky_host_refuses_no_task_twice_in_a_row():
    async def scenario(pair, world):
        async def dial():
            await world.loop.create_connection(Ear, "server", PORT)

        async def prober():
            with pytest.raises(ConnectionRefusedError):
                await dial()
            await asyncio.create_task(dial())
            await dial()

        world.network.flaky = {"server"}
        await pair.client.run(prober())

    simulate(scenario)


def test_a_refusing_host_refuses_every_connect_and_keeps_what_it_has():
    async def scenario(pair, world):
        world.network.refusing = {"server"}
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                await pair.dial()
        pair.ours.transport.write(b"x")
        await asyncio.sleep(0.1)
        assert pair.theirs.data == b"x"
        world.network.refusing = frozenset()
        await pair.dial()

    simulate(scenario)


def test_a_connection_is_gone_for_one_end_and_the_other_hears_of_it_when_it_sends():
    async def scenario(pair, world):
        world.network.reset_one_end("server", Random(1))
        await asyncio.sleep(1)
        lost, kept = sorted((pair.ours, pair.theirs), key=lambda ear: not ear.lost.is_set())
        assert isinstance(lost.error, ConnectionResetError)
        assert not kept.lost.is_set()
        kept.transport.write(b"x")
        await asyncio.sleep(1)
        assert isinstance(kept.error, ConnectionResetError)
        assert lost.data == b""
        world.network.reset_one_end("server", Random(1))

    simulate(scenario)


@pytest.mark.parametrize("has_power_failure", [False, True])
def test_what_a_dead_process_left_to_its_kernel_is_lost_with_the_machine(has_power_failure):
    """Behind a blocked link it waits in the kernel of the sender."""

    async def scenario(pair, world):
        world.network.block("server", "client")
        pair.theirs.transport.write(b"left behind")
        pair.server.crash("process")
        await asyncio.sleep(1)
        if has_power_failure:
            pair.server.crash("machine")
        world.network.unblock("server", "client")
        await asyncio.sleep(10)
        return pair.ours.data, pair.ours.events

    assert simulate(scenario) == ((b"", []) if has_power_failure else (b"left behind", ["eof", "lost"]))


def test_a_dead_machine_refuses_nobody_for_a_process_that_died_before():
    async def scenario(pair, world):
        world.network.block("server", "client")
        pair.server.crash("process")
        pair.server.crash("machine")
        world.network.unblock("server", "client")
        pair.ours.transport.write(b"to nobody")
        await asyncio.sleep(60)
        assert pair.ours.events == []
        await pair.server.start(lambda environment: Node())
        await pair.ours.lost.wait()
        assert isinstance(pair.ours.error, ConnectionResetError)

    simulate(scenario)


def test_a_machine_that_crashes_again_before_it_has_answered_answers_after_its_next_boot():
    async def scenario(pair, world):
        pair.server.crash("machine")
        pair.ours.transport.write(b"to nobody")
        for _ in range(5):
            await asyncio.sleep(1)
            await pair.server.start(lambda environment: Node())
            pair.server.crash("machine")
        await asyncio.sleep(60)
        assert pair.ours.events == []
        await pair.server.start(lambda environment: Node())
        await pair.ours.lost.wait()
        assert isinstance(pair.ours.error, ConnectionResetError)

    simulate(scenario)


def test_connections_share_the_interface_of_their_host_evenly_and_in_turn():
    """Ten of each at 1 MB/s: what one gets alone in 1 s, two get in 2 s, either way."""

    def seconds(connections: int, **rates: float) -> float:
        async def scenario(pair, world):
            for _ in range(connections - 1):
                await pair.dial()
            await asyncio.sleep(1)
            sends = [ear.transport.peer for ear in pair.node.accepted]
            world.network.shape("server", **rates)
            began_s = world.now_s
            for transport in sends:
                transport.write(bytes(1_000_000))
            while any(len(ear.data) < 1_000_000 for ear in pair.node.accepted):  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.001)
            return world.now_s - began_s

        return simulate(scenario)

    slow, fast = 1e6, 1e9
    assert seconds(1, in_bytes_per_s=slow, out_bytes_per_s=fast) == pytest.approx(1.0, rel=0.05)
    assert seconds(2, in_bytes_per_s=slow, out_bytes_per_s=fast) == pytest.approx(2.0, rel=0.05)
    assert seconds(2, in_bytes_per_s=fast, out_bytes_per_s=slow) < 0.1, "the other direction"


def test_a_link_takes_the_slower_of_both_interfaces():
    async def scenario(pair, world):
        world.network.shape("client", in_bytes_per_s=1e9, out_bytes_per_s=4e5)
        world.network.shape("server", in_bytes_per_s=2e5, out_bytes_per_s=1e9)
        began_s = world.now_s
        pair.ours.transport.write(bytes(400_000))
        while len(pair.theirs.data) < 400_000:  # noqa: ASYNC110 - virtual time waits for free
            await asyncio.sleep(0.001)
        return world.now_s - began_s

    assert 2.0 < simulate(scenario) < 3.2, "the first piece passes both, one after the other"
