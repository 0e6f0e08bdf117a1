"""Asks the coordinator of each group. A coordinator that is loading or moving is asked again, for half a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, TypeVar

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from ...protocol.messages.groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponseDescribedGroup,
    FindCoordinatorRequest,
    ListedGroup,
    ListGroupsRequest,
)
from ...protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from ...protocol.net import Address
from ...protocol.wire import write_assignment
from ..cluster_session import Admin, Cluster, check

T = TypeVar("T")

GROUP: Final = 0
"""FindCoordinator's key type."""
PATIENCE_S: Final = 30.0
PAUSE_S: Final = 0.2
NO_GENERATION: Final = -1
DEAD: Final = "Dead"
PASSING: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    }
)


async def list_groups(admin: Admin, cluster: Cluster) -> list[ListedGroup]:
    """Return the groups of all brokers, by id."""
    found: list[ListedGroup] = []
    for address in cluster.brokers.values():
        found += (await patiently(partial(admin.send_to, address, ListGroupsRequest()))).groups
    return sorted(found, key=lambda group: group.group_id)


async def coordinator_of(admin: Admin, group: str) -> Address:
    """Return the broker that coordinates the group."""
    response = await admin.send(FindCoordinatorRequest(key=group, key_type=GROUP, coordinator_keys=(group,)))
    for coordinator in response.coordinators:
        check(coordinator, f"group {group}")
        return Address(coordinator.host, coordinator.port)
    return Address(response.host, response.port)


async def describe_group(admin: Admin, group: str) -> DescribeGroupsResponseDescribedGroup:
    """Return state and members of a group of any kind; an unknown one is DEAD, without members."""
    described = await _describe_classic(admin, group)
    return described if described.group_state != DEAD else await _describe_consumers(admin, group) or described


async def _describe_consumers(admin: Admin, group: str) -> DescribeGroupsResponseDescribedGroup | None:
    """Return a group of KIP-848 as the classic ones are described; None if it is none."""

    async def ask() -> ConsumerGroupDescribeResponseDescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)
        response = await admin.send_to(await coordinator_of(admin, group), request)
        check(response.groups[0], f"group {group}")
        return response.groups[0]

    try:
        found = await patiently(ask)
    except KafkaError as error:
        # A broker that does not know the request has no such groups.
        if error.code in (ErrorCode.group_id_not_found, ErrorCode.unsupported_version):
            return None
        raise
    return DescribeGroupsResponseDescribedGroup(
        group_id=group,
        group_state=found.group_state,
        protocol_type="consumer",
        protocol_data=found.assignor_name,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"",
                member_assignment=write_assignment(
                    {topic.topic_name: topic.partitions for topic in member.assignment.topic_partitions}
                ),
            )
            for member in found.members
        ),
        error_message=None,
    )


async def _describe_classic(admin: Admin, group: str) -> DescribeGroupsResponseDescribedGroup:

    async def ask() -> DescribeGroupsResponseDescribedGroup:
        response = await admin.send_to(await coordinator_of(admin, group), DescribeGroupsRequest(groups=(group,)))
        check(response.groups[0], f"group {group}")
        return response.groups[0]

    try:
        return await patiently(ask)
    except KafkaError as error:
        if error.code is not ErrorCode.group_id_not_found:  # from version 6 on, in place of a dead group
            raise
        return DescribeGroupsResponseDescribedGroup(
            group_id=group, group_state=DEAD, protocol_type="", protocol_data="", members=(), error_message=None
        )


async def committed_offsets(admin: Admin, cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """Return all offsets that the group has committed."""
    names = {topic_id: name for name, topic_id in cluster.topic_ids.items()}

    async def ask() -> dict[TopicPartition, int]:
        request = OffsetFetchRequest(
            group_id=group, topics=None, groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)
        )
        response = await admin.send_to(await coordinator_of(admin, group), request)
        found: dict[TopicPartition, int] = {}
        for each in response.groups:
            check(each, f"group {group}")
            for topic in each.topics:
                name = topic.name or (names.get(topic.topic_id, "") if topic.topic_id else "")
                for partition in topic.partitions:
                    if partition.committed_offset >= 0 and name:
                        found[TopicPartition(name, partition.partition_index)] = partition.committed_offset
        return found

    return await patiently(ask)


async def commit_offsets(admin: Admin, cluster: Cluster, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit for a group without members. KafkaError, also if the coordinator refuses one of them."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in offsets.items():
        by_topic.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition, committed_offset=offset, committed_metadata=""
            )
        )
    topics = tuple(
        OffsetCommitRequestTopic(name=name, topic_id=cluster.topic_ids.get(name), partitions=tuple(parts))
        for name, parts in by_topic.items()
    )
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=NO_GENERATION, member_id="", topics=topics
    )

    async def ask() -> None:
        response = await admin.send_to(await coordinator_of(admin, group), request)
        for topic in response.topics:
            for partition in topic.partitions:
                check(partition, f"group {group}, {topic.name or 'topic'}-{partition.partition_index}")

    await patiently(ask)


async def patiently(ask: Callable[[], Awaitable[T]], *, passing: Collection[ErrorCode] = PASSING) -> T:
    """Return the answer, asked again while the coordinator is not there yet, or while `passing` says to wait."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if error.code not in passing or time.monotonic() > deadline_s:
                raise
        await asyncio.sleep(PAUSE_S)
