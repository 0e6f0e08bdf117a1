"""Metadata, DescribeCluster and InitProducerId in every version, from a static cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tierfetch.broker.cluster.producer_ids import ProducerIds
from tierfetch.broker.cluster.view import (
    BrokerRegistration,
    ClusterImage,
    NewTopic,
    PartitionRegistration,
    TopicImage,
)
from tierfetch.broker.handlers.metadata import ClusterHandlers
from tierfetch.controller.core.state import LOST_DIRECTORY
from tierfetch.protocol import TopicPartition
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.cluster import DescribeClusterRequest, MetadataRequest, MetadataRequestTopic
from tierfetch.tests.broker.requests import all_versions, ask_message
from tierfetch.tests.fakes.cluster_view import FakeClusterView


@pytest.fixture
async def handlers(view: FakeClusterView) -> ClusterHandlers:
    await view.create_topic(NewTopic("t", 2, 2))
    await view.create_topic(NewTopic("u", 1, 1))
    return ClusterHandlers(view, node_id=1, leads=lambda *_: True)


def metadata_request(*asked: tuple[str | None, UUID | None]) -> MetadataRequest:
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in asked))


def cluster_request(*, include_fenced_brokers: bool = False, endpoint_type: int = 1) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
        include_fenced_brokers=include_fenced_brokers,
    )


@pytest.mark.parametrize("version", all_versions(ApiKey.METADATA))
async def test_metadata_of_all_topics(handlers: ClusterHandlers, version: int) -> None:
    response = await ask_message(handlers.metadata, MetadataRequest(topics=None), version)
    assert [broker.port for broker in response.brokers] == [9001, 9002, 9003]
    assert [topic.name for topic in response.topics] == ["t", "u"]
    first = response.topics[0].partitions[0]
    assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (1, (1, 2), (1, 2))


async def test_metadata_of_no_topic_names_the_brokers_only(handlers: ClusterHandlers) -> None:
    response = await ask_message(handlers.metadata, metadata_request(), 12)
    assert response.topics == ()


async def test_metadata_by_name_and_by_id(handlers: ClusterHandlers, view: FakeClusterView) -> None:
    request = metadata_request(
        (None, view.image.topics["t"].topic_id),
        (None, UUID(int=5)),
        ("u", None),
        ("absent", None),
        ("../etc", None),
    )
    response = await ask_message(handlers.metadata, request, 13)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", ErrorCode.none),
        (None, ErrorCode.unknown_topic_id),
        ("u", ErrorCode.none),
        ("absent", ErrorCode.unknown_topic_or_partition),
        ("../etc", ErrorCode.invalid_topic_exception),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_metadata_before_version_12_takes_no_ids_as_its_answer_needs_names(
    handlers: ClusterHandlers, view: FakeClusterView, version: int
) -> None:
    request = metadata_request((None, UUID(int=5)), ("t", view.image.topics["t"].topic_id), ("u", None))
    response = await ask_message(handlers.metadata, request, version)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        (name, ErrorCode.invalid_request) for name in ("", "t", "u")
    ]


async def test_partition_without_a_leader_says_so(handlers: ClusterHandlers, view: FakeClusterView) -> None:
    leader = view.image.topics["u"].partitions[0].leader
    lost = view.image.brokers[leader]
    await view.register(type(lost)(lost.id, lost.host, lost.port, None, (UUID(int=99),)))
    (topic,) = (await ask_message(handlers.metadata, metadata_request(("u", None)), 9)).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_id) == (ErrorCode.leader_not_available, -1)


@pytest.mark.parametrize(
    ("directory", "offline"),
    [(UUID(int=500), ()), (UUID(int=0), ()), (LOST_DIRECTORY, (1,)), (UUID(int=501), (1,))],
    ids=["where it is", "not assigned yet", "its log cannot be opened", "its directory is offline"],
)
async def test_C9_a_replica_without_its_log_is_offline(directory: UUID, offline: tuple[int, ...]) -> None:
    now = PartitionRegistration(2, 1, 1, (1, 2), (2,), (directory, None))
    brokers = {number: BrokerRegistration(number, "h", 9092, directory_ids=(UUID(int=500),)) for number in (1, 2)}
    image = ClusterImage("c", brokers, {"t": TopicImage("t", UUID(int=7), {}, {0: now})}, {})
    view: Any = SimpleNamespace(image=image)
    handlers = ClusterHandlers(view, 1, lambda _partition, _epoch: True)
    (topic,) = (await ask_message(handlers.metadata, metadata_request(("t", None)), 9)).topics
    assert topic.partitions[0].offline_replicas == offline


@pytest.mark.parametrize("version", all_versions(ApiKey.DESCRIBE_CLUSTER))
async def test_describe_cluster(handlers: ClusterHandlers, view: FakeClusterView, version: int) -> None:
    response = await ask_message(handlers.describe_cluster, cluster_request(), version)
    assert (response.cluster_id, response.controller_id) == (view.image.cluster_id, 1)
    assert [broker.broker_id for broker in response.brokers] == [1, 2, 3]


async def test_describe_cluster_has_no_controllers(handlers: ClusterHandlers) -> None:
    response = await ask_message(handlers.describe_cluster, cluster_request(endpoint_type=2), 1)
    assert (response.error_code, response.brokers) == (ErrorCode.mismatched_endpoint_type, ())


async def test_producer_ids_are_given_once_across_brokers(view: FakeClusterView) -> None:
    here, there = ProducerIds(view), ProducerIds(view)
    assert [await ids.next() for ids in (here, there, here)] == [0, 1000, 1]


async def test_a_used_up_block_is_followed_by_the_next(view: FakeClusterView) -> None:
    ids = ProducerIds(view)
    assert [await ids.next() for _ in range(1001)][-2:] == [999, 1000]


async def test_fenced_broker_is_not_offered_to_clients(handlers: ClusterHandlers, view: FakeClusterView) -> None:
    await view.fence_broker(2)
    response = await ask_message(handlers.metadata, metadata_request(("t", None)), 9)
    assert [broker.node_id for broker in response.brokers] == [1, 3]
    first, second = response.topics[0].partitions
    assert (first.leader_id, first.offline_replicas) == (1, (2,))
    assert (second.leader_id, second.offline_replicas) == (3, (2,))
    listed = {}
    for include in (False, True):
        cluster = await ask_message(handlers.describe_cluster, cluster_request(include_fenced_brokers=include), 2)
        listed[include] = [(broker.broker_id, broker.is_fenced) for broker in cluster.brokers]
    assert listed == {False: [(1, False), (3, False)], True: [(1, False), (2, True), (3, False)]}
    created = await view.create_topic(NewTopic("new", 2, 2))
    assert all(set(entry.replicas) == {1, 3} for entry in created.partitions.values())


async def test_what_was_answered_of_a_partition_is_given_again_until_it_changes(view: FakeClusterView) -> None:
    led: set[int] = {0, 1}
    handlers = ClusterHandlers(view, node_id=1, leads=lambda name, _: name.partition in led)
    await view.create_topic(NewTopic("t", -1, -1, ((1, 2), (1, 2), (2, 3))))

    async def partitions() -> tuple[object, ...]:
        return (
            (await handlers.metadata(SimpleNamespace(api_version=12, listener="PLAINTEXT"), asked)).topics[0].partitions
        )

    asked = metadata_request(("t", None))
    first = await partitions()
    assert [id(each) for each in await partitions()] == [id(each) for each in first]
    led.remove(1)
    handlers.role_changed(TopicPartition("t", 1))
    second = await partitions()
    assert [now is before for now, before in zip(second, first, strict=True)] == [True, False, True]
    assert second[1].error_code is ErrorCode.leader_not_available
    await view.fence_broker(3)
    third = await partitions()
    assert not any(now is before for now, before in zip(third, second, strict=True))
    assert third[2].offline_replicas == (3,)
    await view.delete_topic("t")
    await view.create_topic(NewTopic("u", -1, -1, ((1, 2),)))
    asked = metadata_request(("u", None))
    await partitions()
    assert (len(handlers._answered), list(handlers._topics)) == (1, ["u"])


async def test_a_topic_is_given_again_while_no_role_of_its_changes(view: FakeClusterView) -> None:
    asked_of: list[int] = []

    def leads(name: TopicPartition, _epoch: int) -> bool:
        asked_of.append(name.partition)
        return True

    handlers = ClusterHandlers(view, node_id=1, leads=leads)
    await view.create_topic(NewTopic("t", -1, -1, ((1, 2), (1, 2))))
    await view.create_topic(NewTopic("u", -1, -1, ((1, 2),)))

    async def answered(version: int = 12) -> tuple[object, ...]:
        context = SimpleNamespace(api_version=version, listener="PLAINTEXT")
        return (await handlers.metadata(context, metadata_request(("t", None), ("u", None)))).topics

    first = await answered()
    asked_of.clear()
    assert [now is before for now, before in zip(await answered(), first, strict=True)] == [True, True]
    assert asked_of == []
    handlers.role_changed(TopicPartition("t", 1))
    second = await answered()
    assert [now is before for now, before in zip(second, first, strict=True)] == [False, True]
    await view.fence_broker(2)
    assert not any(now is before for now, before in zip(await answered(), second, strict=True))
    asked_of.clear()
    await answered(version=0)  # which names other replicas
    assert asked_of == [0, 1, 0]
