"""Preferred leaders, the first of each list: made even by changing the order, which moves no bytes.

Those above their band hand partitions to those below; then whatever is left goes to, or comes from, brokers inside the
band, which stay inside. Partitions that move anyway are taken first: they need no entry of their own.

A replica that adopts its log from the tier is thin: its reads would come from there. So there are two orders for a
partition of which a new replica shall lead: `thin_last` while it is built, the final one once it has warmed.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..model import NO_BROKER, Bools, Floats, Ints
from .placement import Indexes

PASSES: Final = 2


def leader_counts(replicas: Ints, broker_count: int) -> Floats:
    """[B], partitions that each is the preferred leader of."""
    first = replicas[:, 0]
    counts: Floats = np.bincount(first[first != NO_BROKER], minlength=broker_count).astype(np.float64)
    return counts


def even_leaders(replicas: Ints, stays: Bools, tolerance: float, is_free: Bools) -> Ints:
    """[P, R] in an order in which every broker leads its share; only first slots and those they changed with differ."""
    replicas = replicas.copy()
    lo, hi = leader_band(replicas, stays, tolerance)
    counts = leader_counts(replicas, len(stays))
    for _ in range(PASSES):
        for wants_surplus, wants_need in ((True, True), (True, False), (False, True)):
            gives = np.where(stays, (counts - (hi if wants_surplus else lo)).clip(0), 0.0)
            takes = np.where(stays, ((lo if wants_need else hi) - counts).clip(0), 0.0)
            if gives.any() and takes.any():
                _hand_on(replicas, counts, gives, takes, is_free)
    return replicas


def leader_band(replicas: Ints, stays: Bools, tolerance: float) -> tuple[Floats, Floats]:
    """[B], the fewest and the most."""
    share = np.where(stays, len(replicas) / stays.sum(), 0.0)
    lo = np.minimum(np.ceil(share * (1 - tolerance)), np.floor(share))
    hi = np.maximum(np.floor(share * (1 + tolerance)), np.ceil(share))
    return lo, hi


def _hand_on(replicas: Ints, counts: Floats, gives: Floats, takes: Floats, is_free: Bools) -> None:
    for giver in np.argsort(-gives, kind="stable"):
        if gives[giver] <= 0 or not takes.any():
            return
        led = np.flatnonzero(replicas[:, 0] == giver)
        if replicas.shape[1] == 1 or not len(led):
            continue
        led = led[np.argsort(~is_free[led], kind="stable")]
        wanted = np.append(takes, 0.0)[replicas[led, 1:]]
        slots = np.argmax(wanted, axis=1) + 1
        takers = replicas[led, slots]
        may = wanted[np.arange(len(led)), slots - 1] > 0
        led, slots, takers = led[may], slots[may], takers[may]
        chosen = np.flatnonzero(_rank_of_each(takers) < takes[takers])[: int(gives[giver])]
        led, slots, takers = led[chosen], slots[chosen], takers[chosen]
        replicas[led, slots], replicas[led, 0] = giver, takers
        taken = np.bincount(takers, minlength=len(counts))
        takes -= taken
        counts += taken
        counts[giver] -= len(led)
        gives[giver] -= len(led)


def _rank_of_each(values: Ints) -> Indexes:
    """How often each value occurred before."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values)) - np.searchsorted(in_order, in_order)
    return ranks


def thin_last(before: Ints, after: Ints, is_thin: Bools) -> Ints:
    """[N, R], the new order `after`, but replicas that are not in `before` come last where they are thin; [N] each."""
    is_new = (after != NO_BROKER) & ~(after[:, :, None] == before[:, None, :]).any(axis=2)
    key = np.where(after == NO_BROKER, 2, (is_new & is_thin[:, None]).astype(np.int32))
    ordered: Ints = np.take_along_axis(after, np.argsort(key, axis=1, kind="stable"), axis=1)
    return ordered
