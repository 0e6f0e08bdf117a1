"""One vote an epoch, told by who counts it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tierfetch.quorum.state import LeaderAndEpoch, RaftState
from tierfetch.sim.invariants import InvariantViolationError
from tierfetch.sim.process import Process
from tierfetch.sim.quorum_watch import QuorumWatch

NODES = {"one": 1, "two": 2, "three": 3}


class Scene:
    def __init__(self) -> None:
        self.replicas: dict[str, Any] = {}
        self.told: list[tuple[str, ...]] = []
        self.watch = QuorumWatch("log-0", NODES, self.replicas.get, lambda *_: None)
        self.watch.on_vote = lambda *hosts: self.told.append(hosts)
        self.watch.on_win = lambda host: self.told.append((host,))

    def see(
        self, host: str, epoch: int, *counted: int, voted: int | None = None, leads: bool = False, run: int = 1
    ) -> None:
        epochs = SimpleNamespace(version=0, entries=())
        self.replicas[host] = SimpleNamespace(
            state=RaftState.LEADER if leads else RaftState.CANDIDATE,
            leader_and_epoch=LeaderAndEpoch(NODES[host] if leads else None, epoch),
            voted_id=voted,
            granting_voters=counted,
            high_watermark=0,
            log=SimpleNamespace(log_start_offset=0, log_end_offset=0, epochs=epochs),
        )
        self.watch.on_event(Process(host, run))


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
    assert scene.told == [("one", "three"), ("three",)]


def test_a_process_does_not_change_its_mind() -> None:
    scene = Scene()
    scene.see("two", 5, voted=1)
    with pytest.raises(InvariantViolationError, match="one vote an epoch"):
        scene.see("two", 5, voted=3)
