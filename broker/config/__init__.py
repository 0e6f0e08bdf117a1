"""A broker's configuration, as values that everything else in `broker/` may read.

broker_config    reads the `.properties` file: Kafka's keys, defaults and units.
dynamic_configs  checks a dynamic config on the controller before it is written.
"""

from __future__ import annotations

from .broker_config import DYNAMIC_KEYS, KEYS, BrokerConfig, load_broker_config, parse_broker_config, unknown_keys
from .dynamic_configs import OF_CONTROLLERS, check_dynamic_configs

__all__ = [
    "DYNAMIC_KEYS",
    "KEYS",
    "OF_CONTROLLERS",
    "BrokerConfig",
    "check_dynamic_configs",
    "load_broker_config",
    "parse_broker_config",
    "unknown_keys",
]
