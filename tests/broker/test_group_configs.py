"""Configs of groups (resource type 32): a broker refuses what is beyond its keys, and describes all, with sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tierfetch.broker.cluster.group_limits import check_group_limits
from tierfetch.broker.cluster.topic_config import describe_group
from tierfetch.broker.cluster.view import ClusterImage, ClusterView
from tierfetch.broker.config.broker_config import BrokerConfig, parse_broker_config
from tierfetch.broker.handlers.forwarding import Forwarding
from tierfetch.broker.handlers.group_configs import DELETE, SET, GroupConfigHandlers
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.configs import (
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
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire import ConfigSource, ConfigSynonym, ConfigType
from tierfetch.protocol.wire.group_configs import GROUP_CONFIGS
from tierfetch.security.principal import KafkaPrincipal
from tierfetch.tests.broker.images import image

TOPIC, GROUP = 2, 32
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
NODE = {"node.id": "1", "log.dirs": "/data", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
NONE, INVALID, DENIED = ErrorCode.none, ErrorCode.invalid_config, ErrorCode.group_authorization_failed


def configured(**keys: str) -> BrokerConfig:
    return parse_broker_config({**NODE, **{key.replace("_", "."): value for key, value in keys.items()}}, "test")[0]


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({SESSION: "44999"}, "group.consumer.min.session.timeout.ms (45000) to "),
        ({SESSION: "60001"}, "group.consumer.max.session.timeout.ms (60000) is allowed"),
        ({INTERVAL: "4999"}, "group.consumer.min.heartbeat.interval.ms"),
        ({INTERVAL: "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"consumer.assignment.interval.ms": "15001"}, "at most 15000"),
        ({"share.session.timeout.ms": "1"}, "group.share.min.session.timeout.ms"),
        ({"share.heartbeat.interval.ms": "20000"}, "group.share.max.heartbeat.interval.ms"),
        ({"share.record.lock.duration.ms": "14999"}, "group.share.min.record.lock.duration.ms"),
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit"),
        ({"share.partition.max.record.locks": "10001"}, "group.share.max.partition.max.record.locks"),
        ({"share.assignment.interval.ms": "15001"}, "at most 15000"),
    ],
)
def test_G1_a_number_beyond_the_brokers_keys_is_refused_with_the_keys(configs: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_group_limits(configured(), configs)
    assert caught.value.code is INVALID
    assert said in caught.value.message


def test_G1_a_session_is_longer_than_the_interval_of_its_heartbeats_whoever_says_which() -> None:
    config = configured(
        group_consumer_min_session_timeout_ms="1000",
        group_consumer_session_timeout_ms="9000",
        group_consumer_min_heartbeat_interval_ms="100",
        group_consumer_heartbeat_interval_ms="3000",
    )
    check_group_limits(config, {SESSION: "3001"})
    check_group_limits(config, {SESSION: "2000", INTERVAL: "1999"})
    for configs in ({SESSION: "3000"}, {INTERVAL: "9000"}, {SESSION: "2000", INTERVAL: "2000"}):
        with pytest.raises(KafkaError, match="must be less than"):
            check_group_limits(config, configs)


def test_G1_what_no_group_may_have_is_the_controllers_to_refuse() -> None:
    check_group_limits(configured(), {"no.such": "1", SESSION: "soon", "share.delivery.count.limit": "1"})
    check_group_limits(configured(), {"share.auto.offset.reset": "earliest", "share.renew.acknowledge.enable": "false"})


class FakeForwarding(Forwarding):
    """A controller that takes everything, but for the names that it denies; it notes what it is asked to alter."""

    def __init__(self, *denied: str) -> None:
        self.denied = denied
        self.altered: list[str] = []

    async def forward(self, context: RequestContext, request: Any) -> Any:
        if not request.validate_only:
            self.altered += [each.resource_name for each in request.resources]
        answer: Callable[..., Any] = IncrementalAlterConfigsResponseAlterConfigsResourceResponse
        response: Callable[..., Any] = IncrementalAlterConfigsResponse
        if isinstance(request, AlterConfigsRequest):
            answer, response = AlterConfigsResponseAlterConfigsResourceResponse, AlterConfigsResponse
        return response(
            responses=tuple(
                answer(
                    error_code=DENIED if each.resource_name in self.denied else NONE,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in request.resources
            )
        )


class View:
    def __init__(self, cluster: ClusterImage) -> None:
        self.image = cluster


CONTEXT = RequestContext(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    1,
    "tool",
    1,
    "10.0.0.7:1",
    "CLIENTS",
    0.0,
    KafkaPrincipal("User", "a"),
    "10.0.0.7",
)


def handlers(forwarding: Forwarding, **groups: dict[str, str]) -> GroupConfigHandlers:
    view = cast(ClusterView, View(replace(image(), group_configs=groups)))
    return GroupConfigHandlers(view, configured(), forwarding)


def resource(
    name: str, *changes: tuple[str, int, str | None], kind: int = GROUP
) -> IncrementalAlterConfigsRequestAlterConfigsResource:
    configs = tuple(
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    )
    return IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


async def altered(
    subject: GroupConfigHandlers, *resources: IncrementalAlterConfigsRequestAlterConfigsResource
) -> dict[tuple[int, str], ErrorCode]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    answer = await subject.alter(CONTEXT, request)
    return {(each.resource_type, each.resource_name): each.error_code for each in answer.responses}


async def test_G1_a_group_beyond_the_limits_is_refused_and_what_is_beside_it_is_altered() -> None:
    forwarding = FakeForwarding()
    answers = await altered(
        handlers(forwarding),
        resource("low", (SESSION, SET, "5")),
        resource("right", (SESSION, SET, "50000")),
        resource("low", (SESSION, SET, "5"), kind=TOPIC),
    )
    assert answers == {(GROUP, "low"): INVALID, (GROUP, "right"): NONE, (TOPIC, "low"): NONE}
    assert forwarding.altered == ["right", "low"], "the group is only validated"


async def test_G1_what_the_controller_has_against_a_group_comes_before_the_limits() -> None:
    forwarding = FakeForwarding("secret")
    assert await altered(handlers(forwarding), resource("secret", (SESSION, SET, "5"))) == {(GROUP, "secret"): DENIED}
    assert forwarding.altered == []


async def test_G1_a_change_is_judged_with_what_the_group_has_already() -> None:
    forwarding = FakeForwarding()
    subject = handlers(forwarding, old={SESSION: "5", INTERVAL: "6000"})
    assert await altered(subject, resource("old", (INTERVAL, SET, "7000"))) == {(GROUP, "old"): INVALID}
    assert await altered(subject, resource("old", (SESSION, DELETE, None))) == {(GROUP, "old"): NONE}
    assert await altered(subject, resource("old", (SESSION, SET, "50000"))) == {(GROUP, "old"): NONE}
    assert forwarding.altered == ["old", "old"]


async def test_G1_a_group_that_is_named_twice_is_left_to_the_controller() -> None:
    forwarding = FakeForwarding()
    await altered(handlers(forwarding), resource("g", (SESSION, SET, "5")), resource("g", (SESSION, SET, "6")))
    assert forwarding.altered == ["g", "g"]


async def test_G1_all_configs_of_a_group_at_once_are_judged_alone() -> None:
    forwarding = FakeForwarding()
    subject = handlers(forwarding, old={SESSION: "5"})
    request = AlterConfigsRequest(
        resources=tuple(
            AlterConfigsRequestAlterConfigsResource(
                resource_type=GROUP,
                resource_name=name,
                configs=(AlterConfigsRequestAlterableConfig(name=INTERVAL, value=value),),
            )
            for name, value in (("old", "6000"), ("low", "1"))
        ),
        validate_only=False,
    )
    answer = await subject.alter(CONTEXT, request)
    assert {each.resource_name: each.error_code for each in answer.responses} == {"old": NONE, "low": INVALID}
    assert forwarding.altered == ["old"]


def test_G1_a_config_of_a_group_is_described_with_the_brokers_key_and_the_default_after_it() -> None:
    config = configured(group_consumer_session_timeout_ms="50000")
    cluster = replace(image(), group_configs={"g": {SESSION: "55000", "share.isolation.level": "read_committed"}})
    described = {each.name: each for each in describe_group("g", config, cluster)}
    assert described.keys() == GROUP_CONFIGS
    key = f"group.{SESSION}"
    assert described[SESSION].value == "55000"
    assert described[SESSION].synonyms == (
        ConfigSynonym(SESSION, "55000", ConfigSource.DYNAMIC_GROUP_CONFIG),
        ConfigSynonym(key, "50000", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym(key, "45000", ConfigSource.DEFAULT_CONFIG),
    )
    assert described[INTERVAL].synonyms == (ConfigSynonym(f"group.{INTERVAL}", "5000", ConfigSource.DEFAULT_CONFIG),)
    isolation = "share.isolation.level"
    assert described[isolation].synonyms == (
        ConfigSynonym(isolation, "read_committed", ConfigSource.DYNAMIC_GROUP_CONFIG),
        ConfigSynonym(isolation, "read_uncommitted", ConfigSource.DEFAULT_CONFIG),
    )
    assert described["share.renew.acknowledge.enable"].type is ConfigType.BOOLEAN
    assert {name: each.value for name, each in described.items() if name != SESSION} == {
        "consumer.heartbeat.interval.ms": "5000",
        "consumer.assignment.interval.ms": "0",
        "share.session.timeout.ms": "45000",
        "share.heartbeat.interval.ms": "5000",
        "share.assignment.interval.ms": "0",
        "share.record.lock.duration.ms": "30000",
        "share.delivery.count.limit": "5",
        "share.partition.max.record.locks": "2000",
        "share.auto.offset.reset": "latest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "true",
    }
