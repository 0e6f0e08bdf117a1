"""Records that share groups fetch and acknowledge (KIP-932). Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithErrorMessage


@message
class ShareFetchResponseLeaderIdAndEpoch(Message):
    """Versions 1 to 2."""

    leader_id: int
    leader_epoch: int


@message
class AcquiredRecords(Message):
    """Versions 1 to 2."""

    first_offset: int
    last_offset: int
    delivery_count: int


@message
class ShareFetchResponsePartitionData(WithErrorMessage):
    """Versions 1 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    acknowledge_error_code: int
    acknowledge_error_message: str | None = None
    current_leader: ShareFetchResponseLeaderIdAndEpoch
    records: bytes
    acquired_records: tuple[AcquiredRecords, ...]


@message
class ShareFetchableTopicResponse(Message):
    """Versions 1 to 2."""

    topic_id: UUID | None
    partitions: tuple[ShareFetchResponsePartitionData, ...]


@message
class ShareFetchResponseNodeEndpoint(Message):
    """Versions 1 to 2."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class ShareFetchResponse(WithErrorMessage):
    """Versions 1 to 2."""

    holds_slices: ClassVar[bool] = True

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    acquisition_lock_timeout_ms: int
    responses: tuple[ShareFetchableTopicResponse, ...]
    node_endpoints: tuple[ShareFetchResponseNodeEndpoint, ...]


@message
class ShareFetchRequestAcknowledgementBatch(Message):
    """Versions 1 to 2."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...] = ()


@message
class FetchPartition(Message):
    """Versions 1 to 2."""

    partition_index: int
    acknowledgement_batches: tuple[ShareFetchRequestAcknowledgementBatch, ...]


@message
class FetchTopic(Message):
    """Versions 1 to 2."""

    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


@message
class ForgottenTopic(Message):
    """Versions 1 to 2."""

    topic_id: UUID | None
    partitions: tuple[int, ...] = ()


@message
class ShareFetchRequest(Request[ShareFetchResponse]):
    """Versions 1 to 2."""

    api_key: ClassVar[int] = 78
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int = 2147483647
    max_records: int
    batch_size: int
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    share_acquire_mode: int = 0  # Version 2.
    is_renew_ack: bool = False  # Version 2.


@message
class ShareAcknowledgeResponseLeaderIdAndEpoch(Message):
    """Versions 1 to 2."""

    leader_id: int
    leader_epoch: int


@message
class ShareAcknowledgeResponsePartitionData(WithErrorMessage):
    """Versions 1 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch


@message
class ShareAcknowledgeTopicResponse(Message):
    """Versions 1 to 2."""

    topic_id: UUID | None
    partitions: tuple[ShareAcknowledgeResponsePartitionData, ...]


@message
class ShareAcknowledgeResponseNodeEndpoint(Message):
    """Versions 1 to 2."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@message
class ShareAcknowledgeResponse(WithErrorMessage):
    """Versions 1 to 2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    responses: tuple[ShareAcknowledgeTopicResponse, ...]
    node_endpoints: tuple[ShareAcknowledgeResponseNodeEndpoint, ...]
    acquisition_lock_timeout_ms: int = 0  # Version 2.


@message
class ShareAcknowledgeRequestAcknowledgementBatch(Message):
    """Versions 1 to 2."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...] = ()


@message
class AcknowledgePartition(Message):
    """Versions 1 to 2."""

    partition_index: int
    acknowledgement_batches: tuple[ShareAcknowledgeRequestAcknowledgementBatch, ...]


@message
class AcknowledgeTopic(Message):
    """Versions 1 to 2."""

    topic_id: UUID | None
    partitions: tuple[AcknowledgePartition, ...]


@message
class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse]):
    """Versions 1 to 2."""

    api_key: ClassVar[int] = 79
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: int
    topics: tuple[AcknowledgeTopic, ...]
    is_renew_ack: bool = False  # Version 2.
