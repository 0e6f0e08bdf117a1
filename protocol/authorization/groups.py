"""Requests that are allowed or denied group by group, and offsets topic by topic within an allowed group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

from ...light_dataclass import dataclass
from ...security import AclOperation, ResourceType
from ..errors import ErrorCode
from ..messages import consumer_groups, groups, offsets, share_groups
from ..net.pacing import Slices
from ..net.slicing import SLICED_ELEMENTS_MIN
from .access import JUDGE_WEIGHT, Access, Next, shown, split

GROUP_FAILED = ErrorCode.group_authorization_failed
TOPIC_FAILED = ErrorCode.topic_authorization_failed
GROUP_KEY = 0
SHARE_KEY = 2
MEMBER_WEIGHT: Final = 4
"""What it costs on the loop to see the topics of a member, in elements of `pace`."""
MEMBERS_FREE: Final = 50

T = TypeVar("T")


async def find_coordinator(
    access: Access,
    handler: Next[groups.FindCoordinatorRequest, groups.FindCoordinatorResponse],
    request: groups.FindCoordinatorRequest,
) -> groups.FindCoordinatorResponse:
    """Describe on the group, or on the transactional id; only brokers look for share-partitions."""
    if request.key_type == SHARE_KEY:
        return await _find_share_coordinator(access, handler, request)
    is_group = request.key_type == GROUP_KEY
    kind = ResourceType.GROUP if is_group else ResourceType.TRANSACTIONAL_ID
    allowed, others = split(request.coordinator_keys, lambda key: access.may(AclOperation.DESCRIBE, kind, key))
    code = GROUP_FAILED if is_group else ErrorCode.transactional_id_authorization_failed
    response = await handler(access.context, replace(request, coordinator_keys=allowed))
    return replace(response, coordinators=(*response.coordinators, *_no_coordinators(others, code)))


async def _find_share_coordinator(
    access: Access,
    handler: Next[groups.FindCoordinatorRequest, groups.FindCoordinatorResponse],
    request: groups.FindCoordinatorRequest,
) -> groups.FindCoordinatorResponse:
    if access.may_cluster(AclOperation.CLUSTER_ACTION):
        return await handler(access.context, request)
    denied = _no_coordinators(request.coordinator_keys, ErrorCode.cluster_authorization_failed)
    return groups.FindCoordinatorResponse(coordinators=denied)


def _no_coordinators(keys: Iterable[str], code: ErrorCode) -> tuple[groups.Coordinator, ...]:
    return tuple(
        groups.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None) for key in keys
    )


async def describe_groups(
    access: Access,
    handler: Next[groups.DescribeGroupsRequest, groups.DescribeGroupsResponse],
    request: groups.DescribeGroupsRequest,
) -> groups.DescribeGroupsResponse:
    """Describe on each group; what is authorized is reported where it is asked for."""
    allowed, others = split(request.groups, lambda name: access.may_group(AclOperation.DESCRIBE, name))
    response = await handler(access.context, replace(request, groups=allowed))
    described = response.groups
    if request.include_authorized_operations:
        described = tuple(
            replace(group, authorized_operations=access.operations(ResourceType.GROUP, group.group_id))
            if group.error_code is ErrorCode.none
            else group
            for group in described
        )
    denied = tuple(
        groups.DescribeGroupsResponseDescribedGroup(
            error_code=GROUP_FAILED, group_id=name, group_state="", protocol_type="", protocol_data="", members=()
        )
        for name in others
    )
    return replace(response, groups=(*described, *denied))


@dataclass(frozen=True, slots=True)
class _Describable:
    """What the members of a consumer group may be told of: topics that may be described."""

    access: Access

    @property
    def version(self) -> object:
        return self.access.context.principal

    def may_read(self, topic: str | UUID) -> bool:
        name = topic if isinstance(topic, str) else self.access.topic_name(topic)
        return name is None or self.access.may_topic(AclOperation.DESCRIBE, name, is_logged=False)


async def consumer_group_heartbeat(
    access: Access,
    handler: Next[consumer_groups.ConsumerGroupHeartbeatRequest, consumer_groups.ConsumerGroupHeartbeatResponse],
    request: consumer_groups.ConsumerGroupHeartbeatRequest,
) -> consumer_groups.ConsumerGroupHeartbeatResponse:
    """Read on the group, and Describe on each topic that is named; expressions match what may be described."""
    denied = heartbeat_denied(access, request.group_id, request.subscribed_topic_names or ())
    if denied is not None:
        return consumer_groups.ConsumerGroupHeartbeatResponse(
            error_code=denied, member_id=None, member_epoch=0, heartbeat_interval_ms=0
        )
    return await handler(replace(access.context, rights=_Describable(access)), request)


def heartbeat_denied(access: Access, group_id: str, topics: Iterable[str]) -> ErrorCode | None:
    """Return why a member may not join this group with these topics; None if it may."""
    if not access.may_group(AclOperation.READ, group_id):
        return GROUP_FAILED
    return None if all(access.may_topic(AclOperation.DESCRIBE, name) for name in topics) else TOPIC_FAILED


async def consumer_group_describe(
    access: Access,
    handler: Next[consumer_groups.ConsumerGroupDescribeRequest, consumer_groups.ConsumerGroupDescribeResponse],
    request: consumer_groups.ConsumerGroupDescribeRequest,
) -> consumer_groups.ConsumerGroupDescribeResponse:
    """Describe on each group, and on every topic of it: a group with another one is not shown."""
    allowed, others = split(request.group_ids, lambda name: access.may_group(AclOperation.DESCRIBE, name))
    response = await handler(access.context, replace(request, group_ids=allowed))
    has_operations = request.include_authorized_operations
    described = [
        undescribed_group(group.group_id, TOPIC_FAILED)
        if not await may_topics_of(access, group.members, _topics_of)
        else with_operations(access, group, has_operations=has_operations)
        for group in response.groups
    ]
    denied = tuple(undescribed_group(name, GROUP_FAILED) for name in others)
    return replace(response, groups=(*described, *denied))


DescribedT = TypeVar(
    "DescribedT",
    consumer_groups.ConsumerGroupDescribeResponseDescribedGroup,
    share_groups.ShareGroupDescribeResponseDescribedGroup,
)


async def may_topics_of(access: Access, members: Iterable[T], topics_of: Callable[[T], Iterable[str]]) -> bool:
    """Return whether all topics of a group's members may be described."""
    names: set[str] = set()
    async for some in Slices(members, weight=MEMBER_WEIGHT, free=MEMBERS_FREE):
        for member in some:
            names.update(topics_of(member))
    async for judged in Slices(sorted(names), weight=JUDGE_WEIGHT, free=SLICED_ELEMENTS_MIN):
        if not all(access.may_topic(AclOperation.DESCRIBE, name, is_logged=False) for name in judged):
            return False
    return True


def with_operations(access: Access, group: DescribedT, *, has_operations: bool) -> DescribedT:
    """Return a described group with what is authorized, where that is asked for."""
    if not has_operations or group.error_code is not ErrorCode.none:
        return group
    return replace(group, authorized_operations=access.operations(ResourceType.GROUP, group.group_id))


def _topics_of(member: consumer_groups.ConsumerGroupDescribeResponseMember) -> Iterator[str]:
    yield from member.subscribed_topic_names
    for assignment in (member.assignment, member.target_assignment):
        for topic in assignment.topic_partitions:
            yield topic.topic_name


def undescribed_group(
    group_id: str, code: ErrorCode, message: str | None = None
) -> consumer_groups.ConsumerGroupDescribeResponseDescribedGroup:
    """Describe a group of which nothing may be said, or is known."""
    return consumer_groups.ConsumerGroupDescribeResponseDescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


async def list_groups(
    access: Access,
    handler: Next[groups.ListGroupsRequest, groups.ListGroupsResponse],
    request: groups.ListGroupsRequest,
) -> groups.ListGroupsResponse:
    """All groups with Describe on the cluster, else those that may be described."""
    response = await handler(access.context, request)
    if access.may_cluster(AclOperation.DESCRIBE, is_logged=False):
        return response
    groups_shown = await shown(
        response.groups, lambda group: access.may_group(AclOperation.DESCRIBE, group.group_id, is_logged=False)
    )
    return replace(response, groups=groups_shown)


async def delete_groups(
    access: Access,
    handler: Next[groups.DeleteGroupsRequest, groups.DeleteGroupsResponse],
    request: groups.DeleteGroupsRequest,
) -> groups.DeleteGroupsResponse:
    """Delete on each group."""
    allowed, others = split(request.groups_names, lambda name: access.may_group(AclOperation.DELETE, name))
    response = await handler(access.context, replace(request, groups_names=allowed))
    denied = tuple(groups.DeletableGroupResult(group_id=name, error_code=GROUP_FAILED) for name in others)
    return replace(response, results=(*response.results, *denied))


async def offset_commit(
    access: Access,
    handler: Next[offsets.OffsetCommitRequest, offsets.OffsetCommitResponse],
    request: offsets.OffsetCommitRequest,
) -> offsets.OffsetCommitResponse:
    """Read on the group, and on each topic."""
    if not access.may_group(AclOperation.READ, request.group_id):
        return offsets.OffsetCommitResponse(topics=tuple(_uncommitted(topic, GROUP_FAILED) for topic in request.topics))
    allowed, denied = split(
        request.topics, lambda topic: access.may_named(AclOperation.READ, topic.name, topic.topic_id)
    )
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, topics=(*response.topics, *(_uncommitted(topic, TOPIC_FAILED) for topic in denied)))


def _uncommitted(topic: offsets.OffsetCommitRequestTopic, code: ErrorCode) -> offsets.OffsetCommitResponseTopic:
    partitions = tuple(
        offsets.OffsetCommitResponsePartition(partition_index=item.partition_index, error_code=code)
        for item in topic.partitions
    )
    return offsets.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


async def offset_fetch(
    access: Access,
    handler: Next[offsets.OffsetFetchRequest, offsets.OffsetFetchResponse],
    request: offsets.OffsetFetchRequest,
) -> offsets.OffsetFetchResponse:
    """Describe on each group, and on each topic. Offsets of topics that may not be described are not listed."""
    asked: list[offsets.OffsetFetchRequestGroup] = []
    denied_groups: list[offsets.OffsetFetchResponseGroup] = []
    denied_topics: dict[str, tuple[offsets.OffsetFetchResponseTopics, ...]] = {}
    for group in request.groups:
        if not access.may_group(AclOperation.DESCRIBE, group.group_id):
            denied_groups.append(_unfetched_group(group))
            continue
        kept, refused = split(group.topics or (), lambda topic: _may_describe(access, topic))
        denied_topics[group.group_id] = tuple(_unfetched(topic) for topic in refused)
        asked.append(replace(group, topics=None if group.topics is None else kept))
    response = await handler(access.context, replace(request, groups=tuple(asked)))
    answered = [
        replace(
            group,
            topics=(
                *await shown(group.topics, lambda topic: _may_describe(access, topic)),
                *denied_topics.get(group.group_id, ()),
            ),
        )
        for group in response.groups
    ]
    return replace(response, groups=(*answered, *denied_groups))


def _may_describe(access: Access, topic: offsets.OffsetFetchRequestTopics | offsets.OffsetFetchResponseTopics) -> bool:
    return access.may_named(AclOperation.DESCRIBE, topic.name, topic.topic_id, is_logged=False)


def _unfetched(topic: offsets.OffsetFetchRequestTopics) -> offsets.OffsetFetchResponseTopics:
    partitions = tuple(
        offsets.OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=-1, metadata="", error_code=TOPIC_FAILED
        )
        for number in topic.partition_indexes
    )
    return offsets.OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _unfetched_group(group: offsets.OffsetFetchRequestGroup) -> offsets.OffsetFetchResponseGroup:
    """Deny the group, and each partition: old versions have no error of a group."""
    topics = tuple(
        replace(_unfetched(topic), partitions=tuple(_group_failed(item) for item in _unfetched(topic).partitions))
        for topic in group.topics or ()
    )
    return offsets.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=GROUP_FAILED)


def _group_failed(partition: offsets.OffsetFetchResponsePartitions) -> offsets.OffsetFetchResponsePartitions:
    return replace(partition, error_code=GROUP_FAILED)


async def offset_delete(
    access: Access,
    handler: Next[offsets.OffsetDeleteRequest, offsets.OffsetDeleteResponse],
    request: offsets.OffsetDeleteRequest,
) -> offsets.OffsetDeleteResponse:
    """Delete on the group, and Read on each topic."""
    if not access.may_group(AclOperation.DELETE, request.group_id):
        return offsets.OffsetDeleteResponse(error_code=GROUP_FAILED, topics=())
    allowed, others = split(request.topics, lambda topic: access.may_topic(AclOperation.READ, topic.name))
    denied = tuple(
        offsets.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                offsets.OffsetDeleteResponsePartition(partition_index=item.partition_index, error_code=TOPIC_FAILED)
                for item in topic.partitions
            ),
        )
        for topic in others
    )
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, topics=(*response.topics, *denied))
