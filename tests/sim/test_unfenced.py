"""A broker that is silent for longer than its session is fenced, or its controller is convicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.protocol.messages.brokers import BrokerHeartbeatRequest
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import ControllerElected, HeartbeatReceived, MetadataChanged
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.unfenced import APART_S, SLACK_S, UnfencedJudge

SESSION_MS = 1_000
EPOCH = 5
DUE_S = 10 + SESSION_MS / 1000 + SLACK_S
"""Brokers 1 and 2 are heard for the last time at 10 s."""


class Scene:
    """The controller of epoch 5 leads from 1 s on; brokers 1 to 3 are registered and not fenced."""

    def __init__(self, *, has_committed: bool = True) -> None:
        self.now_s = 1.0
        brokers = {each: BrokerRegistration(each, "h", 9, epoch=7) for each in (1, 2, 3)}
        self.image = ClusterImage("c", brokers, {}, {})
        self.judge = UnfencedJudge(lambda: self.image, lambda: self.now_s, session_timeout_ms=SESSION_MS)
        self.judge.on(ControllerElected(EPOCH))
        self.commits(0, epoch=EPOCH if has_committed else EPOCH - 1)
        for broker_id in (1, 2, 3):
            self.at(10.0).beats(broker_id, 100)

    def at(self, seconds: float) -> Scene:
        self.now_s = seconds
        return self

    def beats(self, broker_id: int, next_offset: int, *, epoch: int = EPOCH) -> Scene:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=7, current_metadata_offset=0, want_fence=False, want_shut_down=False
        )
        self.judge.on(HeartbeatReceived(epoch, next_offset, request))
        return self

    def changes(self, broker_id: int, **fields: object) -> Scene:
        brokers = {**self.image.brokers, broker_id: replace(self.image.brokers[broker_id], **fields)}
        self.image = replace(self.image, brokers=brokers)
        return self

    def commits(self, offset: int, *, epoch: int = EPOCH, after_s: float = 0.0) -> Scene:
        """The controller's clock is an hour ahead."""
        append_time_ms = int((self.now_s - after_s + 3_600) * 1000)
        batch = CommittedBatch(offset, offset, epoch, append_time_ms, ())
        self.judge.on(MetadataChanged(batch, MetadataImage(), self.image, self.image))
        return self

    def hear_others(self, from_s: float = 10.4) -> Scene:
        """Heartbeats of the others, until the session is over."""
        while from_s < DUE_S:
            for broker_id in (1, 3):
                self.at(from_s).beats(broker_id, 100)
            from_s += 0.4
        return self

    def is_due(self) -> Scene:
        """Three heartbeats of the others after the session: at 100, 110 and 120."""
        self.hear_others(max(10.4, self.now_s))
        for number, offset in enumerate((100, 110, 120)):
            for broker_id in (1, 3):
                self.at(DUE_S + number * (APART_S + 0.01)).beats(broker_id, offset)
        return self


def test_a_silent_broker_has_to_be_fenced() -> None:
    scene = Scene().is_due().commits(119)
    with pytest.raises(InvariantViolationError, match=r"are fenced: broker 2 of epoch 7 was silent for 1\.500 s"):
        scene.commits(120)


def test_who_is_fenced_below_that_offset_was_fenced_in_time() -> None:
    Scene().is_due().changes(2, fenced=True).commits(120)


def test_who_registered_again_is_judged_anew() -> None:
    Scene().is_due().changes(2, epoch=8).commits(120)


def test_what_another_controller_commits_says_nothing() -> None:
    Scene().is_due().commits(120, epoch=EPOCH + 1).commits(130, epoch=EPOCH + 1)


def test_a_controller_whose_log_stands_still_is_not_judged() -> None:
    scene = Scene().hear_others()
    for number in range(5):
        for broker_id in (1, 3):
            scene.at(DUE_S + number * 0.4).beats(broker_id, 100)
    scene.commits(120)


def test_a_broker_that_is_heard_meanwhile_is_not_silent() -> None:
    scene = Scene().hear_others().at(DUE_S).beats(1, 100).beats(3, 100).at(DUE_S + 0.2).beats(2, 105)
    for number in (1, 2, 3):
        scene.at(DUE_S + 0.4 * number).beats(1, 100 + 10 * number).beats(3, 101 + 10 * number)
    scene.commits(140)


def test_a_new_controller_gives_everyone_a_session() -> None:
    scene = Scene().at(DUE_S)
    scene.judge.on(ControllerElected(EPOCH + 1))
    for number in range(3):
        scene.at(DUE_S + 0.4 * number).beats(1, 100 + 10 * number, epoch=EPOCH + 1)
    scene.commits(150, epoch=EPOCH + 1)


def test_sessions_start_again_at_a_controller_whose_commit_took_long() -> None:
    """Seed 1023: a controller that waits for a majority sees the end of no session, and then lets all start again."""
    Scene().hear_others().at(DUE_S - 0.1).commits(90, after_s=0.3).is_due().commits(120)
    scene = Scene().hear_others().at(DUE_S - 0.1).commits(90, after_s=0.2).is_due()
    with pytest.raises(InvariantViolationError, match="silent brokers are fenced"):
        scene.commits(120)


def test_that_the_first_commit_of_a_controller_took_long_shows_with_the_next_one() -> None:
    Scene(has_committed=False).hear_others().at(DUE_S - 0.1).commits(90, after_s=0.3).is_due().commits(120)
    scene = Scene(has_committed=False).hear_others().at(DUE_S - 0.1).commits(90, after_s=0.2).is_due()
    with pytest.raises(InvariantViolationError, match="silent brokers are fenced"):
        scene.commits(120)


def test_who_was_due_before_a_commit_took_long_stays_so() -> None:
    scene = Scene().is_due()
    with pytest.raises(InvariantViolationError, match="silent brokers are fenced"):
        scene.at(scene.now_s + 2.0).commits(120, after_s=1.9)


def test_sessions_start_again_at_a_controller_that_heard_nobody_for_long() -> None:
    Scene().at(10.6).beats(1, 100).is_due().commits(120)
    scene = Scene().at(10.5).beats(1, 100).is_due()
    with pytest.raises(InvariantViolationError, match="silent brokers are fenced"):
        scene.commits(120)


def test_sessions_start_again_at_a_controller_that_heard_nobody_since_its_election() -> None:
    """Seed 53: it was elected, and paused before the first heartbeat."""
    scenes = {}
    for first_s in (10.6, 10.4):
        scene = scenes[first_s] = Scene()
        scene.judge.on(ControllerElected(EPOCH + 1))
        for number in range(6):
            for broker_id in (1, 3):
                scene.at(first_s + 0.4 * number).beats(broker_id, 100 + 10 * number, epoch=EPOCH + 1)
    scenes[10.6].commits(200, epoch=EPOCH + 1)
    with pytest.raises(InvariantViolationError, match="silent brokers are fenced"):
        scenes[10.4].commits(200, epoch=EPOCH + 1)
