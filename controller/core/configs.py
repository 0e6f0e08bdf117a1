"""Dynamic configs of topics and brokers: IncrementalAlterConfigs, AlterConfigs, and what DescribeConfigs needs to know.

Each resource is done, or refused, by itself and as a whole: it is checked as it would be afterwards. A topic's configs
are those of `log.core.config`; a broker's are checked by the node that knows them
(`ControllerConfig.check_broker_configs`).
A broker resource is a registered or future broker's id, or "" for the cluster-wide default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...log.core import LogConfig
from ...protocol import ErrorCode, KafkaError, check_topic_name
from ...protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from ...protocol.wire import GROUP_CONFIGS, ResourceType, check_group_config
from ..image.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ..records import ConfigRecord, MetadataRecord
from .config import check_topic_configs
from .state import ControllerResult, ControllerState, find_duplicates

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
LIST_KEYS: Final = frozenset(
    {"cleanup.policy", "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)
"""Keys whose value is a list, to which APPEND and SUBTRACT apply."""

_LIST_DEFAULTS: Final = LogConfig().as_topic_configs()
VALUE_LENGTH_MAX: Final = 32_767
"""Characters of one value: Kafka's limit of a record's string."""

Changes = Mapping[str, str | None]
"""New values by key; None removes one."""


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest
) -> ControllerResult[IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs (KIP-339)."""
    records, errors = _alter(state, request)
    responses = tuple(
        IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
            error_code=ErrorCode.none if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(request.resources, errors, strict=True)
    )
    return ControllerResult(records, IncrementalAlterConfigsResponse(responses=responses))


def alter_configs(state: ControllerState, request: AlterConfigsRequest) -> ControllerResult[AlterConfigsResponse]:
    """AlterConfigs: what is not named is removed."""
    records, errors = _alter(state, request)
    responses = tuple(
        AlterConfigsResponseAlterConfigsResourceResponse(
            error_code=ErrorCode.none if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in zip(request.resources, errors, strict=True)
    )
    return ControllerResult(records, AlterConfigsResponse(responses=responses))


def _alter(
    state: ControllerState, request: IncrementalAlterConfigsRequest | AlterConfigsRequest
) -> tuple[list[MetadataRecord], list[KafkaError | None]]:
    """Return the records of all resources, and what is wrong with each."""
    records: list[MetadataRecord] = []
    errors: list[KafkaError | None] = []
    twice = find_duplicates([(resource.resource_type, resource.resource_name) for resource in request.resources])
    for resource in request.resources:
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise KafkaError(ErrorCode.invalid_request, f"{resource.resource_name!r} is given twice")
            records += _alter_one(state, resource)
            errors.append(None)
        except KafkaError as error:
            errors.append(error)
    return [] if request.validate_only else records, errors


def _alter_one(
    state: ControllerState,
    resource: IncrementalAlterConfigsRequestAlterConfigsResource | AlterConfigsRequestAlterConfigsResource,
) -> list[MetadataRecord]:
    resource_type, name = resource.resource_type, resource.resource_name
    _check_resource(state, resource_type, name)
    before = state.image.config(resource_type, name)
    twice = find_duplicates([item.name for item in resource.configs])
    if twice:
        raise KafkaError(ErrorCode.invalid_request, f"configs {sorted(twice)} are given twice")
    if isinstance(resource, AlterConfigsRequestAlterConfigsResource):
        changes = _whole_changes(before, resource.configs)
    else:
        changes = _incremental_changes(before, resource.configs)
    after = {key: value for key, value in {**before, **changes}.items() if value is not None}
    too_long = [key for key, value in after.items() if len(value) > VALUE_LENGTH_MAX]
    if too_long:
        raise KafkaError(ErrorCode.invalid_config, f"values of {too_long} have more than {VALUE_LENGTH_MAX} characters")
    if resource_type == TOPIC_RESOURCE:
        check_topic_configs(state.config, after, before)
    elif resource_type == ResourceType.GROUP:
        _check_group_configs(after)
    else:
        state.config.check_broker_configs(after)
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if before.get(key) != value
    ]


def _check_resource(state: ControllerState, resource_type: int, name: str) -> None:
    if resource_type == TOPIC_RESOURCE:
        try:
            check_topic_name(name)
        except ValueError as error:
            raise KafkaError(ErrorCode.invalid_topic_exception, str(error)) from error
        if name not in state.image.topic_ids:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
    elif resource_type == BROKER_RESOURCE:
        if name and not (name.isascii() and name.isdigit()):
            raise KafkaError(
                ErrorCode.invalid_request, f"{name!r} is no broker: its id is needed, or an empty name for all brokers"
            )
    elif resource_type == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.invalid_request, "a group needs a name")
    else:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"configs of resource type {resource_type} cannot be altered here, only of topics ({TOPIC_RESOURCE}),"
            f" brokers ({BROKER_RESOURCE}) and groups ({ResourceType.GROUP:d})",
        )


def _check_group_configs(configs: Mapping[str, str]) -> None:
    """Groups have the configs of KIP-848 and KIP-932; the coordinator keeps them within its broker's limits."""
    for key, value in configs.items():
        if key not in GROUP_CONFIGS:
            known = ", ".join(sorted(GROUP_CONFIGS))
            raise KafkaError(ErrorCode.invalid_config, f"a group has no config {key!r}; it has {known}")
        try:
            check_group_config(key, value)
        except ValueError as error:
            raise KafkaError(ErrorCode.invalid_config, f"{key}={value}: {error}") from None


def _incremental_changes(
    before: Mapping[str, str], configs: Sequence[IncrementalAlterConfigsRequestAlterableConfig]
) -> Changes:
    changes: dict[str, str | None] = {}
    for item in configs:
        operation = item.config_operation
        if operation == DELETE:
            changes[item.name] = None
        elif item.value is None:
            raise KafkaError(ErrorCode.invalid_request, f"config {item.name}: a value is needed")
        elif operation == SET:
            changes[item.name] = item.value
        elif operation in (APPEND, SUBTRACT):
            changes[item.name] = _changed_list(
                item.name, before.get(item.name, _LIST_DEFAULTS.get(item.name, "")), item.value, operation
            )
        else:
            raise KafkaError(ErrorCode.invalid_request, f"config {item.name}: operation {operation} is none of 0 to 3")
    return changes


def _changed_list(key: str, before: str, value: str, operation: int) -> str:
    if key not in LIST_KEYS:
        raise KafkaError(ErrorCode.invalid_config, f"config {key} is no list: nothing can be appended or subtracted")
    entries = [entry for entry in map(str.strip, before.split(",")) if entry]
    given = [entry for entry in map(str.strip, value.split(",")) if entry]
    if operation == APPEND:
        entries += [entry for entry in dict.fromkeys(given) if entry not in entries]
    else:
        entries = [entry for entry in entries if entry not in given]
    return ",".join(entries)


def _whole_changes(before: Mapping[str, str], configs: Sequence[AlterConfigsRequestAlterableConfig]) -> Changes:
    missing = [item.name for item in configs if item.value is None]
    if missing:
        raise KafkaError(ErrorCode.invalid_request, f"configs {missing}: a value is needed")
    changes: dict[str, str | None] = dict.fromkeys(before)
    changes.update((item.name, item.value) for item in configs)
    return changes
