"""Requests about share groups; what share coordinators keep of them is for brokers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol, TypeVar
from uuid import UUID

from ...security import AclOperation
from ..errors import ErrorCode
from ..messages import share_groups as groups
from ..messages import share_state as state
from .access import Access, Next, shown, split
from .groups import GROUP_FAILED, TOPIC_FAILED, heartbeat_denied, may_topics_of, with_operations


class _Partition(Protocol):
    @property
    def partition(self) -> int: ...


PartitionT = TypeVar("PartitionT", bound=_Partition, covariant=True)
AnswerT = TypeVar("AnswerT")
ResultT = TypeVar("ResultT")


class _Topic(Protocol[PartitionT]):
    @property
    def topic_id(self) -> UUID | None: ...

    @property
    def partitions(self) -> Iterable[PartitionT]: ...


def _results(
    topics: Iterable[_Topic[PartitionT]],
    result: Callable[[UUID | None, tuple[AnswerT, ...]], ResultT],
    answer: Callable[[PartitionT], AnswerT],
) -> tuple[ResultT, ...]:
    return tuple(result(topic.topic_id, tuple(answer(each) for each in topic.partitions)) for topic in topics)


def initialize_denied(
    request: state.InitializeShareGroupStateRequest, code: ErrorCode
) -> state.InitializeShareGroupStateResponse:
    """Deny each partition."""
    results = _results(
        request.topics,
        lambda topic_id, partitions: state.InitializeStateResult(topic_id=topic_id, partitions=partitions),
        lambda each: state.InitializeShareGroupStateResponsePartitionResult(partition=each.partition, error_code=code),
    )
    return state.InitializeShareGroupStateResponse(results=results)


def read_denied(request: state.ReadShareGroupStateRequest, code: ErrorCode) -> state.ReadShareGroupStateResponse:
    """Deny each partition."""
    results = _results(
        request.topics,
        lambda topic_id, partitions: state.ReadStateResult(topic_id=topic_id, partitions=partitions),
        lambda each: state.ReadShareGroupStateResponsePartitionResult(
            partition=each.partition, error_code=code, state_epoch=0, start_offset=0, state_batches=()
        ),
    )
    return state.ReadShareGroupStateResponse(results=results)


def write_denied(request: state.WriteShareGroupStateRequest, code: ErrorCode) -> state.WriteShareGroupStateResponse:
    """Deny each partition."""
    results = _results(
        request.topics,
        lambda topic_id, partitions: state.WriteStateResult(topic_id=topic_id, partitions=partitions),
        lambda each: state.WriteShareGroupStateResponsePartitionResult(partition=each.partition, error_code=code),
    )
    return state.WriteShareGroupStateResponse(results=results)


def delete_denied(request: state.DeleteShareGroupStateRequest, code: ErrorCode) -> state.DeleteShareGroupStateResponse:
    """Deny each partition."""
    results = _results(
        request.topics,
        lambda topic_id, partitions: state.DeleteStateResult(topic_id=topic_id, partitions=partitions),
        lambda each: state.DeleteShareGroupStateResponsePartitionResult(partition=each.partition, error_code=code),
    )
    return state.DeleteShareGroupStateResponse(results=results)


def summary_denied(
    request: state.ReadShareGroupStateSummaryRequest, code: ErrorCode
) -> state.ReadShareGroupStateSummaryResponse:
    """Deny each partition."""
    results = _results(
        request.topics,
        lambda topic_id, partitions: state.ReadStateSummaryResult(topic_id=topic_id, partitions=partitions),
        lambda each: state.ReadShareGroupStateSummaryResponsePartitionResult(
            partition=each.partition, error_code=code, state_epoch=0, leader_epoch=0, start_offset=0
        ),
    )
    return state.ReadShareGroupStateSummaryResponse(results=results)


# Members and operators.


async def heartbeat(
    access: Access,
    handler: Next[groups.ShareGroupHeartbeatRequest, groups.ShareGroupHeartbeatResponse],
    request: groups.ShareGroupHeartbeatRequest,
) -> groups.ShareGroupHeartbeatResponse:
    """Read on the group, and Describe on each topic that is named."""
    denied = heartbeat_denied(access, request.group_id, request.subscribed_topic_names or ())
    if denied is not None:
        return groups.ShareGroupHeartbeatResponse(
            error_code=denied, member_id=None, member_epoch=0, heartbeat_interval_ms=0
        )
    return await handler(access.context, request)


async def describe(
    access: Access,
    handler: Next[groups.ShareGroupDescribeRequest, groups.ShareGroupDescribeResponse],
    request: groups.ShareGroupDescribeRequest,
) -> groups.ShareGroupDescribeResponse:
    """Describe on each group, and on every topic of it: a group with another one is not shown."""
    allowed, others = split(request.group_ids, lambda name: access.may_group(AclOperation.DESCRIBE, name))
    response = await handler(access.context, replace(request, group_ids=allowed))
    has_operations = request.include_authorized_operations
    described = [
        undescribed_share_group(group.group_id, TOPIC_FAILED)
        if not await may_topics_of(access, group.members, _topics_of)
        else with_operations(access, group, has_operations=has_operations)
        for group in response.groups
    ]
    denied = tuple(undescribed_share_group(name, GROUP_FAILED) for name in others)
    return replace(response, groups=(*described, *denied))


def _topics_of(member: groups.ShareGroupDescribeResponseMember) -> Iterator[str]:
    yield from member.subscribed_topic_names
    for topic in member.assignment.topic_partitions:
        yield topic.topic_name


def undescribed_share_group(
    group_id: str, code: ErrorCode, message: str | None = None
) -> groups.ShareGroupDescribeResponseDescribedGroup:
    """Describe a group of which nothing may be said, or is known."""
    return groups.ShareGroupDescribeResponseDescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )


async def describe_offsets(
    access: Access,
    handler: Next[groups.DescribeShareGroupOffsetsRequest, groups.DescribeShareGroupOffsetsResponse],
    request: groups.DescribeShareGroupOffsetsRequest,
) -> groups.DescribeShareGroupOffsetsResponse:
    """Describe on each group, Describe on each topic; topics that were not named are absent without it."""
    allowed, others = split(request.groups, lambda group: access.may_group(AclOperation.DESCRIBE, group.group_id))
    asked: list[groups.DescribeShareGroupOffsetsRequestGroup] = []
    hidden: dict[str, tuple[groups.DescribeShareGroupOffsetsResponseTopic, ...]] = {}
    for group in allowed:
        allowed_topics, denied = split(
            group.topics or (), lambda topic: access.may_topic(AclOperation.DESCRIBE, topic.topic_name)
        )
        asked.append(group if group.topics is None else replace(group, topics=allowed_topics))
        hidden[group.group_id] = (*hidden.get(group.group_id, ()), *map(_no_offsets, denied))
    response = await handler(access.context, replace(request, groups=tuple(asked)))
    described = []
    for answer in response.groups:
        # Whatever was asked: a group may be named twice, with topics and without.
        topics = await shown(
            answer.topics, lambda topic: access.may_topic(AclOperation.DESCRIBE, topic.topic_name, is_logged=False)
        )
        described.append(replace(answer, topics=(*topics, *hidden.pop(answer.group_id, ()))))
    refused = tuple(
        groups.DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=(), error_code=GROUP_FAILED)
        for group in others
    )
    return replace(response, groups=(*described, *refused))


def _no_offsets(topic: groups.DescribeShareGroupOffsetsRequestTopic) -> groups.DescribeShareGroupOffsetsResponseTopic:
    return groups.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=None,
        partitions=tuple(
            groups.DescribeShareGroupOffsetsResponsePartition(
                partition_index=number, start_offset=-1, leader_epoch=0, error_code=TOPIC_FAILED
            )
            for number in topic.partitions
        ),
    )


async def alter_offsets(
    access: Access,
    handler: Next[groups.AlterShareGroupOffsetsRequest, groups.AlterShareGroupOffsetsResponse],
    request: groups.AlterShareGroupOffsetsRequest,
) -> groups.AlterShareGroupOffsetsResponse:
    """Read on the group, Read on each topic."""
    if not access.may_group(AclOperation.READ, request.group_id):
        return groups.AlterShareGroupOffsetsResponse(error_code=GROUP_FAILED, responses=())
    allowed, others = split(request.topics, lambda topic: access.may_topic(AclOperation.READ, topic.topic_name))
    denied = tuple(
        groups.AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            topic_id=None,
            partitions=tuple(
                groups.AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index, error_code=TOPIC_FAILED
                )
                for each in topic.partitions
            ),
        )
        for topic in others
    )
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, responses=(*response.responses, *denied))


async def delete_offsets(
    access: Access,
    handler: Next[groups.DeleteShareGroupOffsetsRequest, groups.DeleteShareGroupOffsetsResponse],
    request: groups.DeleteShareGroupOffsetsRequest,
) -> groups.DeleteShareGroupOffsetsResponse:
    """Delete on the group, Read on each topic."""
    if not access.may_group(AclOperation.DELETE, request.group_id):
        return groups.DeleteShareGroupOffsetsResponse(error_code=GROUP_FAILED, responses=())
    allowed, others = split(request.topics, lambda topic: access.may_topic(AclOperation.READ, topic.topic_name))
    denied = tuple(
        groups.DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=None, error_code=TOPIC_FAILED)
        for topic in others
    )
    response = await handler(access.context, replace(request, topics=allowed))
    return replace(response, responses=(*response.responses, *denied))
