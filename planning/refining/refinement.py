"""Fewer bytes for the same evenness: the last look at what a plan moves for balance.

    undone       a move without which both its brokers are still in their bands
    exchanged    a replica that moves, for another one of the same giver that costs less: numbers stay as they are, and
                 what both brokers then have on disk is inside their bands
    split        a dear replica, for several cheap ones of the same giver that bring as much; for as many
                 of them less one, light ones that came to the same broker stay where they were
    traded       a dear replica, for a light one of the same giver, where other givers bring what the taker then lacks:
                 trading.py

No broker ends further outside its band than it was, no replica that has to move is touched, and no partition loses a
rack. The dearest moves are looked at first, since every exchange uses up what the bands still allow. Of a broker with
many replicas only a sample is looked at: there what is left to gain is small (bounds.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ...model import Bools, Floats
from ..balancing import Band
from ..choice import lowest
from ..placement import Indexes, Placement, any_slot, order_by_broker, spread
from .moves import GAIN_MIN, MovesByTarget
from .trading import Trades

MOVES_PER_BROKER_MAX: Final = 512
POOL_MAX: Final = 1_024
TRIED_MAX: Final = 4
"""Replicas that are looked at for one exchange: the cheapest may not be allowed where it would go."""
PASSES: Final = 2
SPLITS_MAX: Final = 4_096
PARTS_MAX: Final = 64
CHEAPER: Final = 0.9
"""The share of a dear replica's cost for a byte on disk that the parts it is split into may cost at most."""


def refine(placement: Placement, is_fixed: Bools, numbers: Band, disks: Band) -> None:
    """Undo, exchange, split and trade moves; `is_fixed` [P, R] are those that were not made for balance."""
    step = _Refinement(placement, is_fixed, numbers, disks)
    step.undo()
    for _ in range(PASSES):
        step.exchange()
        is_split = _Splits(placement, step).run()
        if not (Trades(placement, step, _Pools(placement)).run() or is_split):
            return


class _Refinement:
    """The bands as wide as brokers need that are outside now, [B] each."""

    def __init__(self, placement: Placement, is_fixed: Bools, numbers: Band, disks: Band) -> None:
        self._placement = placement
        self._is_fixed = is_fixed
        counts, disk = placement.counts.astype(np.float64), placement.disk
        self.count_lo, self.count_hi = np.minimum(numbers.lo, counts), np.maximum(numbers.hi, counts)
        self.disk_lo, self.disk_hi = np.minimum(disks.lo, disk), np.maximum(disks.hi, disk)

    def undo(self) -> None:
        """Take back what neither side needs, the dearest first."""
        placement = self._placement
        partitions, slots = self.made()
        weights = placement.weight[partitions]
        sources, targets = placement.before[partitions, slots], placement.replicas[partitions, slots]
        may = (placement.counts[targets] > self.count_lo[targets]) & (
            placement.disk[targets] - weights >= self.disk_lo[targets]
        )
        may &= (placement.counts[sources] < self.count_hi[sources]) & (
            placement.disk[sources] + weights <= self.disk_hi[sources]
        )
        found = np.flatnonzero(may)
        for at in found[np.argsort(-placement.cost[partitions[found]], kind="stable")].tolist():
            partition, slot = int(partitions[at]), int(slots[at])
            source, target, weight = int(sources[at]), int(targets[at]), float(weights[at])
            if (
                placement.counts[target] > self.count_lo[target]
                and placement.disk[target] - weight >= self.disk_lo[target]
                and placement.counts[source] < self.count_hi[source]
                and placement.disk[source] + weight <= self.disk_hi[source]
                and weight <= placement.room(source)[1]
                and placement.may_hold(partition, slot, source)
            ):
                placement.put(partition, slot, source)

    def exchange(self) -> bool:
        """Exchange what moves for what costs less; whether anything was."""
        placement = self._placement
        partitions, slots = self.made()
        if not len(partitions):
            return False
        sources = placement.before[partitions, slots]
        order = np.lexsort((-placement.cost[partitions], sources))
        partitions, slots, sources = partitions[order], slots[order], sources[order]
        ends = np.cumsum(np.bincount(sources, minlength=placement.broker_count))
        pools = _Pools(placement)
        gained = False
        for giver in np.unique(sources).tolist():
            first = int(ends[giver - 1]) if giver else 0
            mine = slice(first, min(int(ends[giver]), first + MOVES_PER_BROKER_MAX))
            pool = pools.of(giver)
            if len(pool[0]):
                gained |= self._exchange_of(giver, partitions[mine], slots[mine], *pool)
        return gained

    def _exchange_of(self, giver: int, partitions: Indexes, slots: Indexes, pool: Indexes, pool_slots: Indexes) -> bool:
        """Exchange moves of one giver for those in the pool that it keeps."""
        placement = self._placement
        pool_cost, pool_weight = placement.cost[pool].copy(), placement.weight[pool]
        cheapest = float(pool_cost.min())
        gained = False
        for partition, slot in zip(partitions.tolist(), slots.tolist(), strict=True):
            cost, weight = float(placement.cost[partition]), float(placement.weight[partition])
            if cost - cheapest < GAIN_MIN:
                break  # the others cost still less
            if not placement.may_hold(partition, slot, giver):
                continue  # another replica of it has come into the giver's rack meanwhile
            target = int(placement.replicas[partition, slot])
            lighter, heavier = self._slack(giver, target)
            fits = (pool_weight >= weight - lighter) & (pool_weight <= weight + heavier)
            fits &= pool_cost < cost - GAIN_MIN
            found = np.flatnonzero(fits)
            if len(found) > TRIED_MAX:
                found = found[lowest(pool_cost[found], TRIED_MAX)]
            for at in found[np.argsort(pool_cost[found], kind="stable")].tolist():
                if placement.may_hold(int(pool[at]), int(pool_slots[at]), target):
                    placement.put(partition, slot, giver)
                    placement.put(int(pool[at]), int(pool_slots[at]), target)
                    pool_cost[at] = np.inf
                    gained = True
                    break
        return gained

    def _slack(self, giver: int, target: int) -> tuple[float, float]:
        """Return by how much what moves from one to the other may become lighter, and heavier."""
        return min(self.below(target), self.above(giver)), min(self.above(target), self.below(giver))

    def below(self, broker: int) -> float:
        """How many bytes fewer the broker may hold."""
        return max(0.0, float(self._placement.disk[broker] - self.disk_lo[broker]))

    def above(self, broker: int) -> float:
        """How many bytes more the broker may hold, within its band and its disk."""
        placement = self._placement
        return max(0.0, float(min(self.disk_hi[broker] - placement.disk[broker], placement.room(broker)[1])))

    def made(self) -> tuple[Indexes, Indexes]:
        """Partitions and slots of the moves for balance."""
        placement = self._placement
        made = placement.is_moved & ~self._is_fixed & (placement.before != placement.replicas)
        partitions, slots = np.nonzero(made)
        return partitions, slots


class _Splits:
    """Dear moves, each for several cheap ones."""

    def __init__(self, placement: Placement, bands: _Refinement) -> None:
        self._placement, self._bands = placement, bands
        self._pools = _Pools(placement)
        self._partitions, self._slots = bands.made()
        self._moves = MovesByTarget(placement, self._partitions, self._slots)
        self._cheap: dict[int, tuple[Indexes, Indexes]] = {}
        with np.errstate(divide="ignore", invalid="ignore"):
            self._ratio = np.where(placement.weight > 0, placement.cost / placement.weight, np.inf)

    def run(self) -> bool:
        """Split what can be, the dearest first; whether anything was."""
        cost = self._placement.cost[self._partitions]
        gained = False
        for at in np.argsort(-cost, kind="stable")[:SPLITS_MAX].tolist():
            gained |= self._split(int(self._partitions[at]), int(self._slots[at]))
        return gained

    def _split(self, partition: int, slot: int) -> bool:
        placement, bands = self._placement, self._bands
        giver, target = int(placement.before[partition, slot]), int(placement.replicas[partition, slot])
        weight, cost = float(placement.weight[partition]), float(placement.cost[partition])
        if giver == target or not weight or not placement.may_hold(partition, slot, giver):
            return False
        given_min, given_max = weight - bands.above(giver), weight + bands.below(giver)
        taken_min, taken_max = weight - bands.below(target), weight + bands.above(target)
        spare = int(min(PARTS_MAX, placement.counts[giver] - bands.count_lo[giver] + 1))
        stayers = self._light(target, partition)
        parts: list[tuple[int, int]] = []
        back: list[tuple[int, int]] = []
        given, taken, added = 0.0, 0.0, 0.0
        for part in self._parts(giver, target, self._ratio[partition] * CHEAPER):
            if len(parts) == spare:
                return False
            if parts:
                stayer = next(stayers, None)
                if stayer is None:
                    return False
                back.append(stayer)
                taken -= float(placement.weight[stayer[0]])
                if placement.before[stayer] == giver:
                    given -= float(placement.weight[stayer[0]])
                added -= float(placement.cost[stayer[0]])
            parts.append(part)
            given += float(placement.weight[part[0]])
            taken += float(placement.weight[part[0]])
            added += float(placement.cost[part[0]])
            if added > cost - GAIN_MIN:
                return False
            if given >= given_min and taken >= taken_min:
                if given > given_max or taken > taken_max:
                    return False
                self._apply((partition, slot), parts, back)
                return True
        return False

    def _apply(self, dear: tuple[int, int], parts: list[tuple[int, int]], back: list[tuple[int, int]]) -> None:
        placement = self._placement
        target = int(placement.replicas[dear])
        for partition, slot in (dear, *back):
            placement.put(partition, slot, int(placement.before[partition, slot]))
        for partition, slot in parts:
            placement.put(partition, slot, target)

    def _parts(self, giver: int, target: int, ratio_max: float) -> Iterator[tuple[int, int]]:
        """Replicas of the giver that cost so little for a byte, the heaviest first."""
        placement = self._placement
        if giver not in self._cheap:
            self._cheap[giver] = self._pools.heaviest_of(giver)
        partitions, slots = self._cheap[giver]
        is_cheap = (self._ratio[partitions] <= ratio_max) & ~any_slot(placement.is_moved[partitions])
        for at in np.flatnonzero(is_cheap).tolist():
            if placement.may_hold(int(partitions[at]), int(slots[at]), target):
                yield int(partitions[at]), int(slots[at])

    def _light(self, target: int, dear: int) -> Iterator[tuple[int, int]]:
        """Moves to the target that their givers could do without, the lightest first."""
        placement, bands = self._placement, self._bands
        more: dict[int, tuple[int, float]] = {}
        for partition, slot in self._moves.to(target):
            source, weight = int(placement.before[partition, slot]), float(placement.weight[partition])
            if partition == dear:
                continue
            count, size = more.get(source, (0, 0.0))
            if placement.counts[source] + count + 1 > bands.count_hi[source]:
                continue
            if placement.disk[source] + size + weight > min(bands.disk_hi[source], placement.arrays.disk_bytes[source]):
                continue
            if placement.may_hold(partition, slot, source):
                more[source] = (count + 1, size + weight)
                yield partition, slot


class _Pools:
    """Replicas that stay, of partitions of which nothing moves, by broker."""

    def __init__(self, placement: Placement) -> None:
        width = placement.replicas.shape[1]
        rests = ~any_slot(placement.is_moved)
        holders = np.where(rests[:, None], placement.replicas, -1).ravel()
        places = np.flatnonzero(holders >= 0)
        places = places[order_by_broker(holders[places])]
        self._partitions, self._slots = places // width, places % width
        self._ends = np.cumsum(np.bincount(holders[places], minlength=placement.broker_count))
        self._weight: Floats = placement.weight

    def heaviest_of(self, broker: int) -> tuple[Indexes, Indexes]:
        """Partitions and slots, the heaviest first; none of a broker with many, of which a sample is no choice."""
        partitions, slots = self.few_of(broker)
        order = np.argsort(-self._weight[partitions], kind="stable")
        return partitions[order], slots[order]

    def few_of(self, broker: int) -> tuple[Indexes, Indexes]:
        """Partitions and slots; none of a broker with many."""
        partitions, slots = self._all_of(broker)
        return (partitions, slots) if len(partitions) < POOL_MAX else (partitions[:0], slots[:0])

    def _all_of(self, broker: int) -> tuple[Indexes, Indexes]:
        first, end = int(self._ends[broker - 1]) if broker else 0, int(self._ends[broker])
        return self._partitions[first:end], self._slots[first:end]

    def of(self, broker: int) -> tuple[Indexes, Indexes]:
        """Partitions and slots; of many a sample, light and heavy alike."""
        partitions, slots = self._all_of(broker)
        if len(partitions) <= POOL_MAX:
            return partitions, slots
        chosen = np.argsort(self._weight[partitions], kind="stable")[spread(len(partitions), POOL_MAX)]
        return partitions[chosen], slots[chosen]
