"""Topic configs as text and as a value."""

from __future__ import annotations

import pytest

from tierfetch.log.config import LogConfig
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
        ({"cleanup.policy": "delete,shrink"}, "expected delete, compact, or both"),
        ({"compression.type": "lzma"}, "expected one of"),
        ({"message.timestamp.type": "append"}, "expected CreateTime or LogAppendTime"),
        ({"retention.hours": "1"}, "unknown topic config 'retention.hours'"),
        ({"remote.storage.enable": "true", "cleanup.policy": "compact"}, "compacted topics are never tiered"),
        ({"retention.ms": "10", "local.retention.ms": "11"}, "local.retention.ms=11 must be at most retention.ms=10"),
        ({"retention.bytes": "10", "local.retention.bytes": "-1"}, "local.retention.bytes=-1 must be at most"),
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
