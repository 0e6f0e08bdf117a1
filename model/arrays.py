"""A cluster as numpy arrays: what planner and engine compute with. B brokers, P partitions, R replica slots, T topics.

Brokers are named by index here (0 to B-1, `broker_ids` has the ids), partitions by their place in the order of the
inventory. A partition with fewer than R replicas has -1 in its last slots. Nothing here is changed in place: a plan's
result is `dataclasses.replace(arrays, replicas=...)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..light_dataclass import dataclass
from .inventory import Inventory
from .inventory_parts import (
    BoundedLocal,
    Broker,
    Lag,
    Link,
    LogDir,
    Partition,
    Policy,
    Rack,
    RemoteLogManager,
    Tier,
    Topic,
)
from .unsure import Unsure

Ints = npt.NDArray[np.signedinteger[Any]]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

NO_BROKER = -1
"""No broker: an empty replica slot, a partition without a leader."""


@dataclass(frozen=True, eq=False, slots=True)
class Lags:
    """The followers that are out of sync when moves begin and copy already: L replicas, [L] each, by the places of
    partition and broker, and the bytes that they lack.

    Only what an inventory names is one (`lags`): a replica out of sync whose broker is dead copies nothing. It needs no
    start and no set-up, shares the connection of the replicas that its broker builds from the same leader, and the
    throttle too; when it has caught up it needs its produce rate, as every follower. No answer is about it.
    """

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
        replicas: Ints,
        leader: Ints,
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


@dataclass(frozen=True, eq=False)
class ClusterArrays:
    """See the module. Rates are bytes for each second, sizes bytes, unlimited things `inf`."""

    name: str
    broker_ids: Ints  # [B]
    racks: Ints  # [B], index into rack_names
    rack_names: tuple[str, ...]
    nic_in: Floats  # [B]
    nic_out: Floats  # [B]
    disk_read: Floats  # [B]
    disk_write: Floats  # [B]
    cores: Floats  # [B]
    disk_bytes: Floats  # [B]
    partitions_max: Floats  # [B]
    uplink_out: Floats  # [racks], what leaves each
    uplink_in: Floats  # [racks], what comes into each
    link_bytes_per_s: Floats  # [racks, racks], from row to column
    link_latency_s: Floats  # [racks, racks]

    topic_names: tuple[str, ...]
    tiered: Bools  # [T]
    min_isr: Ints  # [T]
    segment_bytes: Floats  # [T]

    topic: Ints  # [P], index into topic_names
    index: Ints  # [P], the partition's number in its topic
    replicas: Ints  # [P, R]
    in_sync: Bools  # [P, R]
    leader: Ints  # [P]
    size_bytes: Floats  # [P]
    local_bytes: Floats  # [P]
    tiered_bytes: Floats  # [P]
    produce: Floats  # [P]
    consume: Floats  # [P]
    log_start_offset: npt.NDArray[np.int64]  # [P]

    tier: Tier
    rlm: RemoteLogManager
    throttle_bytes_per_s: float
    policy: Policy
    bounded_local: BoundedLocal
    warmer_bytes_per_s: float
    log_dirs: Mapping[int, tuple[LogDir, ...]] = field(default_factory=dict)
    """The log directories of brokers that have several, by broker id."""
    unsure: tuple[Unsure, ...] = ()
    lags: Lags = field(default_factory=lambda: Lags.of(()))
    """The replicas that are out of sync, and copy."""

    @property
    def broker_count(self) -> int:
        return len(self.broker_ids)

    @property
    def partition_count(self) -> int:
        return len(self.topic)

    @property
    def pending_bytes(self) -> Floats:
        """[P], what is not in the tier."""
        return np.maximum(0.0, self.size_bytes - self.tiered_bytes)

    @cached_property
    def replica_counts(self) -> Ints:
        """[B], replicas that each broker holds."""
        held = self.replicas[self.replicas != NO_BROKER]
        return np.bincount(held, minlength=self.broker_count).astype(np.int32)

    def broker_index(self, broker_id: int) -> int:
        """KeyError names the id, and those that exist."""
        found = np.flatnonzero(self.broker_ids == broker_id)
        if len(found) == 0:
            ids = [int(each) for each in self.broker_ids[:12]]
            raise KeyError(f"no broker {broker_id} in {self.name}: it has {self.broker_count}, among them {ids}")
        return int(found[0])

    def partition_name(self, partition: int) -> str:
        return f"{self.topic_names[self.topic[partition]]}-{self.index[partition]}"

    @classmethod
    def from_inventory(cls, inventory: Inventory) -> Self:
        return cls(**_cluster_fields(inventory), **_broker_fields(inventory), **_partition_fields(inventory))

    def to_inventory(self) -> Inventory:
        """Return the cluster as values; there and back it is equal, but for the order of racks and links."""
        topics: list[list[Partition]] = [[] for _ in self.topic_names]
        for number in range(self.partition_count):
            topics[self.topic[number]].append(self._partition(number))
        return Inventory(
            version=1,
            name=self.name,
            brokers=tuple(self._broker(number) for number in range(self.broker_count)),
            racks=tuple(self._racks()),
            links=tuple(self._links()),
            tier=self.tier,
            throttle_bytes_per_s=_limit(self.throttle_bytes_per_s),
            bootstrap_policy=self.policy,
            bounded_local=self.bounded_local,
            rlm=self.rlm,
            warmer_bytes_per_s=self.warmer_bytes_per_s,
            unsure=self.unsure,
            topics=tuple(
                Topic(
                    name=name,
                    tiered=bool(self.tiered[number]),
                    min_insync_replicas=int(self.min_isr[number]),
                    segment_bytes=float(self.segment_bytes[number]),
                    partitions=tuple(topics[number]),
                )
                for number, name in enumerate(self.topic_names)
            ),
        )

    def _broker(self, number: int) -> Broker:
        most = self.partitions_max[number]
        return Broker(
            id=int(self.broker_ids[number]),
            rack=self.rack_names[self.racks[number]],
            nic_in_bytes_per_s=float(self.nic_in[number]),
            nic_out_bytes_per_s=float(self.nic_out[number]),
            disk_read_bytes_per_s=float(self.disk_read[number]),
            disk_write_bytes_per_s=float(self.disk_write[number]),
            cores=float(self.cores[number]),
            disk_bytes=float(self.disk_bytes[number]),
            partitions_max=int(most) if np.isfinite(most) else None,
            log_dirs=self.log_dirs.get(int(self.broker_ids[number]), ()),
        )

    def _racks(self) -> list[Rack]:
        limited = np.isfinite(self.uplink_out) | np.isfinite(self.uplink_in)
        return [
            Rack(
                name=self.rack_names[number],
                uplink_out_bytes_per_s=_limit(float(self.uplink_out[number])),
                uplink_in_bytes_per_s=_limit(float(self.uplink_in[number])),
            )
            for number in np.flatnonzero(limited)
        ]

    def _links(self) -> list[Link]:
        limited = np.isfinite(self.link_bytes_per_s) | (self.link_latency_s > 0)
        return [
            Link(
                from_rack=self.rack_names[row],
                to_rack=self.rack_names[column],
                bandwidth_bytes_per_s=_limit(float(self.link_bytes_per_s[row, column])),
                latency_ms=round(float(self.link_latency_s[row, column]) * 1000, 9),
            )
            for row, column in np.argwhere(limited)
        ]

    def _partition(self, number: int) -> Partition:
        slots = np.flatnonzero(self.replicas[number] != NO_BROKER)
        brokers = self.replicas[number, slots]
        leader = int(self.leader[number])
        return Partition(
            index=int(self.index[number]),
            replicas=self._ids(brokers),
            leader=int(self.broker_ids[leader]) if leader >= 0 else NO_BROKER,
            isr=self._ids(brokers[self.in_sync[number, slots]]),
            size_bytes=float(self.size_bytes[number]),
            local_bytes=float(self.local_bytes[number]),
            tiered_bytes=float(self.tiered_bytes[number]),
            produce_bytes_per_s=float(self.produce[number]),
            consume_bytes_per_s=float(self.consume[number]),
            log_start_offset=int(self.log_start_offset[number]),
            lags=tuple(self._lags.get(number, ())),
        )

    @cached_property
    def _lags(self) -> Mapping[int, list[Lag]]:
        """The replicas that lag, by partition."""
        found: dict[int, list[Lag]] = {}
        for partition, broker, lacks in zip(self.lags.partition, self.lags.broker, self.lags.bytes, strict=True):
            lag = Lag(broker=int(self.broker_ids[broker]), bytes=float(lacks))
            found.setdefault(int(partition), []).append(lag)
        return found

    def _ids(self, brokers: Ints) -> tuple[int, ...]:
        return tuple(int(each) for each in self.broker_ids[brokers])


def sums(at: Ints, amounts: Floats, count: int) -> Floats:
    """The sum of the amounts at each place, [count]."""
    return np.asarray(np.bincount(at, weights=amounts, minlength=count), dtype=np.float64)


def _limit(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.inf if value is None else value for value in values], dtype=np.float64)


def _cluster_fields(inventory: Inventory) -> dict[str, Any]:
    names = tuple(sorted({broker.rack for broker in inventory.brokers}))
    place = {name: number for number, name in enumerate(names)}
    bandwidth = np.full((len(names), len(names)), np.inf)
    latency = np.zeros((len(names), len(names)))
    for link in inventory.links:
        at = place[link.from_rack], place[link.to_rack]
        bandwidth[at] = np.inf if link.bandwidth_bytes_per_s is None else link.bandwidth_bytes_per_s
        latency[at] = link.latency_ms / 1000
    uplinks = {rack.name: rack for rack in inventory.racks}
    listed = [uplinks.get(name, Rack(name=name)) for name in names]
    throttle = inventory.throttle_bytes_per_s
    return {
        "name": inventory.name,
        "racks": np.array([place[broker.rack] for broker in inventory.brokers], dtype=np.int32),
        "rack_names": names,
        "uplink_out": _floats([rack.uplink_out_bytes_per_s for rack in listed]),
        "uplink_in": _floats([rack.uplink_in_bytes_per_s for rack in listed]),
        "link_bytes_per_s": bandwidth,
        "link_latency_s": latency,
        "tier": inventory.tier,
        "rlm": inventory.rlm,
        "throttle_bytes_per_s": np.inf if throttle is None else throttle,
        "policy": inventory.bootstrap_policy,
        "bounded_local": inventory.bounded_local,
        "warmer_bytes_per_s": inventory.warmer_bytes_per_s,
        "unsure": inventory.unsure,
    }


def _broker_fields(inventory: Inventory) -> dict[str, Any]:
    brokers = inventory.brokers
    return {
        "broker_ids": np.array([each.id for each in brokers], dtype=np.int32),
        "nic_in": _floats([each.nic_in_bytes_per_s for each in brokers]),
        "nic_out": _floats([each.nic_out_bytes_per_s for each in brokers]),
        "disk_read": _floats([each.disk_read_bytes_per_s for each in brokers]),
        "disk_write": _floats([each.disk_write_bytes_per_s for each in brokers]),
        "cores": _floats([each.cores for each in brokers]),
        "disk_bytes": _floats([each.disk_bytes for each in brokers]),
        "partitions_max": _floats([each.partitions_max for each in brokers]),
        "log_dirs": {each.id: each.log_dirs for each in brokers if each.log_dirs},
    }


def _partition_fields(inventory: Inventory) -> dict[str, Any]:
    place = {broker.id: number for number, broker in enumerate(inventory.brokers)}
    place[NO_BROKER] = NO_BROKER
    rows = [each for topic in inventory.topics for each in topic.partitions]
    width = max((len(each.replicas) for each in rows), default=1)
    replicas = np.full((len(rows), width), NO_BROKER, dtype=np.int32)
    in_sync = np.zeros((len(rows), width), dtype=np.bool_)
    for number, each in enumerate(rows):
        replicas[number, : len(each.replicas)] = [place[broker] for broker in each.replicas]
        in_sync[number, : len(each.replicas)] = [broker in each.isr for broker in each.replicas]
    topics = inventory.topics
    return {
        "topic_names": tuple(topic.name for topic in topics),
        "tiered": np.array([topic.tiered for topic in topics], dtype=np.bool_),
        "min_isr": np.array([topic.min_insync_replicas for topic in topics], dtype=np.int32),
        "segment_bytes": _floats([topic.segment_bytes for topic in topics]),
        "topic": np.repeat(np.arange(len(topics), dtype=np.int32), [len(topic.partitions) for topic in topics]),
        "index": np.array([each.index for each in rows], dtype=np.int32),
        "replicas": replicas,
        "in_sync": in_sync,
        "leader": np.array([place[each.leader] for each in rows], dtype=np.int32),
        "size_bytes": _floats([each.size_bytes for each in rows]),
        "local_bytes": _floats([each.local_bytes for each in rows]),
        "tiered_bytes": _floats([each.tiered_bytes for each in rows]),
        "produce": _floats([each.produce_bytes_per_s for each in rows]),
        "consume": _floats([each.consume_bytes_per_s for each in rows]),
        "log_start_offset": np.array([each.log_start_offset for each in rows], dtype=np.int64),
        "lags": Lags.of(
            [(number, place[lag.broker], lag.bytes) for number, each in enumerate(rows) for lag in each.lags]
        ),
    }
