"""Fetch connections: all replicas that one broker builds from one leader share one.

Connections get max-min fair rates; within a connection its replicas share evenly. The most that goes through one is the
pace of its fetchers (see `calibration`) while they have time for it: live bytes come with the same fetches, and take
the time of `produce_weight` bytes. Of a replica that is being built they are among its own bytes, so that only the rest
of the weight counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .arrays import ClusterArrays, Floats, Ints
from .calibration import Calibration
from .core import Cause
from .fair_share import max_min_rates
from .resources import Resources

CAP_SHARE_MIN: Final = 0.01
"""The share of its pace that a connection keeps, whatever live produce takes."""
FULL_SLACK: Final = 1e-6
"""A share that is a rounding error."""


class Connections:
    """C connections of M replicas; `source`, `target` and `produce` are [M]. Changed by `begin` and `end`."""

    def __init__(
        self,
        arrays: ClusterArrays,
        resources: Resources,
        calibration: Calibration,
        source: Ints,
        target: Ints,
        produce: Floats,
    ) -> None:
        pairs, of_replica = np.unique(
            source.astype(np.int64) * arrays.broker_count + target.astype(np.int64), return_inverse=True
        )
        self.of_replica = of_replica.ravel()
        self.source = (pairs // arrays.broker_count).astype(np.int32)
        self.target = (pairs % arrays.broker_count).astype(np.int32)
        self.uses, self.weights, self._causes = resources.uses(arrays, self.source, self.target)
        self._calibration = calibration
        racks, latency_s = arrays.racks, arrays.link_latency_s
        there, back = racks[self.source], racks[self.target]
        self._round_trip_s = latency_s[there, back] + latency_s[back, there]
        self._produce = produce
        self.fetching = np.zeros(len(pairs), dtype=np.int64)
        self._fetching_produce = np.zeros(len(pairs))
        self._joined_produce = np.zeros(len(pairs))
        self._most = np.zeros(len(pairs))

    def begin(self, replicas: Ints) -> None:
        """These replicas fetch from now on."""
        np.add.at(self.fetching, self.of_replica[replicas], 1)
        np.add.at(self._fetching_produce, self.of_replica[replicas], self._produce[replicas])

    def end(self, replicas: Ints) -> None:
        """These have caught up."""
        at = self.of_replica[replicas]
        np.subtract.at(self.fetching, at, 1)
        np.subtract.at(self._fetching_produce, at, self._produce[replicas])
        np.add.at(self._joined_produce, at, self._produce[replicas])

    def rates(self, available: Floats) -> Floats:
        """Bytes for each second of each connection, [C]; 0 for one without replicas that fetch."""
        busy = np.flatnonzero(self.fetching)
        limits = self._calibration
        weight = limits.produce_weight
        live = (weight * self._joined_produce + (weight - 1) * self._fetching_produce)[busy]
        idle_share = np.maximum(1 - live / (limits.fetchers * limits.fetch_bytes_per_s), CAP_SHARE_MIN)
        rates = np.zeros(len(self.fetching))
        self._most[busy] = self._pace(busy) * idle_share
        rates[busy] = max_min_rates(self.uses[busy], self.weights, available, self._most[busy])
        return rates

    def waits_for(self, rates: Floats, use: Floats, available: Floats) -> Ints:
        """[C], the cause that limits each connection: its own pace, or the fullest resource that it uses.
        `use` is what all take at these rates.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            fill = np.where(available > 0, use / available, 0.0)[self.uses]
        fullest = fill.argmax(axis=1)
        is_full = np.take_along_axis(fill, fullest[:, None], axis=1)[:, 0] >= 1 - FULL_SLACK
        at_its_pace = rates >= self._most * (1 - FULL_SLACK)
        return np.where(is_full & ~at_its_pace, self._causes[fullest], Cause.FETCHES)

    def _pace(self, busy: Ints) -> Floats:
        """What the fetchers of these connections can do without live produce: each one fetch after the other."""
        limits, replicas = self._calibration, self.fetching[busy]
        fetchers = np.minimum(replicas, limits.fetchers)
        size = np.minimum(replicas / fetchers * limits.fetch_partition_bytes, limits.fetch_response_bytes)
        fetch_s = limits.fetch_s + self._round_trip_s[busy] + size / limits.fetch_bytes_per_s
        return np.asarray(fetchers * size / fetch_s)
