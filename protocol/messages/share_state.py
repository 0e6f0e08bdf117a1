"""What share coordinators keep of share groups (KIP-932). Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithErrorMessage


@message
class InitializeShareGroupStateResponsePartitionResult(WithErrorMessage):
    """Version 0."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class InitializeStateResult(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[InitializeShareGroupStateResponsePartitionResult, ...]


@message
class InitializeShareGroupStateResponse(Message):
    """Version 0."""

    results: tuple[InitializeStateResult, ...]


@message
class InitializeShareGroupStateRequestPartitionData(Message):
    """Version 0."""

    partition: int
    state_epoch: int
    start_offset: int


@message
class InitializeStateData(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[InitializeShareGroupStateRequestPartitionData, ...]


@message
class InitializeShareGroupStateRequest(Request[InitializeShareGroupStateResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 83
    group_id: str
    topics: tuple[InitializeStateData, ...]


@message
class ReadShareGroupStateResponseStateBatch(Message):
    """Version 0."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@message
class ReadShareGroupStateResponsePartitionResult(WithErrorMessage):
    """Version 0."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state_epoch: int
    start_offset: int
    state_batches: tuple[ReadShareGroupStateResponseStateBatch, ...]


@message
class ReadStateResult(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStateResponsePartitionResult, ...]


@message
class ReadShareGroupStateResponse(Message):
    """Version 0."""

    results: tuple[ReadStateResult, ...]


@message
class ReadShareGroupStateRequestPartitionData(Message):
    """Version 0."""

    partition: int
    leader_epoch: int


@message
class ReadStateData(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStateRequestPartitionData, ...]


@message
class ReadShareGroupStateRequest(Request[ReadShareGroupStateResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 84
    group_id: str
    topics: tuple[ReadStateData, ...]


@message
class WriteShareGroupStateResponsePartitionResult(WithErrorMessage):
    """Versions 0 to 1."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class WriteStateResult(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    partitions: tuple[WriteShareGroupStateResponsePartitionResult, ...]


@message
class WriteShareGroupStateResponse(Message):
    """Versions 0 to 1."""

    results: tuple[WriteStateResult, ...]


@message
class WriteShareGroupStateRequestStateBatch(Message):
    """Versions 0 to 1."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@message
class WriteShareGroupStateRequestPartitionData(Message):
    """Versions 0 to 1."""

    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    state_batches: tuple[WriteShareGroupStateRequestStateBatch, ...]
    delivery_complete_count: int = -1  # Version 1.


@message
class WriteStateData(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    partitions: tuple[WriteShareGroupStateRequestPartitionData, ...]


@message
class WriteShareGroupStateRequest(Request[WriteShareGroupStateResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 85
    group_id: str
    topics: tuple[WriteStateData, ...]


@message
class DeleteShareGroupStateResponsePartitionResult(WithErrorMessage):
    """Version 0."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@message
class DeleteStateResult(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[DeleteShareGroupStateResponsePartitionResult, ...]


@message
class DeleteShareGroupStateResponse(Message):
    """Version 0."""

    results: tuple[DeleteStateResult, ...]


@message
class DeleteShareGroupStateRequestPartitionData(Message):
    """Version 0."""

    partition: int


@message
class DeleteStateData(Message):
    """Version 0."""

    topic_id: UUID | None
    partitions: tuple[DeleteShareGroupStateRequestPartitionData, ...]


@message
class DeleteShareGroupStateRequest(Request[DeleteShareGroupStateResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 86
    group_id: str
    topics: tuple[DeleteStateData, ...]
    state_epoch: int = -1


@message
class ReadShareGroupStateSummaryResponsePartitionResult(WithErrorMessage):
    """Versions 0 to 1."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1  # Version 1.


@message
class ReadStateSummaryResult(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStateSummaryResponsePartitionResult, ...]


@message
class ReadShareGroupStateSummaryResponse(Message):
    """Versions 0 to 1."""

    results: tuple[ReadStateSummaryResult, ...]


@message
class ReadShareGroupStateSummaryRequestPartitionData(Message):
    """Versions 0 to 1."""

    partition: int
    leader_epoch: int


@message
class ReadStateSummaryData(Message):
    """Versions 0 to 1."""

    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStateSummaryRequestPartitionData, ...]


@message
class ReadShareGroupStateSummaryRequest(Request[ReadShareGroupStateSummaryResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 87
    group_id: str
    topics: tuple[ReadStateSummaryData, ...]
