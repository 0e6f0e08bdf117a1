"""One kind of coordinator on one broker: the partitions it leads, and where each key is coordinated.

A key (a group, a transactional id) belongs to partition `hash(key) % partitions` of the topic; the leader of that
partition is its coordinator. The replica manager reports roles (`led`, `resigned`).

| request for a key | when | answer |
|---|---|---|
| whose partition is led elsewhere, or just given up | | NOT_COORDINATOR |
| | it is being read | COORDINATOR_LOAD_IN_PROGRESS |

The topic is made by the first who looks for a coordinator.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ..cluster.view import BrokerRegistration, ClusterView, NewTopic
from ..replicas.partition import Partition
from .shard import ActiveShard
from .state_topic import StateTopic, partition_for

_log = logging.getLogger(__name__)
ShardT = TypeVar("ShardT", bound=ActiveShard[Any])


class Coordinator(ABC, Generic[ShardT]):
    """See the module's docstring."""

    topic_name: str
    """The topic that holds its state."""
    noun: str
    """What a key is, for error texts."""
    replication_key: str
    """The configuration key of the topic's replication factor."""

    def __init__(self, view: ClusterView, topic: NewTopic) -> None:
        self._view: Final = view
        self._topic = StateTopic(view, topic, self.replication_key, f"no {self.noun}")
        self._shards: dict[int, ShardT] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._upkeep: list[asyncio.Task[None]] = []

    @abstractmethod
    def _make_shard(self, partition: Partition) -> ShardT:
        """Return what runs a partition that is led from now on."""

    @property
    def view(self) -> ClusterView:
        return self._view

    async def close(self) -> None:
        """Fail every waiting request with NOT_COORDINATOR, so that its client looks for another."""
        for task in self._upkeep:
            task.cancel()
        await asyncio.gather(*self._upkeep, return_exceptions=True)
        for number in list(self._shards):
            self._close(number)
        await asyncio.gather(*self._closing)

    # Roles.

    def led(self, partition: Partition) -> None:
        """This broker leads a partition under a new epoch, which is read again."""
        if partition.partition.topic == self.topic_name:
            number = partition.partition.partition
            # Always rebuilt from the log: what this process held was of another epoch, and may not be committed.
            self._close(number)
            active = self._shards[number] = self._make_shard(partition)
            active.on_broken = partial(self._read_again, active)
            active.begin()

    def resigned(self, partition: TopicPartition) -> None:
        """This broker no longer leads it."""
        if partition.topic == self.topic_name:
            self._close(partition.partition)

    def _read_again(self, broken: ShardT) -> None:
        number = broken.partition.partition.partition
        if self._shards.get(number) is not broken:
            return
        try:
            self.led(broken.partition)
        except KafkaError:
            self._close(number)  # it is not led here any longer

    def _close(self, number: int) -> None:
        active = self._shards.pop(number, None)
        if active is not None:
            reason = KafkaError(ErrorCode.not_coordinator, f"{active.partition.partition} is no longer led here")
            task = asyncio.create_task(active.close(reason), name=f"close-{active.kind}-{number}")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    # Where a key is.

    async def find_broker(self, key: str) -> BrokerRegistration:
        """Its coordinator. COORDINATOR_NOT_AVAILABLE while there is none."""
        return self._topic.leader(await self._number_of(key))

    async def partition_of(self, key: str) -> TopicPartition:
        """Return the partition that holds it. Raise COORDINATOR_NOT_AVAILABLE if there is none."""
        return TopicPartition(self.topic_name, await self._number_of(key))

    async def _number_of(self, key: str) -> int:
        return partition_for(key, await self._topic.ensure())

    def find_now(self, key: str) -> BrokerRegistration | None:
        """Return its coordinator, None if there is no topic: nothing is made. Raise COORDINATOR_NOT_AVAILABLE."""
        partitions = self._topic.partitions
        return None if partitions is None else self._topic.leader(partition_for(key, partitions))

    def shard_for(self, key: str) -> ShardT:
        """KafkaError as in the module's table."""
        partitions = self._topic.partitions
        active = None if partitions is None else self._shards.get(partition_for(key, partitions))
        if active is None:
            raise KafkaError(ErrorCode.not_coordinator, f"{self.noun} {key!r} is coordinated elsewhere")
        if not active.is_loaded:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, f"{self.noun} {key!r} is being loaded")
        return active

    @property
    def shards(self) -> Iterator[ShardT]:
        """The shards of all partitions that are led here, loaded or not, by number."""
        return (self._shards[number] for number in sorted(self._shards))

    # What is done without being asked.

    def _each(self, interval_ms: int, work: Callable[[ShardT], Awaitable[None]]) -> None:
        """Do work each interval, for every partition that is loaded."""

        async def run() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                await self.for_each_loaded(work)

        self._upkeep.append(asyncio.create_task(run(), name=f"upkeep-{self.topic_name}"))

    async def for_each_loaded(self, work: Callable[[ShardT], Awaitable[None]]) -> None:
        """Do work for every partition that is loaded; none waits for another one's log, or suffers from its errors."""
        loaded = [active for active in self.shards if active.is_loaded]
        ended = await asyncio.gather(*map(work, loaded), return_exceptions=True)
        for active, failure in zip(loaded, ended, strict=True):
            if isinstance(failure, Exception) and not isinstance(failure, KafkaError):
                _log.error("internal error in the upkeep of %s", active.partition.partition, exc_info=failure)
