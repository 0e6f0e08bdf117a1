"""Which bytes a new replica takes from its leader, and what from the tier, by bootstrap policy.

    policy                          leader's log                                     from the leader      aux state
    ------------------------------  -----------------------------------------------  -------------------  ---------
    any                             topic not tiered                                 all                  no
    log-start, local-log-start,     local log = whole log                            all                  no
    kafka                           local log starts later                           what is local        yes
    earliest-pending-upload,        local log = whole log, begins at offset 0        all (the first       no
    kafka-last-tiered                                                                fetch succeeds)
    kafka-last-tiered               nothing pending                                  never joins          -
    earliest-pending-upload,        something tiered                                 what is pending      yes
    kafka-last-tiered, tier-first   nothing tiered                                   all                  no
    bounded-local                   something tiered                                 pending, and so many yes
                                                                                     whole segments more

Retention takes at the front what producers add at the end, so what is local stays as much as it was; only a log that
begins at offset 0 grows until the replica asks.

Sources: `fetcher.core.policies` for ours; Apache Kafka 4.3.0 as observed (docs/divergence.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..light_dataclass import dataclass
from .arrays import Bools, ClusterArrays, Floats, Ints
from .inventory_parts import BYTES_TOLERANCE, Policy
from .results import Obstacle
from .tiering import pending_at

_FROM_LOCAL_START = frozenset({Policy.LOG_START, Policy.LOCAL_LOG_START, Policy.KAFKA})
_ASKS_AFTER_REFUSAL = frozenset({Policy.EARLIEST_PENDING_UPLOAD, Policy.KAFKA_LAST_TIERED})


@dataclass(frozen=True, eq=False, slots=True)
class Bootstraps:
    """What each of N replicas copies. `thin_bytes`: what the leader has locally and the replica will not have."""

    leader_bytes: Floats
    adopts: Bools
    thin_bytes: Floats
    obstacle: npt.NDArray[np.int8]


def bootstraps_of(arrays: ClusterArrays, partitions: Ints, at_s: Floats, policy: Policy) -> Bootstraps:
    """What replicas of these partitions come to that decide where to begin at these times."""
    pending = pending_at(arrays, partitions, at_s)
    grown = arrays.produce[partitions] * at_s
    whole = arrays.size_bytes[partitions] + grown
    is_all_local = arrays.local_bytes[partitions] >= arrays.size_bytes[partitions] - BYTES_TOLERANCE
    begins_at_zero = arrays.log_start_offset[partitions] == 0
    local = np.where(is_all_local & begins_at_zero, whole, arrays.local_bytes[partitions])
    has_remote = arrays.tiered[arrays.topic[partitions]]
    local = np.where(has_remote, np.maximum(local, pending), local)
    if policy in _FROM_LOCAL_START:
        taken, adopts = local, has_remote & ~is_all_local
    else:
        adopts = has_remote & (whole - pending > BYTES_TOLERANCE)
        if policy in _ASKS_AFTER_REFUSAL:
            adopts &= ~(is_all_local & begins_at_zero)
        kept = _kept(arrays, partitions) if policy is Policy.BOUNDED_LOCAL else 0.0
        taken = np.where(adopts, np.minimum(local, pending + kept), local)
    obstacle = np.where(arrays.leader[partitions] < 0, Obstacle.NO_LEADER, Obstacle.NONE)
    if policy is Policy.KAFKA_LAST_TIERED:
        obstacle = np.where(adopts & (pending <= 0) & (obstacle == Obstacle.NONE), Obstacle.NOTHING_PENDING, obstacle)
    return Bootstraps(taken, adopts, np.maximum(0.0, local - taken), obstacle.astype(np.int8))


def _kept(arrays: ClusterArrays, partitions: Ints) -> Floats:
    """Tiered bytes that `bounded-local` takes besides: whole segments."""
    bound = arrays.bounded_local
    segment = arrays.segment_bytes[arrays.topic[partitions]]
    wanted = np.maximum(bound.bytes_min, bound.seconds_min * arrays.produce[partitions])
    return np.asarray(np.ceil(wanted / segment) * segment)
