"""A tier that lags for longer than settings promise and faults explain convicts, told from lags made by hand."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.events import MomentPassed
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.tiering import BACKOFF_SHARE, PROMISED_S, Lag, TieringJudge

STEP_S = 0.25
LAG = Lag(TopicIdPartition(UUID(int=1), "t", 0), (1, 3, 7), 10, 20)


class Scene:
    """One partition, whose tier lags from the beginning."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lags = [LAG]
        self.is_troubled = False
        self.image = ClusterImage("c", {1: BrokerRegistration(1, "h", 9, epoch=7)}, {}, {})
        self.judge = TieringJudge(lambda: self.lags, lambda: self.is_troubled, lambda: self.image, lambda: self.now_s)

    def passes(self, seconds: float) -> Scene:
        for _ in range(int(seconds / STEP_S)):
            self.now_s += STEP_S
            self.judge.on(MomentPassed())
        return self

    def is_late(self, seconds: float = 2.0) -> None:
        with pytest.raises(
            InvariantViolationError, match=r"tiered in time: t-0: its tier ends at 10 since .* at 20; \d"
        ):
            self.passes(seconds)


def test_a_tier_that_stands_still_is_late() -> None:
    Scene().passes(PROMISED_S).is_late()


def test_a_tier_that_gets_on_is_not_late() -> None:
    scene = Scene()
    for end in range(11, 15):
        scene.passes(PROMISED_S).lags = [replace(LAG, tiered_end=end)]
    scene.lags = []
    scene.passes(PROMISED_S).lags = [LAG]
    scene.passes(PROMISED_S)


@pytest.mark.parametrize("leader", [(2, 3, 7), (1, 4, 7), (1, 3, 8)])
def test_another_leader_or_process_begins_again(leader: tuple[int, int, int]) -> None:
    scene = Scene().passes(PROMISED_S)
    scene.lags = [replace(LAG, leader=leader)]
    scene.passes(PROMISED_S).is_late()


def test_faults_add_their_own_length() -> None:
    scene = Scene()
    scene.is_troubled = True
    scene.passes(4.0)
    scene.is_troubled = False
    scene.passes(PROMISED_S + 4.0 * BACKOFF_SHARE - 1.0).is_late()


def test_a_broker_that_is_fenced_is_a_fault() -> None:
    scene = Scene()
    scene.image = replace(scene.image, brokers={1: replace(scene.image.brokers[1], fenced=True)})
    scene.passes(2 * PROMISED_S)
