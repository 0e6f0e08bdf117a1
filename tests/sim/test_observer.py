"""What the observer tells of a truncation, and of an ISR that is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.log.core.producer_state import BatchMetadata, ProducerStateEntry
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.events import JoinersRequested, Observed, ReplicaLeft, Truncated
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.machine.process import Process

NAME = TopicIdPartition(UUID(int=1), "t", 0)


class Partition:
    """A replica that does what a test says."""

    def __init__(self, end: int) -> None:
        self.partition = NAME
        self.leadership: Any = None
        self.registration: Any = None
        self.leader_epoch = 3
        self.log = Log(end)


class Log:
    def __init__(self, end: int) -> None:
        self.is_busy = False
        self.state = SimpleNamespace(
            failure=None,
            directory=Path("/log/t-0"),
            high_watermark=0,
            log_end_offset=end,
            log_start_offset=0,
            local_log_start_offset=0,
            segments=SimpleNamespace(first_base_offset=0),
            epochs=LeaderEpochCache([EpochEntry(3, 0)]),
            producers=SimpleNamespace(entries={}),
            next_offset=end,
            gate=SimpleNamespace(locked=lambda: self.is_busy),
        )

    def cut(self, end: int) -> None:
        self.state.log_end_offset = self.state.next_offset = end


class Scene:
    def __init__(self, end: int = 10) -> None:
        self.partition = Partition(end)
        hosted = SimpleNamespace(partitions={NAME.topic_partition: self.partition})
        broker = SimpleNamespace(config=SimpleNamespace(node_id=2), hosted=hosted)
        self.published: list[Observed] = []
        self.observer = ReplicaObserver(
            lambda _: broker,  # type: ignore[arg-type, return-value]
            lambda *_: None,
            self.published.append,
        )
        self.process = Process("broker-2", 1)
        self.event()

    def event(self) -> None:
        self.observer.look(self.process)

    def of(self, kind: type) -> list[Observed]:
        return [event for event in self.published if isinstance(event, kind)]

    def knows(self, last_offset: int, transaction: int | None = None) -> None:
        batch = BatchMetadata(0, last_offset, 0, 0)
        self.partition.log.state.producers.entries[7] = ProducerStateEntry(
            7, 0, current_txn_first_offset=transaction, batches=(batch,)
        )


def test_a_truncation_is_told_and_producers_are_looked_at_when_it_is_over() -> None:
    scene = Scene()
    scene.knows(9)
    scene.partition.log.is_busy = True
    scene.partition.log.cut(6)
    scene.event()
    assert scene.of(Truncated) == [Truncated(NAME, status(10), status(6))]
    scene.event()
    scene.partition.log.is_busy = False
    with pytest.raises(InvariantViolationError, match="truncated producers: t-0 was cut at 6"):
        scene.event()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("log", Log(10)),
        ("log.state.high_watermark", 1),
        ("log.state.log_end_offset", 11),
        ("log.state.log_start_offset", 1),
        ("log.state.segments.first_base_offset", 1),
        ("log.state.epochs._entries", (EpochEntry(4, 0),)),
        ("leadership", SimpleNamespace(leader_epoch=4, replicas=SimpleNamespace(pending_isr=None))),
        ("registration", SimpleNamespace(leader_epoch=3)),
    ],
)
def test_whatever_a_status_is_made_of_is_looked_at_when_it_changes_and_only_then(path: str, value: Any) -> None:
    scene = Scene()
    leader = ReplicaStatus(1, 1, 3, 3, 0, 0, 10, 10, (EpochEntry(3, 0),))
    scene.observer.of(NAME).observe(leader)
    looks = scene.observer.looks
    scene.event()
    assert scene.observer.looks == looks
    *owners, name = path.split(".")
    owner: Any = scene.partition
    for each in owners:
        owner = getattr(owner, each)
    setattr(owner, name, value)
    scene.event()
    scene.event()
    assert scene.observer.looks == looks + 1


@pytest.mark.parametrize(("last_offset", "transaction", "failure"), [(5, None, None), (5, 5, None), (9, 9, "no disk")])
def test_producers_within_the_log_or_of_one_that_failed(
    last_offset: int, transaction: int | None, failure: str | None
) -> None:
    scene = Scene()
    scene.knows(last_offset, transaction)
    scene.partition.log.state.failure = failure
    scene.partition.log.cut(6)
    scene.event()


def test_a_transaction_that_was_cut_off_may_not_stay_open() -> None:
    scene = Scene()
    scene.knows(5, 6)
    scene.partition.log.cut(6)
    with pytest.raises(InvariantViolationError, match="truncated producers"):
        scene.event()


def test_who_is_asked_to_join_is_told_once() -> None:
    scene = Scene()
    replicas = SimpleNamespace(pending_isr=None, isr=frozenset({2}))
    scene.partition.leadership = SimpleNamespace(leader_epoch=3, replicas=replicas)
    scene.event()
    assert not scene.of(JoinersRequested)
    replicas.pending_isr = frozenset({1, 2})
    scene.event()
    scene.event()
    asked = [JoinersRequested(NAME, replace(status(10), leads_epoch=3), frozenset({1}))]
    assert scene.of(JoinersRequested) == asked
    replicas.pending_isr = frozenset({2})
    scene.event()
    assert scene.of(JoinersRequested) == asked


def test_a_replica_that_is_no_longer_hosted_is_told() -> None:
    scene = Scene()
    scene.observer._watched[scene.process].hosted.clear()  # type: ignore[attr-defined]
    scene.event()
    assert scene.of(ReplicaLeft) == [ReplicaLeft(2, NAME)]
    assert scene.observer.status(2, NAME) is None


def status(end: int) -> ReplicaStatus:
    return ReplicaStatus(2, 1, -1, None, 0, 0, 0, end, (EpochEntry(3, 0),))
