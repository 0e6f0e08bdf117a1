"""Topic configs as text and as a value."""

from __future__ import annotations

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import TimestampType


def test_defaults_are_kafkas() -> None:
    texts = LogConfig().as_topic_configs()
    assert texts["segment.bytes"] == "1073741824"
    assert texts["max.message.bytes"] == "1048588"
    assert texts["flush.messages"] == "9223372036854775807"
    assert texts["local.retention.ms"] == "-2"
    assert texts["message.timestamp.after.max.ms"] == "3600000"
    assert "internal.segment.bytes" not in texts


def test_text_round_trip() -> None:
    config = LogConfig(
        segment_bytes=65536,
        cleanup_policy=frozenset({"delete", "compact"}),
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        retention_ms=-1,
    )
    assert LogConfig.from_topic_configs(config.as_topic_configs()) == config


def test_topic_configs_lie_over_the_brokers_defaults() -> None:
    defaults = LogConfig(segment_bytes=1 << 21, retention_ms=5)
    config = LogConfig.from_topic_configs({"retention.ms": "7", "unclean.leader.election.enable": "true"}, defaults)
    assert (config.segment_bytes, config.retention_ms) == (1 << 21, 7)


def test_internal_segment_bytes_wins() -> None:
    configs = {"internal.segment.bytes": "65536", "segment.bytes": "1048576"}
    assert LogConfig.from_topic_configs(configs).segment_bytes == 65536


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"segment.bytes": "65536"}, "segment.bytes='65536': expected an integer from 1048576 to 2147483647"),
        ({"retention.ms": "soon"}, "retention.ms='soon': expected an integer"),
        ({"remote.storage.enable": "yes"}, "remote.storage.enable='yes': expected true or false"),
        ({"cleanup.policy": "delete,shrink"}, "expected delete, compact, both"),
        ({"compression.type": "lzma"}, "expected one of"),
        ({"message.timestamp.type": "append"}, "expected CreateTime or LogAppendTime"),
        ({"retention.hours": "1"}, "unknown topic config 'retention.hours'"),
        ({"remote.storage.enable": "true", "cleanup.policy": "compact"}, "compacted topics are never tiered"),
        (
            {"retention.ms": "10", "local.retention.ms": "11", "remote.storage.enable": "true"},
            "local.retention.ms=11 must be at most retention.ms=10",
        ),
        (
            {"retention.bytes": "10", "local.retention.bytes": "-1", "remote.storage.enable": "true"},
            "local.retention.bytes=-1 must be at most",
        ),
        (
            {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.ms": "10"},
            "local.retention.ms=10 must be retention.ms=604800000, or -2",
        ),
        ({"segment.jitter.ms": "-1"}, "segment.jitter.ms='-1': expected an integer from 0"),
        ({"compression.gzip.level": "0"}, "compression.gzip.level='0': expected an integer from 1 to 9, or -1"),
        ({"compression.zstd.level": "23"}, "compression.zstd.level='23': expected"),
        ({"unclean.leader.election.enable": "maybe"}, "expected true or false"),
        ({"message.format.version": "2.0"}, "unknown topic config"),
    ],
)
def test_wrong_values_are_named(configs: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError, match="INVALID_CONFIG") as raised:
        LogConfig.from_topic_configs(configs)
    assert raised.value.code is ErrorCode.invalid_config
    assert message in raised.value.message


def test_local_retention_defaults_to_the_whole_logs() -> None:
    config = LogConfig(retention_ms=10, retention_bytes=20, local_retention_bytes=5)
    assert config.local_retention_ms_in_force == 10
    assert config.local_retention_bytes_in_force == 5


@pytest.mark.parametrize(
    "configs",
    [
        {"local.retention.ms": "100", "retention.ms": "10"},
        {"cleanup.policy": "", "remote.storage.enable": "true"},
        {"compression.gzip.level": "-1", "compression.zstd.level": "-5", "segment.jitter.ms": "0"},
    ],
)
def test_what_kafka_takes_is_taken(configs: dict[str, str]) -> None:
    LogConfig.from_topic_configs(configs)


def test_one_unusable_config_does_not_cost_a_topic_the_others() -> None:
    configs = {"no.such.key": "1", "retention.bytes": "-3", "remote.storage.enable": "true", "segment.bytes": "2097152"}
    config, unusable = LogConfig.usable_configs(configs, LogConfig(retention_bytes=5))
    assert (config.remote_storage_enable, config.segment_bytes, config.retention_bytes) == (True, 2097152, 5)
    assert sorted(str(error) for error in unusable) == [
        "INVALID_CONFIG: retention.bytes='-3': expected an integer from -1 to 9223372036854775807",
        "INVALID_CONFIG: unknown topic config 'no.such.key'",
    ]


def test_a_brokers_default_that_conflicts_does_not_make_a_tiered_topic_untiered() -> None:
    """`log.retention.ms` of a broker below a topic's own `local.retention.ms`, which the controller let pass."""
    configs = {"local.retention.ms": "86400000", "remote.storage.enable": "true"}
    config, unusable = LogConfig.usable_configs(configs, LogConfig(retention_ms=3_600_000))
    assert (config.remote_storage_enable, config.retention_ms, unusable) == (True, 3_600_000, [])
