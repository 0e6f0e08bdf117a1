"""The configuration of one log: Kafka's topic configs as a value, with Kafka's names, units, defaults and limits.

`LogConfig` is what the log obeys; `from_topic_configs` reads the strings that a topic carries over the broker's
defaults, and `as_topic_configs` gives them back. A wrong value is INVALID_CONFIG and names key, value and what is
expected. Kafka's topic configs that have no effect on a log here (`_WITHOUT_EFFECT`) are checked and passed over;
any other key is refused.

That is how a topic is asked to be changed. One that exists is obeyed (`usable_configs`) as far as it can be: what
another version of a controller let pass, or what a change of the broker's defaults brought into conflict, must not cost
the topic its other configs, least of all `cleanup.policy` and `remote.storage.enable`.

-1 means without a limit; -2, for the two local retentions, the value of the whole log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError
from ...protocol.records import TimestampType
from ...protocol.wire import ConfigType

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
UNLIMITED: Final = -1
SAME_AS_WHOLE_LOG: Final = -2
_WEEK_MS: Final = 7 * 24 * 3_600_000
_DAY_MS: Final = 24 * 3_600_000
_HOUR_MS: Final = 3_600_000
_MIB: Final = 1024 * 1024

CODECS: Final = frozenset({"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"})

THROTTLED_REPLICAS: Final = frozenset(
    {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"}
)
"""The topic configs that the broker obeys, not its logs."""
ALL_REPLICAS: Final = "*"
_PARTITION_AND_BROKER: Final = re.compile(r"\s*([0-9]{1,10}):([0-9]{1,10})\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Fields are Kafka's keys with underscores. Built directly it is not checked: tests use small segments."""

    segment_bytes: int = 1024 * _MIB
    segment_ms: int = _WEEK_MS
    segment_index_bytes: int = 10 * _MIB
    index_interval_bytes: int = 4096
    retention_ms: int = _WEEK_MS
    retention_bytes: int = UNLIMITED
    local_retention_ms: int = SAME_AS_WHOLE_LOG
    local_retention_bytes: int = SAME_AS_WHOLE_LOG
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = _HOUR_MS
    max_message_bytes: int = _MIB + 12
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = _DAY_MS
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    preallocate: bool = False

    @classmethod
    def from_topic_configs(cls, configs: Mapping[str, str], defaults: LogConfig | None = None) -> LogConfig:
        """`defaults` (the broker's) with a topic's own configs over it.

        `internal.segment.bytes` wins over `segment.bytes` and may be smaller than 1 MiB, as in Kafka.
        """
        values: dict[str, object] = {}
        for key in sorted(configs, key=lambda key: key == "internal.segment.bytes"):
            values |= _parsed(key, configs[key])
        config = _changed(defaults or cls(), values)
        config._check_together()
        return config

    @classmethod
    def usable_configs(cls, configs: Mapping[str, str], defaults: LogConfig) -> tuple[LogConfig, list[KafkaError]]:
        """Return the config of a topic that exists, without the keys that cannot be used, and their errors."""
        values: dict[str, object] = {}
        unusable = []
        for key in sorted(configs, key=lambda key: key == "internal.segment.bytes"):
            try:
                values |= _parsed(key, configs[key])
            except KafkaError as error:
                unusable.append(error)
        return _changed(defaults, values), unusable

    def as_topic_configs(self) -> dict[str, str]:
        """Every key with its value as text; `internal.segment.bytes` only where `segment.bytes` could not say it."""
        texts = {
            key: codec.format(getattr(self, field))
            for key, (field, codec) in _KEYS.items()
            if key != "internal.segment.bytes"
        }
        if self.segment_bytes < _MIB:
            texts["internal.segment.bytes"] = texts.pop("segment.bytes")
        return texts

    def all_topic_configs(self) -> dict[str, str]:
        """Return the topic configs, with those that no log obeys."""
        return {**DEFAULTS_WITHOUT_EFFECT, **self.as_topic_configs()}

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def local_retention_ms_in_force(self) -> int:
        """How long local segments of a tiered log stay; -1 without a limit."""
        return self.retention_ms if self.local_retention_ms == SAME_AS_WHOLE_LOG else self.local_retention_ms

    @property
    def local_retention_bytes_in_force(self) -> int:
        """How many bytes of a tiered log stay local; -1 without a limit."""
        if self.local_retention_bytes == SAME_AS_WHOLE_LOG:
            return self.retention_bytes
        return self.local_retention_bytes

    @property
    def segment_ms_in_force(self) -> int:
        """A compacted log rolls in time for its oldest record to be compacted (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    def _check_together(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} must be at most "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}",
            )
        if self.remote_storage_enable and self.is_compacted:
            raise KafkaError(
                ErrorCode.invalid_config,
                "remote.storage.enable=true needs cleanup.policy=delete or none: compacted topics are never tiered",
            )
        if not self.remote_storage_enable:
            return
        for unit in ("ms", "bytes"):
            whole = getattr(self, f"retention_{unit}")
            local = getattr(self, f"local_retention_{unit}")
            if local == SAME_AS_WHOLE_LOG:
                continue
            if self.remote_log_copy_disable and local != whole:
                raise KafkaError(
                    ErrorCode.invalid_config,
                    f"remote.log.copy.disable=true: segments stay in the local log, so local.retention.{unit}={local}"
                    f" must be retention.{unit}={whole}, or -2",
                )
            if whole == UNLIMITED:
                continue
            if local == UNLIMITED or local > whole:
                raise KafkaError(
                    ErrorCode.invalid_config,
                    f"local.retention.{unit}={local} must be at most retention.{unit}={whole}",
                )


def _changed(config: LogConfig, values: Mapping[str, object]) -> LogConfig:
    """Return the config with other values in these fields, which the codecs of their keys have parsed."""
    changed: Callable[..., LogConfig] = partial(replace, config)
    return changed(**values)


@dataclass(frozen=True, slots=True)
class _Codec:
    """Text to value and back, and what Kafka calls such a value."""

    type: ConfigType
    parse: Callable[[str, str], object]
    format: Callable[[object], str] = str


def _invalid(key: str, text: str, expected: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, f"{key}={text!r}: expected {expected}")


def _integer(minimum: int, maximum: int) -> _Codec:
    def parse(key: str, text: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise _invalid(key, text, "an integer") from None
        if not minimum <= value <= maximum:
            raise _invalid(key, text, f"an integer from {minimum} to {maximum}")
        return value

    return _Codec(ConfigType.LONG if maximum == INT64_MAX else ConfigType.INT, parse)


def throttled_replicas(text: str) -> frozenset[tuple[int, int]] | None:
    """(partition, broker) of each replica that a topic's list names; None: all. ValueError shows what is expected."""
    if text.strip() in ("", ALL_REPLICAS):
        return None if text.strip() else frozenset()
    replicas = set()
    for item in text.split(","):
        pair = _PARTITION_AND_BROKER.fullmatch(item)
        if pair is None:
            raise ValueError(
                f"{item!r}: expected partition:broker pairs such as 0:1,1:2, or {ALL_REPLICAS} for all replicas"
            )
        replicas.add((int(pair[1]), int(pair[2])))
    return frozenset(replicas)


def _check_throttled(key: str, text: str) -> None:
    try:
        throttled_replicas(text)
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_config, f"{key}: {error}") from None


def _fraction(key: str, text: str) -> float:
    try:
        value = float(text.strip())
    except ValueError:
        raise _invalid(key, text, "a number") from None
    if not 0 <= value <= 1:
        raise _invalid(key, text, "a number from 0 to 1")
    return value


def _gzip_level(key: str, text: str) -> object:
    if text.strip() == "-1":
        return -1
    try:
        return _integer(1, 9).parse(key, text)
    except KafkaError:
        raise _invalid(key, text, "an integer from 1 to 9, or -1") from None


def _parse_boolean(key: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise _invalid(key, text, "true or false")
    return lowered == "true"


def _parse_timestamp_type(key: str, text: str) -> TimestampType:
    if text not in _TIMESTAMP_TYPES:
        raise _invalid(key, text, " or ".join(_TIMESTAMP_TYPES))
    return _TIMESTAMP_TYPES[text]


def _parse_cleanup_policy(key: str, text: str) -> frozenset[str]:
    policies = frozenset(item.strip().lower() for item in text.split(",") if item.strip())
    if policies - {"delete", "compact"}:
        raise _invalid(key, text, "delete, compact, both separated by a comma, or nothing")
    return policies


def _parse_compression_type(key: str, text: str) -> str:
    if text not in CODECS:
        raise _invalid(key, text, "one of " + ", ".join(sorted(CODECS)))
    return text


_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


def _joined(value: object) -> str:
    assert isinstance(value, frozenset), value
    return ",".join(sorted(value))


_TIMESTAMP_TYPE_NAMES: Final[Mapping[object, str]] = {value: name for name, value in _TIMESTAMP_TYPES.items()}
_BOOLEAN: Final = _Codec(ConfigType.BOOLEAN, _parse_boolean, lambda value: "true" if value else "false")

_KEYS: Final[dict[str, tuple[str, _Codec]]] = {
    "segment.bytes": ("segment_bytes", _integer(_MIB, INT32_MAX)),
    "internal.segment.bytes": ("segment_bytes", _integer(1, INT32_MAX)),
    "segment.ms": ("segment_ms", _integer(1, INT64_MAX)),
    "segment.index.bytes": ("segment_index_bytes", _integer(24, INT32_MAX)),
    "index.interval.bytes": ("index_interval_bytes", _integer(0, INT32_MAX)),
    "retention.ms": ("retention_ms", _integer(UNLIMITED, INT64_MAX)),
    "retention.bytes": ("retention_bytes", _integer(UNLIMITED, INT64_MAX)),
    "local.retention.ms": ("local_retention_ms", _integer(SAME_AS_WHOLE_LOG, INT64_MAX)),
    "local.retention.bytes": ("local_retention_bytes", _integer(SAME_AS_WHOLE_LOG, INT64_MAX)),
    "flush.messages": ("flush_messages", _integer(1, INT64_MAX)),
    "flush.ms": ("flush_ms", _integer(0, INT64_MAX)),
    "file.delete.delay.ms": ("file_delete_delay_ms", _integer(0, INT64_MAX)),
    "message.timestamp.type": (
        "message_timestamp_type",
        _Codec(ConfigType.STRING, _parse_timestamp_type, _TIMESTAMP_TYPE_NAMES.__getitem__),
    ),
    "message.timestamp.before.max.ms": ("message_timestamp_before_max_ms", _integer(0, INT64_MAX)),
    "message.timestamp.after.max.ms": ("message_timestamp_after_max_ms", _integer(0, INT64_MAX)),
    "max.message.bytes": ("max_message_bytes", _integer(0, INT32_MAX)),
    "remote.storage.enable": ("remote_storage_enable", _BOOLEAN),
    "remote.log.copy.disable": ("remote_log_copy_disable", _BOOLEAN),
    "remote.log.delete.on.disable": ("remote_log_delete_on_disable", _BOOLEAN),
    "cleanup.policy": ("cleanup_policy", _Codec(ConfigType.LIST, _parse_cleanup_policy, _joined)),
    "min.cleanable.dirty.ratio": ("min_cleanable_dirty_ratio", _Codec(ConfigType.DOUBLE, _fraction)),
    "min.compaction.lag.ms": ("min_compaction_lag_ms", _integer(0, INT64_MAX)),
    "max.compaction.lag.ms": ("max_compaction_lag_ms", _integer(1, INT64_MAX)),
    "delete.retention.ms": ("delete_retention_ms", _integer(0, INT64_MAX)),
    "min.insync.replicas": ("min_insync_replicas", _integer(1, INT32_MAX)),
    "compression.type": ("compression_type", _Codec(ConfigType.STRING, _parse_compression_type)),
    "preallocate": ("preallocate", _BOOLEAN),
}

_WITHOUT_EFFECT: Final[Mapping[str, tuple[str, _Codec]]] = {
    "compression.gzip.level": ("-1", _Codec(ConfigType.INT, _gzip_level)),
    "compression.lz4.level": ("9", _integer(1, 17)),
    "compression.zstd.level": ("3", _integer(-131072, 22)),
    "segment.jitter.ms": ("0", _integer(0, INT64_MAX)),
    "unclean.leader.election.enable": ("false", _BOOLEAN),
    **{key: ("", _Codec(ConfigType.LIST, _check_throttled)) for key in THROTTLED_REPLICAS},
}
"""Configs of a topic that no log obeys, with Kafka's defaults. Which replicas are throttled is the broker's to obey,
who leads the controller's to decide.
"""

DEFAULTS_WITHOUT_EFFECT: Final = {key: default for key, (default, _) in _WITHOUT_EFFECT.items()}

TOPIC_CONFIG_TYPES: Final[Mapping[str, ConfigType]] = {
    **{key: codec.type for key, (_, codec) in _KEYS.items()},
    **{key: codec.type for key, (_, codec) in _WITHOUT_EFFECT.items()},
}
"""The type of every config that a topic can have."""


def _parsed(key: str, text: str) -> dict[str, object]:
    """Return the field and value of one config; nothing for those that no log obeys."""
    if key in _KEYS:
        field, codec = _KEYS[key]
        return {field: codec.parse(key, text)}
    if key in _WITHOUT_EFFECT:
        _WITHOUT_EFFECT[key][1].parse(key, text)
    else:
        raise KafkaError(ErrorCode.invalid_config, f"unknown topic config {key!r}")
    return {}
