"""The configs that a group may have of its own (KIP-848, KIP-932), and what their values may be.

| config | value |
|---|---|
| timeouts, intervals, `share.record.lock.duration.ms` | milliseconds from 1 up |
| `share.delivery.count.limit`, `share.partition.max.record.locks` | a number from 1 up |
| `share.auto.offset.reset` | earliest, latest, or by_duration:, with a duration of ISO 8601 |
| `share.isolation.level` | read_uncommitted, read_committed |

Coordinators and leaders keep numbers within the limits of their brokers' keys.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

GROUP_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
GROUP_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
LOCK_DURATION: Final = "share.record.lock.duration.ms"
DELIVERY_LIMIT: Final = "share.delivery.count.limit"
RECORD_LOCKS: Final = "share.partition.max.record.locks"
OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION: Final = "share.isolation.level"
GROUP_CONFIGS: Final = frozenset(
    {
        *(GROUP_SESSION_TIMEOUT, GROUP_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
        *(LOCK_DURATION, DELIVERY_LIMIT, RECORD_LOCKS, OFFSET_RESET, ISOLATION),
    }
)
"""The configs that a group may have of its own."""
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
BY_DURATION: Final = "by_duration:"
READ_COMMITTED_GROUP: Final = "read_committed"
ISOLATIONS: Final = frozenset({"read_uncommitted", READ_COMMITTED_GROUP})
_INT32_MAX: Final = (1 << 31) - 1
_DURATION: Final = TypeAdapter(timedelta)


def check_group_config(key: str, value: str) -> None:
    """Raise ValueError for a value that a config cannot have."""
    if key == OFFSET_RESET:
        if value not in (EARLIEST, LATEST):
            reset_before_ms(value)
    elif key == ISOLATION:
        if value not in ISOLATIONS:
            raise ValueError(f"one of {', '.join(sorted(ISOLATIONS))} is needed")
    elif not (value.isascii() and value.isdigit() and 0 < int(value) <= _INT32_MAX):
        raise ValueError("a positive number is needed, of milliseconds where it is a time")


def reset_before_ms(value: str) -> int:
    """Return how long before now a group begins, in milliseconds. Raise ValueError if it does not say."""
    if not value.startswith(BY_DURATION):
        raise ValueError(f"{EARLIEST}, {LATEST} or {BY_DURATION}PnDTnHnMn.nS is needed")
    text = value.removeprefix(BY_DURATION)
    try:
        duration = _DURATION.validate_python(text) if text.startswith("P") else None
    except ValidationError:
        duration = None
    if duration is None or duration < timedelta(0):
        raise ValueError(f"{text!r} is no duration of ISO 8601 (PnDTnHnMn.nS)")
    return int(duration / timedelta(milliseconds=1))
