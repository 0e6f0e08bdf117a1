"""DescribeConfigs and IncrementalAlterConfigs for topics and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from ...log.config import LogConfig
from ...protocol.dispatch import RequestContext
from ...protocol.errors import ErrorCode, KafkaError
from ..cluster_view import ClusterView
from ..config import DYNAMIC_KEYS, BrokerConfig, ConfigError
from ..topic_config import (
    DescribedConfig,
    config_in_force,
    describe_all_brokers,
    describe_broker,
    describe_topic,
    log_defaults,
)
from . import Plain

_UNCHANGEABLE_TOPIC_KEYS = frozenset({"internal.segment.bytes"})


class ResourceType(IntEnum):
    """As on the wire."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """As on the wire (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigHandlers:
    """Configs of topics, of this broker, and of all brokers (the broker with the empty name)."""

    def __init__(self, view: ClusterView, config: BrokerConfig) -> None:
        self._view = view
        self._config = config

    async def describe_configs(self, _: RequestContext, request: Any) -> Plain:
        results = []
        for resource in request.resources:
            error, message, described = ErrorCode.none, None, list[DescribedConfig]()
            try:
                described = self._described(resource.resource_type, resource.resource_name)
            except KafkaError as refusal:
                error, message = refusal.code, refusal.message
            keys = resource.configuration_keys
            results.append(
                {
                    "error_code": error,
                    "error_message": message,
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                    "configs": tuple(
                        _described(entry, with_synonyms=request.include_synonyms)
                        for entry in described
                        if keys is None or entry.name in keys
                    ),
                }
            )
        return {"results": results}

    def _described(self, resource_type: int, name: str) -> list[DescribedConfig]:
        image = self._view.image
        if resource_type == ResourceType.TOPIC:
            if name not in image.topics:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
            return describe_topic(image.topics[name].configs, self._config, image)
        if resource_type != ResourceType.BROKER:
            raise KafkaError(ErrorCode.invalid_request, f"resource type {resource_type} has no configs here")
        if name == "":
            return describe_all_brokers(image)
        if name != str(self._config.node_id):
            raise KafkaError(
                ErrorCode.invalid_request, f"this is broker {self._config.node_id}; ask broker {name} for its configs"
            )
        return describe_broker(self._config, image)

    async def incremental_alter_configs(self, _: RequestContext, request: Any) -> Plain:
        results = []
        for resource in request.resources:
            error, message = ErrorCode.none, None
            try:
                await self._alter(resource, validate_only=request.validate_only)
            except KafkaError as refusal:
                error, message = refusal.code, refusal.message
            except OSError as failure:
                error, message = ErrorCode.unknown_server_error, str(failure)
            results.append(
                {
                    "error_code": error,
                    "error_message": message,
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                }
            )
        return {"responses": results}

    async def _alter(self, resource: Any, *, validate_only: bool) -> None:
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            changes = self._topic_changes(name, resource.configs)
            if not validate_only:
                await self._view.alter_topic_configs(name, changes)
        elif resource.resource_type == ResourceType.BROKER:
            broker = name or "default"
            changes = self._broker_changes(broker, resource.configs)
            if not validate_only:
                await self._view.alter_broker_configs(broker, changes)
        else:
            raise KafkaError(ErrorCode.invalid_request, f"resource type {resource.resource_type} has no configs here")

    def _topic_changes(self, name: str, alterations: Any) -> dict[str, str | None]:
        topic = self._view.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
        defaults = log_defaults(config_in_force(self._config, self._view.image))
        in_force = LogConfig.from_topic_configs(topic.configs, defaults).as_topic_configs()
        changes = _changes(alterations, in_force)
        fixed = sorted(_UNCHANGEABLE_TOPIC_KEYS & set(changes))
        if fixed:
            raise KafkaError(ErrorCode.invalid_config, f"{fixed[0]} is set at the creation of a topic only")
        checked = LogConfig.from_topic_configs(_merged(topic.configs, changes), defaults)
        if checked.remote_storage_enable and not self._config.remote_log_storage_system_enable:
            raise KafkaError(
                ErrorCode.invalid_config,
                "remote.storage.enable=true needs remote.log.storage.system.enable=true on the brokers",
            )
        return changes

    def _broker_changes(self, broker: str, alterations: Any) -> dict[str, str | None]:
        image = self._view.image
        if broker != "default" and (not broker.isdigit() or int(broker) not in image.brokers):
            raise KafkaError(ErrorCode.invalid_request, f"there is no broker {broker!r}")
        changes = _changes(alterations, config_in_force(self._config, image).as_properties())
        static = sorted(set(changes) - DYNAMIC_KEYS)
        if static:
            raise KafkaError(
                ErrorCode.invalid_request, f"{static[0]} is not dynamic: change the broker's file and restart it"
            )
        try:
            self._config.with_dynamic(_merged(image.broker_configs.get(broker, {}), changes))
        except ConfigError as error:
            raise KafkaError(ErrorCode.invalid_config, str(error)) from error
        return changes


def _changes(alterations: Any, in_force: Mapping[str, str]) -> dict[str, str | None]:
    """What the operations amount to, as values to set, None to remove."""
    changes: dict[str, str | None] = {}
    for entry in alterations:
        if entry.name in changes:
            raise KafkaError(ErrorCode.invalid_request, f"{entry.name} is altered twice")
        if entry.config_operation == Operation.DELETE:
            changes[entry.name] = None
            continue
        if entry.value is None:
            raise KafkaError(ErrorCode.invalid_config, f"{entry.name}: a value is needed")
        if entry.config_operation == Operation.SET:
            changes[entry.name] = entry.value
        elif entry.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            changes[entry.name] = _altered_list(entry, in_force)
        else:
            raise KafkaError(ErrorCode.invalid_request, f"unknown operation {entry.config_operation}")
    return changes


def _altered_list(entry: Any, in_force: Mapping[str, str]) -> str:
    if entry.name != "cleanup.policy":
        raise KafkaError(ErrorCode.invalid_config, f"{entry.name} is no list: it can only be set or deleted")
    items = [item for item in in_force[entry.name].split(",") if item]
    given = [item.strip() for item in entry.value.split(",") if item.strip()]
    if entry.config_operation == Operation.SUBTRACT:
        return ",".join(item for item in items if item not in given)
    return ",".join([*items, *(item for item in given if item not in items)])


def _merged(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**configs, **changes}.items() if value is not None}


def _described(entry: DescribedConfig, *, with_synonyms: bool) -> Plain:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": int(entry.source),
        "is_sensitive": False,
        "synonyms": tuple(
            {"name": synonym.name, "value": synonym.value, "source": int(synonym.source)}
            for synonym in (entry.synonyms if with_synonyms else ())
        ),
        "documentation": None,
    }
