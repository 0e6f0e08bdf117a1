"""The replica placement that an operator has configured (`replica.placement.plugin`), found by entry point.

A placement of another package may raise, or place replicas where none may go. Then the request that creates the
partitions is refused with the sentence, and nothing is created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from pydantic import BaseModel

from ..plugin_options import parse_options
from ..plugin_registry import REPLICA_PLACEMENT, is_built_in, load_plugin
from ..protocol import ErrorCode, KafkaError
from .core.placement import PlaceableBroker, Placer, RandomSource, ReplicaPlacement, broken_placement, check_brokers

_log = logging.getLogger(__name__)


class GuardedPlacement:
    """A placement of another package."""

    def __init__(self, name: str, placement: ReplicaPlacement) -> None:
        self.name = name
        self._placement = placement

    def placer(self, brokers: Sequence[PlaceableBroker], random: RandomSource) -> Placer:
        return _GuardedPlacer(self.name, lambda: self._placement.placer(brokers, random), brokers)


class _GuardedPlacer:
    def __init__(self, name: str, make: Callable[[], Placer], brokers: Sequence[PlaceableBroker]) -> None:
        self._name = name
        self._make = make
        self._placer: Placer | None = None
        self._brokers = brokers

    def place(self, partitions: int, replication_factor: int) -> Sequence[Sequence[int]]:
        check_brokers(self._brokers, replication_factor)
        try:
            self._placer = self._placer or self._make()
            placed = self._placer.place(partitions, replication_factor)
            broken = broken_placement(placed, self._brokers, partitions, replication_factor)
        except KafkaError:
            raise
        except Exception as error:
            raise self._refusal(f"raised {type(error).__name__}: {error}") from error
        if broken is not None:
            raise self._refusal(f"returned {broken}")
        return placed

    def _refusal(self, what: str) -> KafkaError:
        text = f"replica placement {self._name!r} {what}; correct the plugin, or set replica.placement.plugin=striped"
        _log.error("%s", text)
        return KafkaError(ErrorCode.policy_violation, text)


def load_replica_placement(name: str, config: Mapping[str, str]) -> ReplicaPlacement:
    """Return the placement `name`, built. Raise PluginError."""
    plugin = load_plugin(REPLICA_PLACEMENT, name)
    options = parse_options(plugin.Config, name, config, REPLICA_PLACEMENT.prefix)
    placement = cast(Callable[[BaseModel], ReplicaPlacement], plugin)(options)
    return placement if is_built_in(REPLICA_PLACEMENT, name) else GuardedPlacement(name, placement)
