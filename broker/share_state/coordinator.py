"""The share coordinator of one broker: the share-partitions whose state it keeps (`coordinator.roles` says which).

Without being asked it deletes records that are no longer needed, and the state of topics that are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random
from typing import Final
from uuid import UUID

from ...protocol import SHARE_GROUP_STATE_TOPIC, ErrorCode, KafkaError, uuid_from_text
from ..cluster.view import BrokerRegistration, ClusterImage, ClusterView, NewTopic, share_version
from ..coordinator.roles import Coordinator
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .active_shard import ActiveShard
from .core.records import ShareKey
from .settings import ShareStateSettings

PARTITION_DIGITS_MAX: Final = 10
TEXT_SHOWN_MAX: Final = 300

_log = logging.getLogger(__name__)


def _new_topic(settings: ShareStateSettings) -> NewTopic:
    return NewTopic(
        SHARE_GROUP_STATE_TOPIC,
        settings.topic_partitions,
        settings.topic_replication_factor,
        configs={
            # Not compacted: an update needs the snapshot before it, and both are deleted once there is a newer one.
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "compression.type": "producer",
            "min.insync.replicas": str(settings.topic_min_isr),
            "segment.bytes": str(settings.topic_segment_bytes),
        },
    )


class ShareCoordinator(Coordinator[ActiveShard]):
    """See the module's docstring."""

    topic_name = SHARE_GROUP_STATE_TOPIC
    noun = "share-partition"
    replication_key = "share.coordinator.state.topic.replication.factor"

    def __init__(self, view: ClusterView, settings: ShareStateSettings, rng: Random, now_ms: WallClock) -> None:
        super().__init__(view, _new_topic(settings))
        self.settings = settings
        self._rng = rng
        self._now_ms = now_ms

    def _make_shard(self, partition: Partition) -> ActiveShard:
        # Only now: most brokers of a cluster without share groups never lead such a partition.
        if not self._upkeep:
            self._each(self.settings.prune_interval_ms, self.prune)
            self._view.subscribe(self._on_image)
        return ActiveShard(partition, self.settings, self._rng, self._now_ms)

    async def prune(self, active: ActiveShard) -> None:
        """Delete what one partition no longer needs."""
        await active.prune(lambda: self._view.image.topic_names)

    @property
    def is_enabled(self) -> bool:
        """Whether the cluster has share groups."""
        return share_version(self._view) > 0

    def check_partition(self, key: ShareKey) -> None:
        """Raise UNKNOWN_TOPIC_OR_PARTITION for a partition that the cluster does not have."""
        image = self._view.image
        name = image.topic_names.get(key.topic_id)
        if name is None or key.partition not in image.topics[name].partitions:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, f"there is no partition of share-partition {key}")

    async def find_broker(self, key: str) -> BrokerRegistration:
        """Return the coordinator of `group:topic id:partition`. Raise INVALID_REQUEST for any other key."""
        parse_key(key)
        return await super().find_broker(key)

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        """The state of a topic that is deleted goes with it."""
        if old.topics is new.topics:
            return
        deleted = frozenset(old.topic_names) - frozenset(new.topic_names)
        if deleted:
            for active in self.shards:
                if active.is_loaded:
                    active.spawn(_forget(active, deleted))


async def _forget(active: ActiveShard, deleted: Iterable[UUID]) -> None:
    try:
        await active.forget(deleted)
    except KafkaError as error:
        # The next look finds them: their topics are still absent.
        _log.warning("%s: state of deleted topics is deleted later: %s", active.partition.partition, error)


def parse_key(text: str) -> ShareKey:
    """Return the share-partition of `group:topic id:partition`; a group may have colons. Raise INVALID_REQUEST."""
    group_id, _, rest = text.rpartition(":")
    group_id, _, topic_id = group_id.rpartition(":")
    try:
        if not group_id or not (rest.isascii() and rest.isdigit() and len(rest) <= PARTITION_DIGITS_MAX):
            raise ValueError("a group and the number of a partition are needed")
        return ShareKey(group_id, uuid_from_text(topic_id), int(rest))
    except ValueError as error:
        message = f"{text[:TEXT_SHOWN_MAX]!r} is no share-partition (group:topic id:partition): {error}"
        raise KafkaError(ErrorCode.invalid_request, message) from None
