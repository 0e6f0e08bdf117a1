"""Brokers that die: who leads then, who is without a leader, and who carries the load.

death      what the cluster sees                       another leads after
---------  ------------------------------------------  -----------------------------------------------------------
process    its host refuses connections to it at once  `refusal_s` + `election_s`, while more than half of the brokers
                                                       live; Apache Kafka does not look at that, and waits as for a host
host       silence: no refusal, no heartbeat           `session_timeout_s` + `election_s`
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import StrEnum
from typing import Final

import numpy as np

from ..light_dataclass import dataclass
from .arrays import NO_BROKER, Bools, ClusterArrays, Floats, Ints
from .calibration import Calibration
from .core import Effect, Range, combined
from .measures import headroom_of
from .resources import Kind, resources_of

HEARTBEAT_S: Final = 2.0
"""The default of `broker.heartbeat.interval.ms`."""
LIKELY: Final = 0.9
"""The share of that time which is not exceeded in nine of ten cases."""


class Death(StrEnum):
    """What dies: the broker's process alone (kill -9, a crash, out of memory), or its host or network."""

    PROCESS = "process"
    HOST = "host"


def most_live(dead: int, brokers: int) -> bool:
    """Whether more than half of the brokers are left: without them no controller takes a refusal for a death
    (`controller/core/fast_failover.py`). One of two is half.
    """
    return 2 * (brokers - dead) > brokers


def unavailable_s(death: Death, calibration: Calibration, *, most_live: bool = True) -> float:
    """Return how long partitions of a broker that dies so take nothing, from its death until another replica leads."""
    noticed_s = calibration.session_timeout_s
    if death is Death.PROCESS and calibration.refusal_s is not None and most_live:
        noticed_s = min(noticed_s, calibration.refusal_s)
    return noticed_s + calibration.election_s


def unavailable_range(
    death: Death, calibration: Calibration, heartbeat_s: float = HEARTBEAT_S, *, most_live: bool = True
) -> Range:
    """Return that time with its range. A session ends so long after the last heartbeat, which a dead host sent a while
    before it died, at most `heartbeat_s`; the rest differs from run to run.
    """
    median_s, spread = unavailable_s(death, calibration, most_live=most_live), calibration.spread
    is_by_session = median_s >= calibration.session_timeout_s
    own = calibration.election_s if is_by_session else median_s
    part = own / median_s if median_s > 0 else 0.0
    last_s = heartbeat_s * LIKELY if is_by_session else 0.0
    effects = [
        Effect("the last heartbeat", max(0.0, 1 - last_s / median_s) if median_s > 0 else 1.0),
        *(
            Effect(name, 1 - part * (1 - 1 / factor), 1 + part * (factor - 1))
            for name, factor in (("the spread of runs", spread.runs), ("the error of the model", spread.model))
        ),
        Effect("load on the machines", 1.0, 1 + part * (spread.load - 1)),
    ]
    return combined(median_s, effects)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class FailoverResult:
    """The cluster after some brokers died and none was replaced. `unavailable_s`: how long partitions that lost their
    leader take nothing; those of `is_leaderless` until one of their replicas comes back.

    By partition, [P]: `lost_leader`, `is_leaderless`, `below_min_isr` (fewer in sync than min.insync.replicas now, and
    not before), `under_replicated` (lost a replica). By broker, [B]: leaders before and after; NIC share in use (the
    fuller direction) before and after; headroom as in `ModelResult`.
    """

    unavailable_s: float
    lost_leader: Bools
    is_leaderless: Bools
    below_min_isr: Bools
    under_replicated: Bools
    leaders_before: Ints
    leaders_after: Ints
    nic_share_before: Floats
    nic_share_after: Floats
    headroom_before: Floats
    headroom_after: Floats


def fail_over(arrays: ClusterArrays, brokers: Collection[int]) -> ClusterArrays:
    """The cluster without these brokers (indices): out of every ISR, and no longer leaders.

    The first replica in sync that is alive leads, as the controller elects. A partition whose whole ISR is dead has no
    leader (-1): there is no unclean election.
    """
    dead = np.isin(arrays.replicas, list(brokers))
    in_sync = arrays.in_sync & ~dead
    lost = np.isin(arrays.leader, list(brokers))
    first = np.argmax(in_sync, axis=1)
    rows = np.arange(arrays.partition_count)
    elected = np.where(in_sync.any(axis=1), arrays.replicas[rows, first], NO_BROKER)
    return replace(arrays, in_sync=in_sync, leader=np.where(lost, elected, arrays.leader).astype(np.int32))


def predict_failover(
    arrays: ClusterArrays, brokers: Collection[int], calibration: Calibration, death: Death = Death.HOST
) -> FailoverResult:
    """What the death of these brokers (indices) comes to before anything is replaced."""
    after = fail_over(arrays, brokers)
    lost = np.isin(arrays.leader, list(brokers))
    least = arrays.min_isr[arrays.topic]
    was_below = arrays.in_sync.sum(axis=1) < least
    before_use, after_use = resources_of(arrays, calibration), resources_of(after, calibration)
    none = np.zeros_like(before_use.capacity)
    return FailoverResult(
        unavailable_s=unavailable_s(death, calibration, most_live=most_live(len(set(brokers)), arrays.broker_count)),
        lost_leader=lost,
        is_leaderless=lost & (after.leader == NO_BROKER),
        below_min_isr=(after.in_sync.sum(axis=1) < least) & ~was_below,
        under_replicated=np.asarray(np.isin(arrays.replicas, list(brokers)).any(axis=1)),
        leaders_before=_leaders(arrays),
        leaders_after=_leaders(after),
        nic_share_before=_nic_share(before_use.foreground, before_use.capacity, arrays.broker_count),
        nic_share_after=_nic_share(after_use.foreground, after_use.capacity, arrays.broker_count),
        headroom_before=headroom_of(before_use, none),
        headroom_after=headroom_of(after_use, none),
    )


def _leaders(arrays: ClusterArrays) -> Ints:
    led = arrays.leader[arrays.leader != NO_BROKER]
    return np.bincount(led, minlength=arrays.broker_count).astype(np.int32)


def _nic_share(foreground: Floats, capacity: Floats, brokers: int) -> Floats:
    used = (foreground / capacity)[: (Kind.NIC_OUT + 1) * brokers]
    return np.asarray(used.reshape(-1, brokers).max(axis=0))
