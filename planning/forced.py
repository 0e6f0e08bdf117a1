"""New places for replicas that cannot stay: one move each, which is what any plan needs.

Round by round, as long as replicas are left:

    1. the numbers that each broker should take, so that all come out even (the lowest fill first)
    2. broker by broker, an evenly spaced sample of what it may take, sorted by size: so bytes come out even too
    3. a round that places nothing lets replicas that share a rack now share one again, the next such round all of
       them; a round that then places nothing is an error with a name

Replicas that only should leave a rack which they share go where a rack is free, or stay (`place_apart`).

Two replicas of one partition are never placed in the same round: the second must see where the first went.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..model import Floats
from .goals import PlanError
from .placement import Candidates, Indexes, Placement, RackRule, first_of_each, spread, water_fill


def hand_over(placement: Placement, successors: Mapping[int, int], racks: RackRule) -> None:
    """What the successor may hold goes to it, in the slot where it was."""
    for broker, successor in sorted(successors.items()):
        partitions, slots = placement.of_broker(broker)
        allowed = np.flatnonzero(Candidates(placement, partitions, slots).may_go_to(successor, racks))
        allowed = allowed[: placement.fitting(partitions[allowed], successor)]
        placement.move(partitions[allowed], slots[allowed], successor)


def place(placement: Placement, partitions: Indexes, slots: Indexes) -> None:
    """Find a place for each of these replicas. PlanError."""
    for racks in RackRule:
        partitions, slots = _place_all(placement, partitions, slots, racks)
    if len(partitions):
        raise PlanError(_why_not(placement, int(partitions[0])))


def place_apart(placement: Placement, partitions: Indexes, slots: Indexes) -> Indexes:
    """Move these replicas into racks of their own; the partitions of those that stay, for lack of room there."""
    left, _ = _place_all(placement, partitions, slots, RackRule.FREE)
    return left


def _place_all(placement: Placement, partitions: Indexes, slots: Indexes, racks: RackRule) -> tuple[Indexes, Indexes]:
    """Round by round, until one places nothing; what is left, the smallest first."""
    by_size = np.argsort(placement.weight[partitions], kind="stable")
    partitions, slots = partitions[by_size], slots[by_size]
    while len(partitions):
        now = first_of_each(partitions)
        is_left = np.ones(len(partitions), dtype=np.bool_)
        is_left[now[_place_round(placement, partitions[now], slots[now], racks)]] = False
        partitions, slots = partitions[is_left], slots[is_left]
        if is_left.all():
            break
    return partitions, slots


def _place_round(placement: Placement, partitions: Indexes, slots: Indexes, racks: RackRule) -> Indexes:
    """Places of those that found one; they come in the order of their size."""
    candidates = Candidates(placement, partitions, slots)
    takers = np.flatnonzero(placement.is_open)
    allowed = {}
    room = np.zeros(placement.broker_count)
    weights = placement.weight[partitions]
    for broker in takers.tolist():
        replicas, size_bytes = placement.room(broker)
        may = candidates.may_go_to(broker, racks)
        may[np.searchsorted(weights, size_bytes, side="right") :] = False  # no room even for that one alone
        allowed[broker] = may
        room[broker] = min(float(may.sum()), replicas)
    quotas = water_fill(_levels(placement)[takers], len(partitions), room[takers])
    is_open = np.ones(len(partitions), dtype=np.bool_)
    fewest_first = np.argsort(room[takers], kind="stable")
    for number in fewest_first:
        broker = int(takers[number])
        found = np.flatnonzero(allowed[broker] & is_open)
        chosen = found[spread(len(found), int(quotas[number]))]
        chosen = chosen[: placement.fitting(partitions[chosen], broker)]
        placement.move(partitions[chosen], slots[chosen], broker)
        is_open[chosen] = False
    return np.flatnonzero(~is_open)


def _levels(placement: Placement) -> Floats:
    """How full each broker is, in replicas: by number or by bytes, whichever is the fuller."""
    takers = int(placement.is_open.sum())
    replicas = max(1.0, float(placement.counts.sum()) / takers)
    by_bytes = placement.disk / max(1.0, placement.disk.sum() / takers)
    levels: Floats = np.maximum(placement.counts, by_bytes * replicas)
    return levels


def _why_not(placement: Placement, partition: int) -> str:
    arrays = placement.arrays
    holders = placement.replicas[partition]
    staying = np.flatnonzero(placement.is_open)
    free = [int(broker) for broker in staying if broker not in holders]
    name = arrays.partition_name(partition)
    if not free:
        factor = int((holders >= 0).sum())
        return (
            f"{name} has {factor} replicas, and only {len(staying)} brokers may hold one: add a broker, or lower its"
            " replication factor first"
        )
    ids = ", ".join(str(arrays.broker_ids[broker]) for broker in free[:8])
    return (
        f"{name}: no broker has room for its {placement.weight[partition]:,.0f} bytes (disk_bytes, partitions_max);"
        f" tried {ids}{', ...' if len(free) > 8 else ''}"
    )
