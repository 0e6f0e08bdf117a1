"""What brokers said in their heartbeats, and who may lead by it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.view import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tierfetch.controller.image.image import MetadataImage
from tierfetch.controller.image.registrations import PartitionKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.brokers import BrokerHeartbeatRequest, ThinReplica
from tierfetch.quorum.listener import CommittedBatch
from tierfetch.sim.judges.core.events import HeartbeatAnswered, HeartbeatReceived, MetadataChanged
from tierfetch.sim.judges.core.heartbeats import HeartbeatJudge
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.thin_leaders import ThinLeadersJudge

T = UUID(int=1000)
EPOCH, OFFSET = 5, 50
FIRST = 30
"""Offset of the controller's first batch; replica 2 joined the ISR by the one after it."""
JOINED = FIRST + 1
BEFORE = PartitionRegistration(3, 1, 1, (1, 2, 3), (1, 2, 3))
TIERED = {"remote.storage.enable": "true"}


def image(now: PartitionRegistration, *, dead: int = 3, configs: dict[str, str] = TIERED) -> ClusterImage:
    brokers = {number: BrokerRegistration(number, "h", 9092, epoch=0, fenced=number == dead) for number in (1, 2, 3)}
    return ClusterImage("c", brokers, {"t": TopicImage("t", T, configs, {0: now})}, {})


def change(there: ThinLeadersJudge, offset: int, epoch: int, before: ClusterImage, after: ClusterImage) -> None:
    there.on(MetadataChanged(CommittedBatch(offset, offset, epoch, 0, ()), MetadataImage(), before, after))


def judge(
    *,
    thin: tuple[int, ...] = (),
    reported: dict[int, int] = {1: OFFSET, 2: OFFSET},  # noqa: B006 - nobody changes it
    age_ms: int = 0,
    next_offset: int = OFFSET,
) -> ThinLeadersJudge:
    """Brokers have reported at these metadata offsets; replica 2 has joined the ISR before."""
    heartbeats = HeartbeatJudge(lambda: 0.0, warm_bytes=100, warm_ms=1_000)
    for broker_id, metadata_offset in reported.items():
        item = ThinReplica(topic_id=T, partition_index=0, local_start_offset=0, local_bytes=1, age_ms=age_ms)
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=0,
            current_metadata_offset=metadata_offset,
            want_fence=False,
            want_shut_down=False,
            thin_replicas=(item,) if broker_id in thin else (),
        )
        heartbeats.on(HeartbeatReceived(EPOCH, next_offset, request))
    there = ThinLeadersJudge(heartbeats)
    change(there, FIRST, EPOCH, image(BEFORE), image(BEFORE))
    alone = replace(BEFORE, isr=(1, 3))
    change(there, JOINED, EPOCH, image(alone), image(BEFORE))
    return there


def elect(
    there: ThinLeadersJudge, leader: int, *, epoch: int = EPOCH, dead: int = 3, configs: dict[str, str] = TIERED
) -> None:
    isr = tuple(number for number in (1, 2, 3) if number != dead)
    now = replace(BEFORE, leader=leader, isr=isr, leader_epoch=2)
    change(there, OFFSET, epoch, image(BEFORE, configs=configs), image(now, dead=dead, configs=configs))


def test_F11_a_thin_replica_does_not_lead_while_a_full_one_lives() -> None:
    with pytest.raises(InvariantViolationError, match="full ones first"):
        elect(judge(thin=(1,)), 1)
    there = judge(thin=(1,))
    elect(there, 2)
    assert there.spared == 1


def test_F11_who_joined_after_its_broker_reported_does_not_lead_while_a_full_one_lives() -> None:
    with pytest.raises(InvariantViolationError, match="full ones first"):
        elect(judge(reported={1: OFFSET, 2: JOINED - 1}), 2)
    elect(judge(reported={1: OFFSET, 2: JOINED}), 2)


@pytest.mark.parametrize("reported", [{}, {2: JOINED - 1}], ids=["no report", "none since it joined"])
def test_F11_a_live_leader_is_not_deposed_for_one_that_may_be_thin(reported: dict[int, int]) -> None:
    with pytest.raises(InvariantViolationError, match="known before it led"):
        elect(judge(reported=reported), 2, dead=1)
    elect(judge(reported=reported), 2, dead=3)


@pytest.mark.parametrize(
    "there",
    [
        judge(thin=(1, 2)),
        judge(thin=(1,), age_ms=1_000),
        judge(thin=(1,), next_offset=OFFSET + 1),
        judge(thin=(1,), reported={1: OFFSET, 2: JOINED - 1}),
        judge(thin=(1,), reported={1: OFFSET, 2: FIRST - 1}),
    ],
    ids=["all are thin", "it has warmed", "nobody had said so", "2 may be thin too", "of before this controller"],
)
def test_else_it_may(there: ThinLeadersJudge) -> None:
    elect(there, 1)


def test_a_new_controller_knows_nothing() -> None:
    elect(judge(thin=(1,)), 1, epoch=EPOCH + 1)


def test_a_topic_that_is_not_tiered_has_no_thin_replicas() -> None:
    elect(judge(thin=(1,)), 1, configs={})


def test_the_past_is_refused() -> None:
    heartbeats = HeartbeatJudge(lambda: 0.0, warm_bytes=1, warm_ms=1)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=3, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )
    heartbeats.on(HeartbeatAnswered(request, ErrorCode.none, 3))
    heartbeats.on(HeartbeatAnswered(request, ErrorCode.stale_broker_epoch, 9))
    with pytest.raises(InvariantViolationError, match="the past is refused"):
        heartbeats.on(HeartbeatAnswered(request, ErrorCode.none, 9))
    assert not heartbeats.known(EPOCH, 1, 3, OFFSET)


def test_replicas_are_named_by_topic_id() -> None:
    there = judge(thin=(1,))
    assert there._heartbeats.known(EPOCH, 1, 0, OFFSET)[-1].thin == {PartitionKey(T, 0)}
