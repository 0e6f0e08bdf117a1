"""Which replicas to move for balance: those that cost the least for the bytes on disk that they have to bring.

A broker gives n replicas, whose bytes on disk must be some mean on the whole. The choice is that of a linear program:
the n lowest of `cost - price * weight`, where the price of a byte on disk is as high as it must be for the mean to be
reached. Where the mean jumps over the wanted one (all replicas cost the same for a byte), two prices are mixed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..model import Floats
from .placement import Indexes

SAMPLE_MAX: Final = 2_048
PRICE_MAX: Final = 64.0
"""A replica costs one byte for each on disk at most; far above that the heaviest are chosen, whatever they cost."""
STEPS: Final = 24
SPARE_FACTOR: Final = 1
SPARE_EXTRA: Final = 64
_GOLDEN: Final = np.uint32(2654435769)


@dataclass(frozen=True, slots=True)
class Mixture:
    """`share_low` of the replicas are chosen by the lower price."""

    price_low: float
    price_high: float
    share_low: float


def mixture(cost: Floats, weight: Floats, share: float, mean_weight: float) -> Mixture:
    """Prices at which `share` of these replicas weigh `mean_weight` on the average, as far as they can."""
    step = max(1, len(cost) // SAMPLE_MAX)
    if step > 1:
        places = np.argsort(weight, kind="stable")[step // 2 :: step]
        cost, weight = cost[places], weight[places]
    count = min(len(cost), max(1, round(share * len(cost))))

    def mean_at(price: float) -> float:
        return float(weight[lowest(cost - price * weight, count)].mean())

    low, high = 0.0, PRICE_MAX
    mean_low, mean_high = mean_at(low), mean_at(high)
    if mean_low >= mean_weight:
        return Mixture(low, low, 1.0)
    if mean_high <= mean_weight:
        return Mixture(high, high, 1.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        found = mean_at(middle)
        if found < mean_weight:
            low, mean_low = middle, found
        else:
            high, mean_high = middle, found
    if mean_high <= mean_low:
        return Mixture(low, high, 0.0)
    return Mixture(low, high, (mean_high - mean_weight) / (mean_high - mean_low))


def chosen(cost: Floats, weight: Floats, count: int, size_bytes: float) -> Indexes:
    """Places of `count` replicas that weigh `size_bytes`, as far as they can, in an even order; after them some more,
    in case that not all of them may go.
    """
    mixed = mixture(cost, weight, count / len(cost), size_bytes / count)
    is_chosen = np.zeros(len(cost), dtype=np.bool_)
    is_chosen[picked(cost, weight, count, mixed)] = True
    best, rest = np.flatnonzero(is_chosen), np.flatnonzero(~is_chosen)
    price = (mixed.price_low + mixed.price_high) / 2
    spare = rest[lowest((cost - price * weight)[rest], count * SPARE_FACTOR + SPARE_EXTRA)]
    return np.concatenate([_shuffled(best), _shuffled(spare)])


def picked(cost: Floats, weight: Floats, count: int, mixed: Mixture) -> Indexes:
    """Places of `count` replicas, in no order."""
    low = lowest(cost - mixed.price_low * weight, count)
    if mixed.share_low < 1:
        is_chosen = np.zeros(len(cost), dtype=np.bool_)
        is_chosen[low] = True
        high = lowest(cost - mixed.price_high * weight, count)
        only_high = _shuffled(high[~is_chosen[high]])
        is_chosen[high] = False
        only_low = _shuffled(low[is_chosen[low]])
        is_chosen[high] = True
        exchanged = round(len(only_low) * mixed.share_low)
        is_chosen[only_low[exchanged:]] = False
        is_chosen[only_high[len(only_low) - exchanged :]] = False
        return np.flatnonzero(is_chosen)
    return low


def lowest(values: Floats, count: int) -> Indexes:
    """Places of the `count` lowest, or of all, in their order; of equals an even sample. (`argpartition` chooses among
    equals as the processor's vector instructions do, and plans are the same on all machines.)
    """
    if count >= len(values):
        return np.arange(len(values))
    if count <= 0:
        return np.zeros(0, dtype=np.int64)
    highest = np.partition(values, count - 1)[count - 1]
    is_chosen = values < highest
    equal = np.flatnonzero(values == highest)
    is_chosen[equal[np.linspace(0, len(equal) - 1, count - np.count_nonzero(is_chosen)).astype(int)]] = True
    return np.flatnonzero(is_chosen)


def _shuffled(places: Indexes) -> Indexes:
    """Return an order, the same each time, that separates neighbours: each beginning of it is a fair sample."""
    return places[np.argsort(places.astype(np.uint32) * _GOLDEN)]  # no two are equal
