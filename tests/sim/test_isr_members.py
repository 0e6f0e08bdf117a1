"""Members of an ISR hold what is committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import Committed, JoinersRequested, MetadataChanged, Truncated
from tierfetch.sim.judges.core.isr_members import IsrMembersJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.observer import ReplicaObserver

NAME = TopicIdPartition(UUID(int=1), "t", 0)


def image(
    *isr: int, leader: int = 1, leader_epoch: int = 3, flush_messages: int = 2**63 - 1, min_insync_replicas: int = 1
) -> ClusterImage:
    configs = {"flush.messages": str(flush_messages), "min.insync.replicas": str(min_insync_replicas)}
    registration = PartitionRegistration(leader, leader_epoch, 5, (1, 2, 3), isr)
    return ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, configs, {0: registration})}, {})


def status(node_id: int, end: int, high_watermark: int = 0, leads_epoch: int | None = None) -> ReplicaStatus:
    return ReplicaStatus(node_id, 1, 3, leads_epoch, 0, 0, high_watermark, end, (EpochEntry(3, 0),))


class Scene:
    def __init__(self, now: ClusterImage) -> None:
        self.observer = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
        self.durable: dict[int, int] = {}
        self.found: dict[int, int] = {}
        hosts = {node_id: str(node_id) for node_id in (1, 2, 3)}
        self.lost: set[int] = set()
        self.judge = IsrMembersJudge(
            self.observer,
            lambda node_id, _: node_id in self.lost,
            lambda: now,
            self,
            hosts,
            lambda *_: Path("/data/t-0"),
        )

    def holds(self, host: str, directory: Path, end_offset: int) -> bool:
        assert directory == Path("/data/t-0")
        return self.durable.get(int(host), 10) >= end_offset

    def found_end(self, host: str, directory: Path) -> int:
        assert directory == Path("/data/t-0")
        return self.found.get(int(host), 10)

    def is_down(self, node_id: int, end: int) -> Scene:
        """Its files end there."""
        self.found[node_id] = end
        return self

    def lies(self, node_id: int, end: int) -> Scene:
        """On its disk."""
        self.durable[node_id] = end
        return self

    def has(self, node_id: int, end: int) -> Scene:
        self.observer._statuses[node_id, NAME] = status(node_id, end)
        return self

    def lead(self, high_watermark: int, *, epoch: int = 3) -> None:
        leader = status(1, 10, high_watermark, epoch)
        self.observer.of(NAME).observe(leader)
        self.judge.on(Committed(NAME, leader))

    def truncates(self, name: TopicIdPartition, before: ReplicaStatus, after: ReplicaStatus) -> None:
        self.judge.on(Truncated(name, before, after))

    def asks(self, name: TopicIdPartition, leader: ReplicaStatus, brokers: set[int]) -> None:
        self.judge.on(JoinersRequested(name, leader, brokers))

    def changes(self, before: ClusterImage, after: ClusterImage) -> None:
        self.judge.on(MetadataChanged(CommittedBatch(0, 0, 0, 0, ()), MetadataImage(), before, after))


def test_what_is_committed_is_on_every_member() -> None:
    Scene(image(1, 2)).has(2, 7).has(3, 0).lead(7)
    with pytest.raises(InvariantViolationError, match="whole ISR"):
        Scene(image(1, 2)).has(2, 6).lead(7)


def test_what_is_committed_is_in_the_files_of_a_member_that_is_down() -> None:
    Scene(image(1, 2)).is_down(2, 7).lead(7)
    with pytest.raises(InvariantViolationError, match="whole ISR"):
        Scene(image(1, 2)).is_down(2, 6).lead(7)


def test_there_are_as_many_copies_as_the_topic_wants() -> None:
    Scene(image(1, min_insync_replicas=2)).has(2, 7).has(3, 6).lead(7)
    Scene(image(1, min_insync_replicas=2)).is_down(2, 6).is_down(3, 7).lead(7)
    for short in (Scene(image(1, min_insync_replicas=2)).has(3, 6), Scene(image(1, min_insync_replicas=3)).has(3, 7)):
        with pytest.raises(InvariantViolationError, match="enough copies"):
            short.is_down(2, 6).lead(7)


def test_no_more_copies_are_wanted_than_there_are_replicas() -> None:
    Scene(image(1, 2, 3, min_insync_replicas=4)).lead(7)


def test_of_members_that_lost_something_nothing_is_demanded() -> None:
    scene = Scene(image(1, 2)).has(2, 6)
    scene.lost = {2}
    scene.lead(7)


def test_a_leader_of_the_past_commits_what_it_likes() -> None:
    Scene(image(1, 2, leader_epoch=4)).has(2, 6).lead(7)


def test_who_joins_is_level() -> None:
    scene = Scene(image(1)).has(2, 7).has(3, 6)
    scene.lead(7)
    scene.changes(image(1), image(1, 2))
    for leader_epoch in (3, 4):
        with pytest.raises(InvariantViolationError, match="joins level"):
            scene.changes(image(1), image(1, 3, leader_epoch=leader_epoch))
    scene.changes(image(1), image(3, leader=3, leader_epoch=4))


def test_who_is_asked_to_join_is_level_with_the_leader() -> None:
    scene = Scene(image(1)).has(2, 7).has(3, 6)
    leader = status(1, 10, 7, 3)
    scene.asks(NAME, leader, {2})
    with pytest.raises(InvariantViolationError, match="joins level"):
        scene.asks(NAME, leader, {2, 3})


def test_whom_a_leader_of_the_past_asks_for_nobody_takes() -> None:
    scene = Scene(image(1, leader_epoch=4)).has(3, 0)
    scene.asks(NAME, status(1, 10, 7, 3), {3})


def test_members_have_flushed_what_the_topic_wants_flushed() -> None:
    Scene(image(1, 2, flush_messages=1)).has(2, 7).lies(2, 7).lead(7)
    Scene(image(1, 2, flush_messages=3)).has(2, 7).lies(2, 5).lead(7)
    Scene(image(1, 2)).has(2, 7).lies(2, 0).lead(7)
    with pytest.raises(InvariantViolationError, match=r"flushed ISR: .* 2 in the ISR .* has not 5 on its disk"):
        Scene(image(1, 2, flush_messages=3)).has(2, 7).lies(2, 4).lead(7)


def test_a_member_takes_nothing_committed_off_its_log() -> None:
    scene = Scene(image(1, 2)).has(2, 7).has(3, 6)
    scene.lead(7)
    scene.truncates(NAME, status(2, 9), status(2, 7))
    scene.truncates(NAME, status(3, 9), status(3, 6))
    with pytest.raises(InvariantViolationError, match="keeps whole"):
        scene.truncates(NAME, status(2, 9), status(2, 6))


def test_what_was_different_may_go() -> None:
    scene = Scene(image(1, 2)).has(2, 7)
    scene.lead(7)
    other = replace(status(2, 9), epochs=(EpochEntry(2, 0), EpochEntry(3, 6)))
    scene.truncates(NAME, other, replace(other, log_end_offset=0, epochs=()))
