"""How much each giver gives: as many replicas and bytes as one choice among the replicas of all of them would take.

If every giver gave the same, those that have few cheap replicas would give dear ones. So the cheapest replicas of all
are chosen first (choice.py), as many and as heavy as are wanted altogether, and what of them each giver holds is what
it gives; but never so much that it leaves its band, and at least what it has above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..model import Bools, Floats, Ints, sums
from .choice import mixture, picked
from .placement import Placement, level_fill, water_fill

SAMPLE_MAX: Final = 16_384


@dataclass(frozen=True, eq=False, slots=True)
class Limits:
    """[B] each: the fewest and the most that each giver may give, in replicas and in bytes."""

    fewest: Ints
    most: Ints
    bytes_min: Floats
    bytes_max: Floats


def share_out(
    placement: Placement, givers: Bools, amount: int, size_bytes: float, limits: Limits
) -> tuple[Ints, Floats]:
    """[B] each: replicas and bytes that the givers give, `amount` and about `size_bytes` altogether. The limits of the
    replicas allow for the amount; those of the bytes are kept as far as they do.
    """
    fewest, most = limits.fewest * givers, limits.most * givers
    assert fewest.sum() <= amount <= most.sum(), (fewest, amount, most)
    brokers = placement.broker_count
    holders = placement.replicas.ravel()
    places = np.flatnonzero(np.append(givers, False)[holders])
    partitions = places // placement.replicas.shape[1]
    cost, weight = placement.cost[partitions], placement.weight[partitions]
    few = slice(None, None, max(1, len(places) // SAMPLE_MAX))
    mixed = mixture(cost[few], weight[few], amount / len(places), size_bytes / amount)
    chosen = picked(cost, weight, amount, mixed)
    held_by = holders[places[chosen]]
    wanted = np.bincount(held_by, minlength=brokers).astype(np.float64)
    count: Floats = np.clip(wanted, fewest, most)
    rest = amount - int(count.sum())
    count = count + water_fill(count - wanted, rest, most - count)
    count = count - water_fill(wanted - count, -rest, count - fewest)
    sizes = sums(held_by, weight[chosen], brokers)
    sizes *= size_bytes / max(1.0, float(sizes.sum()))
    given: Floats = np.clip(sizes, limits.bytes_min, np.maximum(limits.bytes_min, limits.bytes_max)) * givers
    rest_bytes = size_bytes - float(given.sum())
    given += level_fill(given - sizes, rest_bytes, np.clip(limits.bytes_max - given, 0, None) * givers)
    given -= level_fill(sizes - given, -rest_bytes, np.clip(given - limits.bytes_min, 0, None))
    return count.astype(np.int32), given
