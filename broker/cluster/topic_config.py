"""From the broker's `log.*` keys to the defaults of a topic's configuration, and what DescribeConfigs returns of both.

A topic's effective config comes from, the first that has it: the topic, the broker's dynamic configs, the cluster's
dynamic default, the broker's file, Kafka's default. Kafka calls these `ConfigSource`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from ...log.core import DEFAULTS_WITHOUT_EFFECT, INT64_MAX, TOPIC_CONFIG_TYPES, UNLIMITED, LogConfig
from ...protocol import REMOTE_LOG_METADATA_TOPIC
from ...protocol.records import TimestampType
from ...protocol.wire import (
    GROUP_ASSIGNMENT_INTERVAL,
    GROUP_CONFIGS,
    GROUP_NUMBERS,
    ISOLATION,
    LATEST,
    OFFSET_RESET,
    RENEW_ENABLE,
    SHARE_ASSIGNMENT_INTERVAL,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    DescribedConfig,
)
from ...security.core import is_dynamic_key, is_secret
from ..config.broker_config import CONFIG_TYPES, DEFAULT_PROPERTIES, DYNAMIC_KEYS, BrokerConfig, ConfigError
from ..config.dynamic_configs import OF_CONTROLLERS
from .view import ClusterImage, ClusterView

_GROUP_DEFAULTS: Mapping[str, str] = {
    OFFSET_RESET: LATEST,
    ISOLATION: "read_uncommitted",
    RENEW_ENABLE: "true",
    GROUP_ASSIGNMENT_INTERVAL: "0",
    SHARE_ASSIGNMENT_INTERVAL: "0",
}
"""The configs of groups for which brokers have no key."""
BROKER_KEYS: Mapping[str, str] = {
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "local.retention.bytes": "log.local.retention.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "max.message.bytes": "message.max.bytes",
    "cleanup.policy": "log.cleanup.policy",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.insync.replicas": "min.insync.replicas",
    "compression.type": "compression.type",
    "preallocate": "log.preallocate",
}
"""Topic key -> the broker key that gives its default."""

BROKER_KEYS_WITHOUT_EFFECT: Mapping[str, str] = {
    key: key
    for key in (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "unclean.leader.election.enable",
    )
}
"""The broker keys of topic keys that no log obeys; the last one is a controller's."""

FALLBACKS: Mapping[str, tuple[str, ...]] = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
}
"""Broker key -> the keys that say the same in other units where it is absent, the first wins."""

_log = logging.getLogger(__name__)


def config_in_force(config: BrokerConfig, image: ClusterImage) -> BrokerConfig:
    """The broker's configuration with the cluster's dynamic configs over it; ConfigError names a wrong one."""
    own = image.broker_configs.get(str(config.node_id), {})
    return config.with_dynamic(image.broker_configs.get("default", {}), own)


def log_defaults(config: BrokerConfig) -> LogConfig:
    """What topics inherit from this broker."""
    return LogConfig(
        segment_bytes=config.log_segment_bytes,
        segment_ms=config.roll_ms,
        segment_index_bytes=config.log_index_size_max_bytes,
        index_interval_bytes=config.log_index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.log_retention_bytes,
        local_retention_ms=config.log_local_retention_ms,
        local_retention_bytes=config.log_local_retention_bytes,
        flush_messages=config.log_flush_interval_messages,
        flush_ms=INT64_MAX if config.log_flush_interval_ms is None else config.log_flush_interval_ms,
        file_delete_delay_ms=config.log_segment_delete_delay_ms,
        message_timestamp_type=(
            TimestampType.LOG_APPEND_TIME
            if config.log_message_timestamp_type == "LogAppendTime"
            else TimestampType.CREATE_TIME
        ),
        message_timestamp_before_max_ms=config.log_message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=config.log_message_timestamp_after_max_ms,
        max_message_bytes=config.message_max_bytes,
        cleanup_policy=frozenset(config.log_cleanup_policy),
        min_cleanable_dirty_ratio=config.log_cleaner_min_cleanable_ratio,
        min_compaction_lag_ms=config.log_cleaner_min_compaction_lag_ms,
        max_compaction_lag_ms=config.log_cleaner_max_compaction_lag_ms,
        delete_retention_ms=config.log_cleaner_delete_retention_ms,
        min_insync_replicas=config.min_insync_replicas,
        compression_type=config.compression_type,
        preallocate=config.log_preallocate,
    )


class TopicConfigs:
    """The configuration in force of every topic on this broker, as the cluster's image has it now.

    A config that cannot be used is reported once, and its default taken; the topic's others are in force. Nothing goes
    from the remote log metadata topic, whatever it says: what is forgotten there stays in the tier, and cannot be read.

    What is in force is worked out once for each value that an image has, and kept: it is asked for by every partition
    whose leader changes.
    """

    def __init__(self, view: ClusterView, config: BrokerConfig) -> None:
        self._view = view
        self._config = config
        self._reported: set[str] = set()
        self._dynamic: Mapping[str, Mapping[str, str]] | None = None
        """The dynamic broker configs that the next two are of; None before the first look."""
        self._in_force = config
        self._defaults = log_defaults(config)
        self._topics: dict[str, tuple[Mapping[str, str], LogConfig]] = {}
        """A topic's configs in the image, and what is in force with them."""

    def broker_config(self) -> BrokerConfig:
        """The broker's own, with the dynamic keys."""
        dynamic = self._view.image.broker_configs
        if dynamic is not self._dynamic:
            self._dynamic, self._in_force = dynamic, self._read_broker_config()
            self._defaults = log_defaults(self._in_force)
            self._topics = {}
        return self._in_force

    def _read_broker_config(self) -> BrokerConfig:
        try:
            return config_in_force(self._config, self._view.image)
        except ConfigError as error:
            self._report(f"the cluster's broker configs are not usable, the broker's file is taken: {error}")
            return self._config

    def config_of(self, topic: str) -> LogConfig:
        """The broker's defaults for a topic that is not in the image."""
        self.broker_config()
        topics = self._view.image.topics
        image = topics.get(topic)
        if image is None:
            return self._defaults
        known = self._topics.get(topic)
        if known is None or known[0] != image.configs:
            if len(self._topics) > len(topics):
                self._topics = {}  # of deleted topics
            known = self._topics[topic] = image.configs, self._read_config(topic, image.configs)
        return known[1]

    def _read_config(self, topic: str, configs: Mapping[str, str]) -> LogConfig:
        config, unusable = LogConfig.usable_configs(configs, self._defaults)
        for error in unusable:
            self._report(f"topic {topic}: a config is not usable, the broker's is taken: {error}")
        return self._keeping_all(config) if topic == REMOTE_LOG_METADATA_TOPIC else config

    def _keeping_all(self, config: LogConfig) -> LogConfig:
        kept = replace(config, retention_ms=UNLIMITED, retention_bytes=UNLIMITED, cleanup_policy=frozenset({"delete"}))
        if kept != config:
            policy = ",".join(sorted(config.cleanup_policy))
            self._report(
                f"topic {REMOTE_LOG_METADATA_TOPIC}: its retention.ms={config.retention_ms}, retention.bytes="
                f"{config.retention_bytes} and cleanup.policy={policy} are not obeyed: "
                "what is in the tier would be forgotten. Set -1, -1, delete: Apache Kafka does obey them"
            )
        return kept

    def _report(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            _log.error("%s", message)


def describe_topic(
    topic_configs: Mapping[str, str], config: BrokerConfig, image: ClusterImage
) -> list[DescribedConfig]:
    """Every config of a topic with its value in force on this broker, or on the controllers."""
    in_force = config_in_force(config, image)
    values = LogConfig.usable_configs(topic_configs, log_defaults(in_force))[0].all_topic_configs()
    broker_keys = {**BROKER_KEYS_WITHOUT_EFFECT, **BROKER_KEYS}
    described = []
    for name, value in sorted({**values, **topic_configs}.items()):
        synonyms = _synonyms_of_topic(broker_keys[name], config, image) if name in broker_keys else ()
        if name in BROKER_KEYS_WITHOUT_EFFECT and name not in topic_configs:
            value = synonyms[0].value
        if name in topic_configs:
            own = ConfigSynonym(name, topic_configs[name], ConfigSource.DYNAMIC_TOPIC_CONFIG)
            synonyms = (own, *synonyms)
        kind = TOPIC_CONFIG_TYPES.get(name, ConfigType.STRING)
        described.append(DescribedConfig(name, value, kind, is_read_only=False, synonyms=synonyms))
    return described


def _synonyms_of_topic(key: str, config: BrokerConfig, image: ClusterImage) -> tuple[ConfigSynonym, ...]:
    """As of the broker key, but that a default in other units is none of the topic's."""
    return tuple(
        synonym
        for synonym in _broker_synonyms(key, config, image)
        if synonym.name == key or synonym.source is not ConfigSource.DEFAULT_CONFIG
    )


def describe_broker(config: BrokerConfig, image: ClusterImage) -> list[DescribedConfig]:
    """Every key of this broker that has a value, but the plugins' own keys and secrets of TLS and SASL."""
    in_force = config_in_force(config, image).as_properties()
    return [
        DescribedConfig(
            name,
            value,
            CONFIG_TYPES[name],
            is_read_only=name not in DYNAMIC_KEYS,
            synonyms=_broker_synonyms(name, config, image),
        )
        for name, value in sorted(in_force.items())
    ] + _described_security(config, image)


def _described_security(config: BrokerConfig, image: ClusterImage) -> list[DescribedConfig]:
    own = {
        key: value for key, value in image.broker_configs.get(str(config.node_id), {}).items() if is_dynamic_key(key)
    }
    shown = {**config.security_properties, **own}
    static, dynamic = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG
    return [
        DescribedConfig(
            key,
            value,
            ConfigType.STRING,
            is_read_only=not is_dynamic_key(key),
            synonyms=(ConfigSynonym(key, value, dynamic if key in own else static),),
        )
        for key, value in sorted(shown.items())
        if not is_secret(key)
    ]


def describe_group(group_id: str, config: BrokerConfig, image: ClusterImage) -> list[DescribedConfig]:
    """Every config of a group: its own over what this broker would have for it, by its key `group.` and the config."""
    own = image.group_configs.get(group_id, {})
    described = []
    for key in sorted(GROUP_CONFIGS):
        default = _GROUP_DEFAULTS.get(key)
        synonyms = (
            *([ConfigSynonym(key, own[key], ConfigSource.DYNAMIC_GROUP_CONFIG)] if key in own else ()),
            *(
                _broker_synonyms(f"group.{key}", config, image)
                if default is None
                else (ConfigSynonym(key, default, ConfigSource.DEFAULT_CONFIG),)
            ),
        )
        described.append(
            DescribedConfig(key, synonyms[0].value, _group_type(key), is_read_only=False, synonyms=synonyms)
        )
    return described


def _group_type(key: str) -> ConfigType:
    if key in GROUP_NUMBERS:
        return ConfigType.INT
    return ConfigType.BOOLEAN if key == RENEW_ENABLE else ConfigType.STRING


def describe_all_brokers(image: ClusterImage) -> list[DescribedConfig]:
    """The dynamic defaults of the cluster."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        DescribedConfig(
            key,
            value,
            CONFIG_TYPES.get(key) or TOPIC_CONFIG_TYPES.get(key, ConfigType.STRING),
            is_read_only=False,
            synonyms=(ConfigSynonym(key, value, source),),
        )
        for key, value in sorted(image.broker_configs.get("default", {}).items())
    ]


def _broker_synonyms(key: str, config: BrokerConfig, image: ClusterImage) -> tuple[ConfigSynonym, ...]:
    """What gives a broker key its value: each source in turn, in each the key itself before its fallbacks."""
    dynamic = image.broker_configs
    sources: list[tuple[ConfigSource, Mapping[str, str]]] = [
        (ConfigSource.DYNAMIC_BROKER_CONFIG, _dynamic_only(dynamic.get(str(config.node_id), {}))),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, _dynamic_only(dynamic.get("default", {}))),
        (ConfigSource.STATIC_BROKER_CONFIG, config.static_properties()),
        (ConfigSource.DEFAULT_CONFIG, {**DEFAULTS_WITHOUT_EFFECT, **DEFAULT_PROPERTIES}),
    ]
    names = (key, *FALLBACKS.get(key, ()))
    return tuple(
        ConfigSynonym(name, values[name], source) for source, values in sources for name in names if name in values
    )


def _dynamic_only(configs: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in configs.items() if key in DYNAMIC_KEYS | OF_CONTROLLERS}
