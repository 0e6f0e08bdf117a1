"""What every controller applies is the same, and keeps the invariants of the metadata."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.controller.image.image import TOPIC_RESOURCE
from tierfetch.controller.image.registrations import PartitionKey
from tierfetch.controller.records import (
    ConfigRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_record,
)
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.quorum.core.state import LeaderAndEpoch
from tierfetch.quorum.listener import CommittedBatch, SnapshotContent
from tierfetch.sim.judges.core.events import ControllerElected, MetadataChanged, Observed, UncleanlyElected
from tierfetch.sim.judges.core.judge import Judges
from tierfetch.sim.judges.core.partition import InvariantViolationError
from tierfetch.sim.judges.core.truth import ClusterTruth

T = UUID(int=1000)
LIES_IN = UUID(int=200)
"""Where broker 1 has its replica."""


class Seen:
    """Keeps the events."""

    def __init__(self, events: list[Observed]) -> None:
        self.on = events.append


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
    directories=(LIES_IN, UUID(int=201)),
)
EMPTIED = PartitionChangeRecord(partition_id=0, topic_id=T, isr=(), leader=-1)
START = (broker(1), broker(2), TopicRecord(name="t", topic_id=T), PARTITION)


def batch(offset: int, *records: MetadataRecord) -> CommittedBatch:
    return CommittedBatch(offset, offset + len(records) - 1, 1, 0, tuple(encode_record(record) for record in records))


def truth() -> ClusterTruth:
    truth = ClusterTruth("c", "PLAINTEXT", Judges())
    truth.tap("controller-1").on_commit(batch(0, *START))
    truth.judges.check()
    return truth


def test_others_apply_the_same() -> None:
    there = truth()
    there.tap("controller-2").on_commit(batch(0, *START))
    there.judges.check()
    there.tap("controller-3").on_commit(batch(0, *START[:1]))
    with pytest.raises(InvariantViolationError, match="same state machine"):
        there.judges.check()


@pytest.mark.parametrize(
    ("violated", "change"),
    [
        ("allowed election", PartitionChangeRecord(partition_id=0, topic_id=T, isr=(2,), leader=2)),
        ("last member stays", EMPTIED),
        ("new topic id", TopicRecord(name="u", topic_id=T)),
    ],
)
def test_what_must_not_be(violated: str, change: MetadataRecord) -> None:
    there = truth()
    there.tap("controller-1").on_commit(batch(4, change))
    with pytest.raises(InvariantViolationError, match=violated):
        there.judges.check()


def test_the_last_member_goes_with_its_disk_and_the_image_tells() -> None:
    there, seen = truth(), []
    there.wiped(1, LIES_IN)
    there.judges.add(Seen(seen))
    there.tap("controller-2").on_commit(batch(4, EMPTIED))
    there.judges.check()
    (event,) = seen
    assert isinstance(event, MetadataChanged)
    before, after = event.before, event.after
    assert before.topics["t"].partitions[0].isr == (1,)
    assert after is there.image
    assert after.topics["t"].partitions[0].isr == ()
    assert there.version == 2


def test_a_disk_that_was_lost_long_ago_takes_no_last_member_along() -> None:
    """It came back with another directory, and has been in sync again since."""
    there = truth()
    there.wiped(1, UUID(int=99))
    there.wiped(2, LIES_IN)
    there.tap("controller-2").on_commit(batch(4, EMPTIED))
    with pytest.raises(InvariantViolationError, match="last member stays"):
        there.judges.check()


UNCLEAN = PartitionChangeRecord(partition_id=0, topic_id=T, isr=(2,), leader=2)
BACK = PartitionChangeRecord(partition_id=0, topic_id=T, isr=(1,), leader=1)


def test_an_operator_is_asked_anew_for_each_unclean_election() -> None:
    there, told = truth(), []
    there.judges.add(Seen(told))
    there.asked.begins(PartitionKey(T, 0))
    there.tap("controller-1").on_commit(batch(4, UNCLEAN))
    there.asked.ends(PartitionKey(T, 0), is_answered=True)
    there.judges.check()
    assert [event for event in told if isinstance(event, UncleanlyElected)] == [
        UncleanlyElected(TopicIdPartition(T, "t", 0), 2)
    ]
    there.tap("controller-1").on_commit(batch(5, BACK))
    with pytest.raises(InvariantViolationError, match="allowed election"):
        there.judges.check()


@pytest.mark.parametrize("isr", [None, (1, 2)])
def test_who_leads_was_in_the_isr_before(isr: tuple[int, ...] | None) -> None:
    """Named by itself, or made a member by the same record."""
    there = truth()
    there.tap("controller-1").on_commit(batch(4, PartitionChangeRecord(partition_id=0, topic_id=T, isr=isr, leader=2)))
    with pytest.raises(InvariantViolationError, match="allowed election"):
        there.judges.check()


def test_a_snapshot_says_what_the_log_says() -> None:
    there = truth()
    right = tuple(encode_record(record) for record in START)
    tap = there.tap("controller-2")
    tap.on_load_snapshot(SnapshotContent(4, 1, 0, (right[:3], right[3:])))
    there.judges.check()
    tap.on_load_snapshot(SnapshotContent(4, 1, 0, (right[:3],)))
    with pytest.raises(InvariantViolationError, match="same snapshot: controller-2 loads topics"):
        there.judges.check()


def test_no_snapshot_goes_beyond_what_anybody_has_applied() -> None:
    there = truth()
    there.tap("controller-2").on_load_snapshot(SnapshotContent(5, 1, 0, ()))
    with pytest.raises(InvariantViolationError, match="same snapshot: controller-2 loads one up to offset 5"):
        there.judges.check()


def test_who_leads_is_told_with_its_epoch() -> None:
    there, told = truth(), []
    there.judges.add(Seen(told))
    there.tap("controller-1").on_leader_change(LeaderAndEpoch(None, 4))
    there.tap("controller-1").on_leader_change(LeaderAndEpoch(1, 5))
    assert told == [ControllerElected(5)]


def allowed(value: str) -> ConfigRecord:
    return ConfigRecord(
        resource_type=TOPIC_RESOURCE, resource_name="t", name="unclean.leader.election.enable", value=value
    )


FENCED = FenceBrokerRecord(id_=1, epoch=1)


def test_a_config_allows_an_unclean_election_where_nobody_of_the_isr_can_lead() -> None:
    there, told = truth(), []
    there.judges.add(Seen(told))
    there.tap("controller-1").on_commit(batch(4, allowed("true")))
    there.tap("controller-1").on_commit(batch(5, UNCLEAN, FENCED))
    there.judges.check()
    assert UncleanlyElected(TopicIdPartition(T, "t", 0), 2, by_config=True) in told
    assert there.unclean_elections == 1


def test_it_allows_none_while_a_member_of_the_isr_can_lead() -> None:
    there = truth()
    there.tap("controller-1").on_commit(batch(4, allowed("true")))
    there.tap("controller-1").on_commit(batch(5, UNCLEAN))
    with pytest.raises(InvariantViolationError, match=r"allowed election: t-0: .* \[1\] can lead"):
        there.judges.check()


def test_it_allows_none_once_it_is_off_again() -> None:
    there = truth()
    there.tap("controller-1").on_commit(batch(4, allowed("true"), allowed("false")))
    there.tap("controller-1").on_commit(batch(6, UNCLEAN, FENCED))
    with pytest.raises(InvariantViolationError, match="allowed election"):
        there.judges.check()
