"""Each change of the static view: from one image to the next, or refused with the code a controller would give."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker import static_changes as changes
from tierfetch.broker.cluster_view import NO_LEADER, BrokerRegistration, ClusterImage, NewTopic
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.images import image, partition, topic

T0 = topic("t").id_partition(0)


def registered(before: ClusterImage, broker: int, directory: int) -> BrokerRegistration:
    return replace(before.brokers[broker], directory_ids=(UUID(int=directory),))


def test_registering_again_with_the_same_directory_leads_anew_what_it_led() -> None:
    before = image(topic("t", partition(1, (1, 2), leader_epoch=3, epoch=8), partition(2, (1, 2))))
    moved = replace(before.brokers[1], port=1234)
    after, lost = changes.register(before, moved, found=[])
    assert lost == []
    led, followed = after.topics["t"].partitions.values()
    assert led == partition(1, (1, 2), leader_epoch=4, epoch=9)
    assert followed == before.topics["t"].partitions[1]
    assert after.brokers[1].port == 1234


def test_first_registration_of_a_broker_in_a_file_written_by_hand_changes_no_epoch() -> None:
    before = image(topic("t", partition(1, (1, 2))))
    by_hand = replace(before, brokers={1: replace(before.brokers[1], directory_ids=())})
    after, lost = changes.register(by_hand, before.brokers[1], found=[])
    assert (after.topics, lost) == (before.topics, [])


def test_C1_new_directory_id_leaves_every_isr_even_as_the_last_member() -> None:
    before = image(
        topic("t", partition(2, (1, 2), leader_epoch=4, epoch=7), partition(1, (1, 2), (1,), leader_epoch=4))
    )
    after, lost = changes.register(before, registered(before, 1, 9999), found=[])
    follower, leader = after.topics["t"].partitions.values()
    assert (follower.leader, follower.isr, follower.leader_epoch, follower.partition_epoch) == (2, (2,), 4, 8)
    assert (leader.leader, leader.isr, leader.leader_epoch, leader.partition_epoch) == (NO_LEADER, (), 5, 1)
    assert [replica.partition.partition for replica in lost] == [0, 1]
    again, lost_again = changes.register(after, registered(before, 1, 9999), found=[])
    assert (again, lost_again) == (after, [])
    assert again.topics["t"].partitions[1].leader == NO_LEADER


def test_C2_leader_without_its_log_is_followed_by_the_next_of_the_isr() -> None:
    before = image(topic("t", partition(1, (1, 2, 3), (1, 3), leader_epoch=4, epoch=7)))
    after, _ = changes.register(before, registered(before, 1, 9999), found=[])
    assert after.topics["t"].partitions[0] == partition(3, (1, 2, 3), (3,), leader_epoch=5, epoch=8)


def test_a_fenced_broker_leaves_every_isr_and_leads_no_more_but_the_last_member_stays() -> None:
    before = image(
        topic(
            "t",
            partition(1, (1, 2), leader_epoch=4, epoch=7),
            partition(2, (1, 2), leader_epoch=4, epoch=7),
            partition(1, (1, 2), (1,), leader_epoch=4, epoch=7),
        )
    )
    after = changes.fence_broker(before, 1)
    assert list(after.topics["t"].partitions.values()) == [
        partition(2, (1, 2), (2,), leader_epoch=5, epoch=8),
        partition(2, (1, 2), (2,), leader_epoch=4, epoch=8),
        partition(1, (1, 2), (1,), leader_epoch=4, epoch=7),
    ]
    assert changes.fence_broker(after, 1) == after


def test_C7_a_fenced_broker_joins_no_isr_until_it_registers_again() -> None:
    fenced = changes.fence_broker(image(topic("t", partition(1, (1, 2), epoch=7))), 2)
    with pytest.raises(KafkaError) as caught:
        changes.alter_partition(fenced, T0, leader_epoch=0, partition_epoch=8, isr=[1, 2])
    assert caught.value.code is ErrorCode.ineligible_replica
    back, _ = changes.register(fenced, replace(fenced.brokers[2], fenced=False), found=[T0.topic_partition])
    after = changes.alter_partition(back, T0, leader_epoch=0, partition_epoch=8, isr=[1, 2])
    assert after.topics["t"].partitions[0].isr == (1, 2)


def test_replicas_found_in_the_remaining_directories_stay() -> None:
    before = image(topic("t", partition(1, (1, 2)), partition(1, (1, 2))))
    both = replace(before.brokers[1], directory_ids=(UUID(int=1), UUID(int=2)))
    before, _ = changes.register(replace(before, brokers={}), both, found=[])
    one_gone = replace(both, directory_ids=(UUID(int=2), UUID(int=3)))
    after, lost = changes.register(before, one_gone, found=[TopicPartition("t", 1)])
    assert [replica.partition.partition for replica in lost] == [0]
    assert after.topics["t"].partitions[1].isr == (1, 2)


def test_C9_alter_partition_is_conditional_on_both_epochs() -> None:
    before = image(topic("t", partition(1, (1, 2), leader_epoch=3, epoch=5)))
    after = changes.alter_partition(before, T0, leader_epoch=3, partition_epoch=5, isr=[1])
    assert after.topics["t"].partitions[0] == partition(1, (1, 2), (1,), leader_epoch=3, epoch=6)
    for epochs, code in (((2, 6), ErrorCode.fenced_leader_epoch), ((3, 5), ErrorCode.invalid_update_version)):
        with pytest.raises(KafkaError) as caught:
            changes.alter_partition(after, T0, leader_epoch=epochs[0], partition_epoch=epochs[1], isr=[1, 2])
        assert caught.value.code is code


@pytest.mark.parametrize("isr", [[], [2], [1, 3], [1, 1]])
def test_an_isr_holds_the_leader_and_only_replicas(isr: list[int]) -> None:
    before = image(topic("t", partition(1, (1, 2))))
    with pytest.raises(KafkaError) as caught:
        changes.alter_partition(before, T0, leader_epoch=0, partition_epoch=0, isr=isr)
    assert caught.value.code is ErrorCode.invalid_request


def test_alter_partition_of_another_incarnation_is_refused() -> None:
    before = image(topic("t", partition(1, (1, 2)), topic_id=7))
    with pytest.raises(KafkaError) as caught:
        changes.alter_partition(before, T0, leader_epoch=0, partition_epoch=0, isr=[1])
    assert caught.value.code is ErrorCode.unknown_topic_id


def test_electing_a_leader_raises_both_epochs() -> None:
    before = image(topic("t", partition(1, (1, 2, 3), (1, 2), leader_epoch=3, epoch=5)))
    after = changes.elect_leader(before, T0, 2)
    assert after.topics["t"].partitions[0] == partition(2, (1, 2, 3), (1, 2), leader_epoch=4, epoch=6)
    with pytest.raises(KafkaError) as caught:
        changes.elect_leader(before, T0, 3)
    assert caught.value.code is ErrorCode.eligible_leaders_not_available
    unclean = changes.elect_leader(before, T0, 3, unclean=True)
    assert unclean.topics["t"].partitions[0].isr == (3,)


def test_new_topics_are_spread_from_the_broker_that_leads_least() -> None:
    before = image(topic("t", partition(1, (1, 2))))
    created = changes.create_topic(before, NewTopic("new", 3, 2), UUID(int=8)).topics["new"]
    assert [created.partitions[n].replicas for n in range(3)] == [(2, 3), (3, 1), (1, 2)]
    assert [created.partitions[n].leader for n in range(3)] == [2, 3, 1]
    assert created.topic_id == UUID(int=8)


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("t", 1, 1), ErrorCode.topic_already_exists),
        (NewTopic("../t", 1, 1), ErrorCode.invalid_topic_exception),
        (NewTopic("n", 0, 1), ErrorCode.invalid_partitions),
        (NewTopic("n", 1, 4), ErrorCode.invalid_replication_factor),
        (NewTopic("n", 1, 0), ErrorCode.invalid_replication_factor),
        (NewTopic("n", -1, -1, ((1, 1),)), ErrorCode.invalid_replica_assignment),
        (NewTopic("n", -1, -1, ((1,), (9,))), ErrorCode.invalid_replica_assignment),
        (NewTopic("n", -1, -1, ((),)), ErrorCode.invalid_replica_assignment),
    ],
)
def test_topics_that_cannot_be_created(new: NewTopic, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        changes.create_topic(image(topic("t", partition(1, (1, 2)))), new, UUID(int=8))
    assert caught.value.code is code


def test_configs_are_merged_and_removed() -> None:
    before = image(topic("t", partition(1, (1,)), retention_ms="5", segment_ms="6"))
    after = changes.alter_topic_configs(before, "t", {"retention.ms": None, "segment.ms": "7", "x": "y"})
    assert after.topics["t"].configs == {"segment.ms": "7", "x": "y"}
    after = changes.alter_broker_configs(after, "default", {"log.retention.ms": "1", "gone": None})
    assert after.broker_configs == {"default": {"log.retention.ms": "1"}}
    assert changes.delete_topic(after, "t").topics == {}


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (partition(1, (1, 2), leader_epoch=3, epoch=5), None),
        (partition(2, (1, 2), leader_epoch=4, epoch=6), None),
        (partition(1, (1, 2), leader_epoch=2, epoch=6), "leader_epoch went back from 3 to 2"),
        (partition(2, (1, 2), leader_epoch=3, epoch=6), "write leader_epoch: 4"),
        (partition(1, (1, 2), leader_epoch=3, epoch=4), "partition_epoch went back from 5 to 4"),
        (partition(1, (1, 2), (1,), leader_epoch=3, epoch=5), "write partition_epoch: 6"),
    ],
)
def test_edits_by_hand_that_would_make_two_leaders_are_found(after: object, said: str | None) -> None:
    before = image(topic("t", partition(1, (1, 2), leader_epoch=3, epoch=5)))
    problem = changes.find_regression(before, image(topic("t", after)))  # type: ignore[arg-type]
    assert (problem is None) if said is None else (problem is not None and said in problem)


def test_a_topic_made_anew_under_the_same_name_is_no_regression() -> None:
    before = image(topic("t", partition(1, (1, 2), leader_epoch=3, epoch=5)))
    assert changes.find_regression(before, image(topic("t", partition(2, (1, 2)), topic_id=501))) is None
