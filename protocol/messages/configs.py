"""Dynamic configs. Generated from kio's schemas by `generate`."""

from __future__ import annotations

from typing import ClassVar

from ..errors import ErrorCode
from ..values import value
from .base import Request


@value(kw_only=True)
class DescribeConfigsSynonym:
    """Versions 1 to 4."""

    name: str
    value: str | None
    source: int


@value(kw_only=True)
class DescribeConfigsResourceResult:
    """Versions 1 to 4."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int = 0  # Versions 3 to 4.
    documentation: str | None = ""  # Versions 3 to 4.


@value(kw_only=True)
class DescribeConfigsResult:
    """Versions 1 to 4."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]


@value(kw_only=True)
class DescribeConfigsResponse:
    """Versions 1 to 4."""

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...]


@value(kw_only=True)
class DescribeConfigsResource:
    """Versions 1 to 4."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()


@value(kw_only=True)
class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """Versions 1 to 4."""

    api_key: ClassVar[int] = 32
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False  # Versions 3 to 4.


@value(kw_only=True)
class AlterConfigsResponseAlterConfigsResourceResponse:
    """Versions 0 to 2."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str


@value(kw_only=True)
class AlterConfigsResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResponseAlterConfigsResourceResponse, ...]


@value(kw_only=True)
class AlterConfigsRequestAlterableConfig:
    """Versions 0 to 2."""

    name: str
    value: str | None


@value(kw_only=True)
class AlterConfigsRequestAlterConfigsResource:
    """Versions 0 to 2."""

    resource_type: int
    resource_name: str
    configs: tuple[AlterConfigsRequestAlterableConfig, ...]


@value(kw_only=True)
class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """Versions 0 to 2."""

    api_key: ClassVar[int] = 33
    resources: tuple[AlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool


@value(kw_only=True)
class IncrementalAlterConfigsResponseAlterConfigsResourceResponse:
    """Versions 0 to 1."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None
    resource_type: int
    resource_name: str


@value(kw_only=True)
class IncrementalAlterConfigsResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    responses: tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...]


@value(kw_only=True)
class IncrementalAlterConfigsRequestAlterableConfig:
    """Versions 0 to 1."""

    name: str
    config_operation: int
    value: str | None


@value(kw_only=True)
class IncrementalAlterConfigsRequestAlterConfigsResource:
    """Versions 0 to 1."""

    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...]


@value(kw_only=True)
class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """Versions 0 to 1."""

    api_key: ClassVar[int] = 44
    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool
