"""Dear moves traded between givers: what one of them need not give, others give for less.

A broker that takes has hardly a byte more than it needs. So a dear replica cannot be exchanged for a light one of its
giver, though that giver could keep it: the taker would lack the difference. In a trade other givers of the same taker
bring that: each exchanges a light replica that it gives for a heavier, cheap one. Numbers stay as they are.

A trade is made one exchange at a time, so that racks, room and bands are those of the moment; what does not reach the
taker's band for less than it saves is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np

from ...model import Floats
from ..choice import lowest
from ..placement import Indexes, Placement
from .moves import GAIN_MIN, MovesByTarget

TRADES_MAX: Final = 2_048
EXCHANGES_MAX: Final = 256
"""Exchanges that are tried for one trade."""
TRIED_MAX: Final = 2
TRIED_IN_ALL_MAX: Final = 16_384


class Bands(Protocol):
    """How far brokers may go; as `refining` keeps it."""

    disk_lo: Floats

    def below(self, broker: int) -> float: ...
    def above(self, broker: int) -> float: ...
    def made(self) -> tuple[Indexes, Indexes]: ...


class Pools(Protocol):
    """Replicas that stay, by broker; none of a broker with many, where there is little to gain (bounds.py)."""

    def few_of(self, broker: int) -> tuple[Indexes, Indexes]: ...


class Trades:
    """Trades among the moves that were made for balance."""

    def __init__(self, placement: Placement, bands: Bands, pools: Pools) -> None:
        self._placement, self._bands, self._pools = placement, bands, pools
        self._partitions, self._slots = bands.made()
        self._moves = MovesByTarget(placement, self._partitions, self._slots)
        self._done: list[tuple[int, int, int]] = []
        self._tried = 0

    def run(self) -> bool:
        """Trade what can be, the dearest first; whether anything was."""
        placement = self._placement
        cost, weight = placement.cost[self._partitions], placement.weight[self._partitions]
        price = float(cost.sum()) / max(1.0, float(weight.sum()))
        over = cost - price * weight
        found = np.flatnonzero(over > GAIN_MIN)
        gained = False
        for at in found[np.argsort(-over[found], kind="stable")][:TRADES_MAX].tolist():
            gained |= self._trade(int(self._partitions[at]), int(self._slots[at]), price)
            if self._tried == TRIED_IN_ALL_MAX:
                break
        return gained

    def _trade(self, partition: int, slot: int, price: float) -> bool:
        placement = self._placement
        giver, target = int(placement.before[partition, slot]), int(placement.replicas[partition, slot])
        if giver == target or not placement.may_hold(partition, slot, giver):
            return False
        for other, other_slot in self._lighter(partition, giver, target, price):
            self._done = []
            self._put(partition, slot, giver)
            if not placement.may_hold(other, other_slot, target):
                self._take_back()
                continue
            self._put(other, other_slot, target)
            saved = float(placement.cost[partition] - placement.cost[other])
            given = float(placement.weight[partition] - placement.weight[other])
            if self._fill(target, saved, saved / given):
                return True
            self._take_back()
        return False

    def _lighter(self, dear: int, giver: int, target: int, price: float) -> Iterator[tuple[int, int]]:
        """Replicas that the giver may give in place of a dear one, the best at this price of a byte first."""
        placement, bands = self._placement, self._bands
        partitions, slots = self._pools.few_of(giver)
        weight, cost = placement.weight[partitions], placement.cost[partitions]
        fits = (weight >= placement.weight[dear] - bands.above(giver)) & (weight < placement.weight[dear])
        fits &= (cost < placement.cost[dear] - GAIN_MIN) & (placement.replicas[partitions, slots] == giver)
        found = np.flatnonzero(fits)
        worth = (cost - price * weight)[found]
        best = lowest(worth, TRIED_MAX)
        for at in found[best[np.argsort(worth[best], kind="stable")]].tolist():
            yield int(partitions[at]), int(slots[at])

    def _fill(self, target: int, saved: float, price_max: float) -> bool:
        """Let other givers bring what the target lacks now, for less than was saved; whether they can."""
        placement, bands = self._placement, self._bands
        for partition, slot in self._moves.to(target, EXCHANGES_MAX):
            lacks = float(bands.disk_lo[target] - placement.disk[target])
            if lacks <= 0 or self._tried == TRIED_IN_ALL_MAX:
                break
            self._tried += 1
            saved -= self._heavier(partition, slot, target, lacks, price_max)
        return placement.disk[target] >= bands.disk_lo[target] and saved > GAIN_MIN

    def _heavier(self, partition: int, slot: int, target: int, lacks: float, price_max: float) -> float:
        """Exchange what moves to the target for a heavier replica of the same giver; what that costs, 0 if none is."""
        placement, bands = self._placement, self._bands
        giver = int(placement.before[partition, slot])
        partitions, slots = self._pools.few_of(giver)
        more = placement.weight[partitions] - placement.weight[partition]
        cost = placement.cost[partitions] - placement.cost[partition]
        fits = (more > 0) & (more <= min(bands.below(giver), bands.above(target)))
        fits &= placement.replicas[partitions, slots] == giver
        worth = np.where(fits, price_max * np.minimum(more, lacks) - cost, 0.0)
        best = int(np.argmax(worth)) if len(worth) else 0
        if not len(worth) or worth[best] <= 0 or not placement.may_hold(partition, slot, giver):
            return 0.0
        self._put(partition, slot, giver)
        if placement.may_hold(int(partitions[best]), int(slots[best]), target):
            self._put(int(partitions[best]), int(slots[best]), target)
            return float(cost[best])
        placement.put(*self._done.pop())
        return 0.0

    def _put(self, partition: int, slot: int, broker: int) -> None:
        self._done.append((partition, slot, int(self._placement.replicas[partition, slot])))
        self._placement.put(partition, slot, broker)

    def _take_back(self) -> None:
        while self._done:
            self._placement.put(*self._done.pop())
