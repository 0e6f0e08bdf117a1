"""The replicas that a plan builds: the engine's input.

A move fills slot `slot` of partition `partition` on broker `target`. `source` is who holds the slot until then: it is
dropped once the new replica is in the ISR. `source == target` is a replacement: the same broker comes back empty, and
the partition is under-replicated until then. `source == -1` adds a replica. Bytes always come from the leader.
"""

from __future__ import annotations

import numpy as np

from ..light_dataclass import dataclass
from .arrays import NO_BROKER, Bools, ClusterArrays, Ints


@dataclass(frozen=True, eq=False, slots=True)
class Moves:
    """M moves, all int32[M]. Wave n+1 begins when every move of wave n has ended."""

    partition: Ints
    slot: Ints
    source: Ints
    target: Ints
    wave: Ints

    def __len__(self) -> int:
        return len(self.partition)

    @property
    def is_replacement(self) -> Bools:
        """[M], where the source came back empty."""
        return np.asarray(self.source == self.target)


def replacement_moves(arrays: ClusterArrays, *brokers: int) -> Moves:
    """Return the moves that rebuild every replica of these brokers (indices) where it was, in one wave."""
    partition, slot = np.nonzero(np.isin(arrays.replicas, brokers))
    where = arrays.replicas[partition, slot]
    return Moves(partition.astype(np.int32), slot.astype(np.int32), where, where, np.zeros_like(where))


def moves_between(arrays: ClusterArrays, replicas: Ints) -> Moves:
    """What leads from the arrays' replicas to these, [P, R'] with -1 as padding, all in one wave.

    Within a partition the n-th replica that goes makes place for the n-th that comes; replicas that merely change their
    order do not move.
    """
    old, new = arrays.replicas, replicas
    comes = (new != NO_BROKER) & ~(new[:, :, None] == old[:, None, :]).any(axis=2)
    goes = (old != NO_BROKER) & ~(old[:, :, None] == new[:, None, :]).any(axis=2)
    partition, column = np.nonzero(comes)
    rank = (np.cumsum(comes, axis=1) - 1)[partition, column]
    order = np.argsort(~goes, axis=1, kind="stable")
    has_source = rank < goes.sum(axis=1)[partition]
    slot_of_source = order[partition, np.minimum(rank, order.shape[1] - 1)]
    source = np.where(has_source, old[partition, slot_of_source], NO_BROKER)
    slot = np.where(has_source, slot_of_source, column)
    return Moves(
        partition.astype(np.int32),
        slot.astype(np.int32),
        source.astype(np.int32),
        new[partition, column].astype(np.int32),
        np.zeros(len(partition), dtype=np.int32),
    )
