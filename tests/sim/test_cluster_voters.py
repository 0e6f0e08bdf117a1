"""Clusters whose voters change: every row does something, and a disk is lost only where that leaves a majority."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.core.state import Endpoint, LeaderAndEpoch, ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VotersAt, VoterSet
from tierfetch.sim.faults.actions import Action
from tierfetch.sim.faults.schedule import Fault, FaultKind, Schedule
from tierfetch.sim.machine.chance import derived
from tierfetch.sim.machine.world import World
from tierfetch.sim.scenarios.cluster import ClusterScenario
from tierfetch.sim.scenarios.cluster_options import ClusterOptions
from tierfetch.sim.scenarios.operations.voters import Disks, VoterOperator
from tierfetch.tests.sim.test_cluster_options import QUIET

CHANGING = replace(
    QUIET, changing_voters=True, spares=1, auto_join=False, fetch_timeout_ms=700, election_timeout_ms=300
)
PORT = 9093


def run(options: ClusterOptions, *names: str, faults: tuple[Fault, ...] = ()) -> ClusterScenario:
    """One run with these actions, two seconds apart."""
    actions = tuple(Action(2_000 * number, number, name) for number, name in enumerate(names, 1))
    with World(1) as world:
        scenario = ClusterScenario(world, Schedule(2_000 * len(names) + 2_000, faults, actions), options)
        scenario.run()
        assert not scenario.findings()
        assert world.loop.failures == []
    return scenario


def voters_changed(scenario: ClusterScenario) -> dict[str, int]:
    changed = scenario.tallies().changed
    return {kind: count for kind, count in changed.items() if "voter" in kind or "controllers" in kind}


def test_some_seeds_have_voters_that_change() -> None:
    drawn = [ClusterOptions.drawn(partial(derived, seed)) for seed in range(200)]
    changing = [options for options in drawn if options.changing_voters]
    assert 15 < len(changing) < 35
    assert {(options.spares, options.auto_join) for options in changing} == {
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    }
    assert not any(options.spares or options.auto_join for options in drawn if not options.changing_voters)
    assert {len(options.controllers) for options in changing} == {3, 4}
    for options in changing:
        assert len(options.first_voters(Random(1))) == 3


@pytest.mark.simulated
def test_every_row_changes_the_voters_of_a_cluster() -> None:
    scenario = run(CHANGING, "add voter", "wipe voter", "remove voter", "add voter", "move voter", "remove voter")
    assert voters_changed(scenario) == {
        "voters added": 2,
        "voters wiped": 1,
        "voters removed": 2,
        "controllers moved": 1,
    }


@pytest.mark.simulated
def test_a_controller_with_a_new_disk_joins_by_itself_while_others_fail() -> None:
    faults = (Fault(3_000, FaultKind.ISOLATE_LEADER, (), 1_500), Fault(6_000, FaultKind.MOVE_LEADER))
    scenario = run(replace(CHANGING, auto_join=True), "wipe voter", "remove voter", "wipe voter", faults=faults)
    assert voters_changed(scenario)["voters wiped"] > 0


@pytest.mark.simulated
@pytest.mark.parametrize("combined", [1, 3])
def test_nodes_with_both_roles_change_their_vote(combined: int) -> None:
    scenario = run(replace(CHANGING, combined=combined), "add voter", "remove voter", "move voter")
    assert voters_changed(scenario) == {"voters added": 1, "voters removed": 1, "controllers moved": 1}


# -- when a disk may be lost -------------------------------------------------------------------------------------------


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id))


def voters(*node_ids: int, port: int = PORT) -> VoterSet:
    return VoterSet.of(VoterNode(key(each), (Endpoint("CONTROLLER", str(each), port),)) for each in node_ids)


def replica(epoch: int, *, at: VotersAt, high_watermark: int = 10) -> Any:
    status = SimpleNamespace(
        leader_and_epoch=LeaderAndEpoch(1, epoch), voters=at, high_watermark=high_watermark, next_offset=10
    )
    epochs = LeaderEpochCache([EpochEntry(1, 0), EpochEntry(5, 8)])
    return SimpleNamespace(status=status, log=SimpleNamespace(epochs=epochs))


class Quorum:
    """Controllers 1 to 4, of which 1 leads epoch 5, and 1 to 3 vote."""

    def __init__(self) -> None:
        self.at = VotersAt(4, voters(1, 2, 3), 1)
        self.replicas: dict[str, Any] = {str(each): replica(5, at=self.at) for each in (1, 2, 3, 4)}
        self.lost: set[int] = set()
        self.wiped: list[str] = []
        disks = Disks(["1", "2", "4"], lambda key: key.id in self.lost, self.wiped.append)
        self.operator = VoterOperator(
            {str(each): each for each in (1, 2, 3, 4)},
            self.replicas.get,
            lambda: ("1", self.replicas["1"]),
            Random(1),
            port_of=lambda _: PORT,
            move=self.never,
            upgrade=self.never,
            publish=lambda _: None,
            record=lambda *_: None,
            disks=disks,
        )

    async def never(self, *_: object) -> Any:
        raise AssertionError

    def leader_has(self, at: VotersAt, **others: int) -> None:
        self.replicas["1"] = replica(5, at=at, **others)

    def answers(self, code: ErrorCode | None) -> None:
        async def ask(_: object) -> Any:
            return None if code is None else SimpleNamespace(error_code=code)

        self.operator._ask = ask  # type: ignore[assignment]


async def on(change: Callable[[Quorum], object]) -> Quorum:
    quorum = Quorum()
    change(quorum)
    return quorum


def test_a_voter_of_three_loses_its_disk_once_and_is_the_next_that_is_removed() -> None:
    async def lose() -> None:
        quorum = Quorum()
        assert quorum.operator.expendable == ["1", "2"], "that of 3 is a broker's, too, and 4 has no vote"
        await quorum.operator.wipe(Random(1))
        assert len(quorum.wiped) == 1
        quorum.lost = {int(quorum.wiped[0])}
        assert quorum.operator.expendable == []
        assert not quorum.operator.may_move
        assert quorum.operator.may_remove
        quorum.answers(ErrorCode.none)
        for seed in range(10):
            await quorum.operator.remove(Random(seed))
        assert quorum.operator._wanted == {next(iter(quorum.lost)): False}

    asyncio.run(lose())


@pytest.mark.parametrize(
    "change",
    [
        lambda quorum: quorum.replicas.update({"4": None}),
        lambda quorum: quorum.replicas.update({"2": replica(6, at=quorum.at)}),
        lambda quorum: quorum.leader_has(quorum.at, high_watermark=8),
        lambda quorum: quorum.leader_has(VotersAt(10, voters(1, 2, 3), 1)),
        lambda quorum: quorum.leader_has(VotersAt(4, voters(1, 2), 1)),
        lambda quorum: quorum.leader_has(VotersAt(4, voters(1, 2, 3, port=PORT + 1), 1)),
        lambda quorum: quorum.lost.add(3),
    ],
    ids=[
        "one is down",
        "a newer epoch",
        "nothing of its own",
        "voters uncommitted",
        "two voters",
        "moved",
        "another lost",
    ],
)
def test_no_disk_is_lost_where_that_may_leave_no_majority(change: Callable[[Quorum], object]) -> None:
    assert asyncio.run(on(change)).operator.expendable == []


@pytest.mark.parametrize(
    ("code", "may_lose"), [(ErrorCode.none, True), (None, False), (ErrorCode.request_timed_out, False)]
)
def test_none_is_lost_once_a_removal_may_still_be_carried_out(code: ErrorCode | None, may_lose: bool) -> None:
    async def ask() -> None:
        quorum = Quorum()
        quorum.answers(code)
        await quorum.operator.remove(Random(1))
        assert bool(quorum.operator.expendable) is may_lose

    asyncio.run(ask())


# -- what keeps voters from being at rest ------------------------------------------------------------------------------


def test_replicas_go_by_the_voters_of_the_leader_which_listen_where_it_knows() -> None:
    quorum = Quorum()
    assert quorum.operator.strayed(quorum.replicas) == []
    quorum.replicas["4"] = replica(5, at=VotersAt(2, voters(1, 2), 1))
    assert [host for host, _ in quorum.operator.strayed(quorum.replicas)] == ["4"]
    quorum.leader_has(VotersAt(4, voters(1, 2, 3, port=PORT + 1), 1))
    assert [host for host, _ in quorum.operator.strayed({"1": quorum.replicas["1"]})] == ["1", "2", "3"]
