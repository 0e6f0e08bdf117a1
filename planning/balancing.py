"""Replicas that move although they could stay, so that numbers and disks come out even: no more than a tolerance asks.

    share of a broker   the mean; of bytes in proportion to `disk_bytes`, where all brokers have a limit; the mean of
                        its rack, where partitions have a replica in every rack, so that none can leave its own
    band                [lo, hi] = share * (1 - tolerance), share * (1 + tolerance); inside it no broker gives or takes
    numbers             what exceeds hi moves away, what is missing to lo moves in; the larger of the two sums is moved
    disks               the same in bytes, within the band of the numbers; a replica that moves anyway is redirected
                        first, at no cost

Which replicas: choice.py; to whom: handing.py. Where racks or room stand in the way of what was shared out, a broker
that still lacks some takes from any broker inside the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..model import Bools, Floats, Ints
from .goals import Goal
from .handing import hand_out
from .placement import Placement, level_fill, water_fill
from .sharing import Limits, share_out

RATIO_BUCKETS: Final = 8
"""Classes of bytes to copy for a byte on disk: 1, 1/2, 1/4 ... and less."""
MARGIN: Final = 1.01
"""The factor on the bytes to choose: samples differ a little."""


@dataclass(frozen=True, eq=False, slots=True)
class Band:
    """[B] each. Brokers that leave have zero everywhere."""

    share: Floats
    lo: Floats
    hi: Floats


def replica_band(placement: Placement, tolerance: float) -> Band:
    """Whole numbers: a share that is none may be rounded either way."""
    share = _shares(placement, placement.counts.astype(np.float64), np.ones(placement.broker_count))
    lo = np.minimum(np.ceil(share * (1 - tolerance)), np.floor(share))
    hi = np.maximum(np.floor(share * (1 + tolerance)), np.ceil(share))
    return Band(share, lo, hi)


def disk_band(placement: Placement, tolerance: float) -> Band:
    """Bytes of local log."""
    capacity = placement.arrays.disk_bytes
    weights = capacity if np.isfinite(capacity[placement.is_open]).all() else np.ones(placement.broker_count)
    share = _shares(placement, placement.disk, weights)
    return Band(share, share * (1 - tolerance), share * (1 + tolerance))


def _shares(placement: Placement, held: Floats, weights: Floats) -> Floats:
    weights = np.where(placement.is_open, weights, 0.0)
    held = np.where(placement.is_open | ~placement.stays, held, 0.0)
    if not placement.are_racks_closed():
        shares: Floats = held.sum() * weights / weights.sum()
        return shares
    by_rack = np.bincount(placement.racks, weights=held) / np.bincount(placement.racks, weights=weights).clip(1e-9)
    in_rack: Floats = by_rack[placement.racks] * weights
    return in_rack


def even_numbers(placement: Placement, goal: Goal, numbers: Band, disks: Band) -> None:
    """Bring every broker into the band of numbers, as far as racks and room allow, by replicas that also bring what
    disks lack.
    """
    gives, takes = givers(placement, goal), takers(placement, goal)
    groups = _groups(placement)
    given, taken = _exchange(placement, gives, takes, numbers, groups)
    sizes = _bytes(placement, given, taken, disks, groups)
    for group in groups:
        if (given * group).sum():
            share = _cheapest(
                placement, gives & group, int(given[group].sum()), float(sizes[group].sum()), numbers, disks
            )
            given[group], sizes[group] = share[0][group], share[1][group]
    hand_out(placement, given, taken, sizes)
    for wanted, limit in ((numbers.lo, numbers.lo), (numbers.hi, numbers.hi)):
        spare = np.where(gives, (placement.counts - limit).clip(0), 0.0).astype(np.int32)
        lacks = np.where(takes, (wanted - placement.counts).clip(0), 0.0).astype(np.int32)
        hand_out(placement, spare, lacks, _bytes(placement, spare, lacks, disks, groups))


def _groups(placement: Placement) -> list[Bools]:
    """Brokers among which replicas can move: all, or those of each rack."""
    if not placement.are_racks_closed():
        return [np.ones(placement.broker_count, dtype=np.bool_)]
    return [placement.racks == rack for rack in np.unique(placement.racks)]


def _exchange(
    placement: Placement, gives: Bools, takes: Bools, band: Band, groups: Sequence[Bools]
) -> tuple[Ints, Ints]:
    """How many replicas each broker gives and takes; equal sums."""
    counts = placement.counts.astype(np.float64)
    given, taken = np.zeros(len(counts), dtype=np.int32), np.zeros(len(counts), dtype=np.int32)
    for group in groups:
        surplus = np.where(gives & group, np.clip(counts - band.hi, 0, None), 0.0)
        need = np.where(takes & group, np.clip(band.lo - counts, 0, None), 0.0)
        amount = int(max(surplus.sum(), need.sum()))
        spare = np.where(gives & group, np.clip(counts - surplus - band.lo, 0, None), 0.0)
        vacant = np.where(takes & group, np.clip(band.hi - counts - need, 0, None), 0.0)
        most = surplus + water_fill(surplus - counts, amount - int(surplus.sum()), spare)
        room = need + water_fill(counts + need, amount - int(need.sum()), vacant)
        amount = int(min(most.sum(), room.sum()))
        given += water_fill(-counts, amount, most.astype(np.float64))
        taken += water_fill(counts, amount, room.astype(np.float64))
    return given, taken


def _bytes(placement: Placement, gives: Ints, takes: Ints, band: Band, groups: Sequence[Bools]) -> Floats:
    """[B], what the replicas that each broker gives should weigh on disk, so that disks come even too."""
    disk, wanted = placement.disk, np.zeros(placement.broker_count)
    for group in groups:
        givers, takers = (gives > 0) & group, (takes > 0) & group
        surplus = np.clip(disk - band.hi, 0, None)[givers].sum()
        lacks = np.clip(band.lo - disk, 0, None)[takers].sum() * MARGIN
        room = np.clip(band.share - disk, 0, None)[takers].sum()
        amount = float(max(lacks, min(surplus, room)))
        wanted += level_fill(-disk, amount, np.where(givers, disk, 0.0))
    return wanted


def _cheapest(
    placement: Placement, gives: Bools, amount: int, size_bytes: float, numbers: Band, disks: Band
) -> tuple[Ints, Floats]:
    """How many replicas and bytes each of them gives, so that all of it costs the least; inside their bands."""
    counts, disk = placement.counts, placement.disk
    fewest = np.clip(counts - numbers.hi, 0, None).astype(np.int32)
    most = np.maximum(fewest, np.clip(counts - numbers.lo, 0, None)).astype(np.int32)
    if int(most[gives].sum()) < amount or int(fewest[gives].sum()) > amount:
        most, fewest = counts.astype(np.int32), np.zeros_like(fewest)
    limits = Limits(fewest, most, np.clip(disk - disks.hi, 0, None), np.clip(disk - disks.lo, 0, None))
    return share_out(placement, gives, amount, size_bytes, limits)


def givers(placement: Placement, goal: Goal) -> Bools:
    """[B] of booleans: everybody that stays, but those that have just come."""
    gives = placement.is_open.copy()
    gives[list(goal.joining)] = False
    return gives


def takers(placement: Placement, goal: Goal) -> Bools:
    """[B] of booleans: those that have just come, or everybody."""
    if not goal.joining:
        return placement.is_open.copy()
    takes = np.zeros(placement.broker_count, dtype=np.bool_)
    takes[list(goal.joining)] = True
    return takes


def cost_class(cost: Floats, weight: Floats) -> Ints:
    """0: hardly anything to copy for what it takes on disk; RATIO_BUCKETS - 1: all of it."""
    ratio = np.clip(cost / np.maximum(weight, 1.0), 2.0**-RATIO_BUCKETS, 1.0)
    classes: Ints = (RATIO_BUCKETS - 1 + np.floor(np.log2(ratio)).clip(1 - RATIO_BUCKETS, 0)).astype(np.int32)
    return classes
