"""The judges of epochs, throttles and shutdowns convict, each by a history made by hand."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, entity_of
from tierfetch.controller.image.image import MetadataImage
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import MetadataChanged, NodeStopped, QuorumEpochMoved, Throttled
from tierfetch.sim.judges.core.hand_overs import HandOversJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.quorum.epochs import QuorumEpochsJudge
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


def set_quotas(judge: ThrottlesJudge, *values: float, key: str = PRODUCER_BYTE_RATE) -> None:
    for value in values:
        metadata = MetadataImage()
        metadata.quotas.put(entity_of([("client-id", "throttled")]), key, value)
        judge.on(MetadataChanged(CommittedBatch(0, 0, 0, 0, ()), metadata, image(1), image(1)))


def throttled(ms: int, client: str = "throttled") -> Throttled:
    return Throttled(client, PRODUCER_BYTE_RATE, ms)


def test_a_throttle_is_for_the_client_with_the_quota_and_has_an_end() -> None:
    judge = ThrottlesJudge()
    set_quotas(judge, 400.0)
    judge.on(throttled(11_000))
    assert judge.throttles == 1
    with refuses("own quota: producer-1 is throttled for 5 ms"):
        judge.on(throttled(5, "producer-1"))
    with refuses("bounded throttle: throttled is throttled for 11001 ms by producer_byte_rate, set to 400 to 400"):
        judge.on(throttled(11_001))


def test_a_throttle_may_be_longer_once_a_quota_was_lowered_as_what_was_used_takes_so_long_now() -> None:
    judge = ThrottlesJudge()
    set_quotas(judge, 2_000.0, 400.0)
    longest_ms = 5 * 11_000 + 25_000
    judge.on(throttled(longest_ms))
    with refuses("bounded throttle"):
        judge.on(throttled(longest_ms + 1))


def test_another_quota_that_was_lowered_lets_nobody_wait_longer() -> None:
    judge = ThrottlesJudge()
    set_quotas(judge, 400.0)
    set_quotas(judge, 2_000.0, 400.0, key=CONSUMER_BYTE_RATE)
    with refuses("bounded throttle"):
        judge.on(throttled(11_001))


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
