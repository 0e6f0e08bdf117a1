"""DescribeConfigs: what is in force, and where it comes from."""

from __future__ import annotations

import pytest

from tierfetch.broker.cluster.view import NewTopic
from tierfetch.broker.config.broker_config import BrokerConfig
from tierfetch.broker.handlers.configs import ConfigHandlers
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from tierfetch.protocol.wire.config_resources import ConfigSource, ConfigType, ResourceType
from tierfetch.tests.broker.requests import all_versions, ask_message
from tierfetch.tests.fakes.cluster_view import FakeClusterView


@pytest.fixture
def configs(view: FakeClusterView, config: BrokerConfig) -> ConfigHandlers:
    return ConfigHandlers(view, config)


async def create(view: FakeClusterView, name: str, **settings: str) -> None:
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    await view.create_topic(NewTopic(name, 1, 2, configs=configs))


def describe_request(
    resource: ResourceType, name: str, *keys: str, include_synonyms: bool = False
) -> DescribeConfigsRequest:
    asked = DescribeConfigsResource(resource_type=int(resource), resource_name=name, configuration_keys=keys or None)
    return DescribeConfigsRequest(resources=(asked,), include_synonyms=include_synonyms)


@pytest.mark.parametrize("version", all_versions(ApiKey.DESCRIBE_CONFIGS))
async def test_describe_topic_configs(view: FakeClusterView, configs: ConfigHandlers, version: int) -> None:
    await create(view, "a", retention_ms="5")
    request = describe_request(ResourceType.TOPIC, "a", "retention.ms", "segment.bytes")
    (result,) = (await ask_message(configs.describe_configs, request, version)).results
    assert [(entry.name, entry.value) for entry in result.configs] == [
        ("retention.ms", "5"),
        ("segment.bytes", "1073741824"),
    ]


@pytest.mark.parametrize("version", all_versions(ApiKey.DESCRIBE_CONFIGS))
async def test_synonyms_are_told_in_the_order_in_which_they_win(
    view: FakeClusterView, config: BrokerConfig, version: int
) -> None:
    handlers = ConfigHandlers(view, config.model_copy(update={"log_retention_hours": 48}))
    await create(view, "a", retention_ms="5")
    await view.alter_broker_configs("default", {"log.retention.ms": "60000", "log.segment.bytes": "2097152"})
    await view.alter_broker_configs("1", {"log.segment.bytes": "1048576"})
    request = describe_request(ResourceType.TOPIC, "a", "retention.ms", "segment.bytes", include_synonyms=True)
    (result,) = (await ask_message(handlers.describe_configs, request, version)).results
    told = {entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in result.configs}
    assert told == {
        "retention.ms": [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "60000", 3),
            ("log.retention.hours", "48", 4),
        ],
        "segment.bytes": [
            ("log.segment.bytes", "1048576", 2),
            ("log.segment.bytes", "2097152", 3),
            ("log.segment.bytes", "1073741824", 5),
        ],
    }
    unasked = describe_request(ResourceType.TOPIC, "a", "retention.ms")
    (result,) = (await ask_message(handlers.describe_configs, unasked, version)).results
    assert result.configs[0].synonyms == ()


async def test_value_that_the_file_gives_in_other_units_is_not_called_a_default(
    view: FakeClusterView, config: BrokerConfig
) -> None:
    handlers = ConfigHandlers(view, config.model_copy(update={"log_retention_hours": 48}))
    await create(view, "a")
    request = describe_request(ResourceType.TOPIC, "a", "retention.ms", "flush.ms")
    (result,) = (await ask_message(handlers.describe_configs, request, 4)).results
    assert [(entry.name, entry.value, entry.config_source) for entry in result.configs] == [
        ("flush.ms", str(2**63 - 1), 5),
        ("retention.ms", str(48 * 3_600_000), 4),
    ]


async def test_synonyms_of_a_broker_key(configs: ConfigHandlers, view: FakeClusterView) -> None:
    await view.alter_broker_configs("default", {"log.retention.ms": "60000"})
    request = describe_request(ResourceType.BROKER, "1", "log.retention.ms", "node.id", include_synonyms=True)
    (result,) = (await ask_message(configs.describe_configs, request, 4)).results
    told = {entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in result.configs}
    assert told == {
        "log.retention.ms": [("log.retention.ms", "60000", 3), ("log.retention.hours", "168", 5)],
        "node.id": [("node.id", "1", 4)],
    }


@pytest.mark.parametrize(
    ("resource", "name", "error"),
    [
        (ResourceType.TOPIC, "absent", ErrorCode.unknown_topic_or_partition),
        (ResourceType.BROKER, "2", ErrorCode.invalid_request),
        (ResourceType.BROKER, "1", ErrorCode.none),
        (ResourceType.BROKER, "", ErrorCode.none),
    ],
)
async def test_describe_of_other_resources(
    configs: ConfigHandlers, resource: ResourceType, name: str, error: ErrorCode
) -> None:
    (result,) = (await ask_message(configs.describe_configs, describe_request(resource, name), 4)).results
    assert result.error_code is error


KAFKAS_TOPIC_CONFIGS = {
    "cleanup.policy": ConfigType.LIST,
    "compression.gzip.level": ConfigType.INT,
    "compression.lz4.level": ConfigType.INT,
    "compression.type": ConfigType.STRING,
    "compression.zstd.level": ConfigType.INT,
    "delete.retention.ms": ConfigType.LONG,
    "file.delete.delay.ms": ConfigType.LONG,
    "flush.messages": ConfigType.LONG,
    "flush.ms": ConfigType.LONG,
    "follower.replication.throttled.replicas": ConfigType.LIST,
    "index.interval.bytes": ConfigType.INT,
    "leader.replication.throttled.replicas": ConfigType.LIST,
    "local.retention.bytes": ConfigType.LONG,
    "local.retention.ms": ConfigType.LONG,
    "max.compaction.lag.ms": ConfigType.LONG,
    "max.message.bytes": ConfigType.INT,
    "message.timestamp.after.max.ms": ConfigType.LONG,
    "message.timestamp.before.max.ms": ConfigType.LONG,
    "message.timestamp.type": ConfigType.STRING,
    "min.cleanable.dirty.ratio": ConfigType.DOUBLE,
    "min.compaction.lag.ms": ConfigType.LONG,
    "min.insync.replicas": ConfigType.INT,
    "preallocate": ConfigType.BOOLEAN,
    "remote.log.copy.disable": ConfigType.BOOLEAN,
    "remote.log.delete.on.disable": ConfigType.BOOLEAN,
    "remote.storage.enable": ConfigType.BOOLEAN,
    "retention.bytes": ConfigType.LONG,
    "retention.ms": ConfigType.LONG,
    "segment.bytes": ConfigType.INT,
    "segment.index.bytes": ConfigType.INT,
    "segment.jitter.ms": ConfigType.LONG,
    "segment.ms": ConfigType.LONG,
    "unclean.leader.election.enable": ConfigType.BOOLEAN,
}
"""As Apache Kafka 4.3.0 tells them of a topic."""


@pytest.mark.parametrize("version", [3, 4])
async def test_A4_every_config_of_a_topic_is_told_with_its_type(
    view: FakeClusterView, configs: ConfigHandlers, version: int
) -> None:
    await create(view, "a", segment_jitter_ms="7")
    await view.alter_broker_configs("default", {"unclean.leader.election.enable": "true"})
    request = describe_request(ResourceType.TOPIC, "a")
    (result,) = (await ask_message(configs.describe_configs, request, version)).results
    assert {entry.name: entry.config_type for entry in result.configs} == KAFKAS_TOPIC_CONFIGS
    told = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert told["compression.zstd.level"] == ("3", ConfigSource.DEFAULT_CONFIG)
    assert told["segment.jitter.ms"] == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert told["unclean.leader.election.enable"] == ("true", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)


async def test_A4_every_config_of_a_broker_has_a_type(configs: ConfigHandlers) -> None:
    (result,) = (await ask_message(configs.describe_configs, describe_request(ResourceType.BROKER, "1"), 4)).results
    told = {entry.name: entry.config_type for entry in result.configs}
    assert min(told.values()) > 0
    wanted = {
        "log.cleaner.min.cleanable.ratio": ConfigType.DOUBLE,
        "log.dirs": ConfigType.LIST,
        "log.preallocate": ConfigType.BOOLEAN,
        "log.retention.bytes": ConfigType.LONG,
        "log.message.timestamp.type": ConfigType.STRING,
        "node.id": ConfigType.INT,
        "log.segment.delete.delay.ms": ConfigType.LONG,
        "default.replication.factor": ConfigType.INT,
        "offsets.topic.replication.factor": ConfigType.SHORT,
        "controller.quorum.bootstrap.servers": ConfigType.LIST,
    }
    assert {name: told[name] for name in wanted} == wanted
