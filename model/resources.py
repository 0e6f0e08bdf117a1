"""What flows share: each broker's NIC, disk, CPU and throttle, racks' uplinks and links, the tier's bandwidth.

Resources are numbered: kind by kind, each with one for every broker; the links between racks (row by row); the uplinks
out of racks, those into racks, and one without a limit, which stands for both in a flow that stays in its rack; the
tier. A CPU's unit is CPU seconds, everything else's is bytes, for each second.

A flow from one rack to another takes of the uplink out of its rack, that into the other, and the link between both.
Clients and the tier are outside of all racks: produced, consumed and uploaded bytes take of the leader's uplink.

What producers, consumers, replication in sync and tiering need (the foreground) comes first; moves share the rest.
Where the foreground leaves less than `MOVES_SHARE_MIN` of a resource, moves get that much all the same: they compete.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from ..light_dataclass import dataclass
from .arrays import NO_BROKER, ClusterArrays, Floats, Ints, sums
from .calibration import Calibration
from .core import Cause

MOVES_SHARE_MIN: Final = 0.05
BYTES_PER_GB: Final = 1e9


class Kind(IntEnum):
    """The kinds of resources that every broker has."""

    NIC_IN = 0
    NIC_OUT = 1
    DISK_READ = 2
    DISK_WRITE = 3
    CPU = 4
    THROTTLE_IN = 5
    THROTTLE_OUT = 6

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", " ") if self is not Kind.CPU else "CPU"


class Path(NamedTuple):
    """What flows pass between racks: the numbers of these resources, [flows] each."""

    link: Ints
    uplink_out: Ints
    uplink_in: Ints


@dataclass(frozen=True, eq=False, slots=True)
class BetweenRacks:
    """Bytes for each second: on links [racks, racks], from row to column, out of racks [racks], and into them."""

    links: Floats
    out: Floats
    into: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Resources:
    """All of a cluster's. `capacity` and `foreground` are [resources], the CPUs' shares of a byte CPU seconds."""

    brokers: int
    racks: int
    capacity: Floats
    foreground: Floats
    leader_cpu: float
    follower_cpu: float

    def left_by(self, foreground: Floats) -> Floats:
        """What is left for moves, [resources]."""
        return np.maximum(self.capacity - foreground, MOVES_SHARE_MIN * self.capacity)

    @property
    def tier(self) -> int:
        return len(self.capacity) - 1

    def of(self, kind: Kind) -> slice:
        """The numbers of this kind, by broker."""
        return slice(kind * self.brokers, (kind + 1) * self.brokers)

    def uplink_in(self, racks: Ints) -> Ints:
        """The number of what comes into these racks."""
        return len(Kind) * self.brokers + self.racks**2 + self.racks + racks

    def path(self, source: Ints, target: Ints) -> Path:
        """What is passed from these racks to those."""
        links = len(Kind) * self.brokers
        outs = links + self.racks**2
        inside = outs + 2 * self.racks
        leaves = source != target
        return Path(
            links + source * self.racks + target,
            np.where(leaves, outs + source, inside),
            np.where(leaves, self.uplink_in(target), inside),
        )

    def names(self, arrays: ClusterArrays) -> Iterator[tuple[str, str]]:
        """(kind, owner) of each resource, in order."""
        for kind in Kind:
            for broker in arrays.broker_ids:
                yield kind.text, str(broker)
        for source in arrays.rack_names:
            for target in arrays.rack_names:
                yield "link", f"{source} -> {target}"
        for way in ("out", "in"):
            for rack in arrays.rack_names:
                yield f"uplink {way}", rack
        yield "within racks", ""
        yield "tier", ""

    def uses(self, arrays: ClusterArrays, source: Ints, target: Ints) -> tuple[Ints, Floats, Ints]:
        """What connections from these to those brokers take: (uses [C, W], weights [W], causes [W]), without what has
        no limit. A connection that takes all that is left of a resource waits for its cause.
        """
        path = self.path(arrays.racks[source], arrays.racks[target])
        columns = [
            (Kind.NIC_OUT * self.brokers + source, 1.0, Cause.LEADER_LINK),
            (Kind.DISK_READ * self.brokers + source, 1.0, Cause.LEADER_DISK),
            (Kind.CPU * self.brokers + source, self.leader_cpu, Cause.LEADER_CPU),
            (Kind.THROTTLE_OUT * self.brokers + source, 1.0, Cause.THROTTLE),
            (path.link, 1.0, Cause.RACK_LINK),
            (path.uplink_out, 1.0, Cause.UPLINK),
            (path.uplink_in, 1.0, Cause.UPLINK),
            (Kind.NIC_IN * self.brokers + target, 1.0, Cause.FOLLOWER_LINK),
            (Kind.DISK_WRITE * self.brokers + target, 1.0, Cause.FOLLOWER_DISK),
            (Kind.CPU * self.brokers + target, self.follower_cpu, Cause.FOLLOWER_CPU),
            (Kind.THROTTLE_IN * self.brokers + target, 1.0, Cause.THROTTLE),
        ]
        is_finite = np.isfinite(self.capacity)
        limited = [column for column in columns if column[1] > 0 and is_finite[column[0]].any()] or columns[:1]
        uses = np.stack([numbers for numbers, _, _ in limited], axis=1).astype(np.int32)
        return uses, np.array([weight for _, weight, _ in limited]), np.array([cause for _, _, cause in limited])


def resources_of(arrays: ClusterArrays, calibration: Calibration) -> Resources:
    throttle = np.full(arrays.broker_count, arrays.throttle_bytes_per_s)
    capacity = np.concatenate(
        [
            arrays.nic_in,
            arrays.nic_out,
            arrays.disk_read,
            arrays.disk_write,
            arrays.cores,
            throttle,
            throttle,
            arrays.link_bytes_per_s.ravel(),
            arrays.uplink_out,
            arrays.uplink_in,
            [np.inf],
            [arrays.tier.bandwidth_bytes_per_s],
        ]
    )
    leader_cpu = calibration.leader_cpu_s_per_gb / BYTES_PER_GB
    follower_cpu = calibration.follower_cpu_s_per_gb / BYTES_PER_GB
    foreground = _foreground(arrays, leader_cpu, follower_cpu)
    return Resources(arrays.broker_count, len(arrays.rack_names), capacity, foreground, leader_cpu, follower_cpu)


def _foreground(arrays: ClusterArrays, leader_cpu: float, follower_cpu: float) -> Floats:
    """What is needed without any move, [resources]. A throttle holds back moves only."""
    count = arrays.broker_count
    led = np.flatnonzero(arrays.leader != NO_BROKER)
    leader, produce = arrays.leader[led], arrays.produce[led]
    follows = arrays.in_sync[led] & (arrays.replicas[led] != leader[:, None])
    rows, slots = np.nonzero(follows)
    follower = arrays.replicas[led][rows, slots]
    uploads = produce * arrays.tiered[arrays.topic[led]]
    between = foreground_between_racks(arrays)
    written = sums(leader, produce, count)
    followed = sums(follower, produce[rows], count)
    sent = sums(leader, produce * follows.sum(axis=1) + uploads + arrays.consume[led], count)
    unread = np.zeros(count)
    cpu = (written + followed) * follower_cpu + sent * leader_cpu
    return np.concatenate(
        [
            written + followed,
            sent,
            unread,
            written + followed,
            cpu,
            np.zeros(2 * count),
            between.links.ravel(),
            between.out,
            between.into,
            [0.0],
            [uploads.sum()],
        ]
    )


def foreground_between_racks(arrays: ClusterArrays) -> BetweenRacks:
    """What leaves racks and comes to them without any move: replication, and what clients and the tier need."""
    led = np.flatnonzero(arrays.leader != NO_BROKER)
    leader, produce = arrays.leader[led], arrays.produce[led]
    rows, slots = np.nonzero(arrays.in_sync[led] & (arrays.replicas[led] != leader[:, None]))
    racks = len(arrays.rack_names)
    home, there = arrays.racks[leader], arrays.racks[arrays.replicas[led][rows, slots]]
    links = np.zeros((racks, racks))
    np.add.at(links, (home[rows], there), produce[rows])
    between = np.where(np.eye(racks, dtype=np.bool_), 0.0, links)
    leaves = produce * arrays.tiered[arrays.topic[led]] + arrays.consume[led]
    return BetweenRacks(
        links, between.sum(axis=1) + sums(home, leaves, racks), between.sum(axis=0) + sums(home, produce, racks)
    )
