"""Ids of producers, and markers of their transactions. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithError


@message
class InitProducerIdResponse(WithError):
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int


@message
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 22
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = -1  # Versions 3 to 5.
    producer_epoch: int = -1  # Versions 3 to 5.


@message
class WritableTxnMarkerPartitionResult(WithError):
    """Versions 1 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@message
class WritableTxnMarkerTopicResult(Message):
    """Versions 1 to 2."""

    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@message
class WritableTxnMarkerResult(Message):
    """Versions 1 to 2."""

    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message
class WriteTxnMarkersResponse(Message):
    """Versions 1 to 2."""

    markers: tuple[WritableTxnMarkerResult, ...]


@message
class WritableTxnMarkerTopic(Message):
    """Versions 1 to 2."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@message
class WritableTxnMarker(Message):
    """Versions 1 to 2."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0  # Version 2.


@message
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Versions 1 to 2."""

    api_key: ClassVar[int] = 27
    markers: tuple[WritableTxnMarker, ...]
