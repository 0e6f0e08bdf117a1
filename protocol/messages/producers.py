"""Ids of producers, and markers of their transactions. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from ..values import value
from .base import Request


@value(kw_only=True)
class InitProducerIdResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int


@value(kw_only=True)
class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """Versions 0 to 5."""

    api_key: ClassVar[int] = 22
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = -1  # Versions 3 to 5.
    producer_epoch: int = -1  # Versions 3 to 5.


@value(kw_only=True)
class WritableTxnMarkerPartitionResult:
    """Versions 1 to 2."""

    partition_index: int
    error_code: ErrorCode = ErrorCode.none


@value(kw_only=True)
class WritableTxnMarkerTopicResult:
    """Versions 1 to 2."""

    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@value(kw_only=True)
class WritableTxnMarkerResult:
    """Versions 1 to 2."""

    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@value(kw_only=True)
class WriteTxnMarkersResponse:
    """Versions 1 to 2."""

    markers: tuple[WritableTxnMarkerResult, ...]


@value(kw_only=True)
class WritableTxnMarkerTopic:
    """Versions 1 to 2."""

    name: str
    partition_indexes: tuple[int, ...] = ()


@value(kw_only=True)
class WritableTxnMarker:
    """Versions 1 to 2."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0  # Version 2.


@value(kw_only=True)
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Versions 1 to 2."""

    api_key: ClassVar[int] = 27
    markers: tuple[WritableTxnMarker, ...]
