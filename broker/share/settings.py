"""What share groups may use on this broker: Kafka's keys and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum

from ...light_dataclass import dataclass
from ...protocol.wire import (
    BY_DURATION,
    DELIVERY_LIMIT,
    EARLIEST,
    ISOLATION,
    LATEST,
    LOCK_DURATION,
    OFFSET_RESET,
    READ_COMMITTED_GROUP,
    RECORD_LOCKS,
    RENEW_ENABLE,
    reset_before_ms,
)
from ..config.broker_config import BrokerConfig
from .core.partition import ShareSettings


class OffsetReset(Enum):
    """Where a group begins in a partition (share.auto.offset.reset)."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShareSettings:
    """The configuration of one group. `reset_before_ms` begins that long before now (by_duration); None: `reset`."""

    records: ShareSettings = field(default_factory=ShareSettings)
    is_read_committed: bool = False
    """share.isolation.level"""
    reset: OffsetReset = OffsetReset.LATEST
    reset_before_ms: int | None = None


GroupShareSettingsOf = Callable[[str], GroupShareSettings]
"""Returns the configuration of a group by its id."""


def group_settings(config: BrokerConfig, configs: Mapping[str, str]) -> GroupShareSettings:
    """Return what holds for a group that has these configs; limits of the broker hold nevertheless."""
    reset = configs.get(OFFSET_RESET, LATEST)
    return GroupShareSettings(
        records=ShareSettings(
            delivery_count_max=_within(
                configs.get(DELIVERY_LIMIT, config.group_share_delivery_count_limit),
                config.group_share_min_delivery_count_limit,
                config.group_share_max_delivery_count_limit,
            ),
            locks_max=_within(
                configs.get(RECORD_LOCKS, config.group_share_partition_max_record_locks),
                config.group_share_min_partition_max_record_locks,
                config.group_share_max_partition_max_record_locks,
            ),
            lock_ms=_within(
                configs.get(LOCK_DURATION, config.group_share_record_lock_duration_ms),
                config.group_share_min_record_lock_duration_ms,
                config.group_share_max_record_lock_duration_ms,
            ),
            may_renew=configs.get(RENEW_ENABLE, "true").lower() == "true",
        ),
        is_read_committed=configs.get(ISOLATION) == READ_COMMITTED_GROUP,
        reset=OffsetReset.EARLIEST if reset == EARLIEST else OffsetReset.LATEST,
        reset_before_ms=reset_before_ms(reset) if reset.startswith(BY_DURATION) else None,
    )


def _within(value: str | int, least: int, most: int) -> int:
    return min(max(int(value), least), most)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """The bounds of the broker."""

    sessions_max: int = 2_000
    """group.share.max.share.sessions"""
    response_bytes_max: int = 55 * 1024 * 1024
    """fetch.max.bytes"""
