"""Moves by the broker that they go to, as refinements of more than one kind look at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..placement import Indexes, Placement

GAIN_MIN: Final = 1.0
"""A byte: less is a rounding error."""


class MovesByTarget:
    """Moves as they were when this was made. Whoever changes some finds out here which ones are left."""

    def __init__(self, placement: Placement, partitions: Indexes, slots: Indexes) -> None:
        self._placement, self._partitions, self._slots = placement, partitions, slots
        targets = placement.replicas[partitions, slots]
        self._order = np.lexsort((placement.weight[partitions], targets))
        self._ends = np.cumsum(np.bincount(targets, minlength=placement.broker_count))

    def to(self, target: int, count_max: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield partition and slot of each that still goes to this broker, the lightest first, of so many at most."""
        placement = self._placement
        first, end = int(self._ends[target - 1]) if target else 0, int(self._ends[target])
        for at in self._order[first:end][:count_max].tolist():
            partition, slot = int(self._partitions[at]), int(self._slots[at])
            if placement.replicas[partition, slot] == target and placement.before[partition, slot] != target:
                yield partition, slot
