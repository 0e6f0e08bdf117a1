"""Defaults of topics from the broker's keys, and where a value in force comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from tierfetch.broker.cluster.topic_config import (
    BROKER_KEYS,
    TopicConfigs,
    config_in_force,
    describe_broker,
    describe_topic,
    log_defaults,
)
from tierfetch.broker.cluster.view import BrokerRegistration, NewTopic
from tierfetch.broker.config.broker_config import BrokerConfig, parse_broker_config
from tierfetch.log.core import LogConfig
from tierfetch.protocol.topics import REMOTE_LOG_METADATA_TOPIC
from tierfetch.protocol.wire.config_resources import ConfigSource, DescribedConfig
from tierfetch.tests.broker.images import image
from tierfetch.tests.fakes.cluster_view import FakeClusterView

MINIMAL = {"node.id": "1", "log.dirs": "data", "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}


def test_defaults_of_an_empty_configuration_are_kafkas() -> None:
    assert log_defaults(parse_broker_config(MINIMAL, "f")[0]) == LogConfig()


@pytest.mark.parametrize("topic_key", sorted(BROKER_KEYS))
def test_broker_key_reaches_its_topic_key(topic_key: str) -> None:
    texts = {
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "compact",
        "compression.type": "zstd",
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.25",
    }
    value = texts.get(topic_key, "2097152")
    config, warnings = parse_broker_config({**MINIMAL, BROKER_KEYS[topic_key]: value}, "f")
    assert warnings == []
    assert log_defaults(config).as_topic_configs()[topic_key] == value


def described(configs: list[DescribedConfig]) -> dict[str, tuple[str, ConfigSource]]:
    return {config.name: (config.value, config.source) for config in configs}


def test_sources_in_order_of_precedence() -> None:
    config, _ = parse_broker_config({**MINIMAL, "log.segment.bytes": "2097152", "log.retention.ms": "1"}, "f")
    cluster = replace(
        image(),
        broker_configs={
            "default": {"log.retention.ms": "2", "log.retention.bytes": "20"},
            "1": {"log.retention.ms": "3"},
            "2": {"log.index.interval.bytes": "9"},
        },
    )
    values = described(describe_topic({"max.message.bytes": "77"}, config, cluster))
    assert values["max.message.bytes"] == ("77", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert values["retention.ms"] == ("3", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert values["retention.bytes"] == ("20", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert values["segment.bytes"] == ("2097152", ConfigSource.STATIC_BROKER_CONFIG)
    assert values["index.interval.bytes"] == ("4096", ConfigSource.DEFAULT_CONFIG)
    assert values["remote.storage.enable"] == ("false", ConfigSource.DEFAULT_CONFIG)


def test_broker_configs_leave_out_what_may_be_secret() -> None:
    config, _ = parse_broker_config({**MINIMAL, "rsm.config.secret.key": "s3cr3t"}, "f")
    configs = describe_broker(config, image())
    assert described(configs)["node.id"] == ("1", ConfigSource.STATIC_BROKER_CONFIG)
    assert described(configs)["listeners"][0] == "PLAINTEXT://127.0.0.1:9092"
    assert "s3cr3t" not in str(configs)
    assert "s3cr3t" not in repr(config) + str(config)
    read_only = {entry.name: entry.is_read_only for entry in configs}
    assert read_only["node.id"]
    assert not read_only["follower.fetch.last.tiered.offset.enable"]


def test_F1_option_is_taken_from_the_default_for_all_then_from_the_broker() -> None:
    key = "follower.fetch.last.tiered.offset.enable"
    config, _ = parse_broker_config(MINIMAL, "f")
    on = replace(image(), broker_configs={"default": {key: "true"}})
    off_here = replace(image(), broker_configs={"default": {key: "true"}, "1": {key: "false"}})
    assert config_in_force(config, on).follower_fetch_last_tiered_offset_enable is True
    assert config_in_force(config, off_here).follower_fetch_last_tiered_offset_enable is False


def test_a_topic_config_that_is_not_known_here_is_told_beside_the_others() -> None:
    config, _ = parse_broker_config(MINIMAL, "f")
    values = described(describe_topic({"colour": "red", "retention.ms": "7"}, config, image()))
    assert values["colour"] == ("red", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert values["retention.ms"] == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG)


@pytest.mark.parametrize(
    "configs",
    [{"retention.ms": "60000"}, {"retention.ms": "-1", "retention.bytes": "1000"}, {"cleanup.policy": "compact"}, {}],
)
async def test_nothing_goes_from_the_remote_log_metadata(
    configs: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The broker's log.retention.ms is a week: it holds for what the topic does not say."""
    view = FakeClusterView()
    await view.register(BrokerRegistration(1, "h", 1, None, (UUID(int=1),)))
    for name in (REMOTE_LOG_METADATA_TOPIC, "t"):
        await view.create_topic(NewTopic(name, 1, 1, configs=configs))
    found = TopicConfigs(view, parse_broker_config(MINIMAL, "f")[0])
    kept = found.config_of(REMOTE_LOG_METADATA_TOPIC)
    assert (kept.retention_ms, kept.retention_bytes, kept.cleanup_policy) == (-1, -1, frozenset({"delete"}))
    assert "are not obeyed" in caplog.text
    other = found.config_of("t")
    assert (other.retention_ms, other.retention_bytes, other.cleanup_policy) != (-1, -1, frozenset({"delete"}))


async def test_remote_log_metadata_that_are_kept_as_they_should_be_are_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    view = FakeClusterView()
    await view.register(BrokerRegistration(1, "h", 1, None, (UUID(int=1),)))
    await view.create_topic(NewTopic(REMOTE_LOG_METADATA_TOPIC, 1, 1, configs={"retention.ms": "-1"}))
    TopicConfigs(view, parse_broker_config(MINIMAL, "f")[0]).config_of(REMOTE_LOG_METADATA_TOPIC)
    assert caplog.text == ""


async def test_D10_what_is_in_force_is_worked_out_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every partition whose leader changes asks; to validate a configuration takes a millisecond."""
    view, worked_out = FakeClusterView(), Counter[str]()
    await view.register(BrokerRegistration(1, "h", 1, None, (UUID(int=1),)))
    await view.create_topic(NewTopic("t", 1, 1, configs={"retention.ms": "7"}))
    configs = TopicConfigs(view, parse_broker_config(MINIMAL, "f")[0])

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            worked_out[name] += 1
            return real(*arguments)

        return call

    monkeypatch.setattr(BrokerConfig, "with_dynamic", counted("broker", BrokerConfig.with_dynamic))
    monkeypatch.setattr(LogConfig, "usable_configs", counted("topic", LogConfig.usable_configs))
    for number in range(1, 4):
        first = configs.config_of("t")
        assert all(configs.config_of("t") is first for _ in range(10))
        assert worked_out == {"broker": 1, "topic": number}
        await view.alter_topic_configs("t", {"retention.bytes": str(number)})
        assert configs.config_of("t").retention_bytes == number
    await view.alter_broker_configs("1", {"log.segment.bytes": "2097152"})
    assert configs.config_of("t").segment_bytes == 2097152
    assert configs.broker_config().log_segment_bytes == 2097152
    assert worked_out == {"broker": 2, "topic": 5}
