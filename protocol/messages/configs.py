"""Dynamic configs. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from .base import Message, Request, message
from .errors import WithErrorMessage


@message
class DescribeConfigsSynonym(Message):
    """Versions 1 to 4."""

    name: str
    value: str | None
    source: int


@message
class DescribeConfigsResourceResult(Message):
    """Versions 1 to 4."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int = 0  # Versions 3 to 4.
    documentation: str | None = ""  # Versions 3 to 4.


@message
class DescribeConfigsResult(WithErrorMessage):
    """Versions 1 to 4."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]


@message
class DescribeConfigsResponse(Message):
    """Versions 1 to 4."""

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...]


@message
class DescribeConfigsResource(Message):
    """Versions 1 to 4."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()


@message
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Versions 1 to 4."""

    api_key: ClassVar[int] = 32
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False  # Versions 3 to 4.


@message
class AlterConfigsResponseAlterConfigsResourceResponse(WithErrorMessage):
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class AlterConfigsResponse(Message):
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResponseAlterConfigsResourceResponse, ...]


@message
class AlterConfigsRequestAlterableConfig(Message):
    """Versions 0 to 2."""

    name: str
    value: str | None


@message
class AlterConfigsRequestAlterConfigsResource(Message):
    """Versions 0 to 2."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterConfigsRequestAlterableConfig, ...]


@message
class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 33
    resources: tuple[AlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool


@message
class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(WithErrorMessage):
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class IncrementalAlterConfigsResponse(Message):
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    responses: tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...]


@message
class IncrementalAlterConfigsRequestAlterableConfig(Message):
    """Versions 0 to 1."""

    name: str
    config_operation: int
    value: str | None


@message
class IncrementalAlterConfigsRequestAlterConfigsResource(Message):
    """Versions 0 to 1."""

    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...]


@message
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 44
    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool
