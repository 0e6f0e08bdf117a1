"""DescribeConfigs, as a controller answers it: from its image, whether it is the active one or not.

| resource | what is described |
|---|---|
| a topic | its own configs over Kafka's defaults; what brokers' files say besides, a controller does not know |
| the broker "" | the cluster-wide dynamic defaults |
| this node | its own keys, which only a restart changes |
| a group | what is its own |
| another broker | INVALID_REQUEST: only that broker knows its file |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from ...light_dataclass import dataclass
from ...log.core import TOPIC_CONFIG_TYPES, LogConfig, config_types
from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from ...protocol.wire import (
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    DescribedConfig,
    ResourceType,
    describe_configs_response,
)
from ...quorum import ControllerConfig
from .state import ControllerState

_NODE_TYPES: Final = config_types(ControllerConfig)


@dataclass(frozen=True, slots=True)
class NodeConfigs:
    """This node's own keys with what is in force, and those of them that its file gave."""

    node_id: int
    in_force: Mapping[str, str]
    given: Mapping[str, str]


def describe_configs(
    state: ControllerState, request: DescribeConfigsRequest, node: NodeConfigs
) -> DescribeConfigsResponse:
    """DescribeConfigs; each resource is answered, or refused, by itself."""
    return describe_configs_response(request, partial(_described, state, node))


def _described(state: ControllerState, node: NodeConfigs, resource_type: int, name: str) -> Iterator[DescribedConfig]:
    if resource_type == ResourceType.TOPIC:
        return _of_topic(state, name)
    if resource_type == ResourceType.GROUP:
        own = state.image.config(ResourceType.GROUP, name)
        return (_config(key, [(value, ConfigSource.DYNAMIC_GROUP_CONFIG)]) for key, value in sorted(own.items()))
    if resource_type != ResourceType.BROKER:
        raise KafkaError(ErrorCode.invalid_request, f"resource type {resource_type} has no configs here")
    if name == "":
        return _of_all_brokers(state)
    if name != str(node.node_id):
        raise KafkaError(ErrorCode.invalid_request, f"this is node {node.node_id}; ask broker {name} for its configs")
    return _of_node(node)


def _of_topic(state: ControllerState, name: str) -> Iterator[DescribedConfig]:
    if name not in state.image.topic_ids:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
    own = state.image.config(ResourceType.TOPIC, name)
    yield from topic_configs(own)


def topic_configs(own: Mapping[str, str]) -> Iterator[DescribedConfig]:
    """Every config of a topic: those that are its own over Kafka's defaults."""
    defaults = LogConfig().all_topic_configs()
    for key in sorted({**defaults, **own}):
        places = [(own.get(key), ConfigSource.DYNAMIC_TOPIC_CONFIG), (defaults.get(key), ConfigSource.DEFAULT_CONFIG)]
        yield _config(key, [(value, source) for value, source in places if value is not None])


def _of_all_brokers(state: ControllerState) -> Iterator[DescribedConfig]:
    for key, value in sorted(state.image.config(ResourceType.BROKER, "").items()):
        yield _config(key, [(value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)])


def _of_node(node: NodeConfigs) -> Iterator[DescribedConfig]:
    for key, value in sorted(node.in_force.items()):
        source = ConfigSource.STATIC_BROKER_CONFIG if key in node.given else ConfigSource.DEFAULT_CONFIG
        yield _config(key, [(value, source)], is_read_only=True)


def _config(name: str, places: list[tuple[str, ConfigSource]], *, is_read_only: bool = False) -> DescribedConfig:
    """`places` in the order in which they win."""
    synonyms = tuple(ConfigSynonym(name, value, source) for value, source in places)
    kind = _NODE_TYPES.get(name) or TOPIC_CONFIG_TYPES.get(name, ConfigType.STRING)
    return DescribedConfig(name, synonyms[0].value, kind, is_read_only, synonyms)
