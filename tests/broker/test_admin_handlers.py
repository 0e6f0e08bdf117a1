"""CreateTopics, DeleteTopics, DescribeConfigs and IncrementalAlterConfigs on a static cluster."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tierfetch.broker.config import BrokerConfig
from tierfetch.broker.handlers.configs import ConfigHandlers, Operation, ResourceType
from tierfetch.broker.handlers.topics import TopicHandlers
from tierfetch.broker.static_view import StaticClusterView
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.broker.requests import RequestEntities, all_versions, ask

TIMEOUT = datetime.timedelta(seconds=1)
OPTION = "follower.fetch.last.tiered.offset.enable"


@pytest.fixture
def topics(view: StaticClusterView, config: BrokerConfig) -> TopicHandlers:
    return TopicHandlers(view, config)


@pytest.fixture
def configs(view: StaticClusterView, config: BrokerConfig) -> ConfigHandlers:
    return ConfigHandlers(view, config)


def create_request(
    version: int,
    *names: str,
    partitions: int = 1,
    replicas: int = 2,
    assignments: dict[int, tuple[int, ...]] | None = None,
    validate_only: bool = False,
    **settings: str,
) -> Any:
    make = RequestEntities(ApiKey.CREATE_TOPICS, version)
    return make(
        "CreateTopicsRequest",
        topics=tuple(
            make(
                "CreatableTopic",
                name=name,
                num_partitions=partitions,
                replication_factor=replicas,
                assignments=tuple(
                    make("CreatableReplicaAssignment", partition_index=index, broker_ids=brokers)
                    for index, brokers in (assignments or {}).items()
                ),
                configs=tuple(
                    make("CreatableTopicConfig", name=key.replace("_", "."), value=value)
                    for key, value in settings.items()
                ),
            )
            for name in names
        ),
        timeout=TIMEOUT,
        validate_only=validate_only,
    )


def alter_request(resource: ResourceType, name: str, *changes: tuple[str, Operation, str | None]) -> Any:
    make = RequestEntities(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    return make(
        "IncrementalAlterConfigsRequest",
        resources=(
            make(
                "AlterConfigsResource",
                resource_type=int(resource),
                resource_name=name,
                configs=tuple(
                    make("AlterableConfig", name=key, config_operation=int(operation), value=value)
                    for key, operation, value in changes
                ),
            ),
        ),
        validate_only=False,
    )


def describe_request(
    version: int, resource: ResourceType, name: str, *keys: str, include_synonyms: bool = False
) -> Any:
    make = RequestEntities(ApiKey.DESCRIBE_CONFIGS, version)
    asked = make(
        "DescribeConfigsResource", resource_type=int(resource), resource_name=name, configuration_keys=keys or None
    )
    return make(
        "DescribeConfigsRequest", resources=(asked,), include_synonyms=include_synonyms, include_documentation=False
    )


@pytest.mark.parametrize("version", all_versions(ApiKey.CREATE_TOPICS))
async def test_create_topics(topics: TopicHandlers, view: StaticClusterView, version: int) -> None:
    response = await ask(topics.create_topics, create_request(version, "a", "b", retention_ms="5"))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.none),
    ]
    assert view.image.topics["a"].configs == {"retention.ms": "5"}
    assert len(view.image.topics["b"].partitions[0].replicas) == 2
    if version >= 7:
        assert response.topics[0].topic_id == view.image.topics["a"].topic_id
        assert {entry.name: entry.value for entry in response.topics[0].configs}["retention.ms"] == "5"


async def test_create_topic_with_assignments(topics: TopicHandlers, view: StaticClusterView) -> None:
    request = create_request(7, "a", partitions=-1, replicas=-1, assignments={1: (3,), 0: (2, 1)})
    await ask(topics.create_topics, request)
    partitions = view.image.topics["a"].partitions
    assert [(partitions[n].leader, partitions[n].replicas) for n in (0, 1)] == [(2, (2, 1)), (3, (3,))]


async def test_create_topic_takes_the_brokers_defaults(topics: TopicHandlers, view: StaticClusterView) -> None:
    await ask(topics.create_topics, create_request(7, "a", partitions=-1, replicas=-1))
    assert [entry.replicas for entry in view.image.topics["a"].partitions.values()] == [(1,)]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (create_request(7, "a", "a"), ErrorCode.invalid_request),
        (create_request(7, "a", replicas=4), ErrorCode.invalid_replication_factor),
        (create_request(7, "a", partitions=0), ErrorCode.invalid_partitions),
        (create_request(7, "a/b"), ErrorCode.invalid_topic_exception),
        (create_request(7, "a", colour="red"), ErrorCode.invalid_config),
        (create_request(7, "a", retention_ms="soon"), ErrorCode.invalid_config),
        (create_request(7, "a", remote_storage_enable="true"), ErrorCode.invalid_config),
        (create_request(7, "a", assignments={0: (1,)}), ErrorCode.invalid_request),
        (
            create_request(7, "a", partitions=-1, replicas=-1, assignments={1: (1,)}),
            ErrorCode.invalid_replica_assignment,
        ),
    ],
)
async def test_topics_that_are_refused(
    topics: TopicHandlers, view: StaticClusterView, request_: Any, error: ErrorCode
) -> None:
    response = await ask(topics.create_topics, request_)
    assert {topic.error_code for topic in response.topics} == {error}
    assert all(topic.error_message for topic in response.topics)
    assert view.image.topics == {}


async def test_validate_only_creates_nothing(topics: TopicHandlers, view: StaticClusterView) -> None:
    response = await ask(topics.create_topics, create_request(6, "a", validate_only=True))
    assert response.topics[0].error_code is ErrorCode.none
    assert view.image.topics == {}


@pytest.mark.parametrize("version", all_versions(ApiKey.DELETE_TOPICS))
async def test_delete_topics(topics: TopicHandlers, view: StaticClusterView, version: int) -> None:
    await ask(topics.create_topics, create_request(7, "a"))
    make = RequestEntities(ApiKey.DELETE_TOPICS, version)
    if version >= 6:
        asked = (
            make("DeleteTopicState", name=None, topic_id=view.image.topics["a"].topic_id),
            make("DeleteTopicState", name="gone", topic_id=None),
        )
        request = make("DeleteTopicsRequest", topics=asked, timeout=TIMEOUT)
    else:
        request = make("DeleteTopicsRequest", topic_names=("a", "gone"), timeout=TIMEOUT)
    response = await ask(topics.delete_topics, request)
    assert [(entry.name, entry.error_code) for entry in response.responses] == [
        ("a", ErrorCode.none),
        ("gone", ErrorCode.unknown_topic_or_partition),
    ]
    assert view.image.topics == {}


@pytest.mark.parametrize("version", all_versions(ApiKey.DESCRIBE_CONFIGS))
async def test_describe_topic_configs(topics: TopicHandlers, configs: ConfigHandlers, version: int) -> None:
    await ask(topics.create_topics, create_request(7, "a", retention_ms="5"))
    request = describe_request(version, ResourceType.TOPIC, "a", "retention.ms", "segment.bytes")
    (result,) = (await ask(configs.describe_configs, request)).results
    assert [(entry.name, entry.value) for entry in result.configs] == [
        ("retention.ms", "5"),
        ("segment.bytes", "1073741824"),
    ]


@pytest.mark.parametrize("version", all_versions(ApiKey.DESCRIBE_CONFIGS))
async def test_synonyms_are_told_in_the_order_in_which_they_win(
    topics: TopicHandlers, view: StaticClusterView, config: BrokerConfig, version: int
) -> None:
    handlers = ConfigHandlers(view, config.model_copy(update={"log_retention_hours": 48}))
    await ask(topics.create_topics, create_request(7, "a", retention_ms="5"))
    await view.alter_broker_configs("default", {"log.retention.ms": "60000", "log.segment.bytes": "2097152"})
    await view.alter_broker_configs("1", {"log.segment.bytes": "1048576"})
    request = describe_request(version, ResourceType.TOPIC, "a", "retention.ms", "segment.bytes", include_synonyms=True)
    (result,) = (await ask(handlers.describe_configs, request)).results
    told = {entry.name: [(each.name, each.value, each.source) for each in entry.synonyms] for entry in result.configs}
    assert told == {
        "retention.ms": [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "60000", 3),
            ("log.retention.hours", "48", 4),
            ("log.retention.hours", "168", 5),
        ],
        "segment.bytes": [
            ("log.segment.bytes", "1048576", 2),
            ("log.segment.bytes", "2097152", 3),
            ("log.segment.bytes", "1073741824", 5),
        ],
    }
    unasked = describe_request(version, ResourceType.TOPIC, "a", "retention.ms")
    (result,) = (await ask(handlers.describe_configs, unasked)).results
    assert result.configs[0].synonyms == ()


async def test_value_that_the_file_gives_in_other_units_is_not_called_a_default(
    topics: TopicHandlers, view: StaticClusterView, config: BrokerConfig
) -> None:
    handlers = ConfigHandlers(view, config.model_copy(update={"log_retention_hours": 48}))
    await ask(topics.create_topics, create_request(7, "a"))
    request = describe_request(4, ResourceType.TOPIC, "a", "retention.ms", "flush.ms")
    (result,) = (await ask(handlers.describe_configs, request)).results
    assert [(entry.name, entry.value, entry.config_source) for entry in result.configs] == [
        ("flush.ms", str(2**63 - 1), 5),
        ("retention.ms", str(48 * 3_600_000), 4),
    ]


async def test_synonyms_of_a_broker_key(configs: ConfigHandlers, view: StaticClusterView) -> None:
    await view.alter_broker_configs("default", {"log.retention.ms": "60000"})
    request = describe_request(4, ResourceType.BROKER, "1", "log.retention.ms", "node.id", include_synonyms=True)
    (result,) = (await ask(configs.describe_configs, request)).results
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
    (result,) = (await ask(configs.describe_configs, describe_request(4, resource, name))).results
    assert result.error_code is error


async def test_F1_option_is_set_for_all_brokers_and_taken_back(
    configs: ConfigHandlers, view: StaticClusterView
) -> None:
    on = alter_request(ResourceType.BROKER, "", (OPTION, Operation.SET, "true"))
    (result,) = (await ask(configs.incremental_alter_configs, on)).responses
    assert result.error_code is ErrorCode.none
    assert view.image.broker_configs == {"default": {OPTION: "true"}}
    (described,) = (await ask(configs.describe_configs, describe_request(4, ResourceType.BROKER, "1", OPTION))).results
    assert [entry.value for entry in described.configs] == ["true"]
    off = alter_request(ResourceType.BROKER, "", (OPTION, Operation.DELETE, None))
    await ask(configs.incremental_alter_configs, off)
    assert view.image.broker_configs == {"default": {}}


async def test_topic_configs_are_altered(
    topics: TopicHandlers, configs: ConfigHandlers, view: StaticClusterView
) -> None:
    await ask(topics.create_topics, create_request(7, "a", retention_ms="5"))
    changes = [
        ("retention.ms", Operation.DELETE, None),
        ("segment.bytes", Operation.SET, "1048576"),
        ("cleanup.policy", Operation.APPEND, "compact"),
    ]
    await ask(configs.incremental_alter_configs, alter_request(ResourceType.TOPIC, "a", *changes))
    assert view.image.topics["a"].configs == {"segment.bytes": "1048576", "cleanup.policy": "delete,compact"}
    back = alter_request(ResourceType.TOPIC, "a", ("cleanup.policy", Operation.SUBTRACT, "compact"))
    await ask(configs.incremental_alter_configs, back)
    assert view.image.topics["a"].configs["cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    ("resource", "name", "change", "error"),
    [
        (ResourceType.TOPIC, "absent", ("retention.ms", Operation.SET, "1"), ErrorCode.unknown_topic_or_partition),
        (ResourceType.TOPIC, "a", ("retention.ms", Operation.SET, "x"), ErrorCode.invalid_config),
        (ResourceType.TOPIC, "a", ("retention.ms", Operation.SET, None), ErrorCode.invalid_config),
        (ResourceType.TOPIC, "a", ("retention.ms", Operation.APPEND, "1"), ErrorCode.invalid_config),
        (ResourceType.TOPIC, "a", ("internal.segment.bytes", Operation.SET, "100"), ErrorCode.invalid_config),
        (ResourceType.TOPIC, "a", ("remote.storage.enable", Operation.SET, "true"), ErrorCode.invalid_config),
        (ResourceType.BROKER, "", ("log.dirs", Operation.SET, "x"), ErrorCode.invalid_request),
        (ResourceType.BROKER, "", (OPTION, Operation.SET, "x"), ErrorCode.invalid_config),
        (ResourceType.BROKER, "9", (OPTION, Operation.SET, "true"), ErrorCode.invalid_request),
    ],
)
async def test_alterations_that_are_refused(
    topics: TopicHandlers,
    configs: ConfigHandlers,
    view: StaticClusterView,
    resource: ResourceType,
    name: str,
    change: tuple[str, Operation, str | None],
    error: ErrorCode,
) -> None:
    await ask(topics.create_topics, create_request(7, "a"))
    before = view.image
    (result,) = (await ask(configs.incremental_alter_configs, alter_request(resource, name, change))).responses
    assert result.error_code is error
    assert result.error_message
    assert view.image == before
