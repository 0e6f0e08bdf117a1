"""What brokers said in their heartbeats, and who may lead by it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.registrations import PartitionKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import HeartbeatAnswered, HeartbeatReceived, MetadataChanged
from tierfetch.sim.judges.core.heartbeats import HeartbeatJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.thin_leaders import ThinLeadersJudge

T = UUID(int=1000)
EPOCH, OFFSET = 5, 50
BEFORE = PartitionRegistration(3, 1, 1, (1, 2, 3), (1, 2, 3))


def image(now: PartitionRegistration) -> ClusterImage:
    brokers = {number: BrokerRegistration(number, "h", 9092, epoch=0, fenced=number == 3) for number in (1, 2, 3)}
    return ClusterImage("c", brokers, {"t": TopicImage("t", T, {}, {0: now})}, {})


def judge(*, thin: tuple[int, ...], age_ms: int = 0, next_offset: int = OFFSET) -> ThinLeadersJudge:
    heartbeats = HeartbeatJudge(lambda: 0.0, warm_bytes=100, warm_ms=1_000)
    for broker_id in (1, 2):
        item = SimpleNamespace(topic_id=T, partition_index=0, local_bytes=1, age_ms=age_ms)
        request = SimpleNamespace(
            broker_id=broker_id,
            broker_epoch=0,
            want_fence=False,
            want_shut_down=False,
            thin_replicas=(item,) if broker_id in thin else (),
        )
        heartbeats.on(HeartbeatReceived(EPOCH, next_offset, request))
    return ThinLeadersJudge(heartbeats)


def elect(there: ThinLeadersJudge, leader: int, epoch: int = EPOCH) -> None:
    now = replace(BEFORE, leader=leader, isr=(1, 2), leader_epoch=2)
    batch = CommittedBatch(OFFSET, OFFSET, epoch, 0, ())
    there.on(MetadataChanged(batch, MetadataImage(), image(BEFORE), image(now)))


def test_a_thin_replica_does_not_lead_while_a_full_one_lives() -> None:
    with pytest.raises(InvariantViolationError, match="full ones first"):
        elect(judge(thin=(1,)), 1)
    there = judge(thin=(1,))
    elect(there, 2)
    assert there.spared == 1


@pytest.mark.parametrize(
    "there",
    [judge(thin=(1, 2)), judge(thin=(1,), age_ms=1_000), judge(thin=(1,), next_offset=OFFSET + 1)],
    ids=["all are thin", "it has warmed", "nobody had said so"],
)
def test_else_it_may(there: ThinLeadersJudge) -> None:
    elect(there, 1)


def test_a_new_controller_knows_nothing() -> None:
    elect(judge(thin=(1,)), 1, EPOCH + 1)


def test_the_past_is_refused() -> None:
    heartbeats = HeartbeatJudge(lambda: 0.0, warm_bytes=1, warm_ms=1)
    request = SimpleNamespace(broker_id=1, broker_epoch=3)
    heartbeats.on(HeartbeatAnswered(request, ErrorCode.none, 3))
    heartbeats.on(HeartbeatAnswered(request, ErrorCode.stale_broker_epoch, 9))
    with pytest.raises(InvariantViolationError, match="the past is refused"):
        heartbeats.on(HeartbeatAnswered(request, ErrorCode.none, 9))
    assert not heartbeats.known(EPOCH, 1, 3, OFFSET)


def test_replicas_are_named_by_topic_id() -> None:
    there = judge(thin=(1,))
    assert there._heartbeats.known(EPOCH, 1, 0, OFFSET)[-1].thin == {PartitionKey(T, 0)}
