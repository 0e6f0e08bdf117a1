"""What share groups may use on this broker: Kafka's keys and defaults, and the level of `share.version`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ..cluster.view import ClusterView
from .core.partition import ShareSettings

SHARE_VERSION: Final = "share.version"


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


def default_settings(_: str) -> GroupShareSettings:
    """Return Kafka's defaults, whatever the group."""
    return GroupShareSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """The bounds of the broker."""

    sessions_max: int = 2_000
    """group.share.max.share.sessions"""
    response_bytes_max: int = 55 * 1024 * 1024
    """fetch.max.bytes"""


def share_version(view: ClusterView) -> int:
    """Return the level of `share.version` that the cluster runs at."""
    return (view.image.features or {}).get(SHARE_VERSION, 0)
