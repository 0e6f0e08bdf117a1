"""Disks brought into their band: from the fullest to the emptiest, as long as that helps.

A pair of brokers at a time. First those above the band give, then those below it take. What one pair moves is the
difference to the nearer of the two shares at most, so no broker is pushed out on the other side; one without a partner
is left alone. Replicas that this plan has moved already go first (redirecting is free), then those with the
fewest bytes to copy for a byte on disk, then the largest, so that few are enough. Numbers stay within their band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..model import Bools, Floats
from .balancing import Band, cost_class, givers, takers
from .goals import Goal
from .placement import Candidates, Indexes, Placement, any_slot

STEPS_PER_BROKER: Final = 4
OVERSHOOT_MAX: Final = 1.5
FEW_MAX: Final = 12
"""The number of cheap replicas that are taken in place of a dear one that would be enough by itself."""
PARTNERS_TRIED_MAX: Final = 16


def even_disks(placement: Placement, goal: Goal, disk: Band, numbers: Band) -> None:
    """Bring disks into the band, as far as racks, room and numbers allow."""
    gives, takes = givers(placement, goal), takers(placement, goal)
    share = np.where(disk.share > 0, disk.share, 1.0)
    for _ in range(STEPS_PER_BROKER * placement.broker_count):
        level = placement.disk / share
        above = np.flatnonzero(gives & (placement.disk > disk.hi))
        below = np.flatnonzero(takes & (placement.disk < disk.lo))
        if len(above):
            giver = int(above[np.argmax(level[above])])
            partners = _sorted(takes & (placement.disk < disk.share), level)
            gives[giver] = _shift(placement, [(giver, taker) for taker in partners], disk, numbers)
        elif len(below):
            taker = int(below[np.argmin(level[below])])
            partners = _sorted(gives & (placement.disk > disk.share), -level)
            takes[taker] = _shift(placement, [(giver, taker) for giver in partners], disk, numbers)
        else:
            return


def _sorted(mask: Bools, key: Floats) -> list[int]:
    found = np.flatnonzero(mask)
    return [int(broker) for broker in found[np.argsort(key[found], kind="stable")]]


def _shift(placement: Placement, pairs: Sequence[tuple[int, int]], disk: Band, numbers: Band) -> bool:
    """Move between the first pair of giver and taker that can; whether there is one."""
    given: dict[int, Candidates] = {}
    for giver, taker in pairs:
        must = max(placement.disk[giver] - disk.hi[giver], disk.lo[taker] - placement.disk[taker])
        most = min(placement.disk[giver] - disk.share[giver], disk.share[taker] - placement.disk[taker])
        most = min(most, placement.room(taker)[1])
        count = min(numbers.hi[taker] - placement.counts[taker], placement.counts[giver] - numbers.lo[giver])
        count = int(min(count, placement.room(taker)[0]))
        if giver == taker or most <= 0 or count <= 0:
            continue
        if giver not in given:
            if len(given) == PARTNERS_TRIED_MAX:
                return False
            given[giver] = _movable(placement, giver)
        candidates = given[giver]
        found = np.flatnonzero(candidates.may_go_to(taker))
        partitions, slots = candidates.partitions[found], candidates.slots[found]
        picked = _pick(placement, partitions, slots, min(must, most), most, count)
        if len(picked):
            placement.move(partitions[picked], slots[picked], taker)
            return True
    return False


def _movable(placement: Placement, broker: int) -> Candidates:
    """Its replicas of partitions of which this plan moves no other replica."""
    partitions, slots = placement.of_broker(broker)
    is_first = ~any_slot(placement.is_moved[partitions]) | placement.is_moved[partitions, slots]
    return Candidates(placement, partitions[is_first], slots[is_first])


def _pick(placement: Placement, partitions: Indexes, slots: Indexes, least: float, most: float, count: int) -> Indexes:
    """Places of at most `count` replicas, whose bytes are at least `least` if that is possible, and at most `most`."""
    weight = placement.weight[partitions]
    cost = np.where(placement.is_moved[partitions, slots], 0.0, placement.cost[partitions])
    order = np.lexsort((-weight, cost_class(cost, weight)))
    order = order[weight[order] > 0]
    picked: list[Indexes] = []
    while least > 0 and count > 0:
        order = order[(weight[order] <= most) & (weight[order] >= least / count)]  # lighter ones use up the number
        if not len(order):
            break
        below = int(np.searchsorted(np.cumsum(weight[order]), min(least, most)))
        taken = _last_one(order, weight, cost, least)
        is_dear = below < len(order) and cost[order[: below + 1]].sum() < cost[taken].sum()
        if not len(taken) or (is_dear and 0 < below < min(count, FEW_MAX)):
            taken = order[: min(count, max(1, below))]
        picked.append(taken)
        size = float(weight[taken].sum())
        least, most, count = least - size, most - size, count - len(taken)
        order = order[~np.isin(order, taken)]
    return np.concatenate(picked) if picked else np.zeros(0, dtype=np.int64)


def _last_one(order: Indexes, weight: Floats, cost: Floats, least: float) -> Indexes:
    """The cheapest that is enough by itself, and not much too large while there are smaller ones."""
    enough = order[weight[order] >= least]
    if len(enough) < len(order):
        enough = enough[weight[enough] <= OVERSHOOT_MAX * least]
    return enough[[np.argmin(cost[enough])]] if len(enough) else enough
