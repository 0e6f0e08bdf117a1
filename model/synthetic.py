"""Clusters made up from a few figures: for sweeps, for benchmarks, for sizes that no machine at hand holds."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from .arrays import ClusterArrays, Floats, Ints, sums
from .inventory_parts import BoundedLocal, Policy, RemoteLogManager, Tier

S_PER_H: Final = 3600.0
_SKEW: Final = 1.0
"""Sigma of the lognormal spread of produce rates: the busiest of a thousand partitions has some 20 times the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The figures. `produce_bytes_per_s` is of the whole cluster, `tiered_share` of its partitions are tiered, and
    the others kept for `untiered_retention_h` at most.

    Racks take turns, so `racks` divides `brokers` and is at least `replication_factor`; or there is one rack.
    """

    brokers: int
    racks: int = 3
    partitions: int
    replication_factor: int = 3
    produce_bytes_per_s: float
    consumers: float = 1.0
    retention_h: float
    local_retention_h: float
    tiered_share: float = 1.0
    untiered_retention_h: float = 24.0
    segment_bytes: float = float(1 << 30)
    nic_bytes_per_s: float = 1.25e9
    disk_bytes_per_s: float = 1e9
    cores: float = 16.0
    throttle_bytes_per_s: float = np.inf
    tier_latency_ms: float = 30.0
    tier_bytes_per_s: float = 12.5e9
    seed: int = 1

    def __post_init__(self) -> None:
        if self.racks > 1 and (self.brokers % self.racks or self.replication_factor > self.racks):
            raise ValueError(
                f"racks: {self.racks} must divide brokers ({self.brokers}) and be at least replication_factor "
                f"({self.replication_factor}), or 1"
            )
        if self.replication_factor > self.brokers:
            raise ValueError(f"replication_factor: {self.replication_factor} with {self.brokers} brokers")


def synthetic_cluster(shape: Shape) -> ClusterArrays:
    """Return the cluster of a shape, always the same one. Rates differ by partition; segments are filled at random."""
    rng = np.random.default_rng(shape.seed)
    count, brokers = shape.partitions, shape.brokers
    weights = rng.lognormal(0.0, _SKEW, count)
    produce = weights / weights.sum() * shape.produce_bytes_per_s
    topic = (np.arange(count) >= round(count * shape.tiered_share)).astype(np.int32)
    untiered_h = min(shape.retention_h, shape.untiered_retention_h)
    size = produce * np.where(topic == 0, shape.retention_h, untiered_h) * S_PER_H
    pending = np.minimum(size, rng.random(count) * shape.segment_bytes)
    local = np.where(topic == 0, np.clip(produce * shape.local_retention_h * S_PER_H, pending, size), size)
    replicas = _placement(shape)
    disk_bytes = sums(replicas.ravel(), np.repeat(local, shape.replication_factor), brokers).max() * 2 + 1e9
    return ClusterArrays(
        name=f"{brokers} brokers, {count} partitions",
        broker_ids=np.arange(1, brokers + 1, dtype=np.int32),
        racks=(np.arange(brokers) % shape.racks).astype(np.int32),
        rack_names=tuple(f"r{number}" for number in range(1, shape.racks + 1)),
        nic_in=np.full(brokers, shape.nic_bytes_per_s),
        nic_out=np.full(brokers, shape.nic_bytes_per_s),
        disk_read=np.full(brokers, shape.disk_bytes_per_s),
        disk_write=np.full(brokers, shape.disk_bytes_per_s),
        cores=np.full(brokers, shape.cores),
        disk_bytes=np.full(brokers, disk_bytes),
        partitions_max=np.full(brokers, np.inf),
        uplink_out=np.full(shape.racks, np.inf),
        uplink_in=np.full(shape.racks, np.inf),
        link_bytes_per_s=np.full((shape.racks, shape.racks), np.inf),
        link_latency_s=np.zeros((shape.racks, shape.racks)),
        topic_names=("tiered", "local"),
        tiered=np.array([True, False]),
        min_isr=np.full(2, max(1, shape.replication_factor - 1), dtype=np.int32),
        segment_bytes=np.full(2, shape.segment_bytes),
        topic=topic,
        index=_index_in_topic(topic),
        replicas=replicas,
        in_sync=np.ones_like(replicas, dtype=np.bool_),
        leader=replicas[:, 0].copy(),
        size_bytes=size,
        local_bytes=local,
        tiered_bytes=np.where(topic == 0, size - pending, 0.0),
        produce=produce,
        consume=produce * shape.consumers,
        log_start_offset=np.ones(count, dtype=np.int64),
        tier=Tier(latency_ms=shape.tier_latency_ms, bandwidth_bytes_per_s=shape.tier_bytes_per_s, **_PRICES),
        rlm=RemoteLogManager(),
        throttle_bytes_per_s=shape.throttle_bytes_per_s,
        policy=Policy.TIER_FIRST,
        bounded_local=BoundedLocal(bytes_min=shape.segment_bytes),
        warmer_bytes_per_s=float(20 << 20),
    )


_PRICES: Final[dict[str, float]] = {"price_per_get": 4e-7}
"""The prices of S3 standard, USD, within a region."""


def _placement(shape: Shape) -> Ints:
    """Leaders in turn; the followers of each next round of leaders are further away. [P, R]"""
    number = np.arange(shape.partitions, dtype=np.int64)
    step = max(1, shape.racks)
    rounds = max(1, shape.brokers // step)
    shift = (number // shape.brokers) % rounds * step if shape.racks > 1 else np.zeros_like(number)
    slots = np.arange(shape.replication_factor)
    places = number[:, None] + slots[None, :] + np.where(slots[None, :] > 0, shift[:, None], 0)
    return (places % shape.brokers).astype(np.int32)


def _index_in_topic(topic: Ints) -> Ints:
    index = np.arange(len(topic), dtype=np.int32)
    return np.where(topic == 0, index, index - np.count_nonzero(topic == 0)).astype(np.int32)


def total_by_broker(arrays: ClusterArrays, amounts: Floats) -> Floats:
    """Sum of an amount [P] over the replicas of each broker, [B]."""
    rows, slots = np.nonzero(arrays.replicas >= 0)
    return sums(arrays.replicas[rows, slots], amounts[rows], arrays.broker_count)
