"""Who leaves an ISR had fallen behind, or its broker did not serve any more."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.controller.image.image import MetadataImage
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.messages.brokers import BrokerHeartbeatRequest
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import HeartbeatReceived, LeaderProgressed, LeaversRequested, MetadataChanged
from tierfetch.sim.judges.core.heartbeats import HeartbeatJudge
from tierfetch.sim.judges.core.isr_leavers import IsrLeaversJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError, ReplicaStatus

NAME = TopicIdPartition(UUID(int=1), "t", 0)
LAG_MS = 1_000
EPOCH, OFFSET = 5, 50
"""Of the batch by which an ISR changes."""


def image(*isr: int, leader: int = 1, epoch: int = 3, replicas: tuple[int, ...] = (1, 2, 3), **broker) -> ClusterImage:
    brokers = {
        node_id: BrokerRegistration(node_id, "h", 9, epoch=7, **(broker if node_id == 2 else {}))
        for node_id in (1, 2, 3)
    }
    registration = PartitionRegistration(leader, epoch, 5, replicas, isr, tuple(UUID(int=each) for each in replicas))
    return ClusterImage("c", brokers, {"t": TopicImage("t", NAME.topic_id, {}, {0: registration})}, {})


class Scene:
    """Node 1 leads epoch 3."""

    def __init__(self, now: ClusterImage | None = None) -> None:
        self.image = now or image(1, 2, 3)
        self.now_s = 0.0
        self.heartbeats = HeartbeatJudge(lambda: self.now_s, warm_bytes=0, warm_ms=0)
        self.failed_s: dict[int, float] = {}
        """By broker, or by the id of its log directory, which is the same number."""
        self.judge = IsrLeaversJudge(
            lambda: self.image,
            lambda: self.now_s,
            self.heartbeats,
            lag_time_max_ms=LAG_MS,
            failed_s=lambda _, directory: self.failed_s.get(directory.int),
            may_lose=self.failed_s.__contains__,
        )

    def at(self, seconds: float, end: int, high_watermark: int, epoch: int = 3) -> Scene:
        self.now_s = seconds
        self.leader = ReplicaStatus(1, 1, 3, epoch, 0, 0, high_watermark, end, (EpochEntry(3, 0),))
        self.judge.on(LeaderProgressed(NAME, self.leader))
        return self

    def changes(self, before: ClusterImage, after: ClusterImage) -> None:
        self.judge.on(MetadataChanged(CommittedBatch(OFFSET, OFFSET, EPOCH, 0, ()), MetadataImage(), before, after))

    def beats(self, broker_id: int, *offline: UUID, epoch: int = EPOCH, next_offset: int = OFFSET) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=7,
            current_metadata_offset=0,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=offline,
        )
        self.heartbeats.on(HeartbeatReceived(epoch, next_offset, request))

    def asks(self, seconds: float, *leavers: int) -> None:
        self.now_s = seconds
        self.judge.on(LeaversRequested(NAME, self.leader, leavers))


def refuses(why: str):
    return pytest.raises(InvariantViolationError, match=why)


def test_a_member_that_was_level_lately_stays() -> None:
    scene = Scene().at(1.0, 10, 5).at(1.2, 10, 10).at(1.5, 12, 10)
    scene.asks(2.1, 2)
    with refuses(r"left behind: t-0: 1 wants 2 out .* was level 900 ms ago"):
        scene.asks(1.9, 2)


def test_of_who_never_was_level_nothing_is_known() -> None:
    Scene().at(1.0, 10, 5).asks(1.1, 2)


def test_of_who_was_not_a_member_then_nothing_is_known() -> None:
    scene = Scene(image(1, 3)).at(1.0, 10, 10)
    scene.image = image(1, 2, 3)
    scene.asks(1.1, 2)


def test_a_leader_of_the_past_asks_for_what_it_likes() -> None:
    scene = Scene().at(1.0, 10, 10)
    scene.image = image(1, 2, 3, leader=3, epoch=4)
    scene.asks(1.1, 2)


@pytest.mark.parametrize("now", [image(1, 3, replicas=(1, 3)), image(1, 3)], ids=["not assigned", "out already"])
def test_whoever_is_no_member_any_more_may_be_asked_out_by_a_leader_that_has_not_heard_of_it(now: ClusterImage) -> None:
    scene = Scene().at(1.0, 10, 10)
    scene.image = now
    scene.asks(1.1, 2)


def test_who_serves_leaves_only_when_its_leader_has_asked_for_that() -> None:
    scene = Scene().at(1.0, 10, 5)
    with refuses("asked to leave: t-0: 2 leaves the ISR"):
        scene.changes(image(1, 2, 3), image(1, 3))
    scene.asks(5.0, 2)
    scene.changes(image(1, 2, 3), image(1, 3))


@pytest.mark.parametrize(
    "after",
    [
        image(1, 3, fenced=True),
        image(1, 3, is_leaving=True),
        image(1, 3, replicas=(1, 3)),
        image(1, 3, leader=3, epoch=4, fenced=True),
    ],
)
def test_who_is_fenced_or_stops_or_is_moved_leaves(after: ClusterImage) -> None:
    Scene().changes(image(1, 2, 3, fenced=False), after)


def test_who_cannot_open_its_log_leaves_only_if_something_has_kept_it_from_that() -> None:
    scene, after = Scene(), image(1, 3)
    lost = replace(after.topics["t"].partitions[0], directories=(UUID(int=10), LOST_DIRECTORY, UUID(int=30)))
    after = replace(after, topics={"t": replace(after.topics["t"], partitions={0: lost})})
    with refuses("asked to leave: t-0: 2 leaves"):
        scene.changes(image(1, 2, 3), after)
    scene.failed_s[2] = 0.5
    scene.changes(image(1, 2, 3), after)


def test_another_directory_is_no_reason_to_leave() -> None:
    scene, after = Scene(), image(1, 3)
    scene.failed_s[2] = 0.5
    moved = replace(after.topics["t"].partitions[0], directories=(UUID(int=10), UUID(int=20), UUID(int=30)))
    after = replace(after, topics={"t": replace(after.topics["t"], partitions={0: moved})})
    with refuses("asked to leave: t-0: 2 leaves"):
        scene.changes(image(1, 2, 3), after)


def test_an_unclean_leader_is_alone() -> None:
    Scene().changes(image(2), image(3, leader=3, epoch=4))


DIRECTORY = UUID(int=2)
"""Of broker 2."""


def test_whose_log_directory_is_offline_leaves() -> None:
    scene = Scene()
    scene.changes(image(1, 2, 3), image(1, 2, 3))
    scene.failed_s[2] = 0.5
    scene.beats(2, DIRECTORY)
    scene.changes(image(1, 2, 3), image(1, 3))
    with refuses("asked to leave: t-0: 3 leaves"):
        scene.changes(image(1, 2, 3), image(1, 2))


@pytest.mark.parametrize(
    "failed_s",
    [{}, {2: -0.1}, {22: 0.5}],
    ids=["never", "before it registered", "in the one beside it"],
)
def test_D4_a_directory_is_offline_only_if_a_call_has_failed_there(failed_s: dict[int, float]) -> None:
    scene = Scene()
    scene.changes(image(1, 2, 3), image(1, 2, 3))
    scene.failed_s |= failed_s
    scene.beats(2, DIRECTORY)
    with refuses("asked to leave: t-0: 2 leaves"):
        scene.changes(image(1, 2, 3), image(1, 3))


@pytest.mark.parametrize(
    "told",
    [{}, {"next_offset": OFFSET + 1}, {"epoch": EPOCH - 1}],
    ids=["another directory", "later", "another controller"],
)
def test_whoever_decides_has_been_told_of_the_directory(told: dict[str, int]) -> None:
    """A call that failed explains nothing by itself: the disk may have been only full, or well again."""
    scene = Scene()
    scene.changes(image(1, 2, 3), image(1, 2, 3))
    scene.failed_s[2] = 0.5
    scene.beats(2, DIRECTORY if told else UUID(int=20), **told)
    with refuses("asked to leave: t-0: 2 leaves"):
        scene.changes(image(1, 2, 3), image(1, 3))
