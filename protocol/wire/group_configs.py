"""The configs that a group may have of its own (KIP-848, KIP-932), and what their values may be.

| config | value |
|---|---|
| timeouts and intervals of heartbeats | milliseconds from 1 up |
| `share.record.lock.duration.ms`; intervals of assignments | milliseconds from 1000 up; from 0 up |
| `share.delivery.count.limit`, `share.partition.max.record.locks` | a number from 2 up, from 100 up |
| `share.auto.offset.reset` | earliest, latest, or by_duration:, with a duration of ISO 8601 |
| `share.isolation.level` | read_uncommitted, read_committed |
| `share.renew.acknowledge.enable` | true, false |

A broker that is asked to alter them refuses what is beyond the limits of its own keys; coordinators and leaders keep
within theirs what came past that.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pydantic import TypeAdapter, ValidationError

GROUP_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
GROUP_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
GROUP_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT_INTERVAL: Final = "share.assignment.interval.ms"
LOCK_DURATION: Final = "share.record.lock.duration.ms"
DELIVERY_LIMIT: Final = "share.delivery.count.limit"
RECORD_LOCKS: Final = "share.partition.max.record.locks"
OFFSET_RESET: Final = "share.auto.offset.reset"
ISOLATION: Final = "share.isolation.level"
RENEW_ENABLE: Final = "share.renew.acknowledge.enable"
_LEAST: Final = {
    GROUP_SESSION_TIMEOUT: 1,
    GROUP_HEARTBEAT_INTERVAL: 1,
    GROUP_ASSIGNMENT_INTERVAL: 0,
    SHARE_SESSION_TIMEOUT: 1,
    SHARE_HEARTBEAT_INTERVAL: 1,
    SHARE_ASSIGNMENT_INTERVAL: 0,
    LOCK_DURATION: 1_000,
    DELIVERY_LIMIT: 2,
    RECORD_LOCKS: 100,
}
"""The configs that are numbers, with the least that each may be."""
GROUP_CONFIGS: Final = frozenset({*_LEAST, OFFSET_RESET, ISOLATION, RENEW_ENABLE})
"""The configs that a group may have of its own."""
GROUP_NUMBERS: Final = frozenset(_LEAST)
"""The ones that are numbers."""
ASSIGNMENT_INTERVAL_MAX_MS: Final = 15_000
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
    elif key == RENEW_ENABLE:
        if value.lower() not in ("true", "false"):
            raise ValueError("true or false is needed")
    elif not (value.isascii() and value.isdigit() and _LEAST[key] <= int(value) <= _INT32_MAX):
        raise ValueError(f"a number from {_LEAST[key]} to {_INT32_MAX} is needed, of milliseconds where it is a time")


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
