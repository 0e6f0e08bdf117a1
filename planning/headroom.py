"""What producers and consumers need of each broker, and what that leaves for moves."""

from __future__ import annotations

import numpy as np

from .. import byte_text
from ..model import NO_BROKER, ClusterArrays, Floats, Ints
from .goals import PlanError


def foreground(arrays: ClusterArrays) -> tuple[Floats, Floats]:
    """[B] each, bytes for each second into and out of every broker: produce, replication, consume, tiering."""
    brokers = arrays.broker_count
    is_led = arrays.leader != NO_BROKER
    leader = arrays.leader.clip(0)
    rate = np.where(is_led, arrays.produce, 0.0)
    into = np.bincount(leader, weights=rate, minlength=brokers).astype(np.float64)
    copies = arrays.tiered[arrays.topic].astype(np.float64)
    for slot in range(arrays.replicas.shape[1]):
        follower = arrays.replicas[:, slot]
        follows = arrays.in_sync[:, slot] & (follower != arrays.leader)
        copies += follows
        into += np.bincount(follower + 1, weights=rate * follows, minlength=brokers + 1)[1:]
    consumed = np.where(is_led, arrays.consume, 0.0)
    out = np.bincount(leader, weights=rate * copies + consumed, minlength=brokers).astype(np.float64)
    return into, out


def safe_throttle(arrays: ClusterArrays, sources: Ints, targets: Ints, headroom: float) -> float:
    """Bytes for each second that every broker of a plan can spare, when its foreground has grown by `headroom`;
    infinite where no capacity is known. PlanError names a broker that can spare nothing.
    """
    into, out = foreground(arrays)
    spare_in = np.minimum(arrays.nic_in, arrays.disk_write) - into * (1 + headroom)
    spare_out = np.minimum(arrays.nic_out - out * (1 + headroom), arrays.disk_read)
    # One rate for the whole plan, the tightest broker's: KIP-73 throttles by broker, but a replica that waits for a
    # slow source holds up its wave in any case, and one number is what an operator can check.
    spare = np.inf
    for brokers, bytes_per_s, way, load in ((sources, spare_out, "out", out), (targets, spare_in, "in", into)):
        if not len(brokers):
            continue
        tightest = int(brokers[np.argmin(bytes_per_s[brokers])])
        if bytes_per_s[tightest] <= 0:
            raise PlanError(
                f"broker {arrays.broker_ids[tightest]} has no capacity to spare: {byte_text.rate(load[tightest])} {way}"
                f" now, and {headroom:.0%} more for growth; lower the headroom, or give a throttle"
            )
        spare = min(spare, float(bytes_per_s[tightest]))
    return spare
