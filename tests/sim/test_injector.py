"""Faults that look for their moment: whoever leads, has just voted, has just won."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import pytest

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.faults.injector import CUT_S, DEPOSED_S, LATE_S, MOMENT_S, RELIEF_S, FaultInjector
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule, UnfitScheduleError
from tierfetch.sim.judges.core.events import (
    FilesChanged,
    LeaderElected,
    NodeCrashing,
    Observed,
    ProcessEnded,
    QuorumLeaderElected,
    VoteCast,
)
from tierfetch.sim.machine.world import World

from .disks import flushed_up_to

NAME = TopicIdPartition(UUID(int=1), "t", 0)
NODES = ("a", "b", "c")


class Node:
    """Does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


class Cluster:
    """Of which `leader` leads; notes what it is told."""

    def __init__(self, world: World, leader: str | None = "a") -> None:
        self.world = world
        self.leader = leader
        self.crashed: list[str] = []
        self.ended: list[str] = []
        self.changed: list[str] = []
        starts = {name: partial(self.start, name) for name in NODES}
        self.injector = FaultInjector(world, starts, (*NODES, "clients"), self, self.note)

    async def start(self, name: str) -> None:
        await self.world.host(name).start(lambda _: Node())

    def blocked(self) -> set[tuple[str, str]]:
        return {(one, two) for one in NODES for two in NODES if self.world.network.is_blocked(one, two)}

    def move_leaders(self) -> None: ...

    def quorum_leader(self) -> str | None:
        return self.leader

    def may_wipe(self, host: str, directory: Path | None = None) -> bool:
        return True

    def note(self, event: Observed) -> None:
        match event:
            case NodeCrashing(host):
                self.crashed.append(host)
            case ProcessEnded(host):
                self.ended.append(host)
            case FilesChanged(host):
                self.changed.append(host)


def simulate(fault: Fault, look: Callable[[Cluster], Coroutine[Any, Any, None]], leader: str | None = "a") -> Cluster:
    """`look` runs beside the schedule of the one fault, which begins after 10 s."""
    with World(1) as world:
        cluster = Cluster(world, leader)

        async def run() -> None:
            for name in NODES:
                await cluster.start(name)
            keepers = [asyncio.create_task(cluster.injector.keep(name)) for name in NODES]
            await asyncio.gather(cluster.injector.run(Schedule(20_000, (fault,))), look(cluster))
            for keeper in keepers:
                keeper.cancel()

        world.run(run(), limit_s=60)
        return cluster


def test_who_leads_when_it_begins_is_cut_off_while_it_lasts() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(11)
        assert cluster.blocked() == {("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")}
        cluster.leader = "b"
        await asyncio.sleep(2)
        assert not cluster.blocked()

    simulate(Fault(10_000, FaultKind.ISOLATE_LEADER, (), 2_000), look)


def test_a_keeper_that_rests_looks_only_when_a_node_is_down() -> None:
    with World(1) as world:
        cluster = Cluster(world, "a")

        async def run() -> None:
            keeper = asyncio.create_task(cluster.injector.keep("a", rests=True))
            await asyncio.sleep(5)
            for _ in range(3):
                assert world.host("a").is_up
                events = world.loop.events
                await asyncio.sleep(1_000)
                assert world.loop.events - events < 10
                world.host("a").crash("process")
                assert not world.host("a").is_up
                await asyncio.sleep(5)
            keeper.cancel()

        world.run(run())


@pytest.mark.parametrize("kind", [FaultKind.ISOLATE_LEADER, FaultKind.CRASH_VOTER, FaultKind.RELIEVE_LEADERS])
def test_without_a_leader_it_is_skipped(kind: FaultKind) -> None:
    cluster = simulate(Fault(10_000, kind, (), 2_000), lambda _: asyncio.sleep(0), None)
    assert cluster.injector.injected == {f"{kind}, skipped": 1}


def test_a_voter_crashes_a_moment_after_its_vote_and_nobody_hears_its_candidate() -> None:
    async def look(cluster: Cluster) -> None:
        cluster.injector.on(VoteCast("b", "c"))
        await asyncio.sleep(10.001)
        assert cluster.crashed == ["a"]
        cluster.injector.on(VoteCast("b", "c"))
        assert cluster.blocked() == {("c", "a"), ("c", "b")}
        await asyncio.sleep(MOMENT_S[1])
        assert cluster.crashed == ["a", "b"]
        await asyncio.sleep(CUT_S[1])
        assert not cluster.blocked()
        assert all(cluster.world.host(name).is_up for name in NODES)

    simulate(Fault(10_000, FaultKind.CRASH_VOTER, (), 5_000, 3), look)


def test_who_has_just_won_is_cut_off_for_a_while() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(10.001)
        cluster.injector.on(QuorumLeaderElected("b"))
        await asyncio.sleep(MOMENT_S[1])
        assert cluster.blocked() == {("b", "a"), ("b", "c"), ("a", "b"), ("c", "b")}
        await asyncio.sleep(CUT_S[1])
        assert not cluster.blocked()

    simulate(Fault(10_000, FaultKind.CUT_NEW_LEADERS, (), 5_000), look)


def test_a_vote_is_held_back_for_a_while() -> None:
    async def look(cluster: Cluster) -> None:
        cluster.injector.on(VoteCast("b", "c"))
        assert not cluster.blocked()
        await asyncio.sleep(10.001)
        cluster.injector.on(VoteCast("b", "c"))
        assert cluster.blocked() == {("b", "c")}
        await asyncio.sleep(LATE_S[1])
        assert not cluster.blocked()

    simulate(Fault(10_000, FaultKind.LATE_VOTES, (), 5_000), look)


def test_leaders_are_cut_off_one_after_the_other_and_come_back() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(10.001)
        assert cluster.blocked() == {("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")}
        cluster.injector.on(QuorumLeaderElected("b"))
        await asyncio.sleep(RELIEF_S[1])
        assert cluster.blocked() == {("b", "a"), ("b", "c"), ("a", "b"), ("c", "b")}
        await asyncio.sleep(5)
        assert not cluster.blocked()
        cluster.injector.on(QuorumLeaderElected("c"))
        await asyncio.sleep(RELIEF_S[1])
        assert not cluster.blocked()

    simulate(Fault(10_000, FaultKind.RELIEVE_LEADERS, (), 5_000), look)


def test_who_begins_to_lead_a_partition_is_cut_off_from_nodes_alone() -> None:
    async def look(cluster: Cluster) -> None:
        cluster.injector.on(LeaderElected("a", NAME))
        await asyncio.sleep(10.001)
        for _ in range(10):
            cluster.injector.on(LeaderElected("b", NAME))
        await asyncio.sleep(MOMENT_S[1])
        assert cluster.blocked() == {("b", "a"), ("b", "c"), ("a", "b"), ("c", "b")}
        assert not cluster.world.network.is_blocked("b", "clients")
        await asyncio.sleep(DEPOSED_S[1])
        assert not cluster.blocked()

    simulate(Fault(10_000, FaultKind.DEPOSE_LEADERS, (), 6_000), look)


def test_a_disconnect_resets_connections_and_makes_the_next_ones_hard_to_get() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(10.001)
        assert cluster.world.network.flaky == {"b"}
        await asyncio.sleep(2)
        assert not cluster.world.network.flaky

    simulate(Fault(10_000, FaultKind.DISCONNECT, ("b",), 1_000), look)


def test_a_disconnect_may_make_the_network_slow_instead() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(10.001)
        assert not cluster.world.network.flaky
        slow = [(one, two) for one in NODES for two in NODES if cluster.world.network.link(one, two).latency_s > 0.3]
        assert slow == [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]

    simulate(Fault(10_000, FaultKind.DISCONNECT, ("b",), 1_000, 300), look)


def test_who_joins_crashes_and_is_down_for_longer_than_the_request_is_held_up() -> None:
    async def look(cluster: Cluster) -> None:
        assert cluster.injector.joins("b") == 0.0
        await asyncio.sleep(10.001)
        assert cluster.injector.joins("b") == 1.5
        await asyncio.sleep(1.5)
        assert cluster.crashed == ["b"]
        assert not cluster.world.host("b").is_up
        await asyncio.sleep(2)
        assert cluster.world.host("b").is_up

    simulate(Fault(10_000, FaultKind.CRASH_JOINER, (), 5_000, 1_500), look)


def test_a_request_is_made_by_who_runs_the_scenario() -> None:
    fault = Fault(10_000, FaultKind.GHOST, ("b",))
    cluster = simulate(fault, lambda _: asyncio.sleep(0))
    assert cluster.injector.injected == {"ghost, skipped": 1}
    done: list[Fault] = []

    async def look(cluster: Cluster) -> None:
        cluster.injector.immediate_faults[FaultKind.GHOST] = done.append
        await asyncio.sleep(11)

    assert simulate(fault, look).injector.injected == {"ghost": 1}
    assert done == [fault]


def test_a_machine_that_crashes_with_nothing_on_it_ends_no_process() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(9)
        cluster.injector._down["b"] += 1
        cluster.world.host("b").crash("process")
        await asyncio.sleep(2)
        assert cluster.ended == []
        cluster.injector._down["b"] -= 1

    simulate(Fault(10_000, FaultKind.POWER_FAILURE, ("b",), 500), look)


def test_a_disk_hangs_and_fails_as_long_as_the_fault_lasts() -> None:
    async def look(cluster: Cluster) -> None:
        faults = cluster.world.host("b").disk_faults
        await asyncio.sleep(10.5)
        found = (faults.error_share, faults.sync_error_share, faults.hung_until_s, faults.open_files_share)
        assert found == shares[kind]
        await asyncio.sleep(1)
        assert (faults.error_share, faults.sync_error_share, faults.open_files_share) == (0, 0, 0)

    shares = {
        FaultKind.DISK_ERRORS: (0.3, 0, 0, 0),
        FaultKind.FAILED_FSYNC: (0, 0.3, 0, 0),
        FaultKind.HUNG_DISK: (0, 0, 11, 0),
        FaultKind.OPEN_FILES: (0, 0, 0, 0.3),
    }
    for kind in shares:
        simulate(Fault(10_000, kind, ("b",), 1_000, 0.3), look)


def test_once_a_download_has_rotted_a_broker_may_keep_what_no_checksum_covers() -> None:
    async def look(cluster: Cluster) -> None:
        await asyncio.sleep(13.0)
        assert not cluster.injector.may_be_corrupt()
        assert not cluster.injector.may_give_wrong_bytes(), "none has rotted"
        cluster.world.counters["rotten download"] += 1
        await asyncio.sleep(30.0)
        assert cluster.injector.may_give_wrong_bytes()
        assert not cluster.injector.may_be_corrupt()

    simulate(Fault(5_000, FaultKind.ROTTEN_DOWNLOADS, (), 1_000, 0.3), look)


def test_what_rots_is_a_closed_segment_and_a_node_that_starts_meanwhile_may_find_less() -> None:
    async def look(cluster: Cluster) -> None:
        host = cluster.world.host("b")
        disk = host.open_disk()
        await disk.make_directory(Path("/data/t-0"))
        for name in ("1.log", "2.log"):
            await disk.write_file(Path("/data/t-0") / name, bytes(1000))
        flushed_up_to(host.files, Path("/data/t-0"), 2)
        await asyncio.sleep(10.5)
        assert await disk.read_file(Path("/data/t-0/1.log")) != bytes(1000)
        assert await disk.read_file(Path("/data/t-0/2.log")) == bytes(1000)
        assert cluster.injector.may_be_corrupt()
        host.crash("process")
        await asyncio.sleep(1)
        assert cluster.changed == ["b"]
        assert await host.open_disk().read_file(Path("/data/t-0/1.log")) == bytes(1000)
        await asyncio.sleep(6)
        assert not cluster.injector.may_be_corrupt()

    assert simulate(Fault(10_000, FaultKind.BIT_ROT, ("b",), 1_400), look).injector.injected["bit rot, bits"] == 3


@pytest.mark.parametrize(
    ("fault", "fits"),
    [
        (Fault(0, FaultKind.WIPE, ("a",)), True),
        (Fault(0, FaultKind.WIPE, ("broker-1",)), False),
        (Fault(0, FaultKind.PAUSE, ("clients",)), False),
        (Fault(0, FaultKind.PARTITION, ("a", "clients")), True),
        (Fault(0, FaultKind.ONE_WAY, ("a", "broker-1")), False),
        (Fault(0, FaultKind.MOVE_LEADER), True),
        (Fault(0, FaultKind.REPLACE_TOPIC), False),
    ],
)
def test_a_schedule_of_another_scenario_is_refused(fault: Fault, fits: bool) -> None:
    with World(1) as world:
        injector, schedule = Cluster(world).injector, Schedule(1_000, (fault,))
        if fits:
            injector.check(schedule)
        else:
            with pytest.raises(UnfitScheduleError, match=f"{fault.kind}"):
                injector.check(schedule)
