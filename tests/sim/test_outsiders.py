"""The judges of epochs, throttles and shutdowns convict, each by a history made by hand."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.sim.judges.core.events import NodeStopped, QuorumEpochMoved, Throttled
from tierfetch.sim.judges.core.hand_overs import HandOversJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.quorum_epochs import QuorumEpochsJudge
from tierfetch.sim.judges.core.throttles import ThrottlesJudge


def refuses(why: str):
    return pytest.raises(InvariantViolationError, match=why)


def image(leader: int, *isr: int, fenced: int | None = None) -> ClusterImage:
    brokers = {each: BrokerRegistration(each, "h", 9, epoch=7, fenced=each == fenced) for each in (1, 2, 3)}
    registration = PartitionRegistration(leader, 3, 5, (1, 2, 3), isr, tuple(UUID(int=each) for each in (1, 2, 3)))
    return ClusterImage("c", brokers, {"t": TopicImage("t", UUID(int=1), {}, {0: registration})}, {})


def test_the_epoch_of_a_quorum_stays_where_elections_put_it() -> None:
    judge = QuorumEpochsJudge()
    judge.on(QuorumEpochMoved("controller-1", 400))
    with refuses("bounded epoch: controller-1 is in epoch 2147483646"):
        judge.on(QuorumEpochMoved("controller-1", 2**31 - 2))


def test_a_throttle_is_for_the_client_with_the_quota_and_has_an_end() -> None:
    judge = ThrottlesJudge()
    judge.on(Throttled("throttled", 11_000))
    assert judge.throttles == 1
    with refuses("own quota: producer-1 is throttled for 5 ms"):
        judge.on(Throttled("producer-1", 5))
    with refuses("bounded throttle"):
        judge.on(Throttled("throttled", 11_001))


STOPPED = NodeStopped("broker-1", 1.0)


@pytest.mark.parametrize(
    ("now", "event"),
    [
        (image(2, 1, 2), STOPPED),
        (image(1, 1), STOPPED),
        (image(1, 1, 2, fenced=2), STOPPED),
        (image(1, 1, 2), replace(STOPPED, took_s=5.0)),
        (image(1, 1, 2), NodeStopped("controller-1", 1.0)),
    ],
    ids=["led by another", "last member", "no live member", "it took too long", "no broker"],
)
def test_a_broker_may_stop(now: ClusterImage, event: NodeStopped) -> None:
    HandOversJudge(lambda: now, {"broker-1": 1}).on(event)


def test_a_broker_that_stops_hands_over_what_it_leads() -> None:
    with refuses(r"hands over: 1 has shut down and leads t-0, \[2\] could"):
        HandOversJudge(lambda: image(1, 1, 2), {"broker-1": 1}).on(STOPPED)
