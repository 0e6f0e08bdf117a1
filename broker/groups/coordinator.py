"""The group coordinator of one broker: the requests of its groups (`coordinator.roles` says which are its own).

A request without a group's name, where one is needed, is answered INVALID_GROUP_ID. Deleting expired offsets is done
without being asked, each `offsets.retention.check.interval.ms`; offsets in topics that are deleted go with these.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from random import Random

from ...protocol import GROUP_METADATA_TOPIC, ErrorCode, KafkaError, TopicPartition
from ..cluster.view import ClusterImage, ClusterView, NewTopic
from ..coordinator.roles import Coordinator
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .active_shard import ActiveShard
from .core.events import Answer, Event, Token
from .core.group_state import GroupState
from .core.memory import GroupMemory
from .settings import CoordinatorSettings

_log = logging.getLogger(__name__)


def _new_topic(settings: CoordinatorSettings) -> NewTopic:
    return NewTopic(
        GROUP_METADATA_TOPIC,
        settings.topic_partitions,
        settings.topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.topic_segment_bytes),
        },
    )


class GroupCoordinator(Coordinator[ActiveShard]):
    """See the module's docstring."""

    topic_name = GROUP_METADATA_TOPIC
    noun = "group"
    replication_key = "offsets.topic.replication.factor"

    def __init__(self, view: ClusterView, settings: CoordinatorSettings, rng: Random, now_ms: WallClock) -> None:
        super().__init__(view, _new_topic(settings))
        self.settings = settings
        self._rng = rng
        self._now_ms = now_ms
        self.memory = GroupMemory()

    async def start(self) -> None:
        self._view.subscribe(self._on_image)
        self._each(self.settings.retention_check_interval_ms, self.expire)

    def _make_shard(self, partition: Partition) -> ActiveShard:
        return ActiveShard(partition, self.settings, self._rng, self._now_ms, self.memory)

    def transaction_ended(self, partition: TopicPartition, producer_id: int, *, is_committed: bool) -> None:
        """Its marker is committed in a partition that is led here."""
        active = self._shards.get(partition.partition) if partition.topic == GROUP_METADATA_TOPIC else None
        if active is not None:
            active.end_transaction(producer_id, is_committed=is_committed)

    async def ask(self, group_id: str, event_of: Callable[[Token], Event]) -> Answer:
        """The answer of a group to a member; KafkaError as in `coordinator.roles`."""
        check_group_id(group_id)
        return await self.shard_for(group_id).ask(group_id, event_of)

    def count_by_state(self) -> Counter[GroupState]:
        """The groups that are coordinated here."""
        return Counter(group.state for active in self.shards for group in active.shard.groups.values())

    # What is done without being asked.

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Offsets in a topic that is deleted go with it."""
        if old.topics is new.topics:
            return
        deleted = frozenset(name for name, topic in old.topics.items() if topic.topic_id not in new.topic_names)
        if deleted:
            for active in self.shards:
                for group_id, tombstones in active.shard.tombstones_of_topics(deleted):
                    active.write_tombstones_later(group_id, tombstones)

    async def expire(self, active: ActiveShard) -> None:
        """Delete what is too old in one partition."""
        for group_id in list(active.shard.groups):
            error = await active.expire(group_id, self.settings.retention_ms)
            if error is not ErrorCode.none:
                _log.warning("group %r: expired offsets could not be deleted, trying again: %s", group_id, error.name)


def check_group_id(group_id: str) -> None:
    """INVALID_GROUP_ID for the empty name, which only groups without members may have."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a group needs a name")
