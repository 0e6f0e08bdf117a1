"""A replica that joins an ISR has its leader's batches, byte for byte."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import ClusterImage, PartitionRegistration, TopicImage
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.sim.judges.core.events import JoinersRequested
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus
from tierfetch.sim.judges.joined_batches import JoinedBatchesJudge
from tierfetch.sim.judges.observer import ReplicaObserver
from tierfetch.sim.machine.filesystem import SimFilesystem

NAME = TopicIdPartition(UUID(int=1), "t", 0)
DIRECTORY = Path("/data/t-0")
LEADER, JOINER = 1, 2
IMAGE = ClusterImage(
    "c", {}, {"t": TopicImage("t", NAME.topic_id, {}, {0: PartitionRegistration(LEADER, 0, 5, (1, 2), (1,))})}, {}
)


def batch(offset: int, value: bytes) -> bytes:
    return build_batch([Record(offset, 0, None, value)], base_offset=offset)


def status(node_id: int, high_watermark: int) -> ReplicaStatus:
    return ReplicaStatus(node_id, 1, 0, 0, 0, 0, high_watermark, 3, (EpochEntry(0, 0),))


class Scene:
    """The files of a leader and of one that shall join, by the values of their records."""

    def __init__(self, leaders: bytes, joiners: bytes) -> None:
        self.files = {LEADER: SimFilesystem(), JOINER: SimFilesystem()}
        for node_id, values in ((LEADER, leaders), (JOINER, joiners)):
            self.files[node_id].make_directory(DIRECTORY)
            inode = self.files[node_id].open(DIRECTORY / f"{0:020}.log", create=True)
            for offset, value in enumerate(values):
                inode.change(len(inode.content), batch(offset, bytes([value])))
        self.observer = ReplicaObserver(lambda _: None, lambda *_: None, lambda _: None)
        self.observer._statuses[JOINER, NAME] = status(JOINER, 0)
        self.exempt: set[TopicIdPartition] = set()
        self.judge = JoinedBatchesJudge(
            self.observer, lambda: IMAGE, self.files, lambda *_: DIRECTORY, self.exempt.__contains__
        )

    def joins(self, *, high_watermark: int = 3, name: TopicIdPartition = NAME) -> None:
        self.judge.on(JoinersRequested(name, status(LEADER, high_watermark), {JOINER}))


def test_the_log_of_an_earlier_incarnation_is_told_by_its_bytes() -> None:
    Scene(b"abc", b"abc").joins()
    with pytest.raises(InvariantViolationError) as violation:
        Scene(b"abc", b"aXc").joins()
    assert str(violation.value) == "same bytes: t-0: 1 asks for 2 in its ISR, their batches at 1 differ, 3 is committed"


def test_only_what_both_have_and_is_committed_is_compared() -> None:
    for leaders, joiners, high_watermark, compared in (
        (b"abc", b"aXc", 1, 1),
        (b"a", b"aXc", 3, 1),
        (b"abc", b"ab", 3, 2),
        (b"", b"abc", 3, 0),
    ):
        scene = Scene(leaders, joiners)
        scene.joins(high_watermark=high_watermark)
        assert scene.judge.batches_compared == compared


def test_nothing_is_demanded_where_a_loss_is_allowed_nor_of_another_incarnation_nor_of_who_is_down() -> None:
    lossy, down = Scene(b"abc", b"aXc"), Scene(b"abc", b"aXc")
    lossy.exempt.add(NAME)
    lossy.joins()
    del down.observer._statuses[JOINER, NAME]
    down.joins()
    other, earlier = Scene(b"abc", b"aXc"), TopicIdPartition(UUID(int=2), "t", 0)
    other.observer._statuses[JOINER, earlier] = status(JOINER, 0)
    other.joins(name=earlier)
