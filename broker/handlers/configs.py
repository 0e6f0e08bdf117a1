"""DescribeConfigs for topics and brokers; changes are the controllers' matter."""

from __future__ import annotations

from typing import Any

from ...protocol.config_resources import ResourceType
from ...protocol.dispatch import RequestContext
from ...protocol.errors import ErrorCode, KafkaError
from ..cluster_view import ClusterView
from ..config import BrokerConfig
from ..topic_config import (
    DescribedConfig,
    describe_all_brokers,
    describe_broker,
    describe_topic,
)
from . import Plain


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
