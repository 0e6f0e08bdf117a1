"""The image: Kafka's own log, snapshots, transactions of records, deltas, and what contradicts it."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from tierfetch.controller.core.machine import batches
from tierfetch.controller.core.placement import StripedPlacement, placer_for
from tierfetch.controller.core.state import ControllerResult
from tierfetch.controller.image.delta import ConfigResource, ImageDelta
from tierfetch.controller.image.image import MetadataImage, taken_up_in_steps
from tierfetch.controller.image.registrations import BrokerRegistration
from tierfetch.controller.image.snapshot import snapshot_records
from tierfetch.controller.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    decode_record,
)

from .harness import Harness, same
from .test_records import LOG, kafka_values

ID = UUID(int=1 << 70)


def kafka_image() -> MetadataImage:
    image = MetadataImage()
    image.replay_all(decode_record(value).record for value in kafka_values(LOG))
    return image


def test_kafkas_own_log_gives_the_cluster_it_left() -> None:
    image = kafka_image()
    assert image.features["metadata.version"] == 30
    assert sorted(image.brokers) == [1, 2]
    assert all(broker.fenced for broker in image.brokers.values())
    assert len(image.topics) == 12
    assert image.next_producer_id == 5000
    topic = image.topic("s-none")
    assert topic is not None
    partition = topic.partitions[0]
    assert (partition.replicas, partition.leader, partition.isr, partition.elr) == ((1, 2), -1, (), (1,))
    assert (partition.leader_epoch, partition.partition_epoch) == (5, 8)
    assert image.config(2, "s-none")["remote.storage.enable"] == "true"


def test_a_snapshot_replayed_gives_an_equal_image() -> None:
    image, again = kafka_image(), MetadataImage()
    records = list(snapshot_records(image))
    again.replay_all(records)
    assert same(again, image)
    assert isinstance(records[0], FeatureLevelRecord)
    assert records[0].name == "metadata.version"


def test_records_of_a_transaction_count_from_its_end() -> None:
    image = MetadataImage()
    image.replay(BeginTransactionRecord(name="x"))
    image.replay(TopicRecord(name="t", topic_id=ID))
    assert not image.topics
    with pytest.raises(AssertionError, match="transaction"):
        list(snapshot_records(image))
    image.replay(EndTransactionRecord())
    assert list(image.topic_ids) == ["t"]
    image.replay_all([BeginTransactionRecord(), RemoveTopicRecord(topic_id=ID), AbortTransactionRecord()])
    assert list(image.topic_ids) == ["t"]


def test_the_end_of_a_transaction_is_taken_up_in_steps() -> None:
    image, topics = MetadataImage(), 10
    waiting = [TopicRecord(name=f"t{number}", topic_id=UUID(int=number + 1)) for number in range(topics)]
    opened = [BeginTransactionRecord(), *waiting]
    assert [len(image.topics) for _ in taken_up_in_steps(image, opened, image.take_up, 4)] == [0, 0]
    seen = [len(image.topics) for _ in taken_up_in_steps(image, [EndTransactionRecord()], image.take_up, 4)]
    assert seen == [4, 8]
    assert len(image.topics) == topics


def test_what_nobody_acts_on_is_kept_for_the_next_snapshot() -> None:
    entity = (QuotaEntity(entity_type="user", entity_name=None),)
    kept = [
        ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0, remove=False),
        AccessControlEntryRecord(
            id_=ID,
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="p",
            host="*",
            operation=3,
            permission_type=3,
        ),
        UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"x", iterations=4096),
        DelegationTokenRecord(
            owner="o",
            requester="r",
            renewers=("a",),
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id="t",
        ),
    ]
    image = MetadataImage()
    image.replay_all([*kept, NoOpRecord()])
    assert list(snapshot_records(image)) == kept
    image.replay_all(
        [
            ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=0.0, remove=True),
            RemoveAccessControlEntryRecord(id_=ID),
            RemoveUserScramCredentialRecord(name="u", mechanism=1),
            RemoveDelegationTokenRecord(token_id="t"),
        ]
    )
    assert list(snapshot_records(image)) == []


def test_old_records_fence_and_unfence_too() -> None:
    harness = Harness()
    harness.start(1)
    epoch = harness.epochs[1]
    harness.image.replay(FenceBrokerRecord(id_=1, epoch=epoch))
    assert harness.image.brokers[1].fenced
    harness.image.replay(UnfenceBrokerRecord(id_=1, epoch=epoch))
    assert not harness.image.brokers[1].fenced


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=ID),
        PartitionChangeRecord(partition_id=0, topic_id=ID),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=1),
        EndTransactionRecord(),
    ],
)
def test_a_record_that_contradicts_the_image_is_named(record: object) -> None:
    with pytest.raises(AssertionError, match=type(record).__name__):
        MetadataImage().replay(record)


def test_a_leader_outside_of_its_isr_is_never_taken_up() -> None:
    harness = Harness()
    harness.start(1, 2)
    topic_id = harness.create("t", [1, 2])
    with pytest.raises(AssertionError, match="leader=2"):
        harness.image.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1,), leader=2))


def test_a_delta_names_what_changed_and_nothing_else() -> None:
    harness = Harness()
    harness.start(1, 2, 3)
    harness.create("gone", [1])
    harness.create("same", [3])
    delta = harness.image.delta = ImageDelta()
    assert delta.is_empty
    topic_id = harness.create("t", [1, 2], [2, 3], configs={"flush.ms": "1"})
    assert delta.partitions == {topic_id: {0, 1}}
    delta = harness.image.delta = ImageDelta()
    harness.expire(1, alive=[2, 3])
    gone = harness.image.topic_ids["gone"]
    assert delta.partitions == {topic_id: {0}, gone: {0}}
    assert delta.brokers == {1}
    delta = harness.image.delta = ImageDelta()
    harness.image.replay(RemoveTopicRecord(topic_id=gone))
    harness.configure(4, "", min_insync_replicas="2")
    harness.set_feature("group.version", 1)
    assert (delta.partitions, delta.removed_topics) == ({}, {gone: "gone"})
    assert delta.configs == {ConfigResource(2, "gone"), ConfigResource(4, "")}
    assert delta.features == {"group.version"}
    assert not delta.is_empty


def test_many_partitions_share_their_replica_lists() -> None:
    harness = Harness()
    harness.start(1, 2, 3)
    harness.create("t", *[[1, 2, 3]] * 50)
    partitions = harness.image.topic("t").partitions
    assert len({id(partition.replicas) for partition in partitions.values()}) == 1
    assert len({id(partition.directories) for partition in partitions.values()}) == 1


def test_records_too_many_for_one_batch_become_a_transaction() -> None:
    records = [NoOpRecord()] * 5
    assert [len(batch) for batch in batches(ControllerResult(records, None), 5)] == [5]
    split = list(batches(ControllerResult(records, None), 3))
    assert [len(batch) for batch in split] == [3, 3, 1]
    assert split[0][0] == BeginTransactionRecord()
    assert split[-1][-1] == EndTransactionRecord()
    assert [len(batch) for batch in batches(ControllerResult(records, None, is_atomic=False), 9, 3)] == [3, 2]
    assert list(batches(ControllerResult([], None))) == []


@pytest.mark.parametrize("seed", range(20))
def test_replicas_of_a_partition_are_different_brokers_and_leaders_are_unfenced(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 9)
    brokers = [
        BrokerRegistration(number, 1, ID, rack=rng.choice([None, "a", "b", "c"]), fenced=rng.random() < 0.3)
        for number in range(count)
    ] + [BrokerRegistration(99, 1, ID, fenced=False)]
    factor = rng.randint(1, len(brokers))
    placed = placer_for(StripedPlacement(), brokers, rng).place(40, factor)
    fenced = {broker.broker_id for broker in brokers if broker.fenced}
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] not in fenced
