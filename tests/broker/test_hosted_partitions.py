"""Look-ups of hosted partitions: each follows the cluster's image and what is hosted, at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.broker.hosting import Host

T0 = TopicPartition("t", 0)


def code_of(host: Host, topic: object, number: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as failure:
        host.hosted.find(topic, number)  # type: ignore[arg-type]
    return failure.value.code


async def test_a_partition_is_found_by_name_and_by_id(host: Host) -> None:
    partition = await host.topic("t", 1)
    for name in ("t", partition.partition.topic_id):
        assert host.hosted.find(name, 0) is partition
        assert host.hosted.find(name, 0) is partition
        assert code_of(host, name, 1) is ErrorCode.unknown_topic_or_partition


async def test_a_partition_that_is_let_go_is_not_found_again(host: Host) -> None:
    partition = await host.topic("t", 1)
    topic_id = partition.partition.topic_id
    assert host.hosted.find("t", 0) is host.hosted.find(topic_id, 0) is partition
    host.hosted.remove(T0)
    assert code_of(host, "t") is code_of(host, topic_id) is ErrorCode.not_leader_or_follower
    host.hosted.failures[T0] = "its disk is gone"
    assert code_of(host, "t") is code_of(host, topic_id) is ErrorCode.kafka_storage_error
    host.hosted.add(T0, partition)
    assert host.hosted.find("t", 0) is host.hosted.find(topic_id, 0) is partition


async def test_a_topic_that_is_deleted_and_made_again_is_another_one(host: Host) -> None:
    first = await host.topic("t", 1)
    assert host.hosted.find("t", 0) is host.hosted.find(first.partition.topic_id, 0) is first
    await host.view.delete_topic("t")
    assert code_of(host, first.partition.topic_id) is ErrorCode.unknown_topic_id
    assert host.hosted.remove(T0) is first
    await first.close()
    await first.log.abandon()
    second = await host.topic("t", 1)
    assert host.hosted.find("t", 0) is host.hosted.find(second.partition.topic_id, 0) is second
    assert code_of(host, first.partition.topic_id) is ErrorCode.unknown_topic_id


async def test_who_answers_from_the_roles_is_told_of_each_change(host: Host) -> None:
    changed: list[TopicPartition] = []
    host.hosted.on_role_change(changed.append)
    partition = await host.topic("t", 1)
    assert changed == [T0]
    host.hosted.role_changed(T0)
    assert host.hosted.remove(T0) is partition
    assert changed == [T0] * 3


async def test_a_leadership_that_begins_or_ends_is_a_change_of_the_role(host: Host) -> None:
    partition = await host.topic("t", 1)
    registration = partition.registration
    assert registration is not None
    assert host.listener.role_changes == 1
    await partition.lead(replace(registration, leader_epoch=1))
    assert host.listener.role_changes == 3  # one leadership has ended
    await partition.step_down(replace(registration, leader=2, leader_epoch=2))
    assert host.listener.role_changes == 4
