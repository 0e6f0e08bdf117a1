"""A hosted partition as a fetcher sees it: `fetcher.ports.FollowerPartition` over `Partition` and its log."""

from __future__ import annotations

from ...log.core import LeaderEpochCache
from ...log.keeper import AdoptedState, LogManager, adopt
from ...log.replica import LogOffsets
from ...protocol import INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC, TopicIdPartition
from ...rlm import TierMode, TierPolicy
from .partition import Partition, ReplicaListener

KEPT_GOING = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}
"""Topics that are copied as long as the disk takes anything."""
TIERED = frozenset({TierMode.COPYING, TierMode.READ_ONLY})


class FollowedPartition:
    """`listener` is notified when the partition has a new log, with state from the tier."""

    def __init__(self, partition: Partition, logs: LogManager, listener: ReplicaListener, *, has_tier: bool) -> None:
        self.topic_id_partition: TopicIdPartition = partition.partition
        self._partition = partition
        self._logs = logs
        self._has_tier = has_tier
        self._listener = listener

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def offsets(self) -> LogOffsets:
        return self._partition.log.state.offsets

    @property
    def epochs(self) -> LeaderEpochCache:
        return self._partition.log.state.epochs

    @property
    def is_tiered(self) -> bool:
        policy = TierPolicy.of(self.topic_id_partition.topic, self._partition.log.state.config)
        return self._has_tier and policy.mode in TIERED

    @property
    def is_compacted(self) -> bool:
        return self._partition.log.state.config.is_compacted

    @property
    def has_failed(self) -> bool:
        return self._partition.has_failed

    @property
    def has_room(self) -> bool:
        """Whether the disk takes what is copied; of internal topics always, which groups and the tier need to go on."""
        return self.topic_id_partition.topic in KEPT_GOING or self._partition.log.state.keeper.accepts_replicas

    @property
    def is_never_in_isr(self) -> bool:
        return self._partition.is_never_in_isr

    async def append(self, records: memoryview) -> None:
        """Append, and wait while the log moves: what the leader sees fetched has to be where the controller counts on
        it.
        """
        log = self._partition.log
        with log.state.keeper.writing(len(records)):
            appended = await log.append_as_follower(records)
        await log.stored(appended.last_offset + 1)

    async def truncate_to(self, offset: int) -> None:
        await self._partition.log.truncate_to(offset)

    async def start_at(self, offset: int) -> None:
        await self._partition.log.truncate_fully_and_start_at(offset)

    async def adopt(self, state: AdoptedState) -> None:
        partition = self._partition
        partition.is_log_being_replaced = True
        try:
            await adopt(self._logs, self.topic_id_partition.topic_partition, state)
        finally:
            partition.is_log_being_replaced = False
            self._take_log()

    def _take_log(self) -> None:
        """Take the log that is open now: the adopted one, or after a failure the old one, opened again."""
        log = self._logs.open_log(self.topic_id_partition.topic_partition)
        if log is not None and log is not self._partition.log:
            self._partition.replace_log(log)
            self._listener.log_replaced(self._partition)

    def update_high_watermark(self, offset: int) -> None:
        self._partition.log.update_high_watermark(offset)

    async def follow_log_start_offset(self, offset: int) -> None:
        await self._partition.log.follow_log_start_offset(offset)
