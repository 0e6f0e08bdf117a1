"""Offsets of logs, and offsets that groups have committed. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError


@message
class ListOffsetsPartitionResponse(WithError):
    """Versions 1 to 11."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1  # Versions 4 to 11.


@message
class ListOffsetsTopicResponse(Message):
    """Versions 1 to 11."""

    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@message
class ListOffsetsResponse(Message):
    """Versions 1 to 11."""

    topics: tuple[ListOffsetsTopicResponse, ...]
    throttle_time_ms: int = 0  # Versions 2 to 11.


@message
class ListOffsetsPartition(Message):
    """Versions 1 to 11."""

    partition_index: int
    timestamp: int
    current_leader_epoch: int = -1  # Versions 4 to 11.


@message
class ListOffsetsTopic(Message):
    """Versions 1 to 11."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...]


@message
class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """Versions 1 to 11."""

    api_key: ClassVar[int] = 2
    replica_id: int
    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: int = 0  # Versions 2 to 11.
    timeout_ms: int = 0  # Versions 10 to 11.


@message
class EpochEndOffset(WithError):
    """Versions 2 to 4."""

    error_code: ErrorCode = ErrorCode.none
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


@message
class OffsetForLeaderTopicResult(Message):
    """Versions 2 to 4."""

    topic: str
    partitions: tuple[EpochEndOffset, ...]


@message
class OffsetForLeaderEpochResponse(Message):
    """Versions 2 to 4."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]


@message
class OffsetForLeaderPartition(Message):
    """Versions 2 to 4."""

    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int


@message
class OffsetForLeaderTopic(Message):
    """Versions 2 to 4."""

    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


@message
class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """Versions 2 to 4."""

    api_key: ClassVar[int] = 23
    topics: tuple[OffsetForLeaderTopic, ...]
    replica_id: int = -2  # Versions 3 to 4.


@message
class DeleteRecordsPartitionResult(WithError):
    """Versions 0 to 2."""

    partition_index: int
    low_watermark: int
    error_code: ErrorCode = ErrorCode.none


@message
class DeleteRecordsTopicResult(Message):
    """Versions 0 to 2."""

    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message
class DeleteRecordsResponse(Message):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...]


@message
class DeleteRecordsPartition(Message):
    """Versions 0 to 2."""

    partition_index: int
    offset: int


@message
class DeleteRecordsTopic(Message):
    """Versions 0 to 2."""

    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


@message
class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 21
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: int


@message
class OffsetCommitResponsePartition(WithError):
    """Versions 2 to 10."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@message
class OffsetCommitResponseTopic(Message):
    """Versions 2 to 10."""

    name: str = ""  # Versions 2 to 9.
    partitions: tuple[OffsetCommitResponsePartition, ...]
    topic_id: UUID | None = None  # Version 10.


@message
class OffsetCommitResponse(Message):
    """Versions 2 to 10."""

    topics: tuple[OffsetCommitResponseTopic, ...]
    throttle_time_ms: int = 0  # Versions 3 to 10.


@message
class OffsetCommitRequestPartition(Message):
    """Versions 2 to 10."""

    partition_index: int
    committed_offset: int
    committed_metadata: str | None
    committed_leader_epoch: int = -1  # Versions 6 to 10.


@message
class OffsetCommitRequestTopic(Message):
    """Versions 2 to 10."""

    name: str = ""  # Versions 2 to 9.
    partitions: tuple[OffsetCommitRequestPartition, ...]
    topic_id: UUID | None = None  # Version 10.


@message
class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Versions 2 to 10."""

    api_key: ClassVar[int] = 8
    group_id: str
    generation_id_or_member_epoch: int = -1
    member_id: str
    retention_time_ms: int = -1  # Versions 2 to 4.
    topics: tuple[OffsetCommitRequestTopic, ...]
    group_instance_id: str | None = None  # Versions 7 to 10.


@message
class OffsetFetchResponsePartition(WithError):
    """Versions 1 to 7."""

    partition_index: int
    committed_offset: int
    metadata: str | None
    error_code: ErrorCode = ErrorCode.none
    committed_leader_epoch: int = -1  # Versions 5 to 7.


@message
class OffsetFetchResponseTopic(Message):
    """Versions 1 to 7."""

    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]


@message
class OffsetFetchResponsePartitions(WithError):
    """Versions 8 to 10."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    metadata: str | None
    error_code: ErrorCode = ErrorCode.none


@message
class OffsetFetchResponseTopics(Message):
    """Versions 8 to 10."""

    name: str = ""  # Versions 8 to 9.
    partitions: tuple[OffsetFetchResponsePartitions, ...]
    topic_id: UUID | None = None  # Version 10.


@message
class OffsetFetchResponseGroup(WithError):
    """Versions 8 to 10."""

    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode = ErrorCode.none


@message
class OffsetFetchResponse(WithError):
    """Versions 1 to 10."""

    topics: tuple[OffsetFetchResponseTopic, ...] = ()  # Versions 1 to 7.
    error_code: ErrorCode = ErrorCode.none  # Versions 2 to 7.
    throttle_time_ms: int = 0  # Versions 3 to 10.
    groups: tuple[OffsetFetchResponseGroup, ...] = ()  # Versions 8 to 10.


@message
class OffsetFetchRequestTopic(Message):
    """Versions 1 to 7."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@message
class OffsetFetchRequestTopics(Message):
    """Versions 8 to 10."""

    name: str = ""  # Versions 8 to 9.
    partition_indexes: tuple[int, ...] = ()
    topic_id: UUID | None = None  # Version 10.


@message
class OffsetFetchRequestGroup(Message):
    """Versions 8 to 10."""

    group_id: str
    topics: tuple[OffsetFetchRequestTopics, ...] | None
    member_id: str | None = None  # Versions 9 to 10.
    member_epoch: int = -1  # Versions 9 to 10.


@message
class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """Versions 1 to 10."""

    api_key: ClassVar[int] = 9
    group_id: str = ""  # Versions 1 to 7.
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()  # Versions 1 to 7.
    require_stable: bool = False  # Versions 7 to 10.
    groups: tuple[OffsetFetchRequestGroup, ...] = ()  # Versions 8 to 10.


@message
class OffsetDeleteResponsePartition(WithError):
    """Version 0."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@message
class OffsetDeleteResponseTopic(Message):
    """Version 0."""

    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message
class OffsetDeleteResponse(WithError):
    """Version 0."""

    error_code: ErrorCode = ErrorCode.none
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...]


@message
class OffsetDeleteRequestPartition(Message):
    """Version 0."""

    partition_index: int


@message
class OffsetDeleteRequestTopic(Message):
    """Version 0."""

    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 47
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]
