"""What an operator sets for a controller, and what this release of it supports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Final, NamedTuple

from ...light_dataclass import dataclass
from ...log.core import LogConfig
from ...protocol import ApiKey, ErrorCode, KafkaError
from .placement import ReplicaPlacement, StripedPlacement

KRAFT_VERSION: Final = "kraft.version"
TIERFETCH_VERSION: Final = "tierfetch.version"
REMOVE_PARTITIONS_LEVEL: Final = 1
"""Level of `tierfetch.version` from which records exist that Apache Kafka does not know."""

DEFAULT_NUM_PARTITIONS: Final = 1
DEFAULT_REPLICATION_FACTOR: Final = 1


class FeatureRange(NamedTuple):
    """Levels of a feature that a node can run at, both ends inclusive; 0 is "not there"."""

    min_level: int
    max_level: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min_level <= level <= self.max_level


SUPPORTED_FEATURES: Final[Mapping[str, FeatureRange]] = {
    "metadata.version": FeatureRange(25, 30),
    KRAFT_VERSION: FeatureRange(0, 1),
    "group.version": FeatureRange(0, 1),
    "transaction.version": FeatureRange(0, 2),
    "share.version": FeatureRange(0, 1),
    "streams.version": FeatureRange(0, 1),
    "eligible.leader.replicas.version": FeatureRange(0, 0),
    TIERFETCH_VERSION: FeatureRange(0, 1),
}
"""Levels of a cluster that a node of this release can be part of. metadata.version 25 is 4.0-IV3, 30 is 4.3-IV0."""

NEW_CLUSTER_LEVELS: Final[Mapping[str, int]] = {
    "metadata.version": 30,
    "group.version": 1,
    "transaction.version": 2,
    "share.version": 1,
}
"""The levels that a new cluster begins at; metadata.version comes first, as every reader of the log expects."""

_APIS_OF_LEVELS: Final[Mapping[str, Mapping[int, frozenset[int]]]] = {
    "group.version": {1: frozenset({68, 69})},
    "transaction.version": {1: frozenset({24, 25, 26, 28}), 2: frozenset({24, 25, 26, 28})},
    "share.version": {1: frozenset({76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92})},
    "streams.version": {1: frozenset({88, 89})},
}
"""The API keys that a level needs, by feature and level (KIP-848, 98, 890, 932, 1071)."""


def served_features(apis: Collection[int]) -> Mapping[str, FeatureRange]:
    """The levels of which a node that serves these APIs does what they stand for; without what is at level 0 alone."""
    served = {}
    for name, (low, high) in SUPPORTED_FEATURES.items():
        needs = _APIS_OF_LEVELS.get(name, {})
        while high > low and not needs.get(high, frozenset()) <= set(apis):
            high -= 1
        if high > 0:
            served[name] = FeatureRange(low, high)
    return served


SERVED_FEATURES: Final = served_features({int(api) for api in ApiKey})
"""The features that brokers of this release support."""


def registered_features(finalized: Mapping[str, int]) -> Mapping[str, FeatureRange]:
    """What a broker says of itself: what it serves, and the level that its cluster runs at already, if it can be part
    of that. A cluster with Apache Kafka's controllers has all of them finalized, and admits no broker without them.
    """
    registered = {name: SERVED_FEATURES.get(name, FeatureRange(0, 0)) for name in SUPPORTED_FEATURES}
    for name, level in finalized.items():
        if level in SUPPORTED_FEATURES.get(name, ()):
            low, high = registered[name]
            registered[name] = FeatureRange(low, max(high, level))
    return registered


@dataclass(frozen=True, slots=True)
class WarmingPolicy:
    """When a thin replica counts as warm: it holds this many bytes locally, or has been there this long."""

    bytes_min: int = 256 * 1024 * 1024
    time_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Defaults are Kafka's."""

    cluster_id: str
    node_id: int
    session_timeout_ms: int = 9_000
    num_partitions: int = DEFAULT_NUM_PARTITIONS
    default_replication_factor: int = DEFAULT_REPLICATION_FACTOR
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    elections_per_imbalance_max: int = 1_000
    partitions_per_request_max: int = 10_000
    is_remote_storage_enabled: bool = True
    fast_failover: bool = True
    has_authorizer: bool = False
    placement: ReplicaPlacement = field(default_factory=StripedPlacement)
    warming: WarmingPolicy = field(default_factory=WarmingPolicy)
    mutation_burst_s: float = 11.0
    """controller.quota.window.num windows of controller.quota.window.size.seconds."""
    supported_features: Mapping[str, FeatureRange] = field(default_factory=lambda: SUPPORTED_FEATURES)
    check_broker_configs: Callable[[Mapping[str, str]], None] = lambda _: None
    """Raises KafkaError for dynamic broker configs that no broker could take."""

    def checking(self, check_broker_configs: Callable[[Mapping[str, str]], None]) -> ControllerConfig:
        """Return this configuration with another check of broker configs."""
        return replace(self, check_broker_configs=check_broker_configs)


def check_topic_configs(
    config: ControllerConfig, configs: Mapping[str, str], before: Mapping[str, str] | None = None
) -> None:
    """KafkaError INVALID_CONFIG unless a topic may have these, in place of those `before` if it exists."""
    checked = LogConfig.from_topic_configs(configs)
    was_tiered = before is not None and LogConfig.usable_configs(before, LogConfig())[0].remote_storage_enable
    if was_tiered and not (checked.remote_storage_enable or checked.remote_log_delete_on_disable):
        raise KafkaError(
            ErrorCode.invalid_config,
            "remote.storage.enable=false would leave what is tiered unread and never deleted: with"
            " remote.log.delete.on.disable=true it is deleted; with remote.storage.enable=true and"
            " remote.log.copy.disable=true it stays readable, and nothing more is copied",
        )
    if checked.remote_storage_enable and not config.is_remote_storage_enabled:
        raise KafkaError(
            ErrorCode.invalid_config,
            "remote.storage.enable=true needs remote.log.storage.system.enable=true on controllers and brokers",
        )
