"""A cluster while it is being planned: replicas move one batch at a time, and every figure follows.

Replicas are named by (partition, slot). A broker may take a replica of a partition of which it holds none, if that
leaves the partition in no fewer racks than it is in now. `partitions_max` and `disk_bytes` are never exceeded.
"""

from __future__ import annotations

from enum import Enum, auto

import numpy as np
import numpy.typing as npt

from ..model import NO_BROKER, Bools, ClusterArrays, Floats, Ints
from .goals import Goal

NEARLY_ALL = 0.95
Indexes = npt.NDArray[np.int64]


class RackRule(Enum):
    """Where a replica may go: a rack of its own; or any, if it shares one now; or any."""

    FREE = auto()
    NO_WORSE = auto()
    ANY = auto()


class Placement:
    """`cost` is what a new replica of each partition copies, [P]. `counts` and `disk` are kept up to date, [B]."""

    def __init__(self, arrays: ClusterArrays, goal: Goal, cost: Floats) -> None:
        brokers = arrays.broker_count
        self.arrays = arrays
        self.before = arrays.replicas
        self.replicas = arrays.replicas.copy()
        self.cost = cost
        self.weight = arrays.local_bytes
        self.racks = arrays.racks
        self._rack_of = np.append(arrays.racks, NO_BROKER).astype(np.int32)  # the last one is an empty slot's
        self.stays = np.ones(brokers, dtype=np.bool_)
        self.stays[list(goal.leaving)] = False
        self.is_open = self.stays.copy()
        self.is_open[list(goal.closed)] = False
        self.counts = arrays.replica_counts.astype(np.int64)
        self.disk = np.zeros(brokers)
        for slot in range(self.replicas.shape[1]):
            holders = self.replicas[:, slot]
            self.disk += np.bincount(holders + 1, weights=self.weight, minlength=brokers + 1)[1:]
        self.is_moved = np.zeros(self.replicas.shape, dtype=np.bool_)
        self._are_racks_closed: bool | None = None

    @property
    def broker_count(self) -> int:
        return self.arrays.broker_count

    def rack_of(self, brokers: Ints) -> Ints:
        """Return the rack of each broker; NO_BROKER for an empty slot."""
        racks: Ints = self._rack_of[brokers]
        return racks

    def room(self, broker: int) -> tuple[float, float]:
        """How many more replicas, and bytes, the broker may hold."""
        arrays = self.arrays
        return arrays.partitions_max[broker] - self.counts[broker], arrays.disk_bytes[broker] - self.disk[broker]

    def fitting(self, partitions: Indexes, broker: int) -> int:
        """How many of these, from the first on, the broker has room for."""
        replicas, size = self.room(broker)
        fits = np.searchsorted(np.cumsum(self.weight[partitions]), size, side="right")
        return max(0, min(int(fits), int(min(replicas, len(partitions))), len(partitions)))

    def move(self, partitions: Indexes, slots: Indexes, broker: int) -> None:
        """These replicas are the broker's from now on."""
        sources = self.replicas[partitions, slots]
        weights = self.weight[partitions]
        self.replicas[partitions, slots] = broker
        self.is_moved[partitions, slots] = True
        self.counts -= np.bincount(sources, minlength=self.broker_count)
        self.disk -= np.bincount(sources, weights=weights, minlength=self.broker_count)
        self.counts[broker] += len(partitions)
        self.disk[broker] += weights.sum()

    def put(self, partition: int, slot: int, broker: int) -> None:
        """This one replica is the broker's from now on; where it was before the plan, it has not moved."""
        source, weight = int(self.replicas[partition, slot]), float(self.weight[partition])
        self.replicas[partition, slot] = broker
        self.is_moved[partition, slot] = broker != self.before[partition, slot]
        self.counts[source] -= 1
        self.disk[source] -= weight
        self.counts[broker] += 1
        self.disk[broker] += weight

    def may_hold(self, partition: int, slot: int, broker: int) -> bool:
        """Whether the broker may take this replica as it is now: in a rack that its partition's others leave free, or
        in the one where it is.
        """
        others = [int(each) for number, each in enumerate(self.replicas[partition].tolist()) if number != slot]
        rack = self.racks[broker]
        if broker in others or not self.is_open[broker]:
            return False
        is_free = all(self.racks[each] != rack for each in others if each != NO_BROKER)
        return is_free or bool(self.racks[self.replicas[partition, slot]] == rack)

    def of_broker(self, broker: int) -> tuple[Indexes, Indexes]:
        """Partitions and slots that it holds now."""
        partitions, slots = np.nonzero(self.replicas == broker)
        return partitions, slots

    def are_racks_closed(self) -> bool:
        """Whether nearly every partition has a replica in every rack: then hardly any may leave its own, so that it
        stays as it was when it was asked first.
        """
        if self._are_racks_closed is None:
            self._are_racks_closed = self._is_nearly_everywhere()
        return self._are_racks_closed

    def _is_nearly_everywhere(self) -> bool:
        racks = self.rack_of(self.replicas)
        available = np.unique(self.racks[self.is_open])
        if len(available) > racks.shape[1]:
            return False
        is_everywhere = np.ones(len(racks), dtype=np.bool_)
        for rack in available:
            is_everywhere &= any_slot(racks == rack)
        return bool(is_everywhere.mean() > NEARLY_ALL) if len(racks) else False

    def shared_racks(self) -> tuple[Indexes, Indexes]:
        """Replicas in a rack that an earlier slot is in already, where there is a rack without any."""
        racks = self.rack_of(self.replicas)
        shared = np.zeros(racks.shape, dtype=np.bool_)
        for slot in range(1, racks.shape[1]):
            shared[:, slot] = any_slot(racks[:, :slot] == racks[:, slot, None]) & (racks[:, slot] != NO_BROKER)
        available = self.available_racks
        if not shared.any() or available == 1:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        in_use = (racks != NO_BROKER).sum(axis=1) - shared.sum(axis=1)
        shared[in_use >= available] = False
        partitions, slots = np.nonzero(shared)
        return partitions, slots

    @property
    def available_racks(self) -> int:
        """The racks in which a broker may take a replica."""
        return len(np.unique(self.racks[self.is_open]))


class Candidates:
    """Replicas that may go elsewhere, of one partition each at a time: valid until one of these partitions changes."""

    def __init__(self, placement: Placement, partitions: Indexes, slots: Indexes) -> None:
        self.partitions = partitions
        self.slots = slots
        self._rows = placement.replicas[partitions]
        self._racks = placement.rack_of(self._rows)
        self._broker_racks = placement.racks
        others = np.arange(self._rows.shape[1]) != slots[:, None]
        own = self._racks[np.arange(len(slots)), slots]
        self._others = others
        self._shares_now = any_slot((self._racks == own[:, None]) & others)
        self._by_rack: dict[int, Bools] = {}

    def __len__(self) -> int:
        return len(self.partitions)

    def may_go_to(self, broker: int, racks: RackRule = RackRule.NO_WORSE) -> Bools:
        """Which of them the broker may take, its limits of number and bytes apart."""
        free = ~any_slot(self._rows == broker)
        if racks is RackRule.ANY:
            return free
        is_rack_free = self._is_rack_free(int(self._broker_racks[broker]))
        return free & (is_rack_free if racks is RackRule.FREE else is_rack_free | self._shares_now)

    def _is_rack_free(self, rack: int) -> Bools:
        found = self._by_rack.get(rack)
        if found is None:
            found = self._by_rack[rack] = ~any_slot((self._racks == rack) & self._others)
        return found


def order_by_broker(brokers: Ints) -> Indexes:
    """A stable sort; of short integers it is a radix sort."""
    is_short = len(brokers) == 0 or int(brokers.max()) < 2**15
    return np.argsort(brokers.astype(np.int16) if is_short else brokers, kind="stable")


def any_slot(mask: Bools) -> Bools:
    """[N] of [N, R]; numpy's own reduction is slow along so short an axis."""
    found: Bools = mask[:, 0].copy()
    for slot in range(1, mask.shape[1]):
        found |= mask[:, slot]
    return found


def first_of_each(partitions: Indexes) -> Indexes:
    """Places of the first replica of each partition, in order."""
    _, places = np.unique(partitions, return_index=True)
    return np.sort(places)


def spread(count: int, wanted: int) -> Indexes:
    """`wanted` places out of `count`, evenly spaced: of a list sorted by size, a fair sample."""
    if wanted >= count:
        return np.arange(count)
    return ((np.arange(wanted) + 0.5) * count / wanted).astype(np.int64)


def level_fill(levels: Floats, amount: float, room: Floats) -> Floats:
    """How much of `amount` each gets, so that the lowest levels rise first, at most by `room`.

    The sum is `amount`, or less where no room is left.
    """
    amount = min(amount, float(room.clip(0).sum()))
    if amount <= 0:
        return np.zeros(len(levels))
    low, high = float(levels.min()), float(levels.max()) + amount
    for _ in range(60):
        middle = (low + high) / 2
        if np.clip(middle - levels, 0, room).sum() > amount:
            high = middle
        else:
            low = middle
    filled: Floats = np.clip(low - levels, 0, room)
    return filled


def water_fill(levels: Floats, amount: int, room: Floats) -> Ints:
    """Return the shares in whole numbers."""
    amount = min(amount, int(np.floor(room).clip(0).sum()))
    given = np.floor(level_fill(levels, amount, np.floor(room).clip(0))).astype(np.int32)
    rest = amount - int(given.sum())
    while rest > 0:
        open_places = np.flatnonzero(given + 1 <= room)
        lowest = open_places[np.argsort((levels + given)[open_places], kind="stable")][:rest]
        given[lowest] += 1
        rest -= len(lowest)
    return given
