"""How few moves and bytes any plan needs that reaches as much as this one did: what the plan is measured by.

What "as much" is: every broker that leaves is empty, and every other one lies in its band, or as far outside as this
plan left it. Then, whatever the plan:

    moves   each replica of a broker that leaves moves once
            a broker above its band loses as many replicas as it is above, and as many as its surplus of bytes takes,
            the largest first
            brokers below their bands receive together what they lack
    bytes   the same, each time with the cheapest replicas there are that are enough in number and in bytes on disk: the
            dual of that choice as a linear program, which is a bound at any price of a byte on disk

It is a bound, not a plan: racks, room, and whether one set of replicas can serve both numbers and bytes are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..cluster.arrays import Floats
from .balancing import Band
from .placement import Indexes, Placement, order_by_broker

LEAST = 0.5
"""A replica, or a byte: less is a rounding error."""
SAMPLE_MAX = 1024
PRICE_MAX = 4.0
STEPS = 14
"""Of the search for the best price; each leaves two thirds of the range."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least there can be, and the plan's own, of moves and of bytes to copy."""

    moves_min: int
    moves: int
    bytes_min: float
    bytes: float

    @property
    def moves_gap(self) -> float:
        """0: nothing could be better; 0.1: at most a tenth of the moves may be too many."""
        return _gap(self.moves, self.moves_min)

    @property
    def bytes_gap(self) -> float:
        return _gap(self.bytes, self.bytes_min)


def _gap(actual: float, least: float) -> float:
    return 0.0 if actual <= least else (actual - least) / actual


def bound(placement: Placement, repaired: Indexes, numbers: Band | None, disks: Band | None, moved: Indexes) -> Bound:
    """`moved`: the partition of each move that the plan makes; `repaired`: partitions, once for each replica that had
    to leave a shared rack. Bands are None where nothing was balanced.
    """
    before = _Before(placement)
    forced = np.nonzero(placement.stays[before.holders] == 0)[0]
    given, taken = _Least(), _Least()
    if numbers is not None and disks is not None:
        before.add(numbers, disks, given, taken)
    arriving = max(0, taken.moves - len(forced))
    weight = float(placement.weight[before.partitions[forced]].sum())
    free_bytes = before.least_cost_of_all(arriving, max(0.0, taken.bytes - weight))
    repairs = float(placement.cost[repaired].sum())
    return Bound(
        moves_min=max(len(forced) + max(given.moves, len(repaired)), taken.moves),
        moves=len(moved),
        bytes_min=float(placement.cost[before.partitions[forced]].sum()) + max(given.bytes, free_bytes, repairs),
        bytes=float(placement.cost[moved].sum()),
    )


@dataclass(slots=True)
class _Least:
    moves: int = 0
    bytes: float = 0.0


class _Before:
    """Every replica before the plan."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        width = placement.before.shape[1]
        places = np.flatnonzero(placement.before >= 0)
        self.partitions, self.holders = places // width, placement.before.ravel()[places]
        self._staying = self.partitions[placement.stays[self.holders]]
        brokers = placement.broker_count
        self._counts = np.bincount(self.holders, minlength=brokers).astype(np.float64)
        self._counts_after = placement.counts.astype(np.float64)
        weights = placement.weight[self.partitions]
        self._disk = np.bincount(self.holders, weights=weights, minlength=brokers).astype(np.float64)

    def _surplus(self, now: Floats, after: Floats, band: Band) -> Floats:
        above = (now - np.maximum(band.hi, after)).clip(0)
        return np.where(self._placement.is_open & (above >= LEAST), above, 0.0)

    def _need(self, now: Floats, after: Floats, band: Band) -> Floats:
        below = (np.minimum(band.lo, after) - now).clip(0)
        return np.where(self._placement.is_open & (below >= LEAST), below, 0.0)

    def add(self, numbers: Band, disks: Band, given: _Least, taken: _Least) -> None:
        placement = self._placement
        counts = self._surplus(self._counts, self._counts_after, numbers)
        sizes = self._surplus(self._disk, placement.disk, disks)
        is_above = (counts > 0) | (sizes > 0)
        by_broker = self.partitions[order_by_broker(self.holders)] if is_above.any() else self.partitions
        ends = np.cumsum(self._counts).astype(np.int64)
        for broker in np.flatnonzero(is_above).tolist():
            mine = by_broker[ends[broker] - int(self._counts[broker]) : ends[broker]]
            cost, weight = placement.cost[mine], placement.weight[mine]
            count = max(_fewest(weight, float(sizes[broker])), int(counts[broker]))
            given.moves += count
            given.bytes += least_cost(cost, weight, count, float(sizes[broker]))
        taken.moves = int(self._need(self._counts, self._counts_after, numbers).sum())
        taken.bytes = float(self._need(self._disk, placement.disk, disks).sum())

    def least_cost_of_all(self, count: int, size_bytes: float) -> float:
        staying = self._staying
        return least_cost(self._placement.cost[staying], self._placement.weight[staying], count, size_bytes)


def _fewest(weight: Floats, size_bytes: float) -> int:
    """How many of these weigh `size_bytes` at least."""
    if size_bytes <= 0:
        return 0
    heaviest = np.cumsum(np.sort(weight)[::-1])
    return min(len(weight), int(np.searchsorted(heaviest, size_bytes - LEAST)) + 1)


def least_cost(cost: Floats, weight: Floats, count: int, size_bytes: float) -> float:
    """A bound from below of the cost of at least `count` of these that weigh at least `size_bytes` together."""
    if size_bytes <= 0:
        return _dual(cost, weight, count, 0.0, 0.0)
    step = max(1, len(cost) // SAMPLE_MAX)
    few_cost, few_weight = cost[::step], weight[::step]
    part = len(few_cost) / len(cost)
    few, few_bytes = round(count * part), size_bytes * part
    low, high = 0.0, PRICE_MAX
    for _ in range(STEPS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        if _dual(few_cost, few_weight, few, few_bytes, one) < _dual(few_cost, few_weight, few, few_bytes, other):
            low = one
        else:
            high = other
    return _dual(cost, weight, count, size_bytes, (low + high) / 2)


def _dual(cost: Floats, weight: Floats, count: int, size_bytes: float, price: float) -> float:
    """The bound at one price of a byte: whoever lowers the sum is chosen, and `count` at least."""
    values = cost - price * weight
    below = values[values < 0]
    if len(below) >= count:
        return float(below.sum()) + price * size_bytes
    count = min(count, len(values))
    lowest = np.partition(values, count - 1)[:count] if count else values[:0]
    return float(lowest.sum()) + price * size_bytes
