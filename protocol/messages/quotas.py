"""Quotas of clients. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithErrorMessage


@message
class DescribeClientQuotasResponseEntityData(Message):
    """Versions 0 to 1."""

    entity_type: str
    entity_name: str | None


@message
class ValueData(Message):
    """Versions 0 to 1."""

    key: str
    value: float


@message
class DescribeClientQuotasResponseEntryData(Message):
    """Versions 0 to 1."""

    entity: tuple[DescribeClientQuotasResponseEntityData, ...]
    values: tuple[ValueData, ...]


@message
class DescribeClientQuotasResponse(WithErrorMessage):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    entries: tuple[DescribeClientQuotasResponseEntryData, ...] | None


@message
class ComponentData(Message):
    """Versions 0 to 1."""

    entity_type: str
    match_type: int
    match: str | None


@message
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 48
    components: tuple[ComponentData, ...]
    strict: bool


@message
class AlterClientQuotasResponseEntityData(Message):
    """Versions 0 to 1."""

    entity_type: str
    entity_name: str | None


@message
class AlterClientQuotasResponseEntryData(WithErrorMessage):
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    entity: tuple[AlterClientQuotasResponseEntityData, ...]


@message
class AlterClientQuotasResponse(Message):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...]


@message
class AlterClientQuotasRequestEntityData(Message):
    """Versions 0 to 1."""

    entity_type: str
    entity_name: str | None


@message
class OpData(Message):
    """Versions 0 to 1."""

    key: str
    value: float
    remove: bool


@message
class AlterClientQuotasRequestEntryData(Message):
    """Versions 0 to 1."""

    entity: tuple[AlterClientQuotasRequestEntityData, ...]
    ops: tuple[OpData, ...]


@message
class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 49
    entries: tuple[AlterClientQuotasRequestEntryData, ...]
    validate_only: bool
