"""What every controller applies is the same, and keeps the invariants of the metadata."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.controller.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from tierfetch.quorum.delivery import CommittedBatch, SnapshotContent
from tierfetch.quorum.state import LeaderAndEpoch
from tierfetch.sim.invariants import InvariantViolationError
from tierfetch.sim.truth import ClusterTruth

T = UUID(int=1000)


def broker(broker_id: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=UUID(int=broker_id + 1000),
        broker_epoch=1,
        end_points=(),
        features=(),
        rack=None,
        fenced=False,
        log_dirs=(),
    )


PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=T,
    replicas=(1, 2),
    isr=(1,),
    removing_replicas=(),
    adding_replicas=(),
    leader=1,
    leader_epoch=0,
    partition_epoch=0,
    directories=(UUID(int=200), UUID(int=201)),
)
START = (broker(1), broker(2), TopicRecord(name="t", topic_id=T), PARTITION)


def batch(offset: int, *records: MetadataRecord) -> CommittedBatch:
    return CommittedBatch(offset, offset + len(records) - 1, 1, 0, tuple(encode_record(record) for record in records))


def truth(*, wiped: int = 0) -> ClusterTruth:
    truth = ClusterTruth("c", "PLAINTEXT")
    truth.wiped.add(wiped)
    truth.tap("controller-1").on_commit(batch(0, *START))
    truth.check()
    return truth


def test_others_apply_the_same() -> None:
    there = truth()
    there.tap("controller-2").on_commit(batch(0, *START))
    there.check()
    there.tap("controller-3").on_commit(batch(0, *START[:1]))
    with pytest.raises(InvariantViolationError, match="same state machine"):
        there.check()


@pytest.mark.parametrize(
    ("violated", "change"),
    [
        ("allowed election", PartitionChangeRecord(partition_id=0, topic_id=T, isr=(2,), leader=2)),
        ("last member stays", PartitionChangeRecord(partition_id=0, topic_id=T, isr=(), leader=-1)),
        ("new topic id", TopicRecord(name="u", topic_id=T)),
    ],
)
def test_what_must_not_be(violated: str, change: MetadataRecord) -> None:
    there = truth()
    there.tap("controller-1").on_commit(batch(4, change))
    with pytest.raises(InvariantViolationError, match=violated):
        there.check()


def test_the_last_member_goes_with_its_disk_and_the_image_tells() -> None:
    there, seen = truth(wiped=1), []
    there.on_change.append(lambda metadata, before, after: seen.append((before, after)))
    there.tap("controller-2").on_commit(batch(4, PartitionChangeRecord(partition_id=0, topic_id=T, isr=(), leader=-1)))
    there.check()
    ((before, after),) = seen
    assert before.topics["t"].partitions[0].isr == (1,)
    assert after is there.image
    assert after.topics["t"].partitions[0].isr == ()
    assert there.version == 2


def test_a_snapshot_says_what_the_log_says() -> None:
    there = truth()
    right = tuple(encode_record(record) for record in START)
    tap = there.tap("controller-2")
    tap.on_load_snapshot(SnapshotContent(4, 1, 0, (right[:3], right[3:])))
    there.check()
    tap.on_load_snapshot(SnapshotContent(4, 1, 0, (right[:3],)))
    with pytest.raises(InvariantViolationError, match="same snapshot: controller-2 loads topics"):
        there.check()


def test_who_leads_is_told_with_its_epoch() -> None:
    there, told = truth(), []
    there.on_lead = told.append
    there.tap("controller-1").on_leader_change(LeaderAndEpoch(None, 4))
    there.tap("controller-1").on_leader_change(LeaderAndEpoch(1, 5))
    assert told == [5]
