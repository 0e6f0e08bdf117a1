"""From a crash of machines to an loss, and to its end: what comes afterwards is judged as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.broker_losses import LossJudge
from tierfetch.sim.judges.core.allowed_losses import AllowedLoss
from tierfetch.sim.judges.core.client_answers import ClientAnswersJudge
from tierfetch.sim.judges.core.events import (
    CommitReported,
    Committed,
    DiskWiped,
    FilesChanged,
    MachinesCrashed,
    NodeCrashing,
    Observed,
    ReplicaChanged,
    ReplicaLeft,
    UncleanlyElected,
)
from tierfetch.sim.judges.core.history import History
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.machine.world import World

NAME = TopicIdPartition(UUID(int=1), "t", 0)
REGISTRATION = PartitionRegistration(1, 0, 0, (1, 2), (1, 2))
NODES = {"broker-1": 1, "broker-2": 2}


class OnePartition:
    """Of brokers 1 and 2, both in sync; without `flush.messages`."""

    version = 1
    image = ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: REGISTRATION})}, {})


class Flushed:
    """The same with `flush.messages=1`."""

    version = 1
    image = ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {"flush.messages": "1"}, {0: REGISTRATION})}, {})


class NoPartition:
    """The topic is gone."""

    version = 2
    image = ClusterImage("c", {}, {}, {})


def log_of(_: int, name: TopicIdPartition) -> Path:
    return Path("/data") / str(name.topic_partition)


def is_in(_: int, directory: Path, __: TopicIdPartition) -> bool:
    return directory == Path("/data")


class Scene:
    def __init__(self, world: World) -> None:
        for name in NODES:
            world.host(name)
        self.observer = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
        self.judge = LossJudge(world, OnePartition(), self.observer, NODES, log_of, is_in)
        for node_id in (1, 2):
            self.sees(node_id, 10, leads=node_id == 1)

    def sees(self, node_id: int, end: int, *, epoch: int = 0, leads: bool = False, start: int = 0) -> None:
        """A replica whose log, all of it committed, ends there; epoch 1 began at `start`."""
        entries = (EpochEntry(0, 0), EpochEntry(1, start)) if epoch else (EpochEntry(0, 0),)
        now = ReplicaStatus(node_id, epoch + 1, epoch, epoch if leads else None, 0, 0, end, end, entries)
        self.observer._statuses[node_id, NAME] = now
        self.observer.of(NAME).observe(now)

    def all_lose_everything(self) -> None:
        for host in NODES:
            self.judge.on(NodeCrashing(host))
        for node_id in NODES.values():
            self.observer.of(NAME).forget(node_id)
        self.judge.on(MachinesCrashed(tuple(NODES)))

    def told(self, end_offset: int, *, asked_ms: int = 0) -> None:
        ClientAnswersJudge(
            History(),
            self.judge.allowed_losses_of,
            self.observer,
            {},
            lambda _: NAME,
            lambda _: 0,
            lambda _: (),
        ).on(CommitReported(NAME.topic_partition, end_offset, "a reader", asked_ms))


@pytest.fixture
def scene() -> Iterator[Scene]:
    with World(1) as world:
        yield Scene(world)


def test_nobody_is_told_of_what_no_leader_reported(scene: Scene) -> None:
    scene.told(10)
    with pytest.raises(InvariantViolationError, match="committed before it is told: t-0: a reader was told of 11"):
        scene.told(11)


def test_an_excuse_has_the_records_that_were_committed_and_lasts_until_everybody_knows(scene: Scene) -> None:
    scene.all_lose_everything()
    allowed = scene.judge.allowed_losses_of(NAME)
    assert allowed._losses == (AllowedLoss(from_offset=0, end_offset=10, at_ms=0),)
    scene.told(10)
    scene.sees(2, 0, epoch=1, leads=True)
    scene.judge.follow_cluster()
    assert scene.judge.allowed_losses_of(NAME)._losses == allowed._losses
    scene.sees(1, 0, epoch=1)
    scene.judge.follow_cluster()
    (ended,) = scene.judge.allowed_losses_of(NAME)._losses
    assert ended.until_ms == 0


def test_commits_after_an_excuse_are_judged_again(scene: Scene) -> None:
    scene.all_lose_everything()
    scene.sees(2, 0, epoch=1, leads=True)
    scene.sees(1, 0, epoch=1)
    scene.judge.follow_cluster()
    scene.sees(2, 4, epoch=1, leads=True)
    scene.told(4, asked_ms=5)
    scene.told(10, asked_ms=0)  # an answer that was long on its way
    for end_offset, asked_ms in ((5, 5), (11, 0)):
        with pytest.raises(InvariantViolationError, match="committed before it is told"):
            scene.told(end_offset, asked_ms=asked_ms)


def test_a_topic_of_the_same_name_has_no_part_in_the_excuse(scene: Scene) -> None:
    scene.all_lose_everything()
    assert not scene.judge.allowed_losses_of(TopicIdPartition(UUID(int=2), "t", 0))._losses


@pytest.mark.parametrize("is_assigned", [True, False])
def test_a_broker_that_stops_in_order_still_believes_in_what_its_log_has(scene: Scene, is_assigned: bool) -> None:
    """Its log stays on its disk, unless another broker was assigned the replica, or the topic is gone."""
    replicas = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
    cluster = OnePartition() if is_assigned else NoPartition()
    judge = LossJudge(scene.judge._world, cluster, replicas, NODES, log_of, is_in)
    replicas.of(NAME).committed_end = 10
    replicas.of(NAME).forgive(4, (2,))
    judge.on(ReplicaLeft(2, NAME))
    assert replicas.of(NAME).has_doubts == is_assigned


@pytest.mark.parametrize("event", [FilesChanged("broker-2"), DiskWiped("broker-2")])
def test_a_broker_that_has_lost_something_counts_again_once_it_is_level(scene: Scene, event: Observed) -> None:
    scene.judge.on(event)
    assert not scene.judge.has_lost(1, NAME)
    assert scene.judge.has_lost(2, NAME)
    for end, has_lost in ((9, True), (10, False)):
        now = ReplicaStatus(2, 2, 1, None, 0, 0, 0, end, (EpochEntry(0, 0),))
        scene.judge.on(ReplicaChanged(NAME, now))
        assert scene.judge.has_lost(2, NAME) == has_lost


def test_what_was_flushed_before_the_crash_may_not_be_lost(scene: Scene) -> None:
    scene.judge._cluster = Flushed()
    scene.all_lose_everything()
    assert not scene.judge.allowed_losses_of(NAME)


def test_an_operator_may_lose_what_the_next_leader_has_not(scene: Scene) -> None:
    scene.sees(2, 4)
    scene.judge.on(UncleanlyElected(NAME, 2))
    assert scene.judge.allowed_losses_of(NAME)._losses == (AllowedLoss(from_offset=4, end_offset=10, at_ms=0),)


def test_a_config_allows_no_more_and_what_the_deposed_leader_still_commits(scene: Scene) -> None:
    scene.sees(2, 4)
    scene.judge.on(UncleanlyElected(NAME, 2, by_config=True))
    scene.sees(2, 6, epoch=1, leads=True, start=4)
    scene.sees(1, 13, leads=True)
    scene.judge.on(Committed(NAME, scene.observer._statuses[1, NAME]))
    assert scene.judge.allowed_losses_of(NAME)._losses == (
        AllowedLoss(from_offset=4, end_offset=10, at_ms=0),
        AllowedLoss(from_offset=10, end_offset=13, at_ms=0),
    )
    scene.judge.follow_cluster()
    scene.sees(1, 4, epoch=1, start=4)
    scene.judge.follow_cluster()
    assert not scene.judge._open


def test_an_election_that_loses_nothing_excuses_nothing_but_a_leader_that_goes_on(scene: Scene) -> None:
    scene.judge.on(UncleanlyElected(NAME, 2, by_config=True))
    assert not scene.judge.allowed_losses_of(NAME)
    scene.sees(1, 13, leads=True)
    scene.judge.on(Committed(NAME, scene.observer._statuses[1, NAME]))
    assert scene.judge.allowed_losses_of(NAME)._losses == (AllowedLoss(from_offset=10, end_offset=13, at_ms=0),)


def test_clients_lose_nothing(scene: Scene) -> None:
    """A host of the schedule without a broker is no concern of this judge."""
    for event in (NodeCrashing("producers"), MachinesCrashed(("producers",)), FilesChanged("producers")):
        scene.judge.on(event)
    assert not scene.judge.losses


def test_D3_who_has_lost_something_may_be_in_no_isr_with_others_while_it_serves(scene: Scene) -> None:
    scene.judge.on(FilesChanged("broker-2"))
    scene.judge.follow_cluster()
    scene.sees(2, 4, epoch=1, start=4)
    with pytest.raises(InvariantViolationError, match=r"no shorter log in the ISR: t-0: 2 serves up to 4 of 10"):
        scene.judge.follow_cluster()


def test_D3_who_has_lost_something_may_be_in_the_isr_until_it_serves_and_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.judge.on(FilesChanged("broker-2"))
    del scene.observer._statuses[2, NAME]
    scene.judge.follow_cluster()
    scene.observer._statuses[2, NAME] = replace(scene.observer._statuses[1, NAME], node_id=2, log_end_offset=4)
    alone = replace(REGISTRATION, leader=-1, isr=(2,))
    image = ClusterImage("c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: alone})}, {})
    monkeypatch.setattr(OnePartition, "image", image)
    scene.judge.follow_cluster()
