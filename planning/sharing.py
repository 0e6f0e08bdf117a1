"""How much each giver gives: as many replicas and bytes as one choice among the replicas of all of them would take.

If every giver gave the same, those that have few cheap replicas would give dear ones. So each replica has a price for
a byte on disk: its cost and a toll, which is the same for all. A giver first gives the cheapest of its own, for what it
has above its band; then the cheapest of all givers go, until the bytes are there. The toll rises until these are not
more replicas than are wanted: the higher it is, the fewer and heavier they are. What of them each giver holds is what
it gives, but never so much that it leaves its band.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from ..model import Bools, Floats, Ints, sums
from .placement import Placement, level_fill, order_by_broker, water_fill

SAMPLE_MAX: Final = 16_384
SAMPLE_PER_BROKER: Final = 512
TOLL_STEPS: Final = 8
TOLL_MIN: Final = 1.0
"""A byte: of replicas that cost the same for a byte on disk the heaviest go first, so that few are enough."""
TOLL_GROWTH: Final = 4.0


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
    holders = placement.replicas.ravel()
    places = np.flatnonzero(np.append(givers, False)[holders])
    partitions = places // placement.replicas.shape[1]
    cost, weight = placement.cost[partitions], placement.weight[partitions]
    few = slice(None, None, max(1, len(places) // max(SAMPLE_MAX, SAMPLE_PER_BROKER * int(givers.sum()))))
    held_by = holders[places[few]]
    within = Limits(fewest, most, limits.bytes_min * givers, limits.bytes_max * givers)
    prices = _Prices(cost[few], weight[few], held_by, within, len(held_by) / len(places))
    wanted, sizes = prices.given(amount, size_bytes)
    count: Floats = np.clip(wanted, fewest, most)
    count = np.clip(np.round(count), fewest, most)
    rest = amount - int(count.sum())
    count = count + water_fill(count - wanted, rest, most - count)
    count = count - water_fill(wanted - count, -rest, count - fewest)
    sizes *= size_bytes / max(1.0, float(sizes.sum()))
    given: Floats = np.clip(sizes, limits.bytes_min, np.maximum(limits.bytes_min, limits.bytes_max)) * givers
    rest_bytes = size_bytes - float(given.sum())
    given += level_fill(given - sizes, rest_bytes, np.clip(limits.bytes_max - given, 0, None) * givers)
    given -= level_fill(sizes - given, -rest_bytes, np.clip(given - limits.bytes_min, 0, None))
    return count.astype(np.int32), given


class _Prices:
    """Prices of a byte on disk, [B], and one toll of a move: each giver gives what is worth it.

    Replicas are sorted by giver; `share` of all are known here, the rest is like them.
    """

    def __init__(self, cost: Floats, weight: Floats, holders: Ints, limits: Limits, share: float) -> None:
        brokers = len(limits.fewest)
        self._limits, self._share = limits, share
        order = order_by_broker(holders)
        self._cost, self._weight, self._holders = cost[order], weight[order], holders[order]
        held = np.bincount(holders, minlength=brokers)
        self._ends = np.cumsum(held)
        self._needs = np.flatnonzero((limits.bytes_min > 0) & (held > 0))

    def given(self, amount: int, size_bytes: float) -> tuple[Floats, Floats]:
        """[B] each: replicas, within the limits and not more than `amount` where the limits allow that, and bytes, of
        which the sum is about `size_bytes`.
        """
        low, high = 0.0, TOLL_MIN
        found = self._at(high, size_bytes)
        for _ in range(TOLL_STEPS):
            if found[0].sum() <= amount:
                break
            low, high = high, max(high * TOLL_GROWTH, float(self._cost.mean()))
            found = self._at(high, size_bytes)
        for _ in range(TOLL_STEPS if low else 0):
            middle = (low + high) / 2
            tried = self._at(middle, size_bytes)
            if tried[0].sum() > amount:
                low = middle
            else:
                high, found = middle, tried
        return found

    def _at(self, toll: float, size_bytes: float) -> tuple[Floats, Floats]:
        """What is given at this toll, when the general price is as high as the bytes need."""
        dues = self._cost + toll
        with np.errstate(divide="ignore", invalid="ignore"):
            worth_at = np.where(self._weight > 0, dues / self._weight, np.where(dues < 0, -np.inf, np.inf))
        is_given = self._own(worth_at)
        rest = np.flatnonzero(~is_given)
        rest = rest[np.argsort(worth_at[rest], kind="stable")]
        lacks = size_bytes * self._share - float(self._weight[is_given].sum())
        if lacks > 0:
            is_given[rest[: int(np.searchsorted(np.cumsum(self._weight[rest]), lacks)) + 1]] = True
        brokers, found = len(self._ends), self._holders[is_given]
        count = np.bincount(found, minlength=brokers) / self._share
        sizes = sums(found, self._weight[is_given], brokers) / self._share
        return np.clip(count, self._limits.fewest, self._limits.most), sizes

    def _own(self, worth_at: Floats) -> Bools:
        """Which are given for the sake of what their giver has above its band: those with the lowest price."""
        own = np.zeros(len(worth_at), dtype=np.bool_)
        for broker in self._needs.tolist():
            first, end = int(self._ends[broker - 1]) if broker else 0, int(self._ends[broker])
            order = first + np.argsort(worth_at[first:end], kind="stable")
            given = np.cumsum(self._weight[order])
            own[order[: int(np.searchsorted(given, self._limits.bytes_min[broker] * self._share)) + 1]] = True
        return own
