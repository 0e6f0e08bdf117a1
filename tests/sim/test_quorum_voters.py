"""The voters of a quorum: one line of sets, one change at a time, counted once caught up (KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from tierfetch.quorum.core.state import ReplicaKey
from tierfetch.quorum.core.voters import VoterNode, VotersAt, VoterSet
from tierfetch.sim.judges.core.events import QuorumCommitted, VoterAddAnswered, VoterAddAsked, VotersMoved
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.quorum.voters import VotersJudge

FETCH_TIMEOUT_S = 2.0


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=node_id))


def at(offset: int, *voters: int) -> VotersAt:
    return VotersAt(offset, VoterSet.of(VoterNode(key(node_id)) for node_id in voters), 1)


class Scene:
    def __init__(self) -> None:
        self.disks: dict[int, int] = {}
        self.now_s = 10.0
        self.judge = VotersJudge(
            lambda node_id, end: self.disks.get(node_id, 0) >= end,
            lambda: self.now_s,
            fetch_timeout_s=FETCH_TIMEOUT_S,
        )

    def moves(
        self, node_id: int, *entries: VotersAt, committed: int = 0, end: int = 100, leads: bool = False, epoch: int = 3
    ) -> None:
        event = VotersMoved(f"controller-{node_id}", 1, key(node_id), epoch, leads, entries, committed, end)
        self.judge.on(event)

    def commits(self, end_offset: int) -> None:
        self.judge.on(QuorumCommitted(end_offset))


def test_voters_that_change_one_at_a_time_are_one_line() -> None:
    scene = Scene()
    for node_id in (1, 2):
        scene.moves(node_id, at(0, 1, 2, 3), committed=5)
        scene.moves(node_id, at(0, 1, 2, 3), at(7, 1, 2, 3, 4), committed=7)
        scene.moves(node_id, at(7, 1, 2, 3, 4), committed=8)
        scene.moves(node_id, at(9, 2, 3, 4), committed=10)
    assert scene.judge.changes == 2
    scene.moves(3, at(8, 1, 2, 3, 4), committed=9)  # of a snapshot: what was in effect there


@pytest.mark.parametrize("voters", [(1, 2, 3), (1, 2, 3, 5)])
def test_two_replicas_have_the_same_voters_committed(voters: Sequence[int]) -> None:
    scene = Scene()
    scene.moves(1, at(0, 1, 2, 3), committed=5)
    scene.moves(1, at(7, 1, 2, 3, 4), committed=8)
    with pytest.raises(InvariantViolationError, match="one line of voters"):
        scene.moves(2, at(7, *voters), committed=8)


def test_a_set_differs_by_one_voter_from_the_one_before_it() -> None:
    scene = Scene()
    scene.moves(1, at(0, 1, 2, 3), committed=5)
    with pytest.raises(InvariantViolationError, match="one voter at a time"):
        scene.moves(1, at(7, 1, 2, 4), committed=8)


def test_a_change_waits_until_the_last_one_is_committed() -> None:
    scene = Scene()
    scene.disks = dict.fromkeys(range(9), 100)
    scene.moves(1, at(0, 1, 2, 3), at(7, 1, 2, 3, 4), committed=7, leads=True)
    with pytest.raises(InvariantViolationError, match="committed first"):
        scene.moves(1, at(0, 1, 2, 3), at(7, 1, 2, 3, 4), at(9, 1, 2, 3, 4, 5), committed=7, leads=True)


def test_a_new_leader_may_have_several_that_are_not_committed_where_it_looks() -> None:
    scene = Scene()
    scene.moves(1, at(0, 1, 2, 3), at(7, 1, 2, 3, 4), committed=0)
    scene.moves(1, at(0, 1, 2, 3), at(7, 1, 2, 3, 4), at(9, 2, 3, 4), committed=0, leads=True, epoch=4)


def test_a_set_whose_record_was_cut_off_is_in_effect_no_longer() -> None:
    scene = Scene()
    with pytest.raises(InvariantViolationError, match="voters of the log"):
        scene.moves(1, at(0, 1, 2, 3), at(7, 1, 2, 3, 4), end=7)


def test_a_voter_that_is_added_had_caught_up_when_that_was_asked_for() -> None:
    for disk, is_answered, is_level in ((20, False, True), (19, False, False), (19, True, False)):
        scene = Scene()
        scene.commits(20)
        scene.judge.on(VoterAddAsked(4))
        if is_answered:
            scene.judge.on(VoterAddAnswered(4))
            scene.judge.on(VoterAddAsked(4))
        scene.commits(50)
        scene.disks = {4: disk}
        scene.moves(1, at(0, 1, 2, 3), committed=50, leads=True)
        if is_level:
            scene.moves(1, at(0, 1, 2, 3), at(60, 1, 2, 3, 4), committed=50, leads=True)
            continue
        with pytest.raises(InvariantViolationError, match=r"caught up voter.*4 has less than 20"):
            scene.moves(1, at(0, 1, 2, 3), at(60, 1, 2, 3, 4), committed=50, leads=True)


def test_one_that_joins_by_itself_was_level_a_fetch_timeout_ago() -> None:
    scene = Scene()
    scene.commits(20)
    scene.now_s += FETCH_TIMEOUT_S + 0.2
    scene.commits(50)
    scene.moves(1, at(0, 1, 2, 3), committed=50, leads=True)
    scene.disks = {4: 20, 5: 49}
    scene.moves(1, at(0, 1, 2, 3), at(60, 1, 2, 3, 4), committed=50, leads=True)
    scene.moves(1, at(60, 1, 2, 3, 4), committed=61, leads=True)
    scene.now_s += FETCH_TIMEOUT_S + 0.2
    with pytest.raises(InvariantViolationError, match="caught up voter"):
        scene.moves(1, at(60, 1, 2, 3, 4), at(70, 1, 2, 3, 4, 5), committed=61, leads=True)


def test_a_removed_leader_leads_until_its_removal_is_committed() -> None:
    scene = Scene()
    scene.moves(1, at(0, 1, 2, 3), at(7, 2, 3), committed=7, leads=True)
    scene.moves(2, at(7, 2, 3), committed=8, leads=True, epoch=4)
    with pytest.raises(InvariantViolationError, match="removed leader"):
        scene.moves(1, at(7, 2, 3), committed=8, leads=True)
