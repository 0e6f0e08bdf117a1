"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848): from the wire to a group's decisions, and back.

| | answer |
|---|---|
| the cluster runs at `group.version` 0 | UNSUPPORTED_VERSION: clients fall back, or say what to do |
| version 0, without a member id | the coordinator draws one |
| describe of a group that is not there, or of the classic protocol | GROUP_ID_NOT_FOUND, as Kafka: ask DescribeGroups |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from ...protocol import GROUP_OPERATIONS, ErrorCode, KafkaError
from ...protocol.authorization import undescribed_group
from ...protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ...protocol.messages.share_groups import ShareGroupDescribeResponseDescribedGroup
from ...protocol.net import Portions, RequestContext, Slices
from ..groups.coordinator import GroupCoordinator, check_group_id, check_group_name
from ..groups.core.consumer.heartbeat import Beat, Told, heartbeat
from ..groups.core.consumer.records import Assignment, Subscriber, normalized
from ..groups.core.consumer.state import JOINING
from ..groups.core.targeted import MemberNow

OWN_MEMBER_IDS_SINCE: Final = 1
CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
GROUP_WEIGHT: Final = 100
"""What the description of a group costs on the loop, in elements of `pace`."""
GROUPS_FREE: Final = 10
MEMBER_COST: Final = 5
"""What the description of a member costs, without what is assigned to it; a topic or a partition of that is one."""

T = TypeVar("T")
DescribedT = TypeVar(
    "DescribedT", ConsumerGroupDescribeResponseDescribedGroup, ShareGroupDescribeResponseDescribedGroup
)


async def described_each(
    group_ids: Iterable[str], describe: Callable[[str], Awaitable[DescribedT]], *, has_operations: bool
) -> tuple[DescribedT, ...]:
    """Describe each group once, however often it is named: its answer is larger than its name."""
    described: list[DescribedT] = []
    async for some in Slices(dict.fromkeys(group_ids), weight=GROUP_WEIGHT, free=GROUPS_FREE):
        described += [await describe(group_id) for group_id in some]
    if has_operations:
        described = [
            replace(group, authorized_operations=GROUP_OPERATIONS) if group.error_code is ErrorCode.none else group
            for group in described
        ]
    return tuple(described)


class ConsumerGroupHandlers:
    """Answers for the groups that this broker coordinates; member ids of old clients come from `rng`."""

    def __init__(self, coordinator: GroupCoordinator, rng: Random) -> None:
        self._coordinator = coordinator
        self._rng = rng

    # Heartbeats.

    async def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        try:
            check_group_name(request.group_id)
            beat = self._beat(context, request)
            told = await self._decide(context, request.group_id, beat)
        except KafkaError as error:
            code = ErrorCode.invalid_request if error.code is ErrorCode.invalid_group_id else error.code
            return ConsumerGroupHeartbeatResponse(
                error_code=code,
                error_message=error.message,
                member_id=None,
                member_epoch=0,
                heartbeat_interval_ms=0,
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=told.member_id,
            member_epoch=told.epoch,
            heartbeat_interval_ms=told.heartbeat_interval_ms,
            assignment=None if told.assignment is None else _told(told.assignment),
        )

    async def _decide(self, context: RequestContext, group_id: str, beat: Beat) -> Told:
        if not self._coordinator.has_consumer_protocol:
            message = "the cluster runs at group.version 0, which has no consumer groups of KIP-848; raise the feature"
            raise KafkaError(ErrorCode.unsupported_version, message)
        rights = context.rights
        return await self._coordinator.decide(
            group_id,
            lambda decision, world: heartbeat(decision, beat, world),
            (lambda _: True) if rights is None else rights.may_read,
            is_joining=beat.epoch == JOINING,
        )

    def _beat(self, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Beat:
        member_id, owned = request.member_id, request.topic_partitions
        if not member_id and context.api_version < OWN_MEMBER_IDS_SINCE and request.member_epoch == 0:
            member_id = str(UUID(int=self._rng.getrandbits(128), version=4))
        topics = request.subscribed_topic_names
        return Beat(
            member_id=member_id,
            epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=None if topics is None else tuple(topics),
            regex=request.subscribed_topic_regex,
            assignor=request.server_assignor,
            owned=None
            if owned is None
            else normalized((each.topic_id, each.partitions) for each in owned if each.topic_id is not None),
            client_id=context.client_id or "",
            client_host="/" + context.client_host,
        )

    # Describe.

    async def describe(self, _: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        described = await described_each(
            request.group_ids, self._describe, has_operations=request.include_authorized_operations
        )
        return ConsumerGroupDescribeResponse(groups=described)

    async def _describe(self, group_id: str) -> ConsumerGroupDescribeResponseDescribedGroup:
        try:
            check_group_id(group_id)
            group = self._coordinator.shard_for(group_id).shard.consumers.get(group_id)
            if group is None:
                raise KafkaError(ErrorCode.group_id_not_found, f"there is no consumer group {group_id!r} of KIP-848")
        except KafkaError as error:
            return undescribed_group(group_id, error.code, error.message)
        names = self._coordinator.view.image.topic_names
        described = ConsumerGroupDescribeResponseDescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=group.assignor_name(self._coordinator.settings_of(group_id).assignors),
            members=(),
        )
        members: list[ConsumerGroupDescribeResponseMember] = []
        async for some in Portions(group.members_now(), member_cost, free=GROUP_WEIGHT):
            members += [_member(each, names) for each in some]
        return replace(described, members=tuple(members))


def member_cost(each: MemberNow[T]) -> int:
    """Return what the description of a member costs the loop, in elements of `pace`."""
    return MEMBER_COST + each.assigned


def _told(assignment: Assignment) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=tuple(
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in sorted(assignment.items())
        )
    )


def _member(each: MemberNow[Subscriber], names: Mapping[UUID, str]) -> ConsumerGroupDescribeResponseMember:
    member = each.member
    return ConsumerGroupDescribeResponseMember(
        member_id=each.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=each.current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.regex,
        assignment=_described(each.current.assigned, names),
        target_assignment=_described(each.target, names),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _described(assignment: Assignment, names: Mapping[UUID, str]) -> ConsumerGroupDescribeResponseAssignment:
    """Describe an assignment; a topic that is deleted has no name."""
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=tuple(
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=names[topic_id], partitions=tuple(sorted(numbers))
            )
            for topic_id, numbers in sorted(assignment.items())
            if topic_id in names
        )
    )
