"""The group coordinator of one broker: the requests of its groups (`coordinator.roles` says which are its own).

A request without a group's name, where one is needed, is answered INVALID_GROUP_ID. Deleting expired offsets is done
without being asked, each `offsets.retention.check.interval.ms`; offsets in topics that are deleted go with these.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from ...limited_log import LimitedLog
from ...protocol import GROUP_METADATA_TOPIC, ErrorCode, KafkaError, TopicPartition
from ...protocol.net import Slices
from ..cluster.view import ClusterImage, ClusterView, NewTopic, share_version
from ..coordinator.roles import Coordinator
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .active_shard import ActiveShard
from .consumer_groups import Surroundings, Visible
from .core.consumer.decision import ConsumerSettings, Decision, World
from .core.consumer.heartbeat import Told
from .core.consumer.state import ConsumerGroupState
from .core.consumer.topics import Topic, Topics
from .core.events import Answer, Event, Token
from .core.group_state import GroupState
from .core.memory import GroupMemory
from .core.shard import Incarnation
from .core.share.heartbeat import ShareSettings
from .core.share.state import ShareGroupState
from .core.targeted import is_blank
from .settings import CoordinatorSettings
from .share_groups import NoStates, ShareStates, ShareSurroundings

GROUP_VERSION: Final = "group.version"
EXPIRE_WEIGHT: Final = 10
"""What a look at a group's offsets costs on the loop, in elements of `pace`."""
_LOG_TAKES_NOTHING: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})

_log = LimitedLog(logging.getLogger(__name__))


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
        self._topics: tuple[object, Topics] = (None, {})
        self._topics_version = 0
        self._surroundings = Surroundings(
            self._versioned_topics, self.settings_of, now_ms, settings.commit_timeout_ms, asyncio.Lock()
        )
        self._states: ShareStates = NoStates()
        self._share_surroundings = ShareSurroundings(
            self._versioned_topics, self.share_settings_of, lambda: self._states, settings.commit_timeout_ms
        )

    def use(self, states: ShareStates) -> None:
        """Keep the state of share groups with these share coordinators."""
        self._states = states

    @property
    def states(self) -> ShareStates:
        """The share coordinators."""
        return self._states

    async def start(self) -> None:
        self._view.subscribe(self._on_image)
        self._each(self.settings.retention_check_interval_ms, self.expire)

    def _make_shard(self, partition: Partition) -> ActiveShard:
        return ActiveShard(
            partition,
            self.settings,
            self._rng,
            self._now_ms,
            self.memory,
            self._surroundings,
            self._share_surroundings,
        )

    # What consumer groups know.

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether the cluster runs at a `group.version` that has consumer groups (KIP-848)."""
        features = self._view.image.features
        return features is None or features.get(GROUP_VERSION, 0) >= 1

    @property
    def has_share_groups(self) -> bool:
        """Whether the cluster runs at a `share.version` that has share groups (KIP-932)."""
        return share_version(self._view) > 0

    def share_settings_of(self, group_id: str) -> ShareSettings:
        """Return what holds for a share group: the broker's keys, under the group's own configs."""
        configs = self._view.image.group_configs.get(group_id)
        return self.settings.share if configs is None else self.settings.share.of(configs)

    def _versioned_topics(self) -> tuple[int, Topics]:
        topics = self._topics_now()
        return self._topics_version, topics

    def _topics_now(self) -> Topics:
        """Return the topics; the same value as long as none has come, gone or grown."""
        image, (seen, topics) = self._view.image, self._topics
        if image.topics is not seen:
            newest = {name: Topic(name, each.topic_id, len(each.partitions)) for name, each in image.topics.items()}
            if newest != topics:
                topics = newest
                self._topics_version += 1
            self._topics = (image.topics, topics)
        return topics

    def settings_of(self, group_id: str) -> ConsumerSettings:
        """Return what holds for a consumer group: the broker's keys, under the group's own configs."""
        configs = self._view.image.group_configs.get(group_id)
        return self.settings.consumer if configs is None else self.settings.consumer.of(configs)

    async def decide(
        self, group_id: str, decide: Callable[[Decision, World], Told], visible: Visible, *, is_joining: bool
    ) -> Told:
        """Return the answer of a consumer group to a member; KafkaError as in `coordinator.roles`, and the group's."""
        check_group_id(group_id)
        return await self.shard_for(group_id).consumers.ask(group_id, decide, visible, may_upgrade=is_joining)

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

    def count_shares(self) -> Counter[ShareGroupState]:
        """The share groups (KIP-932) that are coordinated here."""
        return Counter(group.state for active in self.shards for group in active.shard.shares.values())

    def count_consumers(self) -> Counter[ConsumerGroupState]:
        """The consumer groups (KIP-848) that are coordinated here."""
        return Counter(group.state for active in self.shards for group in active.shard.consumers.values())

    # What is done without being asked.

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """Offsets in a topic that is deleted go with it."""
        if old.topics is new.topics:
            return
        deleted = {
            (name, topic.topic_id) for name, topic in old.topics.items() if topic.topic_id not in new.topic_names
        }
        if deleted:
            for active in self.shards:
                active.forget_topics(deleted)

    def _is_there(self, topic: Incarnation) -> bool:
        image = self._view.image
        return topic.name in image.topics if topic.topic_id is None else topic.topic_id in image.topic_names

    async def expire(self, active: ActiveShard) -> None:
        """Delete what is too old in one partition, or of topics that are deleted; leave the rest to the next time if
        its log takes nothing.
        """
        await active.forget_absent(self._is_there)
        async for some in Slices([*active.shard.groups, *active.shard.consumers], weight=EXPIRE_WEIGHT):
            for group_id in some:
                error = await active.expire(group_id, self.settings.retention_ms)
                if error is not ErrorCode.none:
                    message = "group %r: expired offsets could not be deleted, trying again: %s"
                    _log.warning(group_id, message, group_id, error.name)
                if error in _LOG_TAKES_NOTHING:
                    return


def check_group_name(group_id: str) -> None:
    """Raise INVALID_REQUEST for a name that groups of KIP-848 and KIP-932 cannot have: one of blanks alone."""
    if is_blank(group_id):
        raise KafkaError(ErrorCode.invalid_request, "a group needs a name")


def check_group_id(group_id: str) -> None:
    """INVALID_GROUP_ID for the empty name, which only groups without members may have."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a group needs a name")
