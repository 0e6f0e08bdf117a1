"""The group coordinator of one broker: which groups are its own, and what becomes of their requests.

A group belongs to partition `hash(group id) % partitions` of `__consumer_offsets`; the leader of that partition is its
coordinator. The replica manager reports roles (`led`, `resigned`), the cluster view deleted topics.

| request for a group | when | answer |
|---|---|---|
| whose partition is led elsewhere, or just given up | | NOT_COORDINATOR |
| | it is being read | COORDINATOR_LOAD_IN_PROGRESS |
| without a name | where one is needed | INVALID_GROUP_ID |

The topic is made by the first who looks for a coordinator. Deleting expired offsets is the one thing that is done
without being asked, each `offsets.retention.check.interval.ms`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from ...protocol import GROUP_METADATA_TOPIC, ErrorCode, KafkaError, TopicPartition
from ...protocol.net import Slices
from ..cluster.state_topic import StateTopic
from ..cluster.view import BrokerRegistration, ClusterImage, ClusterView, NewTopic
from ..replicas.leadership import WallClock
from ..replicas.partition import Partition
from .active_shard import ActiveShard
from .core.events import Answer, Event, Token
from .core.group_state import GroupState
from .core.memory import GroupMemory
from .settings import CoordinatorSettings

EXPIRE_WEIGHT: Final = 10
"""What a look at a group's offsets costs on the loop, in elements of `pace`."""
_LOG_TAKES_NOTHING: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})

_log = logging.getLogger(__name__)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, a signed 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The partition that holds a group."""
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


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


class GroupCoordinator:
    """See the module's docstring."""

    def __init__(self, view: ClusterView, settings: CoordinatorSettings, rng: Random, now_ms: WallClock) -> None:
        self.settings = settings
        self._view = view
        self._rng = rng
        self._now_ms = now_ms
        self.memory = GroupMemory()
        self._shards: dict[int, ActiveShard] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._topic = StateTopic(view, _new_topic(settings), "offsets.topic.replication.factor", "no group")
        self._upkeep: asyncio.Task[None] | None = None

    @property
    def view(self) -> ClusterView:
        return self._view

    async def start(self) -> None:
        self._view.subscribe(self._on_image)
        self._upkeep = asyncio.create_task(self._expire_offsets(), name="offset-expiration")

    async def close(self) -> None:
        """Fail every waiting request with NOT_COORDINATOR, so that its client looks for another."""
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        for number in list(self._shards):
            self._close(number)
        await asyncio.gather(*self._closing)

    # Roles.

    def led(self, partition: Partition) -> None:
        """This broker leads a partition under a new epoch; its groups are read again."""
        if partition.partition.topic == GROUP_METADATA_TOPIC:
            number = partition.partition.partition
            # Always rebuilt from the log: what this process held was of another epoch, and may not be committed.
            self._close(number)
            self._shards[number] = ActiveShard(partition, self.settings, self._rng, self._now_ms, self.memory)

    def resigned(self, partition: TopicPartition) -> None:
        """This broker no longer leads it."""
        if partition.topic == GROUP_METADATA_TOPIC:
            self._close(partition.partition)

    def transaction_ended(self, partition: TopicPartition, producer_id: int, *, is_committed: bool) -> None:
        """Its marker is committed in a partition that is led here."""
        active = self._shards.get(partition.partition) if partition.topic == GROUP_METADATA_TOPIC else None
        if active is not None:
            active.end_transaction(producer_id, is_committed=is_committed)

    def _close(self, number: int) -> None:
        active = self._shards.pop(number, None)
        if active is not None:
            reason = KafkaError(ErrorCode.not_coordinator, f"{active.partition.partition} is no longer led here")
            task = asyncio.create_task(active.close(reason), name=f"close-groups-{number}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    # Where a group is.

    async def find(self, group_id: str) -> BrokerRegistration:
        """Its coordinator. COORDINATOR_NOT_AVAILABLE while there is none."""
        return self._topic.leader(await self._number_of(group_id))

    async def partition_of(self, group_id: str) -> TopicPartition:
        """Return the partition that holds a group's offsets. Raise COORDINATOR_NOT_AVAILABLE if there is none."""
        return TopicPartition(GROUP_METADATA_TOPIC, await self._number_of(group_id))

    async def _number_of(self, group_id: str) -> int:
        return partition_for(group_id, await self._topic.ensure())

    def shard_for(self, group_id: str) -> ActiveShard:
        """KafkaError as in the module's table."""
        partitions = self._topic.partitions
        active = None if partitions is None else self._shards.get(partition_for(group_id, partitions))
        if active is None:
            raise KafkaError(ErrorCode.not_coordinator, f"group {group_id!r} is coordinated elsewhere")
        if not active.is_loaded:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, f"group {group_id!r} is being loaded")
        return active

    async def ask(self, group_id: str, event_of: Callable[[Token], Event]) -> Answer:
        """The answer of a group to a member; KafkaError as in the module's table."""
        check_group_id(group_id)
        return await self.shard_for(group_id).ask(group_id, event_of)

    @property
    def shards(self) -> Iterator[ActiveShard]:
        """The shards of all partitions that are led here, loaded or not, by number."""
        return (self._shards[number] for number in sorted(self._shards))

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

    async def _expire_offsets(self) -> None:
        while True:
            await asyncio.sleep(self.settings.retention_check_interval_ms / 1000)
            await self.expire_all()

    async def expire_all(self) -> None:
        """Delete what is too old in all partitions; none waits for another one's log."""
        await asyncio.gather(*(self.expire(active) for active in list(self.shards) if active.is_loaded))

    async def expire(self, active: ActiveShard) -> None:
        """Delete what is too old in one partition; leave the rest to the next time if its log takes nothing."""
        async for some in Slices(list(active.shard.groups), weight=EXPIRE_WEIGHT):
            for group_id in some:
                error = await active.expire(group_id, self.settings.retention_ms)
                if error is not ErrorCode.none:
                    message = "group %r: expired offsets could not be deleted, trying again: %s"
                    _log.warning(message, group_id, error.name)
                if error in _LOG_TAKES_NOTHING:
                    return


def check_group_id(group_id: str) -> None:
    """INVALID_GROUP_ID for the empty name, which only groups without members may have."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a group needs a name")
