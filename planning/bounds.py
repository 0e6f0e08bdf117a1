"""How few moves and bytes any plan needs that reaches as much as this one did: what the plan is measured by.

What "as much" is: every broker that leaves is empty, and every other one is in its band, or as far outside as this
plan left it. Then, whatever the plan:

    moves   each replica of a broker that leaves moves once
            a broker above its band loses as many replicas as it is above, and as many as its surplus of bytes takes,
            the largest first
            brokers below their bands receive together what they lack
    bytes   the same, each time with the cheapest replicas there are that are enough in number and in bytes on disk: the
            dual of that choice as a linear program, which is a bound at any price of a byte on disk. Of plans that move
            no more replicas than this one: many small cheap ones may do for a few large ones. Where a broker above its
            band has too few cheap replicas for its surplus, its bytes have a price of their own on top: what it has
            to give can come from no other broker. Nor can it give all its cheap ones where its number has to stay in
            its band, so that dear ones have to go

Where every partition has one replica in each rack, none can leave its own, and each rack needs that much for itself.
Apart from this racks are left out, and room, and whether one set of replicas can serve both numbers and bytes: it is a
bound, not a plan.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..model import Bools, Floats
from .balancing import Band
from .placement import Indexes, Placement, any_slot, order_by_broker

LEAST = 0.5
"""A replica, or a byte: less is a rounding error."""
SAMPLE_MAX = 1024
PRICE_MAX = 4.0
STEPS = 14
"""The number of steps in the search for the best price; each leaves two thirds of the range."""
REPLICA_PRICES: Final = np.append(0.0, 2.0 ** np.arange(-5, 2, 0.5))
"""What keeping a replica may be worth to a broker, in parts of what one copies on the average; any is a bound."""


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
    forced = before.held_by(~placement.stays)
    moves, dear = 0, np.zeros(1)
    if numbers is not None and disks is not None:
        groups = _groups(placement)
        fewest = [before.lacking_moves(group, numbers) for group in groups]
        spare = max(0, len(moved) - len(forced) - sum(fewest))
        prices = float(placement.cost.sum()) / max(1, len(placement.cost)) * REPLICA_PRICES
        dear = -prices * (len(moved) - before.lacking_replicas(numbers))
        for group, few in zip(groups, fewest, strict=True):
            least = before.least(group, numbers, disks, few, few + spare, prices)
            moves += least.moves
            dear += least.bytes
    return Bound(
        moves_min=len(forced) + max(moves, len(repaired)),
        moves=len(moved),
        bytes_min=float(placement.cost[forced].sum()) + max(float(dear.max()), float(placement.cost[repaired].sum())),
        bytes=float(placement.cost[moved].sum()),
    )


def _groups(placement: Placement) -> list[Bools]:
    """Brokers among which alone replicas can move."""
    racks = placement.rack_of(placement.before)
    available = np.unique(placement.racks[placement.is_open])
    if len(available) == racks.shape[1] and all(any_slot(racks == rack).all() for rack in available):
        return [placement.racks == rack for rack in available]
    return [np.ones(placement.broker_count, dtype=np.bool_)]


@dataclass(frozen=True, slots=True)
class _Least:
    """Beside what has to leave anyway; `bytes` [K] at each price of a replica that is kept."""

    moves: int
    bytes: Floats


class _Before:
    """Every replica before the plan."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        width = placement.before.shape[1]
        places = np.flatnonzero(placement.before >= 0)
        self.partitions, self.holders = places // width, placement.before.ravel()[places]
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

    def held_by(self, brokers: Bools) -> Indexes:
        """Their replicas' partitions."""
        found: Indexes = self.partitions[brokers[self.holders]] if brokers.any() else self.partitions[:0]
        return found

    @cached_property
    def _by_broker(self) -> Indexes:
        """The partitions of the first broker, of the second, ..."""
        found: Indexes = self.partitions[order_by_broker(self.holders)]
        return found

    def lacking_moves(self, group: Bools, numbers: Band) -> int:
        """How many replicas the group's brokers below their bands lack, beside those that have to leave anyway."""
        forced = self._counts[group & ~self._placement.stays].sum()
        return max(0, int(self._need(self._counts, self._counts_after, numbers)[group].sum() - forced))

    def lacking_replicas(self, numbers: Band) -> float:
        """How many replicas all brokers below their bands lack."""
        return float(self._need(self._counts, self._counts_after, numbers).sum())

    def least(self, group: Bools, numbers: Band, disks: Band, fewest: int, most: int, prices: Floats) -> _Least:
        """Return what one group's brokers above their bands give, or what those below take, if that is more; the latter
        in `fewest` to `most` moves.
        """
        placement = self._placement
        given_moves, given_bytes = self._given(group, numbers, disks)
        lacking_bytes = float(self._need(self._disk, placement.disk, disks)[group].sum())
        lacking_bytes -= float(placement.weight[self.held_by(group & ~placement.stays)].sum())
        staying = self.held_by(group & placement.stays)
        cost, weight = placement.cost[staying], placement.weight[staying]
        lacking_bytes = max(0.0, lacking_bytes)
        price = best_price(cost, weight, fewest, lacking_bytes, most)
        toll = _toll(cost - price * weight, fewest, most)
        taken_bytes = _dual(cost, weight, fewest, most, lacking_bytes, price)
        gains = self._own_gains(group, numbers, disks, price, toll, prices)
        return _Least(max(given_moves, fewest), np.maximum(given_bytes, taken_bytes + gains))

    def _own_gains(self, group: Bools, numbers: Band, disks: Band, price: float, toll: float, prices: Floats) -> Floats:
        """[K]. Return by how much the bound rises when the bytes that each broker has to give have a price of their
        own, and the replicas that it has to keep one up to each of `prices`.

        A broker may also keep its number by taking others in return, but not in the moves that those below their bands
        need: from all of the bound, the price is taken off again for each of the moves that are left.
        """
        placement = self._placement
        surplus = np.where(group, self._surplus(self._disk, placement.disk, disks), 0.0)
        lacking = self._need(self._counts, self._counts_after, numbers)
        spare = np.where(lacking > 0, np.inf, self._counts - np.minimum(numbers.lo, self._counts_after))
        gains = np.zeros((int((surplus > 0).sum()), len(prices)))
        for row, broker in enumerate(np.flatnonzero(surplus).tolist()):
            own = self._of(broker)
            weight = placement.weight[own]
            values = placement.cost[own] + toll - price * weight
            for column, kept_at in enumerate(prices.tolist()):
                gains[row, column], count = own_gain(values, weight, float(surplus[broker]), kept_at, spare[broker])
                if count <= spare[broker]:
                    break  # a higher price gains less
        found: Floats = np.maximum.accumulate(gains, axis=1).sum(axis=0)
        return found

    def _of(self, broker: int) -> Indexes:
        """The partitions of its replicas."""
        end = int(self._held_ends[broker])
        found: Indexes = self._by_broker[end - int(self._counts[broker]) : end]
        return found

    @cached_property
    def _held_ends(self) -> Indexes:
        return np.cumsum(self._counts).astype(np.int64)

    def _given(self, group: Bools, numbers: Band, disks: Band) -> tuple[int, float]:
        """Moves and bytes."""
        placement, moves, least_bytes = self._placement, 0, 0.0
        counts = self._surplus(self._counts, self._counts_after, numbers)
        sizes = self._surplus(self._disk, placement.disk, disks)
        is_above = group & ((counts > 0) | (sizes > 0))
        for broker in np.flatnonzero(is_above).tolist():
            mine = self._of(broker)
            cost, weight = placement.cost[mine], placement.weight[mine]
            count = max(_fewest(weight, float(sizes[broker]), int(counts[broker])), int(counts[broker]))
            moves += count
            least_bytes += least_cost(cost, weight, count, float(sizes[broker]))
        return moves, least_bytes


def _fewest(weight: Floats, size_bytes: float, known: int) -> int:
    """How many of these weigh `size_bytes` at least; at most `known` where so many do."""
    if size_bytes <= 0 or (known and np.partition(weight, -known)[-known:].sum() >= size_bytes):
        return min(known, len(weight))
    heaviest = np.cumsum(np.sort(weight)[::-1])
    return min(len(weight), int(np.searchsorted(heaviest, size_bytes - LEAST)) + 1)


def least_cost(cost: Floats, weight: Floats, count: int, size_bytes: float, most: int | None = None) -> float:
    """A bound from below of the cost of at least `count` of these, and at most `most` (None: any number), that weigh at
    least `size_bytes` together.
    """
    most = len(cost) if most is None else most
    return _dual(cost, weight, count, most, size_bytes, best_price(cost, weight, count, size_bytes, most))


def best_price(cost: Floats, weight: Floats, count: int, size_bytes: float, most: int) -> float:
    """Return about the price of a byte on disk at which that bound is highest."""
    if size_bytes <= 0:
        return 0.0
    step = max(1, len(cost) // SAMPLE_MAX)
    few_cost, few_weight = cost[::step], weight[::step]
    part = len(few_cost) / len(cost)
    few, few_most, few_bytes = round(count * part), round(most * part), size_bytes * part
    low, high = 0.0, PRICE_MAX
    for _ in range(STEPS):
        one, other = low + (high - low) / 3, high - (high - low) / 3
        at_one = _dual(few_cost, few_weight, few, few_most, few_bytes, one)
        if at_one < _dual(few_cost, few_weight, few, few_most, few_bytes, other):
            low = one
        else:
            high = other
    return (low + high) / 2


def _toll(values: Floats, count: int, most: int) -> float:
    """Return what a move costs beside its bytes, so that at these values `count` to `most` are worth it: below zero
    where more have to move than would be, above it where fewer may.
    """
    worth = int((values < 0).sum())
    bound = count if worth < count else most if worth > most else 0
    if not bound or not len(values):
        return 0.0
    return -float(np.partition(values, min(bound, len(values)) - 1)[min(bound, len(values)) - 1])


def own_gain(values: Floats, weight: Floats, surplus: float, kept_at: float, spare: float) -> tuple[float, int]:
    """Return by how much the bound rises when a broker gives `surplus`, at the best price of its bytes, and each
    replica beyond `spare` that it gives costs `kept_at`; and how many it gives then.
    """
    dues = values + kept_at
    with np.errstate(divide="ignore", invalid="ignore"):
        given_at = np.where(weight > 0, dues / weight, np.inf)
    order = np.argsort(given_at, kind="stable")
    last = min(int(np.searchsorted(np.cumsum(weight[order]), surplus)), len(order) - 1)
    own = max(0.0, float(given_at[order[last]]))
    if own == np.inf:
        return 0.0, 0
    paid = kept_at * spare if kept_at else 0.0
    gain = own * surplus - paid + float(np.minimum(0.0, dues - own * weight).sum() - np.minimum(0.0, values).sum())
    return max(0.0, gain), last + 1


def _dual(cost: Floats, weight: Floats, count: int, most: int, size_bytes: float, price: float) -> float:
    """Return the bound at one price of a byte: brokers that lower the sum are chosen, `count` to `most`."""
    values = cost - price * weight
    below = values[values < 0]
    if count <= len(below) <= most:
        return float(below.sum()) + price * size_bytes
    count = min(count if len(below) < count else most, len(values))
    lowest = np.partition(values, count - 1)[:count] if count else values[:0]
    return float(lowest.sum()) + price * size_bytes
