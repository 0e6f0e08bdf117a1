"""Which replicas are thin: in the ISR, but most of their records are in the tier only.

A follower that bootstrapped from the tier holds locally what came after. It may lead, for it can read the rest from the
tier, but reads would be slow and cost money, so it comes last until it has warmed: by bytes held locally, or by time.

A broker names its thin replicas in each heartbeat, from the commit of their bootstrap on, thus before they can join the
ISR. A report replaces the one before. It is complete up to the metadata offset that the same heartbeat names: a join
above that offset may be one of a replica that was not thin yet.

| what this controller has of the replica's broker                       | the replica is |
|------------------------------------------------------------------------|----------------|
| it does not report (Apache Kafka), or the topic is not tiered, so that | FULL           |
| nothing is in the tier only (`ControllerState.may_be_thin`)            |                |
| no report that covers the metadata up to where this controller became  | UNKNOWN        |
| active and the broker registered                                       |                |
| a report that names the replica, which has not warmed                  | THIN           |
| no report that covers the offset at which the replica joined the ISR   | UNKNOWN        |
| a report that covers it and does not name it                           | FULL           |

Invariant: a replica that counts as FULL was not thin when its broker had replayed its last join of the ISR. UNKNOWN
ends with the next heartbeat of a broker that follows the metadata log; one that sends none is fenced and elected
nowhere. Replicas of a new partition are in the ISR from the start, with nothing that the tier could hold: not a join.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from ...light_dataclass import dataclass
from ..image.registrations import PartitionKey
from .config import WarmingPolicy

NOTHING_REPLAYED = -1


class Warmth(IntEnum):
    """See the module's table. Elections take the lowest."""

    FULL = 0
    UNKNOWN = 1
    THIN = 2


@dataclass(frozen=True, slots=True)
class ThinReplica:
    """What a broker says of one of its replicas: where its local log begins, how much that is, since how long."""

    key: PartitionKey
    local_start_offset: int
    local_bytes: int
    age_ms: int

    def is_warm(self, policy: WarmingPolicy) -> bool:
        return self.local_bytes >= policy.bytes_min or self.age_ms >= policy.time_ms


@dataclass(frozen=True, slots=True)
class _Report:
    """`metadata_offset`: up to where its broker had replayed the metadata log."""

    thin: frozenset[PartitionKey]
    metadata_offset: int


class ThinReplicas:
    """What an active controller knows of them. Nothing of it is in the log: `begin` forgets everything."""

    __slots__ = ("_began_offset", "_joined", "_reports")

    def __init__(self) -> None:
        self._reports: dict[int, _Report] = {}
        self._joined: dict[int, dict[PartitionKey, int]] = {}
        """The offsets of joins that a broker's report does not cover, by broker."""
        self._began_offset = NOTHING_REPLAYED

    def begin(self, offset: int) -> None:
        """This controller became active, and has replayed everything up to `offset`."""
        self._reports, self._joined, self._began_offset = {}, {}, offset

    def report(
        self, broker_id: int, replicas: Iterable[ThinReplica], policy: WarmingPolicy, metadata_offset: int
    ) -> frozenset[PartitionKey]:
        """Take up a report, unless a later one overtook it; those that were thin by the one before, and are not now."""
        before = self._reports.get(broker_id)
        if metadata_offset < (self._began_offset if before is None else before.metadata_offset):
            return frozenset()
        thin = frozenset(replica.key for replica in replicas if not replica.is_warm(policy))
        self._reports[broker_id] = _Report(thin, metadata_offset)
        joined = self._joined.pop(broker_id, {})
        uncovered = {key: offset for key, offset in joined.items() if offset > metadata_offset}
        if uncovered:
            self._joined[broker_id] = uncovered
        return frozenset() if before is None else before.thin - thin

    def joined(self, key: PartitionKey, broker_id: int, offset: int) -> None:
        """A broker's replica joined the ISR by the record at `offset`."""
        self._joined.setdefault(broker_id, {})[key] = offset

    def forget(self, broker_id: int) -> None:
        """The broker registered again, or is no longer registered."""
        self._reports.pop(broker_id, None)
        self._joined.pop(broker_id, None)

    def warmth(self, key: PartitionKey, broker_id: int) -> Warmth:
        """Return what the module's table says of this broker's replica."""
        report = self._reports.get(broker_id)
        if report is None:
            return Warmth.UNKNOWN
        if key in report.thin:
            return Warmth.THIN
        return Warmth.UNKNOWN if key in self._joined.get(broker_id, ()) else Warmth.FULL
