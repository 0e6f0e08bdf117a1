"""Who may be fenced: the dead, few at a time, and whoever was not heard of for a whole session."""

from __future__ import annotations

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.protocol.messages.brokers import BrokerHeartbeatRequest
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import ControllerElected, HeartbeatReceived, MetadataChanged, ProcessEnded
from tierfetch.sim.judges.core.fencing import FencingJudge
from tierfetch.sim.judges.core.heartbeats import HeartbeatJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError

EPOCH, SESSION_S = 5, 3.0
HOSTS = {1: "broker-1", 2: "broker-2", 3: "broker-3"}


class Scene:
    """Three brokers that serve from second 100 on, under a controller that leads since `leads_s`."""

    def __init__(self, leads_s: float = 10.0) -> None:
        self.now_s = leads_s
        self.offset = 0
        self.fenced: set[int] = set()
        self.up_since_s: dict[str, float | None] = dict.fromkeys(HOSTS.values(), 1.0)
        self.heartbeats = HeartbeatJudge(lambda: self.now_s, warm_bytes=1, warm_ms=1)
        self.judge = FencingJudge(
            HOSTS,
            self.heartbeats,
            session_s=SESSION_S,
            now_s=lambda: self.now_s,
            up_since_s=self.up_since_s.__getitem__,
        )
        self.judge.on(ControllerElected(EPOCH))
        self.now_s = 100.0
        self.image = ClusterImage("c", {}, {}, {})
        self.change({broker_id: 0 for broker_id in HOSTS})

    def change(self, epochs: dict[int, int]) -> None:
        """The image from now on, with these registrations."""
        brokers = {
            broker_id: BrokerRegistration(broker_id, "h", 9092, fenced=broker_id in self.fenced, epoch=epoch)
            for broker_id, epoch in epochs.items()
        }
        before, self.image = self.image, ClusterImage("c", brokers, {}, {})
        self.offset += 10
        batch = CommittedBatch(self.offset, self.offset, EPOCH, 0, ())
        self.judge.on(MetadataChanged(batch, MetadataImage(), before, self.image))

    def beat(self, broker_id: int, *, want_fence: bool = False, next_offset: int | None = None) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=0,
            current_metadata_offset=self.offset,
            want_fence=want_fence,
            want_shut_down=False,
        )
        end_offset = self.offset + 1 if next_offset is None else next_offset
        self.heartbeats.on(HeartbeatReceived(EPOCH, end_offset, request))

    def die(self, broker_id: int) -> None:
        self.up_since_s[HOSTS[broker_id]] = None
        self.judge.on(ProcessEnded(HOSTS[broker_id]))

    def fence(self, broker_id: int, after_s: float = 0.0) -> None:
        self.now_s += after_s
        self.fenced.add(broker_id)
        self.change({broker_id: 0 for broker_id in HOSTS})


def test_a_session_that_is_over_is_right_and_most_of_one_is_not() -> None:
    for silent_s in (3.0, 2.9):
        scene = Scene()
        scene.beat(1)
        if silent_s < SESSION_S:
            with pytest.raises(InvariantViolationError, match="live brokers serve"):
                scene.fence(1, silent_s)
        else:
            scene.fence(1, silent_s)


def test_what_came_after_the_decision_does_not_count() -> None:
    scene = Scene()
    scene.beat(1)
    scene.now_s += 3.0
    scene.beat(1, next_offset=scene.offset + 11)
    scene.fence(1, 0.1)


def test_a_broker_that_asks_for_it_is_fenced_and_one_that_asked_before_it_served_is_not() -> None:
    scene = Scene()
    scene.beat(1, want_fence=True)
    scene.fence(1)
    scene = Scene()
    scene.beat(1, want_fence=True, next_offset=1)
    with pytest.raises(InvariantViolationError, match="live brokers serve"):
        scene.fence(1)


def test_the_dead_may_be_fenced_at_once_and_the_successor_of_one_that_lives_may_not() -> None:
    scene = Scene()
    scene.beat(1)
    scene.die(1)
    scene.fence(1, 0.1)
    scene = Scene()
    scene.beat(2)
    scene.fenced.add(2)
    with pytest.raises(InvariantViolationError, match="live brokers serve"):
        scene.change({1: 0, 2: 7, 3: 0})


def test_only_a_minority_is_fenced_within_a_session() -> None:
    scene = Scene()
    scene.beat(2)
    scene.die(1)
    scene.die(2)
    scene.fence(1, 0.1)
    with pytest.raises(InvariantViolationError, match="only a minority"):
        scene.fence(2, 0.5)
    scene = Scene()
    scene.die(1)
    scene.fence(1, 0.1)
    scene.now_s += SESSION_S
    scene.fenced.clear()
    scene.change(dict.fromkeys(HOSTS, 0))
    scene.beat(2)
    scene.die(2)
    scene.fence(2, 0.1)


def test_one_that_is_back_counts_for_as_long_as_a_session() -> None:
    """It died and was fenced a moment ago: with the next one that is half of the brokers, or more."""
    scene = Scene()
    scene.beat(1)
    scene.die(1)
    scene.fence(1, 0.1)
    scene.fenced.clear()
    scene.change(dict.fromkeys(HOSTS, 0))
    scene.beat(2)
    scene.die(2)
    with pytest.raises(InvariantViolationError, match=r"only a minority: .*\[1, 2\] of \[1, 2, 3\]"):
        scene.fence(2, 0.5)


def test_successors_may_all_be_registered_at_once() -> None:
    scene = Scene()
    for broker_id in HOSTS:
        scene.beat(broker_id)
        scene.die(broker_id)
    scene.now_s += 0.5
    scene.fenced |= {1, 2}
    scene.change({1: 7, 2: 7, 3: 0})


def test_a_new_controller_fences_who_died_only_where_it_hears_most() -> None:
    scene = Scene(leads_s=98.0)
    scene.beat(2)
    scene.die(1)
    with pytest.raises(InvariantViolationError, match="hears most"):
        scene.fence(1, 0.5)
    scene = Scene(leads_s=98.0)
    scene.beat(2)
    scene.beat(3, next_offset=scene.offset + 11)
    scene.die(1)
    with pytest.raises(InvariantViolationError, match="hears most"):
        scene.fence(1, 0.5)
    scene = Scene(leads_s=98.0)
    scene.beat(2)
    scene.beat(3)
    scene.die(1)
    scene.fence(1, 0.5)


def test_a_new_controller_registers_the_successor_of_one_that_it_has_heard() -> None:
    for is_heard in (True, False):
        scene = Scene(leads_s=98.0)
        if is_heard:
            scene.beat(1)
        scene.die(1)
        scene.fenced.add(1)
        if is_heard:
            scene.change({1: 7, 2: 0, 3: 0})
        else:
            with pytest.raises(InvariantViolationError, match="hears most"):
                scene.change({1: 7, 2: 0, 3: 0})
