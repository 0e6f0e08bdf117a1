"""Followers that are out of sync when moves begin, and copy already: they take of what moves need.

Only what an inventory names is one (`lags`): a replica out of sync whose broker is dead copies nothing. It needs no
start and no set-up, shares the connection of the replicas that its broker builds from the same leader, and the throttle
too; when it has caught up it needs its produce rate, as every follower. No answer is about it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from ...light_dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Lags:
    """L replicas, [L] each: partition and broker by their places in the arrays, and the bytes that they lack."""

    partition: npt.NDArray[np.int32]
    broker: npt.NDArray[np.int32]
    bytes: npt.NDArray[np.float64]

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, float]]) -> Self:
        """Return those of (partition, broker, bytes)."""
        return cls(
            np.array([row[0] for row in rows], dtype=np.int32),
            np.array([row[1] for row in rows], dtype=np.int32),
            np.array([row[2] for row in rows], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.partition)

    def where(self, is_one: npt.NDArray[np.bool_]) -> Lags:
        """Return those for which it holds, [L]."""
        return Lags(self.partition[is_one], self.broker[is_one], self.bytes[is_one])

    def copying(
        self,
        replicas: npt.NDArray[np.signedinteger],
        leader: npt.NDArray[np.signedinteger],
        dead: Collection[int],
    ) -> Lags:
        """Return those that copy from a leader and are not on brokers (indices) that are dead: of the `replicas` that
        the cluster still has, [P, R], with the `leader` of each partition, [P].
        """
        if not len(self):
            return self
        is_replica = (replicas[self.partition] == self.broker[:, None]).any(axis=1)
        has_leader = leader[self.partition] >= 0
        return self.where(is_replica & has_leader & ~np.isin(self.broker, list(dead)))
