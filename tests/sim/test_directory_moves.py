"""A replica that is moved between log directories arrives, or stays whole where it was; or its broker is convicted."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition, TopicPartition
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import (
    Committed,
    MetadataChanged,
    MomentPassed,
    MoveAnswered,
    MoveRequested,
    NodeStopped,
    Observed,
    ProcessEnded,
    ReplicaMoved,
)
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.directory_moves import DirectoryMovesJudge
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.machine.filesystem import LOG_DIRECTORIES

FIRST, SECOND = LOG_DIRECTORIES
NAME = TopicIdPartition(UUID(int=1), "t", 0)
BATCH = CommittedBatch(0, 0, 3, 0, ())


def image(*isr: int, directories: tuple[UUID, ...] = (), replicas: tuple[int, ...] = (1, 2)) -> ClusterImage:
    registration = PartitionRegistration(1, 3, 5, replicas, isr, directories=directories)
    return ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: registration})}, {})


class Scene:
    """Broker 2 is asked to move the partition to the second directory; 10 records are committed."""

    def __init__(self) -> None:
        self.image = image(1, 2)
        self.named_ends: dict[int, int] = {}
        self.lost: set[int] = set()
        self.open_twice: list[tuple[int, TopicPartition]] = []
        self.place = FIRST
        replicas = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
        replicas.of(NAME).committed_end = 10
        self.judge = DirectoryMovesJudge(
            lambda: self.image,
            replicas,
            lambda node_id, _: node_id in self.lost,
            lambda node_id, _: self.named_ends.get(node_id),
            lambda: self.open_twice,
            {"broker-1": 1, "broker-2": 2},
        )

    def sees(self, *events: Observed) -> Scene:
        for event in events:
            self.judge.on(event)
        return self

    def changes(self, now: ClusterImage) -> Scene:
        before, self.image = self.image, now
        return self.sees(MetadataChanged(BATCH, MetadataImage(), before, now))

    def found(self) -> list[str]:
        return [anomaly.kind for anomaly in self.judge.anomalies(lambda *_: self.place)]


ASKED = MoveRequested(NAME, 2, SECOND)
GRANTED = MoveAnswered(NAME, 2, SECOND, is_granted=True)
COMMITTED = Committed(NAME, ReplicaStatus(1, 1, 3, 3, 0, 0, 10, 10, (EpochEntry(3, 0),)))


def test_D4_a_move_that_was_granted_is_made_in_the_end() -> None:
    scene = Scene().sees(ASKED, GRANTED)
    assert scene.found() == ["not moved"]
    scene.place = SECOND
    assert scene.found() == []


@pytest.mark.parametrize(
    "between",
    [
        (ASKED,),
        (ASKED, MoveAnswered(NAME, 2, SECOND, is_granted=False)),
        (ASKED, ASKED, GRANTED, GRANTED),
        (ASKED, ProcessEnded("broker-2"), GRANTED),
        (ASKED, GRANTED, ProcessEnded("broker-2")),
        (ASKED, GRANTED, NodeStopped("broker-2", 1.0)),
    ],
    ids=["no answer", "refused", "two at a time", "answered by the process before", "it died", "it was stopped"],
)
def test_D4_nothing_is_demanded_of_what_was_not_granted_or_may_have_been_forgotten(
    between: tuple[Observed, ...],
) -> None:
    assert Scene().sees(*between).found() == []


@pytest.mark.parametrize("now", [image(1, replicas=(1, 3)), ClusterImage("c", {}, {}, {})], ids=["another", "deleted"])
def test_D4_a_replica_that_is_no_longer_assigned_need_not_move(now: ClusterImage) -> None:
    assert Scene().sees(ASKED, GRANTED).changes(now).found() == []


def test_D4_other_processes_and_the_next_request_change_nothing_for_this_one() -> None:
    scene = Scene().sees(ASKED, GRANTED, ProcessEnded("broker-1"))
    assert scene.found() == ["not moved"]
    scene.sees(ProcessEnded("broker-2"), ASKED)
    assert scene.found() == []
    assert scene.sees(GRANTED).found() == ["not moved"], "of this process both were heard"


def test_D4_a_replica_moves_only_where_it_was_asked_to() -> None:
    moved = ReplicaMoved(NAME, 2, SECOND)
    with pytest.raises(InvariantViolationError, match="asked to move: t-0: broker 2 has moved it to /data-2"):
        Scene().sees(moved)
    Scene().sees(ASKED, moved)
    Scene().sees(ASKED, ReplicaMoved(replace(NAME, topic_id=UUID(int=2)), 2, SECOND))
    with pytest.raises(InvariantViolationError, match="asked to move"):
        Scene().sees(ASKED, ReplicaMoved(NAME, 1, SECOND))


def test_D4_two_open_logs_of_a_partition_are_one_too_many() -> None:
    scene = Scene().sees(MomentPassed())
    scene.open_twice.append((2, NAME.topic_partition))
    with pytest.raises(InvariantViolationError, match="one log serves: t-0: broker 2"):
        scene.sees(MomentPassed())


@pytest.mark.parametrize("end", [9, 10])
def test_D4_the_copy_that_the_cluster_counts_on_has_what_is_committed(end: int) -> None:
    scene = Scene()
    scene.named_ends[2] = end
    for event in (COMMITTED, MetadataChanged(BATCH, MetadataImage(), image(1, 2), image(1, 2))):
        if end == 10:
            scene.sees(event)
            continue
        with pytest.raises(InvariantViolationError, match="named and whole: t-0: in the directory of 2"):
            scene.sees(event)


def test_D4_a_copy_that_nobody_counts_on_may_be_incomplete() -> None:
    scene = Scene()
    scene.named_ends[2] = 3
    scene.lost.add(2)
    scene.sees(COMMITTED)
    scene.lost.clear()
    scene.changes(image(1)).sees(COMMITTED)
