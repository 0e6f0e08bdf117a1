"""ShareGroupHeartbeat, ShareGroupDescribe, and Describe-, Alter-, DeleteShareGroupOffsets (KIP-932).

| | answer |
|---|---|
| the cluster runs at `share.version` 0 | UNSUPPORTED_VERSION |
| a group that is not there, or of another kind | GROUP_ID_NOT_FOUND; Alter lets one begin that is not there |
| offsets that are altered or deleted while the group has members | NON_EMPTY_GROUP |
| offsets of a topic that is not there | UNKNOWN_TOPIC_OR_PARTITION for the topic |

The offset of a share group in a partition is where its first record is that is not finished. The lag is what comes
after it without what was finished already; -1 where this broker does not lead the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final
from uuid import UUID

from ....protocol import ErrorCode, KafkaError
from ....protocol.authorization import undescribed_share_group
from ....protocol.messages.share_groups import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupDescribeResponseAssignment,
    ShareGroupDescribeResponseDescribedGroup,
    ShareGroupDescribeResponseMember,
    ShareGroupDescribeResponseTopicPartitions,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)
from ....protocol.net import SLICED_ELEMENTS_MIN, Portions, RequestContext, Slices
from ...groups.coordinator import GroupCoordinator, check_group_id, check_group_name
from ...groups.core.consumer.records import Assignment
from ...groups.core.share.assignor import SIMPLE
from ...groups.core.share.heartbeat import ShareBeat
from ...groups.core.share.records import ShareMember, TopicStarts
from ...groups.core.share.state import ShareGroup
from ...groups.core.targeted import MemberNow
from ...groups.share_groups import NO_OFFSET, Progress, ShareGroups
from ...replicas.hosted_partitions import HostedPartitions
from ..consumer_groups import GROUP_WEIGHT, GROUPS_FREE, described_each, member_cost
from .state import no_share_groups

UNKNOWN_LAG: Final = -1
OFFSETS_S: Final = 10.0
"""How long share coordinators have to answer for all groups of a request."""
NO_EPOCH: Final = 0
OFFSET_COST: Final = 2
"""What the description of an offset costs on the loop, in elements of `pace`."""


class ShareGroupHandlers:
    """Answers for the share groups that this broker coordinates."""

    def __init__(self, coordinator: GroupCoordinator, hosted: HostedPartitions) -> None:
        self._coordinator = coordinator
        self._hosted = hosted

    def _groups(self, group_id: str) -> ShareGroups:
        """Return the groups of the partition that holds the group. Raise KafkaError."""
        if not self._coordinator.has_share_groups:
            raise no_share_groups()
        check_group_id(group_id)
        return self._coordinator.shard_for(group_id).shares

    def _group(self, group_id: str) -> ShareGroup:
        """Return a share group. Raise GROUP_ID_NOT_FOUND, and KafkaError as for any group."""
        self._groups(group_id)
        group = self._coordinator.shard_for(group_id).shard.shares.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.group_id_not_found, f"there is no share group {group_id!r}")
        return group

    # Heartbeats.

    async def heartbeat(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest
    ) -> ShareGroupHeartbeatResponse:
        topics = request.subscribed_topic_names
        beat = ShareBeat(
            member_id=request.member_id,
            epoch=request.member_epoch,
            rack_id=request.rack_id,
            topics=None if topics is None else tuple(topics),
            client_id=context.client_id or "",
            client_host="/" + context.client_host,
        )
        try:
            check_group_name(request.group_id)
            told = await self._groups(request.group_id).beat(request.group_id, beat)
        except KafkaError as error:
            code = ErrorCode.invalid_request if error.code is ErrorCode.invalid_group_id else error.code
            return ShareGroupHeartbeatResponse(
                error_code=code, error_message=error.message, member_id=None, member_epoch=0, heartbeat_interval_ms=0
            )
        return ShareGroupHeartbeatResponse(
            member_id=told.member_id,
            member_epoch=told.epoch,
            heartbeat_interval_ms=told.heartbeat_interval_ms,
            assignment=None if told.assignment is None else _told(told.assignment),
        )

    # Describe.

    async def describe(self, _: RequestContext, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
        described = await described_each(
            request.group_ids, self._describe, has_operations=request.include_authorized_operations
        )
        return ShareGroupDescribeResponse(groups=described)

    async def _describe(self, group_id: str) -> ShareGroupDescribeResponseDescribedGroup:
        try:
            group = self._group(group_id)
        except KafkaError as error:
            return undescribed_share_group(group_id, error.code, error.message)
        names = self._coordinator.view.image.topic_names
        described = ShareGroupDescribeResponseDescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=SIMPLE,
            members=(),
        )
        members: list[ShareGroupDescribeResponseMember] = []
        async for some in Portions(group.members_now(), member_cost, free=GROUP_WEIGHT):
            members += [_member(each, names) for each in some]
        return replace(described, members=tuple(members))

    # Offsets.

    async def describe_offsets(
        self, _: RequestContext, request: DescribeShareGroupOffsetsRequest
    ) -> DescribeShareGroupOffsetsResponse:
        deadline_s = asyncio.get_running_loop().time() + OFFSETS_S
        groups: list[DescribeShareGroupOffsetsResponseGroup] = []
        async for some in Slices(_united(request.groups), weight=GROUP_WEIGHT, free=GROUPS_FREE):
            groups += [await self._describe_offsets(asked, deadline_s) for asked in some]
        return DescribeShareGroupOffsetsResponse(groups=tuple(groups))

    async def _describe_offsets(
        self, asked: DescribeShareGroupOffsetsRequestGroup, deadline_s: float
    ) -> DescribeShareGroupOffsetsResponseGroup:
        try:
            group = self._group(asked.group_id)
        except KafkaError as error:
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id, topics=(), error_code=error.code, error_message=error.message
            )
        topics = self._coordinator.view.image.topics
        initialized = group.starts.initialized
        if asked.topics is None:
            wanted: list[tuple[str, UUID | None, list[int]]] = [
                (each.name, topic_id, sorted(each.partitions)) for topic_id, each in initialized.items()
            ]
        else:
            wanted = [
                (
                    each.topic_name,
                    topics[each.topic_name].topic_id if each.topic_name in topics else None,
                    list(each.partitions),
                )
                for each in asked.topics
            ]
        known = [
            (topic_id, number)
            for _, topic_id, numbers in wanted
            if topic_id is not None and topic_id in initialized
            for number in numbers
            if number in initialized[topic_id].partitions
        ]
        progress = await self._progress(asked.group_id, known, deadline_s) if known else {}
        described: list[DescribeShareGroupOffsetsResponseTopic] = []
        async for some in Portions(wanted, lambda each: OFFSET_COST * (1 + len(each[2])), free=GROUP_WEIGHT):
            described += [
                DescribeShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=topic_id,
                    partitions=tuple(self._offset(name, topic_id, number, progress) for number in numbers),
                )
                for name, topic_id, numbers in some
            ]
        return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=tuple(described))

    async def _progress(
        self, group_id: str, partitions: Sequence[tuple[UUID, int]], deadline_s: float
    ) -> Mapping[tuple[UUID, int], KafkaError | Progress]:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self._coordinator.states.progress(group_id, partitions)
        except TimeoutError:
            message = f"share coordinators did not answer for all groups within {OFFSETS_S:g} s: ask for fewer"
            return dict.fromkeys(partitions, KafkaError(ErrorCode.coordinator_not_available, message))

    def _offset(
        self,
        name: str,
        topic_id: UUID | None,
        number: int,
        progress: Mapping[tuple[UUID, int], KafkaError | Progress],
    ) -> DescribeShareGroupOffsetsResponsePartition:
        if topic_id is None:
            message = f"there is no topic {name!r}"
            return _no_offset(number, KafkaError(ErrorCode.unknown_topic_or_partition, message))
        found = progress.get((topic_id, number))
        if found is None or isinstance(found, KafkaError):
            return _no_offset(number, found)
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=number,
            start_offset=found.start_offset,
            leader_epoch=found.leader_epoch,
            lag=self._lag(name, number, found),
        )

    def _lag(self, name: str, number: int, progress: Progress) -> int:
        try:
            partition = self._hosted.find(name, number)
            partition.leader()
        except KafkaError:
            return UNKNOWN_LAG
        if progress.start_offset == NO_OFFSET or progress.delivery_complete_count < 0:
            return UNKNOWN_LAG
        left = partition.log.state.high_watermark - progress.start_offset
        return max(left - progress.delivery_complete_count, 0)

    async def alter_offsets(
        self, _: RequestContext, request: AlterShareGroupOffsetsRequest
    ) -> AlterShareGroupOffsetsResponse:
        topics, offsets = await self._starts(request.topics)
        try:
            groups = self._groups(request.group_id)
            failures = await groups.reset(request.group_id, topics, offsets)
        except KafkaError as error:
            return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message, responses=())
        image = self._coordinator.view.image
        altered: list[AlterShareGroupOffsetsResponsePartition] = []
        async for some in _sliced(request.topics):
            altered += [
                _altered(item.partition_index, self._failure(topic.topic_name, item.partition_index, failures))
                for topic, item in some
            ]
        told = iter(altered)
        return AlterShareGroupOffsetsResponse(
            responses=tuple(
                AlterShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    topic_id=image.topics[topic.topic_name].topic_id if topic.topic_name in image.topics else None,
                    partitions=tuple(islice(told, len(topic.partitions))),
                )
                for topic in request.topics
            )
        )

    async def _starts(
        self, asked: Sequence[AlterShareGroupOffsetsRequestTopic]
    ) -> tuple[dict[UUID, TopicStarts], dict[tuple[UUID, int], int]]:
        """Return the partitions that are there, and the offsets that they shall begin at."""
        image = self._coordinator.view.image
        offsets: dict[tuple[UUID, int], int] = {}
        numbers: dict[str, set[int]] = {}
        async for some in _sliced(asked):
            for named, item in some:
                topic = image.topics.get(named.topic_name)
                if topic is not None and item.partition_index in topic.partitions:
                    offsets[topic.topic_id, item.partition_index] = item.start_offset
                    numbers.setdefault(topic.name, set()).add(item.partition_index)
        starts = {image.topics[name].topic_id: TopicStarts(name, frozenset(held)) for name, held in numbers.items()}
        return starts, offsets

    def _failure(self, name: str, number: int, failures: Mapping[tuple[UUID, int], KafkaError]) -> KafkaError | None:
        topic = self._coordinator.view.image.topics.get(name)
        if topic is None or number not in topic.partitions:
            return KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no partition {name}-{number}")
        return failures.get((topic.topic_id, number))

    async def delete_offsets(
        self, _: RequestContext, request: DeleteShareGroupOffsetsRequest
    ) -> DeleteShareGroupOffsetsResponse:
        image = self._coordinator.view.image
        names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
        topic_ids = {name: image.topics[name].topic_id for name in names if name in image.topics}
        try:
            deleted = await self._groups(request.group_id).delete_topics(request.group_id, topic_ids.values())
        except KafkaError as error:
            return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message, responses=())
        return DeleteShareGroupOffsetsResponse(
            responses=tuple(
                DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_ids[name])
                if topic_ids.get(name) in deleted
                else DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=None,
                    error_code=ErrorCode.unknown_topic_or_partition,
                    error_message=f"the group has no offsets of topic {name!r}",
                )
                for name in names
            )
        )


def _united(asked: Iterable[DescribeShareGroupOffsetsRequestGroup]) -> list[DescribeShareGroupOffsetsRequestGroup]:
    """Return each group once, with all that is asked of it, each partition once."""
    named: dict[str, dict[str, dict[int, None]] | None] = {}
    for group in asked:
        topics = named.setdefault(group.group_id, {})
        if group.topics is None or topics is None:
            named[group.group_id] = None
            continue
        for topic in group.topics:
            topics.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
    return [
        DescribeShareGroupOffsetsRequestGroup(
            group_id=group_id,
            topics=None
            if topics is None
            else tuple(
                DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=tuple(numbers))
                for name, numbers in topics.items()
            ),
        )
        for group_id, topics in named.items()
    ]


def _told(assignment: Assignment) -> ShareGroupHeartbeatResponseAssignment:
    return ShareGroupHeartbeatResponseAssignment(
        topic_partitions=tuple(
            ShareGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(numbers)))
            for topic_id, numbers in sorted(assignment.items())
        )
    )


def _member(each: MemberNow[ShareMember], names: Mapping[UUID, str]) -> ShareGroupDescribeResponseMember:
    return ShareGroupDescribeResponseMember(
        member_id=each.member_id,
        rack_id=each.member.rack_id,
        member_epoch=each.current.epoch,
        client_id=each.member.client_id,
        client_host=each.member.client_host,
        subscribed_topic_names=each.member.topics,
        assignment=_described(each.current.assigned, names),
    )


def _described(assignment: Assignment, names: Mapping[UUID, str]) -> ShareGroupDescribeResponseAssignment:
    """Describe an assignment; a topic that is deleted has no name."""
    return ShareGroupDescribeResponseAssignment(
        topic_partitions=tuple(
            ShareGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=names[topic_id], partitions=tuple(sorted(numbers))
            )
            for topic_id, numbers in sorted(assignment.items())
            if topic_id in names
        )
    )


def _no_offset(number: int, error: KafkaError | None) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a partition that the group has not begun, or of which nothing is known now."""
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number,
        start_offset=NO_OFFSET,
        leader_epoch=NO_EPOCH,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )


def _sliced(
    topics: Iterable[AlterShareGroupOffsetsRequestTopic],
) -> Slices[tuple[AlterShareGroupOffsetsRequestTopic, AlterShareGroupOffsetsRequestPartition]]:
    """Return every partition with its topic, within the loop's share."""
    return Slices(
        ((topic, item) for topic in topics for item in topic.partitions), weight=OFFSET_COST, free=SLICED_ELEMENTS_MIN
    )


def _altered(number: int, error: KafkaError | None) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=number,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
