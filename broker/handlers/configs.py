"""DescribeConfigs for topics and brokers; changes are the controllers' matter."""

from __future__ import annotations

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from ...protocol.net import RequestContext
from ...protocol.wire import DescribedConfig, ResourceType, describe_configs_response
from ..cluster.topic_config import describe_all_brokers, describe_broker, describe_group, describe_topic
from ..cluster.view import ClusterView
from ..config.broker_config import BrokerConfig


class ConfigHandlers:
    """Configs of topics, of this broker, and of all brokers (the broker with the empty name)."""

    def __init__(self, view: ClusterView, config: BrokerConfig) -> None:
        self._view = view
        self._config = config

    async def describe_configs(self, _: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        return describe_configs_response(request, self._described)

    def _described(self, resource_type: int, name: str) -> list[DescribedConfig]:
        image = self._view.image
        if resource_type == ResourceType.TOPIC:
            if name not in image.topics:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, f"topic {name!r} does not exist")
            return describe_topic(image.topics[name].configs, self._config, image)
        if resource_type == ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.invalid_request, "a group needs a name")
            return describe_group(name, self._config, image)
        if resource_type != ResourceType.BROKER:
            raise KafkaError(ErrorCode.invalid_request, f"resource type {resource_type} has no configs here")
        if name == "":
            return describe_all_brokers(image)
        if name != str(self._config.node_id):
            raise KafkaError(
                ErrorCode.invalid_request, f"this is broker {self._config.node_id}; ask broker {name} for its configs"
            )
        return describe_broker(self._config, image)
