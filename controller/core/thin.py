"""Which replicas are thin: in the ISR, but most of what they stand for lies in the tier only.

A follower that bootstrapped from the tier holds locally what came after. It may lead, for it can read the rest from the
tier, but reads would be slow and cost money, so it comes last until it has warmed: by bytes held locally, or by time.
Followers say in their heartbeats which of their replicas are thin; what is not named is full. A report replaces the one
before. After a failover nothing is known, and all count as full, until the next heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..image.registrations import PartitionKey
from .config import WarmingPolicy


@dataclass(frozen=True, slots=True)
class ThinReplica:
    """What a broker says of one of its replicas: where its local log begins, how much that is, since how long."""

    key: PartitionKey
    local_start_offset: int
    local_bytes: int
    age_ms: int

    def is_warm(self, policy: WarmingPolicy) -> bool:
        return self.local_bytes >= policy.bytes_min or self.age_ms >= policy.time_ms


class ThinReplicas:
    """By broker, as reported last."""

    __slots__ = ("_thin",)

    def __init__(self) -> None:
        self._thin: dict[int, frozenset[PartitionKey]] = {}

    def report(self, broker_id: int, replicas: Iterable[ThinReplica], policy: WarmingPolicy) -> None:
        thin = frozenset(replica.key for replica in replicas if not replica.is_warm(policy))
        if thin:
            self._thin[broker_id] = thin
        else:
            self.forget(broker_id)

    def forget(self, broker_id: int) -> None:
        self._thin.pop(broker_id, None)

    def is_thin(self, key: PartitionKey, broker_id: int) -> bool:
        thin = self._thin.get(broker_id)
        return thin is not None and key in thin
