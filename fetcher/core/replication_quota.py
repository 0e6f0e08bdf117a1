"""How fast replicas that are not in sync may be filled: `*.replication.throttled.rate` and `.replicas` (KIP-73).

A leader and a follower each have a quota of their own. Both count the bytes of every throttled replica, and both let
only those wait that are not in sync: what keeps up is live traffic, and never held back.

    throttled.replicas of a topic     "0:1,0:2,3:1" (partition:broker), "*" for all, "" for none
    throttled.rate of a broker        bytes for each second, over all throttled replicas of one direction

A fetch that finds quota left may move any number of bytes, and the debt is waited for afterwards: a fetch is
larger than a small quota's second. What is not used is kept for `BURST_S` at most.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol

from ...log.core import throttled_replicas
from ...protocol import TopicIdPartition

UNLIMITED: Final = 2**63 - 1
"""Kafka's default of both rates."""
BURST_S: Final = 1.0
_LISTS_MAX: Final = 4096


class ReplicationQuota:
    """Bytes for each second as a value of time; `now_s` is a monotonic clock's and never goes back."""

    def __init__(self, now_s: float) -> None:
        self._rate = UNLIMITED
        self.is_limited = False
        self._available = 0.0
        self._at_s = now_s

    def limit(self, bytes_per_s: int, now_s: float) -> None:
        """From now on. A debt is kept: it is repaid at the new rate."""
        assert bytes_per_s >= 0, bytes_per_s
        if bytes_per_s == self._rate:
            return
        if self.is_limited:
            self._refill(now_s)
        else:
            self._at_s, self._available = now_s, 0.0
        self._rate, self.is_limited = bytes_per_s, bytes_per_s != UNLIMITED

    def wait_s(self, now_s: float) -> float:
        """Until bytes may be moved again; 0 if they may now."""
        if not self.is_limited:
            return 0.0
        self._refill(now_s)
        if self._available >= 0 and self._rate > 0:
            return 0.0
        return -self._available / self._rate if self._rate else float("inf")

    def record(self, count: int, now_s: float) -> None:
        """These bytes were moved."""
        assert count >= 0, count
        if self.is_limited:
            self._refill(now_s)
            self._available -= count

    def _refill(self, now_s: float) -> None:
        assert now_s >= self._at_s, (now_s, self._at_s)
        gained = (now_s - self._at_s) * self._rate
        self._available = min(self._rate * BURST_S, self._available + gained)
        self._at_s = now_s


@lru_cache(_LISTS_MAX)
def throttled_partitions(text: str, broker_id: int) -> frozenset[int] | None:
    """Which partitions of a topic are throttled on this broker; None: all. ValueError shows what is expected."""
    replicas = throttled_replicas(text)
    return None if replicas is None else frozenset(partition for partition, broker in replicas if broker == broker_id)


class FollowerThrottle(Protocol):
    """The quota that a fetcher asks before it fetches a replica out of sync, and reports to afterwards."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota: else `wait_s` is 0 for each replica."""

    def wait_s(self, partition: TopicIdPartition) -> float:
        """0 if the replica is not throttled, or the quota is not exhausted."""

    def fetched(self, partition: TopicIdPartition, size_bytes: int) -> None: ...


class NoThrottle:
    """Everything at full speed."""

    @property
    def is_limited(self) -> bool:
        return False

    def wait_s(self, partition: TopicIdPartition) -> float:
        return 0.0

    def fetched(self, partition: TopicIdPartition, size_bytes: int) -> None:
        pass
