"""A member that lags is asked out of the ISR when the settings say so: not later, nor judged sooner."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import (
    IsrChangeSettled,
    JoinersRequested,
    LeaderProgressed,
    LeaversRequested,
    MetadataChanged,
    MomentPassed,
    ReplicaChanged,
    ReplicaLeft,
)
from tierfetch.sim.judges.core.isr_lingerers import SLACK_S, IsrLingerersJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus

NAME = TopicIdPartition(UUID(int=1), "t", 0)
LAG_MS = 2_000
OVERDUE_S = LAG_MS / 1000 + LAG_MS / 2000 + SLACK_S + 0.01
"""After a member began to lag."""


def image(*isr: int, leader: int = 1, epoch: int = 3) -> ClusterImage:
    brokers = {node_id: BrokerRegistration(node_id, "h", 9, epoch=7) for node_id in (1, 2, 3)}
    registration = PartitionRegistration(leader, epoch, 5, (1, 2, 3), isr, (UUID(int=1),) * 3)
    return ClusterImage("c", brokers, {"t": TopicImage("t", NAME.topic_id, {}, {0: registration})}, {})


class Scene:
    """Node 1 leads epoch 3 from 10 s on; all logs end at 100 then."""

    def __init__(self) -> None:
        self.image = image(1, 2, 3)
        self.now_s = 10.0
        self.is_running = True
        self.judge = IsrLingerersJudge(
            lambda: self.image, lambda: self.now_s, lambda replica: self.is_running, lag_time_max_ms=LAG_MS
        )
        self.leader = self.status(1, 100, leads=3)
        for node_id in (2, 3):
            self.judge.on(ReplicaChanged(NAME, self.status(node_id, 100)))
        self.judge.on(LeaderProgressed(NAME, self.leader))

    @staticmethod
    def status(node_id: int, end: int, *, leads: int | None = None) -> ReplicaStatus:
        return ReplicaStatus(node_id, 1, 3, leads, 0, 0, 100, end, (EpochEntry(3, 0),))

    def at(self, seconds: float) -> Scene:
        self.now_s = seconds
        return self

    def appends(self, end: int) -> Scene:
        self.leader = replace(self.leader, log_end_offset=end)
        self.judge.on(ReplicaChanged(NAME, self.leader))
        self.judge.on(LeaderProgressed(NAME, self.leader))
        return self

    def follows(self, node_id: int, end: int) -> Scene:
        self.judge.on(ReplicaChanged(NAME, self.status(node_id, end)))
        return self

    def decides(self, now: ClusterImage) -> Scene:
        before, self.image = self.image, now
        self.judge.on(MetadataChanged(CommittedBatch(1, 1, 1, 0, ()), MetadataImage(), before, now))
        return self

    def looks(self) -> Scene:
        self.judge.on(MomentPassed())
        return self


def is_convicted():
    return pytest.raises(InvariantViolationError, match=r"are asked out: t-0: 3 is in the ISR \(1, 2, 3\) of 1")


def test_a_laggard_that_nobody_asks_out_is_found() -> None:
    scene = Scene().at(11).appends(110).follows(2, 110).at(11 + OVERDUE_S)
    with is_convicted():
        scene.looks()


def test_it_is_not_found_before_the_settings_are_over() -> None:
    Scene().at(11).appends(110).follows(2, 110).at(11 + OVERDUE_S - 0.1).looks()


def test_what_counts_is_when_the_leader_passed_what_the_member_had() -> None:
    """It has come on since: to where the leader's log ended until 13 s."""
    scene = Scene().at(11).appends(110).follows(2, 200).at(12).follows(3, 110).at(13).appends(120)
    scene.at(11 + OVERDUE_S).looks().at(13 + OVERDUE_S - 0.1).looks().at(13 + OVERDUE_S)
    with is_convicted():
        scene.looks()


def test_a_member_that_comes_on_but_never_reaches_where_the_leader_was_lags() -> None:
    """It gets a tenth of what comes: each time it lags more, though it is never silent."""
    scene = Scene().follows(2, 999)
    with is_convicted():
        for step in range(100):
            scene.at(11 + step / 10).appends(110 + 10 * step).follows(3, 100 + step).looks()
    assert 11 + OVERDUE_S - 0.1 < scene.now_s < 11 + OVERDUE_S + 1


def test_a_member_at_the_end_of_an_idle_log_does_not_lag() -> None:
    Scene().at(100).looks()


def test_while_a_change_is_open_the_leader_cannot_ask() -> None:
    scene = Scene().at(11).appends(110).follows(2, 110).at(12)
    scene.judge.on(LeaversRequested(NAME, scene.leader, (3,)))
    scene.at(30).looks()
    scene.judge.on(IsrChangeSettled(NAME, scene.leader))
    scene.at(31).looks().at(30 + LAG_MS / 2000 + SLACK_S + 0.01)
    with is_convicted():
        scene.looks()


def test_who_was_asked_out_and_left_is_judged_no_longer() -> None:
    scene = Scene().at(11).appends(110).follows(2, 110).at(12)
    scene.judge.on(LeaversRequested(NAME, scene.leader, (3,)))
    scene.decides(image(1, 2)).judge.on(IsrChangeSettled(NAME, scene.leader))
    scene.at(40).looks()


def test_who_joins_gets_the_whole_time() -> None:
    scene = Scene().decides(image(1, 2)).at(11).appends(110).follows(2, 110).at(20)
    scene.judge.on(JoinersRequested(NAME, scene.leader, (3,)))
    scene.decides(image(1, 2, 3)).judge.on(IsrChangeSettled(NAME, scene.leader))
    scene.at(20 + OVERDUE_S - 0.1).looks().at(20 + OVERDUE_S)
    with is_convicted():
        scene.looks()


@pytest.mark.parametrize("excuse", ["paused", "another leads", "no longer led", "no longer hosted"])
def test_excused_is_a_leader_that_cannot_or_need_not_look(excuse: str) -> None:
    scene = Scene().at(11).appends(110).follows(2, 110)
    match excuse:
        case "paused":
            scene.is_running = False
        case "another leads":
            scene.decides(image(1, 2, 3, leader=2, epoch=4))
        case "no longer led":
            scene.judge.on(ReplicaChanged(NAME, scene.status(1, 110)))
        case _:
            scene.judge.on(ReplicaLeft(1, NAME))
    scene.at(40).looks()


def test_a_leader_that_runs_again_has_time_for_one_look() -> None:
    scene = Scene().at(11).appends(110).follows(2, 110).at(30)
    scene.is_running = False
    scene.looks().is_running = True
    scene.at(31).looks().at(30 + LAG_MS / 2000 + SLACK_S + 0.01)
    with is_convicted():
        scene.looks()


def test_each_leadership_gives_its_members_the_whole_time() -> None:
    scene = Scene().at(11).appends(110).follows(2, 110).at(12)
    scene.leader = replace(scene.leader, leads_epoch=4)
    scene.decides(image(1, 2, 3, epoch=4)).appends(110)
    scene.at(12 + OVERDUE_S - 0.1).looks().at(12 + OVERDUE_S)
    with is_convicted():
        scene.looks()
