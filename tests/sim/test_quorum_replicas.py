"""One vote an epoch, told by who counts it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.quorum.core.replica import RaftStatus
from tierfetch.quorum.core.roles import Candidate, Poll
from tierfetch.quorum.core.state import LeaderAndEpoch, OffsetAndEpoch, RaftState, ReplicaKey
from tierfetch.quorum.core.voters import VoterHistory, VoterNode, VotersAt, VoterSet
from tierfetch.sim.judges.core.events import (
    Observed,
    ProcessEnded,
    QuorumEpochMoved,
    QuorumLeaderElected,
    VoteCast,
    VotersMoved,
)
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.durability import DurableVote
from tierfetch.sim.judges.quorum_replicas import QuorumJudge
from tierfetch.sim.machine.process import Process

NODES = {"one": 1, "two": 2, "three": 3}
HOSTS = {node_id: host for host, node_id in NODES.items()}


class Scene:
    def __init__(self) -> None:
        self.replicas: dict[str, Any] = {}
        self.published: list[Observed] = []
        self.on_disk: dict[str, DurableVote] = {}
        self.lasts: dict[str, OffsetAndEpoch] = {}
        self.durable: dict[str, int] = {}
        self.snapshots: dict[str, int] = {}
        self.judge = QuorumJudge(
            NODES,
            self.replicas.get,
            self,  # type: ignore[arg-type]
            lambda *_: None,
            self.published.append,
        )

    def vote(self, host: str, _: Path) -> DurableVote | None:
        return self.on_disk.get(host)

    def holds(self, host: str, _: Path, end_offset: int) -> bool:
        return self.durable.get(host, 0) >= end_offset

    def snapshot_end(self, host: str, _: Path) -> int:
        return self.snapshots.get(host, 0)

    def begin_at(self, start_offset: int, end_offset: int) -> None:
        """The log of node 1 has these bounds."""
        log = _log(end_offset, LeaderEpochCache(), start_offset)
        self.replicas["one"] = _replica(RaftState.FOLLOWER, LeaderAndEpoch(2, 5), None, (), 0, log)
        self.judge.look(Process("one", 1))

    def commit(self, high_watermark: int, *epochs: tuple[int, int], epoch: int = 5) -> None:
        """Node 1 leads, first with nothing committed."""
        for offset in (0, high_watermark):
            entries = LeaderEpochCache(EpochEntry(*entry) for entry in epochs)
            replica = _replica(RaftState.LEADER, LeaderAndEpoch(1, epoch), 1, (), offset, _log(10, entries))
            self.replicas["one"] = replica
            self.judge.look(Process("one", 1))

    def ends(self, host: str, epoch: int, offset: int) -> None:
        """Its log."""
        self.lasts[host] = OffsetAndEpoch(offset, epoch)

    def see(
        self, host: str, epoch: int, *counted: int, voted: int | None = None, leads: bool = False, run: int = 1
    ) -> None:
        if voted is not None:
            for each in counted:
                self.on_disk[HOSTS[each]] = DurableVote(epoch, voted)
        state = RaftState.LEADER if leads else RaftState.CANDIDATE
        known = LeaderAndEpoch(NODES[host] if leads else None, epoch)
        replica = _replica(state, known, voted, counted, 0, _log(0, LeaderEpochCache()))
        last = self.lasts.get(host, OffsetAndEpoch(0, 0))
        replica._core._replica.log = SimpleNamespace(last=last, end_offset=last.offset)
        self.replicas[host] = replica
        self.judge.look(Process(host, run))


def _log(end_offset: int, epochs: LeaderEpochCache, start_offset: int = 0) -> SimpleNamespace:
    state = SimpleNamespace(log_start_offset=start_offset, log_end_offset=end_offset, epochs=epochs)
    return SimpleNamespace(
        log_start_offset=start_offset, log_end_offset=end_offset, epochs=epochs, _log=SimpleNamespace(state=state)
    )


def _replica(
    state: RaftState,
    known: LeaderAndEpoch,
    voted: int | None,
    counted: tuple[int, ...],
    high_watermark: int,
    log: SimpleNamespace,
) -> SimpleNamespace:
    inner = SimpleNamespace(
        role=SimpleNamespace(state=state),
        leader_id=known.leader_id,
        epoch=known.epoch,
        voted_key=voted,
        high_watermark=high_watermark,
        key=ReplicaKey(1),
        log=SimpleNamespace(end_offset=log.log_end_offset),
        voter_history=VoterHistory((VotersAt(-1, VoterSet(), 0),)),
    )
    status = RaftStatus(
        state=state,
        leader_and_epoch=known,
        leader_endpoint=None,
        voted_id=voted,
        granting_voters=counted,
        is_voter=True,
        voters=VotersAt(-1, VoterSet.of(VoterNode(ReplicaKey(node_id)) for node_id in NODES.values()), 0),
        high_watermark=high_watermark,
        next_offset=0,
    )
    return SimpleNamespace(
        status=status,
        log=log,
        _core=SimpleNamespace(_replica=inner),
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("_core._replica.role", Candidate(0, Poll({1}))),
        ("_core._replica.role.poll.granted", {1, 2}),
        ("_core._replica.leader_id", 2),
        ("_core._replica.epoch", 6),
        ("_core._replica.voted_key", ReplicaKey(1)),
        ("_core._replica.high_watermark", 1),
        ("_core._replica.voter_history", VoterHistory((VotersAt(3, VoterSet(), 1),))),
        ("log._log.state.log_start_offset", 1),
        ("log._log.state.log_end_offset", 11),
        ("log._log.state.epochs._version", 1),
    ],
)
def test_whatever_is_judged_is_looked_at_when_it_changes_and_only_then(path: str, value: Any) -> None:
    scene, looks, process = Scene(), [], Process("one", 1)
    scene.judge.invariants.observe = looks.append  # type: ignore[method-assign]
    scene.snapshots["one"] = 1
    log = _log(10, LeaderEpochCache())
    replica = _replica(RaftState.CANDIDATE, LeaderAndEpoch(None, 5), None, (1,), 0, log)
    replica._core._replica.role = Candidate(0, Poll({1}))
    scene.replicas["one"] = replica
    for _ in range(2):
        scene.judge.look(process)
    assert len(looks) == 1
    *owners, name = path.split(".")
    owner: Any = replica
    for each in owners:
        owner = getattr(owner, each)
    setattr(owner, name, value)
    for _ in range(2):
        scene.judge.look(process)
    assert len(looks) == 2
    scene.judge.look(Process("one", 2))
    assert len(looks) == 3


def test_a_replica_is_looked_at_again_when_its_process_has_ended() -> None:
    scene, looks, process = Scene(), [], Process("one", 1)
    scene.judge.invariants.observe = looks.append  # type: ignore[method-assign]
    replica = _replica(RaftState.CANDIDATE, LeaderAndEpoch(None, 5), None, (1,), 0, _log(10, LeaderEpochCache()))
    scene.replicas["one"] = replica
    for ended, count in ((None, 1), ("two", 1), ("one", 2), ("elsewhere", 2)):
        if ended is not None:
            scene.judge.on(ProcessEnded(ended))
        scene.judge.look(process)
        assert len(looks) == count


def test_two_candidates_never_count_the_vote_of_one_voter() -> None:
    scene = Scene()
    scene.see("one", 5, 1, 2, voted=1)
    scene.see("three", 6, 2, 3, voted=3)
    with pytest.raises(InvariantViolationError, match="node 2 voted for 1 and for 3 in 5"):
        scene.see("three", 5, 2, 3, voted=3, leads=True, run=2)


def test_a_vote_for_itself_that_nobody_heard_of_binds_nobody() -> None:
    scene = Scene()
    scene.see("one", 5, 1, voted=1)
    scene.see("one", 5, voted=3, run=2)
    scene.see("three", 5, 1, 3, voted=3, leads=True)
    published = [event for event in scene.published if not isinstance(event, QuorumEpochMoved | VotersMoved)]
    assert published == [VoteCast("one", "three"), QuorumLeaderElected("three")]


def test_a_process_does_not_change_its_mind() -> None:
    scene = Scene()
    scene.see("two", 5, voted=1)
    with pytest.raises(InvariantViolationError, match="one vote an epoch"):
        scene.see("two", 5, voted=3)


@pytest.mark.parametrize("disk", [None, DurableVote(4, 1), DurableVote(5, 3), DurableVote(5, -1)])
def test_a_vote_that_is_counted_is_on_the_voters_disk(disk: DurableVote | None) -> None:
    scene = Scene()
    scene.on_disk = {"one": DurableVote(5, 1)}
    if disk is not None:
        scene.on_disk["two"] = disk
    with pytest.raises(InvariantViolationError, match="durable vote: 1 counts the vote of 2 in 5"):
        scene.see("one", 5, 1, 2)


def test_a_voter_that_has_gone_on_had_voted() -> None:
    scene = Scene()
    scene.on_disk = {"one": DurableVote(5, 1), "two": DurableVote(6, 3)}
    scene.see("one", 5, 1, 2)


def test_a_leader_commits_what_a_majority_has_on_its_disks() -> None:
    scene = Scene()
    scene.durable = {"one": 7, "two": 3, "three": 7}
    scene.commit(7, (5, 2))
    scene = Scene()
    scene.durable = {"one": 7, "two": 3, "three": 6}
    with pytest.raises(InvariantViolationError, match=r"durable majority: .*7, which is on the disks of \['one'\]"):
        scene.commit(7, (5, 2))


def test_a_log_begins_with_a_snapshot_that_is_on_the_disk() -> None:
    scene = Scene()
    scene.begin_at(0, 10)
    scene.snapshots["one"] = 7
    scene.begin_at(7, 10)
    with pytest.raises(InvariantViolationError, match="the log of one begins at 8, the snapshots on its disk end at 7"):
        scene.begin_at(8, 10)


def test_a_process_begins_where_a_snapshot_on_its_disk_ends() -> None:
    scene = Scene()
    with pytest.raises(InvariantViolationError, match="durable snapshot"):
        scene.begin_at(3, 10)


def test_snapshots_that_take_the_place_of_a_log_are_counted() -> None:
    scene = Scene()
    scene.snapshots["one"] = 20
    for start, end in ((0, 5), (5, 5), (12, 12), (12, 14), (14, 14), (14, 20), (20, 20)):
        scene.begin_at(start, end)
    assert scene.judge.installed == 1


def test_a_leader_commits_by_records_of_its_own_epoch() -> None:
    scene = Scene()
    scene.durable = dict.fromkeys(NODES, 10)
    scene.commit(3, (4, 0), (5, 2))
    scene = Scene()
    scene.durable = dict.fromkeys(NODES, 10)
    with pytest.raises(InvariantViolationError, match="own epoch commits"):
        scene.commit(2, (4, 0), (5, 2))


@pytest.mark.parametrize(("candidate", "is_newer"), [((2, 9), True), ((3, 5), True), ((3, 4), False), ((2, 6), False)])
def test_a_vote_goes_to_a_log_that_is_as_up_to_date(candidate: tuple[int, int], is_newer: bool) -> None:
    scene = Scene()
    scene.ends("one", *candidate)
    scene.ends("two", *((3, 5) if candidate[0] == 3 else (2, 7)))
    scene.see("two", 5, voted=1)
    if is_newer:
        scene.see("one", 5, 1, 2, voted=1)
        return
    with pytest.raises(InvariantViolationError, match="up-to-date vote"):
        scene.see("one", 5, 1, 2, voted=1)


def test_a_longer_log_of_an_older_epoch_is_not_as_up_to_date() -> None:
    scene = Scene()
    scene.ends("one", 2, 90)
    scene.ends("two", 3, 5)
    scene.see("two", 5, voted=1)
    with pytest.raises(InvariantViolationError, match="up-to-date vote"):
        scene.see("one", 5, 1, 2, voted=1)


def test_of_a_disk_that_was_lost_nothing_counts() -> None:
    scene = Scene()
    scene.durable = {"one": 8, "two": 8, "three": 3}
    scene.commit(8, (5, 0))
    lost = Scene()
    lost.durable = scene.durable
    lost.judge._has_disk = lambda host, _: host != "two"
    with pytest.raises(InvariantViolationError, match=r"durable majority: .*8, which is on the disks of \['one'\]"):
        lost.commit(8, (5, 0))


def test_a_vote_is_not_looked_for_on_another_disk() -> None:
    scene = Scene()
    scene.on_disk = {"one": DurableVote(5, 1)}
    with pytest.raises(InvariantViolationError, match="durable vote"):
        scene.see("one", 5, 1, 2)
    lost = Scene()
    lost.on_disk = {"one": DurableVote(5, 1)}
    lost.judge._has_disk = lambda host, _: host != "two"
    lost.see("one", 5, 1, 2)
