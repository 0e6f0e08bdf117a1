"""What a group's own configs may be within the limits of a broker's keys (KIP-848, KIP-932), as Kafka checks them.

| config | limits |
|---|---|
| numbers of `consumer.*` | the broker's keys `group.consumer.min.*` to `group.consumer.max.*`; so for `share.*` |
| intervals of assignments | at most `ASSIGNMENT_INTERVAL_MAX_MS` |
| an interval of heartbeats | below the session timeout, each the group's own or the broker's |
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol import ErrorCode, KafkaError
from ...protocol.wire import (
    ASSIGNMENT_INTERVAL_MAX_MS,
    GROUP_ASSIGNMENT_INTERVAL,
    GROUP_HEARTBEAT_INTERVAL,
    GROUP_NUMBERS,
    GROUP_SESSION_TIMEOUT,
    SHARE_ASSIGNMENT_INTERVAL,
    SHARE_HEARTBEAT_INTERVAL,
    SHARE_SESSION_TIMEOUT,
    check_group_config,
)
from ..config.broker_config import BrokerConfig

_INTERVALS = frozenset({GROUP_ASSIGNMENT_INTERVAL, SHARE_ASSIGNMENT_INTERVAL})
_PAIRS = (
    (GROUP_HEARTBEAT_INTERVAL, GROUP_SESSION_TIMEOUT),
    (SHARE_HEARTBEAT_INTERVAL, SHARE_SESSION_TIMEOUT),
)


def check_group_limits(config: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG if a group with these configs would be beyond the broker's limits. What no group may have
    (`check_group_config`) is left to the controller, which refuses it.
    """
    numbers = {key: int(value) for key, value in configs.items() if key in GROUP_NUMBERS and _is_right(key, value)}
    for key, value in numbers.items():
        _check_limits(config, key, value)
    for interval, session in _PAIRS:
        if interval not in numbers and session not in numbers:
            continue
        interval_ms = numbers.get(interval, _key(config, f"group.{interval}"))
        session_ms = numbers.get(session, _key(config, f"group.{session}"))
        if interval_ms >= session_ms:
            _refuse(f"{interval} ({interval_ms}) must be less than {session} ({session_ms})")


def _is_right(key: str, value: str) -> bool:
    try:
        check_group_config(key, value)
    except ValueError:
        return False
    return True


def _check_limits(config: BrokerConfig, key: str, value: int) -> None:
    if key in _INTERVALS:
        if value > ASSIGNMENT_INTERVAL_MAX_MS:
            _refuse(f"{key}={value}: at most {ASSIGNMENT_INTERVAL_MAX_MS} is allowed")
        return
    kind, _, name = key.partition(".")
    least, most = f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
    if not _key(config, least) <= value <= _key(config, most):
        _refuse(f"{key}={value}: {least} ({_key(config, least)}) to {most} ({_key(config, most)}) is allowed")


def _key(config: BrokerConfig, key: str) -> int:
    value: int = getattr(config, key.replace(".", "_"))
    return value


def _refuse(message: str) -> None:
    raise KafkaError(ErrorCode.invalid_config, message)
