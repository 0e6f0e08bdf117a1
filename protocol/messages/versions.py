"""Old forms of messages: upgraded to the newest form when they are read, lowered to the asked one when written.

Most versions of a message differ by fields that came or went, which the classes and their defaults cover. What changed
its shape is here, so that no handler and no caller knows more than the newest form:

| message | until | old form | newest form |
|---|---|---|---|
| OffsetFetch, both | v7 | one group in the message itself | `groups` |
| FindCoordinator, both | v3 | one key, one coordinator in the message itself | `coordinator_keys`, `coordinators` |
| JoinGroup response | v6 | no protocol is the name "" | no protocol is None |
| LeaveGroup request | v2 | `member_id` | `members` |
| LeaveGroup response | v2 | the member's error is the response's | `members` |
| DeleteTopics request | v5 | `topic_names` | `topics` |
| Metadata request | v0 | no topics: all of them | `topics` is None for all of them |
| EndQuorumEpoch request | v0 | `preferred_successors`: ids | `preferred_candidates`: ids and directories |
| AlterPartition request | v2 | `new_isr`: ids | `new_isr_with_epochs`; epoch -1 is not checked |
| UpdateFeatures request | v0 | `allow_downgrade` | `upgrade_type`; the flag allows a safe downgrade |

A message that an old form cannot express is a `KafkaError` UNSUPPORTED_VERSION, as in Apache Kafka's classes; so is one
that would lose a field which it needs (`needed_fields`), such as the dry run of UpdateFeatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar, cast

from ..errors import ErrorCode, KafkaError
from .base import Message, MessageT
from .brokers import AlterPartitionRequest, BrokerState
from .cluster import MetadataRequest, UpdateFeaturesRequest
from .groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from .needed_fields import check_expressible
from .offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from .quorum import EndQuorumEpochRequest, ReplicaInfo
from .topics import DeleteTopicsRequest, DeleteTopicState

T = TypeVar("T")
FEATURE_UPGRADE: Final = 1
FEATURE_SAFE_DOWNGRADE: Final = 2
"""Upgrade types of UpdateFeatures."""


class _OldForm(NamedTuple, Generic[MessageT]):
    """The last version of a message's old form, and the conversions from it and to it."""

    until: int
    upgrade: Callable[[MessageT], MessageT]
    lower: Callable[[MessageT], MessageT]


def upgraded(message: MessageT, version: int) -> MessageT:
    """Return the newest form of a message that was read in this version."""
    old = _old_form_of(message)
    return message if old is None or version > old.until else old.upgrade(message)


def lowered(message: MessageT, version: int) -> MessageT:
    """Return the form in which this version can be written. KafkaError UNSUPPORTED_VERSION if there is none."""
    check_expressible(message, version)
    old = _old_form_of(message)
    return message if old is None or version > old.until else old.lower(message)


def _old_form_of(message: MessageT) -> _OldForm[MessageT] | None:
    # `_row` ties each class to conversions of that class; a table of all of them cannot say so in its own type.
    return cast("_OldForm[MessageT] | None", _OLD_FORMS.get(type(message)))


def _row(
    cls: type[MessageT], until: int, upgrade: Callable[[MessageT], MessageT], lower: Callable[[MessageT], MessageT]
) -> tuple[type[Message], object]:
    return cls, _OldForm(until, upgrade, lower)


def _only(items: tuple[T, ...], what: str) -> T:
    """Return the one item; an old form has room for one only."""
    if len(items) != 1:
        raise KafkaError(
            ErrorCode.unsupported_version, f"{len(items)} {what} do not fit a version that has room for one"
        )
    return items[0]


def _upgrade_offset_fetch(request: OffsetFetchRequest) -> OffsetFetchRequest:
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else tuple(
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics
        ),
    )
    return replace(request, groups=(group,))


def _lower_offset_fetch(request: OffsetFetchRequest) -> OffsetFetchRequest:
    group = _only(request.groups, "groups")
    topics = None
    if group.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=each.name, partition_indexes=each.partition_indexes) for each in group.topics
        )
    return replace(request, group_id=group.group_id, topics=topics)


def _upgrade_offset_fetch_response(response: OffsetFetchResponse) -> OffsetFetchResponse:
    topics = tuple(
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartitions(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ),
        )
        for topic in response.topics
    )
    group = OffsetFetchResponseGroup(group_id="", topics=topics, error_code=response.error_code)
    return replace(response, groups=(group,))


def _lower_offset_fetch_response(response: OffsetFetchResponse) -> OffsetFetchResponse:
    group = _only(response.groups, "groups")
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    metadata=each.metadata,
                    error_code=each.error_code,
                    committed_leader_epoch=each.committed_leader_epoch,
                )
                for each in topic.partitions
            ),
        )
        for topic in group.topics
    )
    return replace(response, topics=topics, error_code=group.error_code)


def _upgrade_find_coordinator(request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    return replace(request, coordinator_keys=(request.key,))


def _lower_find_coordinator(request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    return replace(request, key=_only(request.coordinator_keys, "keys"))


def _upgrade_find_coordinator_response(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    coordinator = Coordinator(
        key="",
        node_id=response.node_id,
        host=response.host,
        port=response.port,
        error_code=response.error_code,
        error_message=response.error_message,
    )
    return replace(response, coordinators=(coordinator,))


def _lower_find_coordinator_response(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    found = _only(response.coordinators, "coordinators")
    return replace(
        response,
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _upgrade_join_group_response(response: JoinGroupResponse) -> JoinGroupResponse:
    return replace(response, protocol_name=response.protocol_name or None)


def _lower_join_group_response(response: JoinGroupResponse) -> JoinGroupResponse:
    return replace(response, protocol_name=response.protocol_name or "")


def _upgrade_leave_group(request: LeaveGroupRequest) -> LeaveGroupRequest:
    return replace(request, members=(MemberIdentity(member_id=request.member_id),))


def _lower_leave_group(request: LeaveGroupRequest) -> LeaveGroupRequest:
    return replace(request, member_id=_only(request.members, "members").member_id)


def _lower_leave_group_response(response: LeaveGroupResponse) -> LeaveGroupResponse:
    if response.error_code is not ErrorCode.none or not response.members:
        return response
    return replace(response, error_code=_only(response.members, "members").error_code)


def _upgrade_delete_topics(request: DeleteTopicsRequest) -> DeleteTopicsRequest:
    return replace(request, topics=tuple(DeleteTopicState(name=name, topic_id=None) for name in request.topic_names))


def _lower_delete_topics(request: DeleteTopicsRequest) -> DeleteTopicsRequest:
    names = tuple(topic.name for topic in request.topics if topic.name is not None)
    if len(names) < len(request.topics):
        raise KafkaError(ErrorCode.unsupported_version, "topics are deleted by id from version 6 of DeleteTopics on")
    return replace(request, topic_names=names)


def _upgrade_metadata(request: MetadataRequest) -> MetadataRequest:
    return request if request.topics else replace(request, topics=None)


def _lower_metadata(request: MetadataRequest) -> MetadataRequest:
    if request.topics is None:
        return replace(request, topics=())
    if not request.topics:
        raise KafkaError(ErrorCode.unsupported_version, "no topics are asked for from version 1 of Metadata on")
    return request


def _upgrade_end_quorum_epoch(request: EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(
                    each,
                    preferred_candidates=tuple(
                        ReplicaInfo(candidate_id=successor, candidate_directory_id=None)
                        for successor in each.preferred_successors
                    ),
                )
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return replace(request, topics=topics)


def _lower_end_quorum_epoch(request: EndQuorumEpochRequest) -> EndQuorumEpochRequest:
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(each, preferred_successors=tuple(item.candidate_id for item in each.preferred_candidates))
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return replace(request, topics=topics)


def _upgrade_alter_partition(request: AlterPartitionRequest) -> AlterPartitionRequest:
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(each, new_isr_with_epochs=tuple(BrokerState(broker_id=broker) for broker in each.new_isr))
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return replace(request, topics=topics)


def _lower_alter_partition(request: AlterPartitionRequest) -> AlterPartitionRequest:
    topics = tuple(
        replace(
            topic,
            partitions=tuple(
                replace(each, new_isr=tuple(member.broker_id for member in each.new_isr_with_epochs))
                for each in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return replace(request, topics=topics)


def _upgrade_update_features(request: UpdateFeaturesRequest) -> UpdateFeaturesRequest:
    updates = tuple(
        replace(update, upgrade_type=FEATURE_SAFE_DOWNGRADE if update.allow_downgrade else FEATURE_UPGRADE)
        for update in request.feature_updates
    )
    return replace(request, feature_updates=updates)


def _lower_update_features(request: UpdateFeaturesRequest) -> UpdateFeaturesRequest:
    updates = tuple(
        replace(update, allow_downgrade=update.upgrade_type != FEATURE_UPGRADE) for update in request.feature_updates
    )
    return replace(request, feature_updates=updates)


def _unchanged(message: MessageT) -> MessageT:
    return message


_OLD_FORMS: Final[Mapping[type[Message], object]] = dict(
    (
        _row(OffsetFetchRequest, 7, _upgrade_offset_fetch, _lower_offset_fetch),
        _row(OffsetFetchResponse, 7, _upgrade_offset_fetch_response, _lower_offset_fetch_response),
        _row(FindCoordinatorRequest, 3, _upgrade_find_coordinator, _lower_find_coordinator),
        _row(FindCoordinatorResponse, 3, _upgrade_find_coordinator_response, _lower_find_coordinator_response),
        _row(JoinGroupResponse, 6, _upgrade_join_group_response, _lower_join_group_response),
        _row(LeaveGroupRequest, 2, _upgrade_leave_group, _lower_leave_group),
        _row(LeaveGroupResponse, 2, _unchanged, _lower_leave_group_response),
        _row(DeleteTopicsRequest, 5, _upgrade_delete_topics, _lower_delete_topics),
        _row(MetadataRequest, 0, _upgrade_metadata, _lower_metadata),
        _row(EndQuorumEpochRequest, 0, _upgrade_end_quorum_epoch, _lower_end_quorum_epoch),
        _row(AlterPartitionRequest, 2, _upgrade_alter_partition, _lower_alter_partition),
        _row(UpdateFeaturesRequest, 0, _upgrade_update_features, _lower_update_features),
    )
)
"""The old forms, by class."""
