"""The answers of coordinators to members of groups and transactional producers are judged: each rule convicts."""

from __future__ import annotations

import pytest

from tierfetch.protocol.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tierfetch.sim.judges.core.coordinators import CoordinatorsJudge
from tierfetch.sim.judges.core.events import (
    CommitAsked,
    OffsetCommitted,
    OffsetFound,
    PartitionsAssigned,
    ProducerInitialized,
    TransactionCommitted,
)
from tierfetch.sim.judges.core.partition import InvariantViolationError

P, Q = TopicPartition("in", 0), TopicPartition("in", 1)


class Scene:
    """Events of one group `g` and one transactional id `t`."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.lost: set[str] = set()
        self.judge = CoordinatorsJudge(self.lost.__contains__, lambda: self.now_ms)

    def at(self, now_ms: int) -> Scene:
        self.now_ms = now_ms
        return self

    def assigns(self, generation: int, member: str, *partitions: TopicPartition, asked_ms: int = 0) -> Scene:
        self.judge.on(PartitionsAssigned("g", generation, member, partitions, asked_ms))
        return self

    def commits(self, offset: int, partition: TopicPartition = P) -> Scene:
        self.judge.on(CommitAsked("g", partition, offset))
        self.judge.on(OffsetCommitted("g", partition, offset, self.now_ms))
        return self

    def finds(self, offset: int, *, asked_ms: int, partition: TopicPartition = P) -> Scene:
        self.judge.on(OffsetFound("g", partition, offset, asked_ms, "c"))
        return self

    def initializes(self, epoch: int, client: str, *, asked_ms: int, producer_id: int = 7) -> Scene:
        self.judge.on(ProducerInitialized("t", producer_id, epoch, asked_ms, client))
        return self

    def ends(self, epoch: int, client: str, *, asked_ms: int, producer_id: int = 7) -> Scene:
        self.judge.on(TransactionCommitted("t", producer_id, epoch, asked_ms, client))
        return self


def convicts(text: str):
    return pytest.raises(InvariantViolationError, match=text)


def test_a_partition_has_one_owner_in_a_generation() -> None:
    scene = Scene().assigns(1, "a", P).assigns(1, "b", Q).assigns(1, "a", P).assigns(2, "b", P)
    with convicts("one owner: in-0 is assigned to b and to c in generation 2 of g"):
        scene.assigns(2, "c", Q, P)


def test_generations_only_rise_for_who_asked_afterwards() -> None:
    scene = Scene().at(100).assigns(5, "a", P).at(200).assigns(4, "b", Q, asked_ms=50)
    with convicts("generations rise: b .* generation 4 of g; generation 5 was assigned before"):
        scene.assigns(4, "b", asked_ms=150)


def test_what_was_acknowledged_is_found_by_who_asks_afterwards() -> None:
    scene = Scene().at(100).commits(10).at(200).commits(20).finds(10, asked_ms=150).finds(20, asked_ms=300)
    with convicts("commits are kept: c asked at 201 ms, and 10 of in-0 is committed for g; 20 was acknowledged before"):
        scene.finds(10, asked_ms=201)


def test_what_is_found_may_be_newer_than_what_was_acknowledged_but_somebody_asked_for_it() -> None:
    scene = Scene().at(100).commits(10)
    scene.judge.on(CommitAsked("g", P, 15))
    scene.finds(15, asked_ms=200)
    with convicts("commits were asked: c finds 16 of in-0"):
        scene.finds(16, asked_ms=200)


def test_nothing_may_be_found_where_nothing_was_committed() -> None:
    Scene().finds(-1, asked_ms=5)
    with convicts("commits are kept"):
        Scene().at(1).commits(0).finds(-1, asked_ms=5)


def test_each_partition_has_commits_of_its_own() -> None:
    Scene().at(1).commits(30, P).commits(10, Q).finds(10, asked_ms=5, partition=Q)


def test_a_zombie_commits_nothing() -> None:
    scene = Scene().at(100).initializes(0, "old", asked_ms=90).at(200).initializes(1, "new", asked_ms=190)
    scene.ends(0, "old", asked_ms=150).ends(1, "new", asked_ms=300)
    with convicts("zombies are fenced: old asked at 201 ms .* under epoch 0 of producer 7"):
        scene.ends(0, "old", asked_ms=201)


def test_an_epoch_that_ends_have_bumped_is_no_zombie() -> None:
    Scene().at(100).initializes(3, "only", asked_ms=90).ends(5, "only", asked_ms=200)


def test_epochs_rise_for_who_asked_afterwards() -> None:
    scene = Scene().at(100).initializes(1, "a", asked_ms=90).initializes(0, "b", asked_ms=80)
    with convicts("epochs rise: c is given epoch 1 of producer 7 for t, and epoch 1 was given out before"):
        scene.initializes(1, "c", asked_ms=101)


def test_another_producer_id_begins_with_an_epoch_of_its_own() -> None:
    Scene().at(100).initializes(9, "a", asked_ms=90).at(200).initializes(0, "a", asked_ms=190, producer_id=8)


@pytest.mark.parametrize("topic", [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
def test_what_the_fault_model_lets_a_coordinator_lose_is_excused(topic: str) -> None:
    scene = Scene()
    scene.lost.add(topic)
    scene.at(100).commits(10).finds(-1, asked_ms=200)
    if topic == TRANSACTION_STATE_TOPIC:
        scene.initializes(1, "a", asked_ms=90).initializes(0, "b", asked_ms=200)
        with convicts("one owner"):
            scene.assigns(1, "a", P).assigns(1, "b", P)
    else:
        scene.assigns(1, "a", P).assigns(1, "b", P)
