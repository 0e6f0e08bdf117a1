"""What the plan looks at: one hosted partition, frozen at one moment.

Everything is of one moment, so that a plan never mixes two: values, and the ledger and its usable segments as they are
between two awaits (a partition may have many thousands of segments, too many for a copy at each look). A view is not
kept across an await. Offsets named `end_offset` are
exclusive here, except in remote segment metadata, whose `end_offset` is inclusive (Kafka's record says so).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import Enum, auto

from ...light_dataclass import dataclass
from ...log.core import UNLIMITED, EpochEntry, LogConfig
from ...protocol import INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC, TopicIdPartition
from ...remote.core import RemoteLogLedger, RemoteLogSegmentId, UsableSegments


class TierMode(Enum):
    """What a topic's configuration asks of its tier (KIP-405, KIP-950).

    | mode      | remote.storage.enable | copy.disable | delete.on.disable |
    |-----------|-----------------------|--------------|-------------------|
    | COPYING   | true                  | false        | any               |
    | READ_ONLY | true                  | true         | any               |
    | DELETING  | false                 | any          | true              |
    | UNTIERED  | false                 | any          | false             |

    Internal and compacted topics are UNTIERED whatever else they say. The remote log manager ignores an UNTIERED log.
    """

    COPYING = auto()
    READ_ONLY = auto()
    DELETING = auto()
    UNTIERED = auto()


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """The part of a topic's configuration that the plan needs; -1 is no limit.

    Where nothing is copied, local retention is the retention of the whole log. A topic whose cleanup policy is
    empty has no limit but the local one.
    """

    mode: TierMode
    retention_ms: int
    retention_bytes: int
    local_retention_ms: int
    local_retention_bytes: int

    @classmethod
    def of(cls, topic: str, config: LogConfig) -> TierPolicy:
        mode = _mode(topic, config)
        whole = (config.retention_ms, config.retention_bytes) if config.cleanup_policy else (UNLIMITED, UNLIMITED)
        if mode is not TierMode.COPYING:
            return cls(mode, *whole, *whole)
        return cls(mode, *whole, config.local_retention_ms_in_force, config.local_retention_bytes_in_force)


def _mode(topic: str, config: LogConfig) -> TierMode:
    if topic in INTERNAL_TOPICS or topic == REMOTE_LOG_METADATA_TOPIC or config.is_compacted:
        return TierMode.UNTIERED
    if config.remote_storage_enable:
        return TierMode.READ_ONLY if config.remote_log_copy_disable else TierMode.COPYING
    return TierMode.DELETING if config.remote_log_delete_on_disable else TierMode.UNTIERED


@dataclass(frozen=True, slots=True)
class CopyDeadline:
    """How long one upload may take: `base_ms`, and its size at `min_bytes_per_second` on top."""

    base_ms: int
    min_bytes_per_second: int

    def of_size_ms(self, size_bytes: int) -> int:
        return self.base_ms + size_bytes * 1000 // self.min_bytes_per_second


@dataclass(frozen=True, slots=True)
class LocalSegment:
    """A segment of the local log: offsets [base_offset, end_offset), the end being where the next one begins."""

    base_offset: int
    end_offset: int
    size_bytes: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One replica of a partition, and the part of the ledger that concerns it.

    `leader_epoch` is None on a follower. `closed` are all local segments but the active one, in order, without a gap.
    `ledger` has all remote segments in any state; `usable`, the finished ones at or above the log start that lie whole
    on this replica's lineage and are not known to be missing. `deleted_to` is the end of what the ledger knows to have
    been deleted from the log start on, the log start itself if nothing was. `isr_log_start_min` is the lowest log start
    offset that a member of the ISR, the leader included, is known to have. `in_flight` is what this node's copier works
    on; `proven` segments were found in the store with their stated size, `disproven` ones absent or with another size.
    """

    partition: TopicIdPartition
    broker_id: int
    leader_epoch: int | None
    epochs: tuple[EpochEntry, ...]
    log_start_offset: int
    local_log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    closed: tuple[LocalSegment, ...]
    active: LocalSegment
    ledger: RemoteLogLedger
    usable: UsableSegments
    deleted_to: int
    isr_log_start_min: int
    policy: TierPolicy
    copy_deadline: CopyDeadline
    in_flight: AbstractSet[RemoteLogSegmentId] = frozenset()
    proven: AbstractSet[RemoteLogSegmentId] = frozenset()
    disproven: AbstractSet[RemoteLogSegmentId] = frozenset()

    @property
    def is_leader(self) -> bool:
        return self.leader_epoch is not None
