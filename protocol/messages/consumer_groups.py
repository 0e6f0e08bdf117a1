"""Consumer groups of KIP-848. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithErrorMessage


@message
class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@message
class ConsumerGroupHeartbeatResponseAssignment(Message):
    """Versions 0 to 1."""

    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...]


@message
class ConsumerGroupHeartbeatResponse(WithErrorMessage):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = None


@message
class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@message
class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 68
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None
    subscribed_topic_regex: str | None = None  # Version 1.


@message
class ConsumerGroupDescribeResponseTopicPartitions(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...] = ()


@message
class ConsumerGroupDescribeResponseAssignment(Message):
    """Versions 0 to 1."""

    topic_partitions: tuple[ConsumerGroupDescribeResponseTopicPartitions, ...]


@message
class ConsumerGroupDescribeResponseMember(Message):
    """Versions 0 to 1."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: int = -1  # Version 1.


@message
class ConsumerGroupDescribeResponseDescribedGroup(WithErrorMessage):
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[ConsumerGroupDescribeResponseMember, ...]
    authorized_operations: int = -2147483648


@message
class ConsumerGroupDescribeResponse(Message):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    groups: tuple[ConsumerGroupDescribeResponseDescribedGroup, ...]


@message
class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 69
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool
