"""Numbers of DescribeConfigs and its siblings on the wire: what has configs, and where a config's value comes from."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """Those that have configs here."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """The lowest number wins."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
