"""Machines and processes: what a crash, a pause, a wipe and a stop leave."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tierfetch.log.disk import LogDirectoryLockedError
from tierfetch.sim.machine.host import ProcessDiedError
from tierfetch.sim.machine.world import World

FILE = Path("/data/a")


class Node:
    """Writes a byte every 10 ms, and remembers what was done to it."""

    def __init__(self, environment, *, starts_s: float = 0.0, fails: bool = False) -> None:
        self.environment = environment
        self.ticks = 0
        self.beats = 0
        self.ended = []
        self._starts_s = starts_s
        self._fails = fails

    async def __aenter__(self):
        await asyncio.sleep(self._starts_s)
        if self._fails:
            raise ValueError("cannot start")
        disk = self.environment.disk
        await disk.make_directory(FILE.parent)
        self.lock = self.environment.lock_directory(FILE.parent)
        self.file = await disk.open(FILE, create=True)
        self._task = asyncio.create_task(self._work())
        self._beat()
        return self

    async def __aexit__(self, *_):
        self.ended.append("exit")
        self._timer.cancel()
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.file.close()
        self.lock.release()

    def _beat(self):
        self.beats += 1
        self._timer = asyncio.get_running_loop().call_later(0.1, self._beat)

    async def _work(self):
        try:
            while True:
                await self.file.write(self.ticks, b"x")
                self.ticks += 1
                await asyncio.sleep(0.01)
        finally:
            self.ended.append("finally")


def simulate(scenario):
    with World(1) as world:
        host = world.host("a")
        result = world.run(scenario(world, host), limit_s=1000)
        assert world.loop.failures == []
        return result


def test_a_stop_is_in_order():
    async def scenario(world, host):
        node = await host.start(Node)
        assert host.node is node
        await asyncio.sleep(1)
        await host.stop()
        assert not host.is_up
        assert node.ended == ["exit", "finally"]
        ticks = node.ticks
        await asyncio.sleep(1)
        assert node.ticks == ticks > 50
        await host.start(Node)

    simulate(scenario)


@pytest.mark.parametrize("kind", ["process", "machine"])
def test_a_crash_runs_no_clean_up(kind):
    async def scenario(world, host):
        node = await host.start(Node)
        await node.file.sync()
        await asyncio.sleep(1)
        host.crash(kind)
        ticks, beats = node.ticks, node.beats
        await asyncio.sleep(1)
        assert (node.ended, node.ticks, node.beats, host.node) == ([], ticks, beats, None)
        assert world.counters[f"{kind} crash"] == 1
        again = await host.start(Node)
        return ticks, await again.file.size()

    ticks, size = simulate(scenario)
    if kind == "process":
        assert ticks <= size <= ticks + 1
    else:
        assert size < ticks


def test_nothing_of_a_crashed_process_runs_when_its_world_ends():
    with World(1) as world:
        host = world.host("a")

        async def scenario():
            node = await host.start(Node)
            host.crash("process")
            return node

        node = world.run(scenario(), limit_s=10)
        written = len(host.files.inode(FILE).content)
    assert len(host.files.inode(FILE).content) == written
    assert node.environment.disk.queue_depth <= 1


def test_a_paused_process_stands_still_and_then_goes_on():
    async def scenario(world, host):
        node = await host.start(Node)
        await asyncio.sleep(1)
        host.pause()
        assert host.is_paused
        ticks = node.ticks
        await asyncio.sleep(5)
        assert node.ticks == ticks
        host.resume()
        await asyncio.sleep(1)
        assert ticks + 50 < node.ticks < ticks + 150
        host.pause()
        host.crash("process")
        host.resume()
        assert not host.is_up

    simulate(scenario)


def test_a_start_that_fails_says_why_and_leaves_the_host_down():
    async def scenario(world, host):
        with pytest.raises(ValueError, match="cannot start"):
            await host.start(lambda environment: Node(environment, fails=True))
        assert not host.is_up
        await host.start(Node)

    simulate(scenario)


def test_a_crash_while_it_starts_is_told_to_the_starter():
    async def scenario(world, host):
        start = asyncio.ensure_future(host.start(lambda environment: Node(environment, starts_s=5)))
        await asyncio.sleep(1)
        host.crash("process")
        with pytest.raises(ProcessDiedError):
            await start

    simulate(scenario)


def test_a_crash_while_it_stops_ends_the_stop():
    async def scenario(world, host):
        await host.start(Node)
        host.pause()
        stop = asyncio.ensure_future(host.stop())
        await asyncio.sleep(1)
        assert not stop.done()
        host.crash("machine")
        await stop

    simulate(scenario)


def test_who_is_asked_to_stop_stops_until_it_has_ended():
    """Seed 1040: of a second one who asks, the time to stop says nothing."""

    async def scenario(world, host):
        await host.start(Node)
        assert not host.is_stopping
        host.pause()
        stops = [asyncio.ensure_future(host.stop())]
        await asyncio.sleep(1)
        assert host.is_stopping
        stops.append(asyncio.ensure_future(host.stop()))
        host.resume()
        assert await asyncio.gather(*stops) == [True, True]
        assert not host.is_stopping
        await host.start(Node)
        assert not host.is_stopping

    simulate(scenario)


def test_a_wiped_disk_is_empty():
    async def scenario(world, host):
        await host.start(Node)
        await host.stop()
        assert list(host.files.walk())
        host.wipe()
        assert not list(host.files.walk())

    simulate(scenario)


def test_a_directory_is_locked_by_one_process():
    async def scenario(world, host):
        node = await host.start(Node)
        with pytest.raises(LogDirectoryLockedError):
            node.environment.lock_directory(FILE.parent)
        host.crash("process")
        await host.start(Node)

    simulate(scenario)


def test_clocks_are_wrong_by_what_they_are_told():
    async def scenario(world, host):
        other = world.host("b")
        began = host.clock.now_ms()
        host.clock.drift_ppm = 1000
        await asyncio.sleep(100)
        assert host.clock.now_ms() == began + 100_100
        assert other.clock.now_ms() == began + 100_000
        host.clock.jump(-3_600_000)
        assert host.clock.now_ms() < began

    simulate(scenario)


def test_lines_say_what_happened_and_make_the_digest():
    def run(seed):
        lines = []
        with World(seed, sink=lines.append) as world:

            async def scenario():
                await world.host("a").start(Node)
                world.host("a").crash("machine")

            world.run(scenario(), limit_s=10)
            return lines, world.digest()

    lines, digest = run(1)
    assert [line.split(maxsplit=2)[1] for line in lines] == ["a"] * 3
    assert "machine crash" in lines[-1]
    assert run(1) == (lines, digest)
    assert run(2)[1] != digest
