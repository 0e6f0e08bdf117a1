"""Consumer groups of the classic protocol. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError, WithErrorMessage


@message
class Coordinator(WithErrorMessage):
    """Versions 4 to 6."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None


@message
class FindCoordinatorResponse(WithErrorMessage):
    """Versions 0 to 6."""

    error_code: ErrorCode = ErrorCode.none  # Versions 0 to 3.
    node_id: int = 0  # Versions 0 to 3.
    host: str = ""  # Versions 0 to 3.
    port: int = 0  # Versions 0 to 3.
    throttle_time_ms: int = 0  # Versions 1 to 6.
    error_message: str | None = ""  # Versions 1 to 3.
    coordinators: tuple[Coordinator, ...] = ()  # Versions 4 to 6.


@message
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """Versions 0 to 6."""

    api_key: ClassVar[int] = 10
    key: str = ""  # Versions 0 to 3.
    key_type: int = 0  # Versions 1 to 6.
    coordinator_keys: tuple[str, ...] = ()  # Versions 4 to 6.


@message
class JoinGroupResponseMember(Message):
    """Versions 0 to 9."""

    member_id: str
    metadata: bytes
    group_instance_id: str | None = None  # Versions 5 to 9.


@message
class JoinGroupResponse(WithError):
    """Versions 0 to 9."""

    error_code: ErrorCode = ErrorCode.none
    generation_id: int = -1
    protocol_name: str | None
    leader: str
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]
    throttle_time_ms: int = 0  # Versions 2 to 9.
    protocol_type: str | None = None  # Versions 7 to 9.
    skip_assignment: bool = False  # Version 9.


@message
class JoinGroupRequestProtocol(Message):
    """Versions 0 to 9."""

    name: str
    metadata: bytes


@message
class JoinGroupRequest(Request[JoinGroupResponse]):
    """Versions 0 to 9."""

    api_key: ClassVar[int] = 11
    group_id: str
    session_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    rebalance_timeout_ms: int = -1  # Versions 1 to 9.
    group_instance_id: str | None = None  # Versions 5 to 9.
    reason: str | None = None  # Versions 8 to 9.


@message
class SyncGroupResponse(WithError):
    """Versions 0 to 5."""

    error_code: ErrorCode = ErrorCode.none
    assignment: bytes
    throttle_time_ms: int = 0  # Versions 1 to 5.
    protocol_type: str | None = None  # Version 5.
    protocol_name: str | None = None  # Version 5.


@message
class SyncGroupRequestAssignment(Message):
    """Versions 0 to 5."""

    member_id: str
    assignment: bytes


@message
class SyncGroupRequest(Request[SyncGroupResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 14
    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[SyncGroupRequestAssignment, ...]
    group_instance_id: str | None = None  # Versions 3 to 5.
    protocol_type: str | None = None  # Version 5.
    protocol_name: str | None = None  # Version 5.


@message
class HeartbeatResponse(WithError):
    """Versions 0 to 4."""

    error_code: ErrorCode = ErrorCode.none
    throttle_time_ms: int = 0  # Versions 1 to 4.


@message
class HeartbeatRequest(Request[HeartbeatResponse]):
    """Versions 0 to 4."""

    api_key: ClassVar[int] = 12
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None  # Versions 3 to 4.


@message
class MemberResponse(WithError):
    """Versions 3 to 5."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode = ErrorCode.none


@message
class LeaveGroupResponse(WithError):
    """Versions 0 to 5."""

    error_code: ErrorCode = ErrorCode.none
    throttle_time_ms: int = 0  # Versions 1 to 5.
    members: tuple[MemberResponse, ...] = ()  # Versions 3 to 5.


@message
class MemberIdentity(Message):
    """Versions 3 to 5."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None  # Version 5.


@message
class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 13
    group_id: str
    member_id: str = ""  # Versions 0 to 2.
    members: tuple[MemberIdentity, ...] = ()  # Versions 3 to 5.


@message
class ListedGroup(Message):
    """Versions 0 to 5."""

    group_id: str
    protocol_type: str
    group_state: str = ""  # Versions 4 to 5.
    group_type: str = ""  # Version 5.


@message
class ListGroupsResponse(WithError):
    """Versions 0 to 5."""

    error_code: ErrorCode = ErrorCode.none
    groups: tuple[ListedGroup, ...]
    throttle_time_ms: int = 0  # Versions 1 to 5.


@message
class ListGroupsRequest(Request[ListGroupsResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 16
    states_filter: tuple[str, ...] = ()  # Versions 4 to 5.
    types_filter: tuple[str, ...] = ()  # Version 5.


@message
class DescribedGroupMember(Message):
    """Versions 0 to 6."""

    member_id: str
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes
    group_instance_id: str | None = None  # Versions 4 to 6.


@message
class DescribeGroupsResponseDescribedGroup(WithErrorMessage):
    """Versions 0 to 6."""

    error_code: ErrorCode = ErrorCode.none
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: int = -2147483648  # Versions 3 to 6.
    error_message: str | None = None  # Version 6.


@message
class DescribeGroupsResponse(Message):
    """Versions 0 to 6."""

    groups: tuple[DescribeGroupsResponseDescribedGroup, ...]
    throttle_time_ms: int = 0  # Versions 1 to 6.


@message
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Versions 0 to 6."""

    api_key: ClassVar[int] = 15
    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False  # Versions 3 to 6.


@message
class DeletableGroupResult(WithError):
    """Versions 0 to 2."""

    group_id: str
    error_code: ErrorCode = ErrorCode.none


@message
class DeleteGroupsResponse(Message):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...]


@message
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 42
    groups_names: tuple[str, ...] = ()
