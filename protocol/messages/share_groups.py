"""Share groups of KIP-932: their members and offsets. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithErrorMessage


@message
class ShareGroupHeartbeatResponseTopicPartitions(Message):
    """Version 1."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@message
class ShareGroupHeartbeatResponseAssignment(Message):
    """Version 1."""

    topic_partitions: tuple[ShareGroupHeartbeatResponseTopicPartitions, ...]


@message
class ShareGroupHeartbeatResponse(WithErrorMessage):
    """Version 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ShareGroupHeartbeatResponseAssignment | None = None


@message
class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    """Version 1."""

    api_key: ClassVar[int] = 76
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


@message
class ShareGroupDescribeResponseTopicPartitions(Message):
    """Version 1."""

    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...] = ()


@message
class ShareGroupDescribeResponseAssignment(Message):
    """Version 1."""

    topic_partitions: tuple[ShareGroupDescribeResponseTopicPartitions, ...]


@message
class ShareGroupDescribeResponseMember(Message):
    """Version 1."""

    member_id: str
    rack_id: str | None = None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: ShareGroupDescribeResponseAssignment


@message
class ShareGroupDescribeResponseDescribedGroup(WithErrorMessage):
    """Version 1."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[ShareGroupDescribeResponseMember, ...]
    authorized_operations: int = -2147483648


@message
class ShareGroupDescribeResponse(Message):
    """Version 1."""

    throttle_time_ms: int = 0
    groups: tuple[ShareGroupDescribeResponseDescribedGroup, ...]


@message
class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse]):
    """Version 1."""

    api_key: ClassVar[int] = 77
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool


@message
class DescribeShareGroupOffsetsResponsePartition(WithErrorMessage):
    """Versions 0 to 1."""

    partition_index: int
    start_offset: int
    leader_epoch: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    lag: int = -1  # Version 1.


@message
class DescribeShareGroupOffsetsResponseTopic(Message):
    """Versions 0 to 1."""

    topic_name: str
    topic_id: UUID | None
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


@message
class DescribeShareGroupOffsetsResponseGroup(WithErrorMessage):
    """Versions 0 to 1."""

    group_id: str
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class DescribeShareGroupOffsetsResponse(Message):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]


@message
class DescribeShareGroupOffsetsRequestTopic(Message):
    """Versions 0 to 1."""

    topic_name: str
    partitions: tuple[int, ...] = ()


@message
class DescribeShareGroupOffsetsRequestGroup(Message):
    """Versions 0 to 1."""

    group_id: str
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


@message
class DescribeShareGroupOffsetsRequest(Request[DescribeShareGroupOffsetsResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 90
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


@message
class AlterShareGroupOffsetsResponsePartition(WithErrorMessage):
    """Version 0."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class AlterShareGroupOffsetsResponseTopic(Message):
    """Version 0."""

    topic_name: str
    topic_id: UUID | None
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


@message
class AlterShareGroupOffsetsResponse(WithErrorMessage):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...]


@message
class AlterShareGroupOffsetsRequestPartition(Message):
    """Version 0."""

    partition_index: int
    start_offset: int


@message
class AlterShareGroupOffsetsRequestTopic(Message):
    """Version 0."""

    topic_name: str
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


@message
class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 91
    group_id: str
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


@message
class DeleteShareGroupOffsetsResponseTopic(WithErrorMessage):
    """Version 0."""

    topic_name: str
    topic_id: UUID | None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class DeleteShareGroupOffsetsResponse(WithErrorMessage):
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...]


@message
class DeleteShareGroupOffsetsRequestTopic(Message):
    """Version 0."""

    topic_name: str


@message
class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 92
    group_id: str
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]
