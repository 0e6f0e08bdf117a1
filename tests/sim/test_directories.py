"""Faults of one log directory of several: as they are drawn, and what they do to the machine."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tierfetch.sim.faults.directories import BEFORE_MS, MOVES_MAX, TIMES_MAX, directory_moves, sick_directories
from tierfetch.sim.faults.schedule import DIRECTORY_KINDS, Fault, FaultKind
from tierfetch.sim.faults.settings import log_directory
from tierfetch.sim.machine.disk import SimDisk
from tierfetch.sim.machine.filesystem import LOG_DIRECTORIES, SimFilesystem
from tierfetch.sim.machine.loop import make_loop
from tierfetch.sim.machine.world import World
from tierfetch.tests.sim.disks import sim_disk
from tierfetch.tests.sim.test_injector import Cluster, simulate

FIRST, SECOND = LOG_DIRECTORIES
BROKERS = ("broker-1", "broker-2", "broker-3")
SAFETY_MS = 15_000


def run(work: Coroutine[Any, Any, None]) -> None:
    loop = make_loop(Random(1))
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


async def made() -> SimDisk:
    disk = sim_disk(1)
    for directory in LOG_DIRECTORIES:
        await disk.make_directory(directory / "t-0")
        await disk.write_file(directory / "t-0" / "a", b"abc")
    return disk


async def fails(work: Coroutine[Any, Any, object], number: int) -> None:
    with pytest.raises(OSError, match=r"directory is ill|hangs|No space") as failure:
        await work
    assert failure.value.errno == number


def test_D4_every_kind_is_drawn_for_a_broker_whose_hardware_is_well_otherwise() -> None:
    seeds = [sick_directories(Random(seed), BROKERS, {"broker-2"}, SAFETY_MS) for seed in range(200)]
    faults = [fault for drawn in seeds for fault in drawn]
    kinds = Counter(fault.kind for fault in faults)
    assert kinds.keys() == DIRECTORY_KINDS
    assert all(1 <= len(drawn) <= TIMES_MAX and len({fault.targets for fault in drawn}) == 1 for drawn in seeds)
    assert {fault.targets for fault in faults} == {("broker-1",), ("broker-3",)}
    assert all(fault.end_ms <= SAFETY_MS for fault in faults)
    assert {log_directory(fault.value) for fault in faults} == set(LOG_DIRECTORIES)
    assert {fault.value for fault in faults if fault.kind is FaultKind.DIRECTORY_LOST} == {2}
    assert sick_directories(Random(1), BROKERS, set(BROKERS), SAFETY_MS) == []


def test_D4_replicas_move_at_any_time_and_about_each_fault() -> None:
    ill = [Fault(5_000, FaultKind.DIRECTORY_FAILS, ("broker-2",), 2_000, 2)]
    drawn = [directory_moves(Random(seed), BROKERS, ill, SAFETY_MS) for seed in range(50)]
    for moves in drawn:
        assert {move.kind for move in moves} == {FaultKind.MOVE_DIRECTORY}
        assert 2 + 1 <= len(moves) <= 2 + MOVES_MAX
        before, during = moves[-2:]
        assert before.targets == during.targets == ("broker-2",)
        assert 5_000 - BEFORE_MS <= before.at_ms <= 5_000 <= during.at_ms <= 7_000
    assert {move.targets for moves in drawn for move in moves[:-2]} == {(each,) for each in BROKERS}


def test_D4_a_directory_that_fails_answers_from_the_page_cache_alone_and_the_other_is_well() -> None:
    async def work() -> None:
        disk = await made()
        files = {directory: await disk.open(directory / "t-0" / "a") for directory in LOG_DIRECTORIES}
        disk.faults.failing = frozenset({SECOND})
        for call in (
            disk.write_file(SECOND / "b", b""),
            disk.read_file(SECOND / "t-0" / "a"),
            disk.list_directory(SECOND),
            disk.exists(SECOND / "t-0"),
            disk.open(SECOND / "t-0" / "a"),
            files[SECOND].write(3, b"d"),
            files[SECOND].sync(),
            files[SECOND].read_in_thread(0, 3),
        ):
            await fails(call, errno.EIO)
        assert disk.faults.failed_at_s.keys() == {SECOND}
        await files[FIRST].write(3, b"d")
        await files[FIRST].sync()
        assert await disk.read_file(FIRST / "t-0" / "a") == b"abcd"
        disk.faults.heal()
        assert await disk.read_file(SECOND / "t-0" / "a") == b"abc"

    run(work())


@pytest.mark.parametrize("hang_s", [1.0, None])
def test_D4_a_call_in_a_directory_that_hangs_fails_after_the_limit_and_then_all_do(hang_s: float | None) -> None:
    async def work() -> None:
        disk, loop = await made(), asyncio.get_running_loop()
        for directory in LOG_DIRECTORIES:
            disk.separate(directory, hang_s=hang_s)
        began_s = loop.time()
        disk.faults.hung_directories_until_s[SECOND] = began_s + 3
        hanging = asyncio.ensure_future(disk.write_file(SECOND / "b", b"x"))
        await disk.write_file(FIRST / "b", b"x")
        assert loop.time() - began_s < 0.1, "the other directory does not wait"
        if hang_s is None:
            await hanging
            assert loop.time() - began_s >= 3
            assert not disk.has_hung(SECOND)
            return
        await asyncio.sleep(0.5)
        later = asyncio.ensure_future(disk.exists(SECOND))
        assert not disk.has_hung(SECOND)
        with pytest.raises(OSError, match="hangs"):
            await hanging
        assert loop.time() - began_s == pytest.approx(1.0, abs=0.01)
        with pytest.raises(OSError, match="hangs"):
            await later
        assert (disk.has_hung(FIRST), disk.has_hung(SECOND)) == (False, True)
        await asyncio.sleep(5)
        await fails(disk.exists(SECOND), errno.ETIMEDOUT)
        assert await disk.exists(FIRST / "b")

    run(work())


def test_D4_a_directory_that_is_full_has_no_room_and_the_other_has() -> None:
    async def work() -> None:
        disk = await made()
        disk.files.full = frozenset({SECOND})
        file = await disk.open(SECOND / "t-0" / "a")
        await fails(file.write(3, b"d"), errno.ENOSPC)
        await fails(disk.write_file(SECOND / "b", b"x"), errno.ENOSPC)
        assert (await disk.space(SECOND)).usable_bytes == 0
        assert (await disk.space(FIRST)).usable_bytes > 0
        await disk.write_file(FIRST / "b", b"x")

    run(work())


def test_D4_a_log_is_found_in_whichever_directory_it_is() -> None:
    files = SimFilesystem()
    for directory, name in ((FIRST, "t-0"), (SECOND, "t-1")):
        files.make_directory(directory / name)
    assert files.log_at(FIRST / "t-0") == FIRST / "t-0"
    assert files.log_at(FIRST / "t-1") == SECOND / "t-1"
    assert files.log_at(FIRST / "t-2") == FIRST / "t-2", "where it would be"
    assert files.log_at(Path("/metadata/t-1")) == Path("/metadata/t-1")


def test_D4_a_directory_that_is_lost_is_empty_and_the_other_is_as_it_was() -> None:
    def lose(cluster: Cluster) -> tuple[list[str], list[str]]:
        files = cluster.world.host("a").files
        return [entry.name for entry in files.entries(FIRST)], [entry.name for entry in files.entries(SECOND)]

    async def look(cluster: Cluster) -> None:
        host = cluster.world.host("a")
        for directory in LOG_DIRECTORIES:
            host.files.make_directory(directory / "t-0")
        await asyncio.sleep(10.1)
        assert not host.is_up
        assert lose(cluster) == (["t-0"], [])
        await asyncio.sleep(4)
        assert host.is_up
        host.files.lose_power(Random(1))
        assert [entry.name for entry in host.files.entries(SECOND)] == [], "not even a crash brings it back"

    cluster = simulate(Fault(10_000, FaultKind.DIRECTORY_LOST, ("a",), 2_000, 2), look)
    assert cluster.injector.injected[FaultKind.DIRECTORY_LOST] == 1


@pytest.mark.parametrize(
    "kind", [FaultKind.DIRECTORY_FAILS, FaultKind.DIRECTORY_HANGS, FaultKind.DIRECTORY_FILLS], ids=str
)
def test_D4_a_fault_of_a_directory_begins_and_ends(kind: FaultKind) -> None:
    def sick(world: World) -> set[Path]:
        faults, files = world.host("a").disk_faults, world.host("a").files
        hung = {each for each, until_s in faults.hung_directories_until_s.items() if until_s > world.now_s}
        return faults.failing | hung | files.full

    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(10.5)
        assert sick(cluster.world) == {SECOND}
        await asyncio.sleep(2)
        assert sick(cluster.world) == set()

    simulate(Fault(10_000, kind, ("a",), 2_000, 2), look)
