"""New places for replicas that cannot stay: one move each, which is what any plan needs.

Round by round, as long as replicas are left:

    1. the numbers that each broker should take, so that all come out even (the lowest fill first)
    2. broker by broker, an evenly spaced sample of what it may take, sorted by size: so bytes come out even too
    3. a round that places nothing lets replicas that share a rack now share one again, the next such round all of
       them; a round that then places nothing is an error with a name

Replicas that only should leave a rack which they share go where a rack is free (`place_apart`). Where all of that is
full, a replica there makes room: the one with the fewest bytes to copy that may go to the other's place, or elsewhere.
If there is none, it stays.

Two replicas of one partition are never placed in the same round: the second must see where the first went.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from ..model import Floats
from .goals import PlanError
from .placement import Candidates, Indexes, Placement, RackRule, any_slot, first_of_each, spread, water_fill

FULL_BROKERS_TRIED_MAX: Final = 8
GUESTS_TRIED_MAX: Final = 64
"""Replicas of a full broker that are tried, one after the other, to make room for another one."""


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
    left, their_slots = _place_all(placement, partitions, slots, RackRule.FREE)
    stay = [not _make_room(placement, *each) for each in zip(left.tolist(), their_slots.tolist(), strict=True)]
    return left[np.array(stay, dtype=np.bool_)]


def _make_room(placement: Placement, partition: int, slot: int) -> bool:
    """Move a replica to a full broker of a free rack, and another one away from there; whether there is such a pair."""
    home, weight = int(placement.replicas[partition, slot]), float(placement.weight[partition])
    for full in _full_brokers(placement, partition, slot):
        lacking = weight - placement.room(full)[1]
        guests, their_slots = placement.of_broker(full)
        may = ~any_slot(placement.is_moved[guests]) & (placement.weight[guests] >= lacking) & (guests != partition)
        found = np.flatnonzero(may)
        for at in found[np.argsort(placement.cost[guests[found]], kind="stable")][:GUESTS_TRIED_MAX].tolist():
            guest, its_slot = int(guests[at]), int(their_slots[at])
            for other in _other_homes(placement, guest, its_slot, home, weight):
                placement.put(guest, its_slot, other)
                placement.put(partition, slot, full)
                return True
    return False


def _full_brokers(placement: Placement, partition: int, slot: int) -> list[int]:
    """Brokers that would take the replica if they had room: those with the most of it first."""
    large_enough = placement.is_open & (placement.arrays.disk_bytes >= placement.weight[partition])
    rack = placement.racks[placement.replicas[partition, slot]]
    brokers = [
        broker
        for broker in np.flatnonzero(large_enough & (placement.racks != rack)).tolist()
        if placement.may_hold(partition, slot, broker)
    ]
    return sorted(brokers, key=lambda each: -placement.room(each)[1])[:FULL_BROKERS_TRIED_MAX]


def _other_homes(placement: Placement, guest: int, slot: int, home: int, freed: float) -> Iterator[int]:
    """Brokers that can take the guest; first the one that `freed` bytes are about to leave."""
    size = float(placement.weight[guest])
    if placement.may_hold(guest, slot, home) and size <= placement.room(home)[1] + freed:
        yield home
    for broker in np.argsort(_levels(placement), kind="stable").tolist():
        replicas, room = placement.room(broker)
        if broker != home and replicas >= 1 and size <= room and placement.may_hold(guest, slot, broker):
            yield broker


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
