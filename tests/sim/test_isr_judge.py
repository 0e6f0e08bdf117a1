"""Members of an ISR hold what is committed."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.broker.cluster_view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.log.epochs import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.invariants import InvariantViolationError, ReplicaStatus
from tierfetch.sim.isr_judge import IsrJudge
from tierfetch.sim.losses import PartitionLosses
from tierfetch.sim.observer import ReplicaObserver

NAME = TopicIdPartition(UUID(int=1), "t", 0)


def image(*isr: int, leader_epoch: int = 3) -> ClusterImage:
    registration = PartitionRegistration(1, leader_epoch, 5, (1, 2, 3), isr)
    return ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: registration})}, {})


def status(node_id: int, end: int, high_watermark: int = 0, leads_epoch: int | None = None) -> ReplicaStatus:
    return ReplicaStatus(node_id, 1, 3, leads_epoch, 0, 0, high_watermark, end, (EpochEntry(3, 0),))


class Scene:
    def __init__(self, now: ClusterImage) -> None:
        self.observer = ReplicaObserver(lambda _: None, lambda *_: None)
        self.judge = IsrJudge(self.observer, lambda: now)

    def has(self, node_id: int, end: int) -> Scene:
        self.observer._statuses[node_id, NAME] = status(node_id, end)
        return self

    def lead(self, high_watermark: int, *, epoch: int = 3) -> None:
        leader = status(1, 10, high_watermark, epoch)
        self.observer.of(NAME).observe(leader)
        self.observer.on_commit(NAME, leader)


def test_what_is_committed_is_on_every_member() -> None:
    Scene(image(1, 2)).has(2, 7).has(3, 0).lead(7)
    with pytest.raises(InvariantViolationError, match="whole ISR"):
        Scene(image(1, 2)).has(2, 6).lead(7)


def test_of_members_that_are_down_or_lost_something_nothing_is_demanded() -> None:
    Scene(image(1, 2)).lead(7)
    scene = Scene(image(1, 2)).has(2, 6)
    losses = PartitionLosses(1)
    losses.wiped(2)
    scene.observer.losses = {NAME: losses}
    scene.lead(7)


def test_a_leader_of_the_past_commits_what_it_likes() -> None:
    Scene(image(1, 2, leader_epoch=4)).has(2, 6).lead(7)


def test_who_joins_is_level() -> None:
    scene = Scene(image(1)).has(2, 7).has(3, 6)
    scene.lead(7)
    scene.judge.changed(image(1), image(1, 2))
    with pytest.raises(InvariantViolationError, match="joins level"):
        scene.judge.changed(image(1), image(1, 3))
