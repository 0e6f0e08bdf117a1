"""Transactions: what is in them, how they end, and which there are. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError, WithErrorMessage


@message
class AddPartitionsToTxnPartitionResult(Message):
    """Versions 0 to 5."""

    partition_index: int
    partition_error_code: ErrorCode = ErrorCode.none


@message
class AddPartitionsToTxnTopicResult(Message):
    """Versions 0 to 5."""

    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@message
class AddPartitionsToTxnResult(Message):
    """Versions 4 to 5."""

    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


@message
class AddPartitionsToTxnResponse(WithError):
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()  # Versions 0 to 3.
    error_code: ErrorCode = ErrorCode.none  # Versions 4 to 5.
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()  # Versions 4 to 5.


@message
class AddPartitionsToTxnTopic(Message):
    """Versions 0 to 5."""

    name: str
    partitions: tuple[int, ...] = ()


@message
class AddPartitionsToTxnTransaction(Message):
    """Versions 4 to 5."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


@message
class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 24
    v3_and_below_transactional_id: str = ""  # Versions 0 to 3.
    v3_and_below_producer_id: int = 0  # Versions 0 to 3.
    v3_and_below_producer_epoch: int = 0  # Versions 0 to 3.
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = ()  # Versions 0 to 3.
    transactions: tuple[AddPartitionsToTxnTransaction, ...] = ()  # Versions 4 to 5.


@message
class AddOffsetsToTxnResponse(WithError):
    """Versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none


@message
class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """Versions 0 to 4."""

    api_key: ClassVar[int] = 25
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@message
class EndTxnResponse(WithError):
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1  # Version 5.
    producer_epoch: int = -1  # Version 5.


@message
class EndTxnRequest(Request[EndTxnResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 26
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@message
class TxnOffsetCommitResponsePartition(WithError):
    """Versions 0 to 5."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@message
class TxnOffsetCommitResponseTopic(Message):
    """Versions 0 to 5."""

    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@message
class TxnOffsetCommitResponse(Message):
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...]


@message
class TxnOffsetCommitRequestPartition(Message):
    """Versions 0 to 5."""

    partition_index: int
    committed_offset: int
    committed_metadata: str | None
    committed_leader_epoch: int = -1  # Versions 2 to 5.


@message
class TxnOffsetCommitRequestTopic(Message):
    """Versions 0 to 5."""

    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@message
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 28
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TxnOffsetCommitRequestTopic, ...]
    generation_id: int = -1  # Versions 3 to 5.
    member_id: str = ""  # Versions 3 to 5.
    group_instance_id: str | None = None  # Versions 3 to 5.


@message
class ProducerState(Message):
    """Version 0."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int
    current_txn_start_offset: int = -1


@message
class PartitionResponse(WithErrorMessage):
    """Version 0."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...]


@message
class TopicResponse(Message):
    """Version 0."""

    name: str
    partitions: tuple[PartitionResponse, ...]


@message
class DescribeProducersResponse(Message):
    """Version 0."""

    throttle_time_ms: int = 0
    topics: tuple[TopicResponse, ...]


@message
class TopicRequest(Message):
    """Version 0."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@message
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 61
    topics: tuple[TopicRequest, ...]


@message
class DescribeTransactionsResponseTopicData(Message):
    """Version 0."""

    topic: str
    partitions: tuple[int, ...] = ()


@message
class DescribeTransactionsResponseTransactionState(WithError):
    """Version 0."""

    error_code: ErrorCode = ErrorCode.none
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int
    topics: tuple[DescribeTransactionsResponseTopicData, ...]


@message
class DescribeTransactionsResponse(Message):
    """Version 0."""

    throttle_time_ms: int = 0
    transaction_states: tuple[DescribeTransactionsResponseTransactionState, ...]


@message
class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Version 0."""

    api_key: ClassVar[int] = 65
    transactional_ids: tuple[str, ...] = ()


@message
class ListTransactionsResponseTransactionState(Message):
    """Versions 0 to 2."""

    transactional_id: str
    producer_id: int
    transaction_state: str


@message
class ListTransactionsResponse(WithError):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[ListTransactionsResponseTransactionState, ...]


@message
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 66
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1  # Versions 1 to 2.
    transactional_id_pattern: str | None = None  # Version 2.
