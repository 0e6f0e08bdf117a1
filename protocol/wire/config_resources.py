"""What responses say of configs: the numbers of DescribeConfigs and its siblings on the wire, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from ...light_dataclass import dataclass
from ..errors import ErrorCode, KafkaError
from ..messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class ResourceType(IntEnum):
    """The resources that have configs here."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
    """The lowest number wins."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(IntEnum):
    """What a value is (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that gives a config its value, or would if those before it did not."""

    name: str
    value: str
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One config in force; `synonyms` in the order in which they win."""

    name: str
    value: str
    type: ConfigType
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT_CONFIG


Describe = Callable[[int, str], Iterable[DescribedConfig]]
"""Describe the resource of a type and name. KafkaError if it cannot be described, also during iteration."""


def describe_configs_response(request: DescribeConfigsRequest, describe: Describe) -> DescribeConfigsResponse:
    """Return the answer to DescribeConfigs; each resource is answered, or refused, by itself."""
    return DescribeConfigsResponse(
        results=tuple(
            _result(resource, describe, with_synonyms=request.include_synonyms) for resource in request.resources
        )
    )


def _result(resource: DescribeConfigsResource, describe: Describe, *, with_synonyms: bool) -> DescribeConfigsResult:
    code, message, described = ErrorCode.none, None, list[DescribedConfig]()
    try:
        described = list(describe(resource.resource_type, resource.resource_name))
    except KafkaError as refusal:
        code, message = refusal.code, refusal.message
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _shown(config, with_synonyms=with_synonyms) for config in described if keys is None or config.name in keys
        ),
    )


def _shown(config: DescribedConfig, *, with_synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=int(config.source),
        config_type=int(config.type),
        is_sensitive=False,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int(synonym.source))
            for synonym in (config.synonyms if with_synonyms else ())
        ),
        documentation=None,
    )
