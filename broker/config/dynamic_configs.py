"""Whether brokers could take dynamic configs: asked by a controller, which is no broker, before it writes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from ...protocol import ErrorCode, KafkaError
from ...security.core import is_dynamic_key, is_secret
from .broker_config import DYNAMIC_KEYS, BrokerConfig, ConfigError, parse_broker_config

OF_CONTROLLERS: Final = frozenset({"unclean.leader.election.enable"})
"""Cluster-wide keys that controllers obey, not brokers."""


def check_dynamic_configs(configs: Mapping[str, str]) -> None:
    """INVALID_CONFIG for a key that is not dynamic, or a value that is wrong whatever else a broker's file says."""
    secret = sorted(filter(is_secret, configs))
    if secret:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"{secret[0]} holds a secret, which the metadata log would keep: set it in the file",
        )
    static = sorted(key for key in set(configs) - DYNAMIC_KEYS - OF_CONTROLLERS if not is_dynamic_key(key))
    if static:
        raise KafkaError(
            ErrorCode.invalid_config, f"{static[0]} is not a dynamic config: change the broker's file and restart it"
        )
    try:
        _any_broker().with_dynamic(configs)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_config, str(error)) from error


@cache
def _any_broker() -> BrokerConfig:
    keys = {"node.id": "0", "log.dirs": "data", "controller.quorum.bootstrap.servers": "localhost:1"}
    config, _ = parse_broker_config(keys, "any broker")
    return config
