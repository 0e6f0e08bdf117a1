"""Makes what this broker hosts follow the cluster image: logs, roles, fetchers, the remote log manager.

One change at a time a partition, in this order, so that nothing acts on a log that somebody else owns by then:

    the image says            done
    ------------------------  ---------------------------------------------------------------------------------------
    hosted, no log            make the log
    led here, a new epoch     stop its fetcher, make the epoch durable, lead; the tier's task starts
    led elsewhere             stop leading, stop the fetcher of the old epoch, follow the new leader
    led by nobody             stop leading, stop the fetcher
    the same epoch            the ISR and the replicas are noted
    other configs             the log, the leadership and the tier's task are told
    not hosted, or another    stop everything; delete the log; if the topic is gone and this broker led it, what the
      incarnation             tier holds of it goes too

Images that come while one is applied are applied as one, the last. A partition that fails is reported, answers
KAFKA_STORAGE_ERROR and is tried again at the next image or tick.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from ..log.config import LogConfig
from ..log.errors import CorruptFileError
from ..log.manager import LogManager
from ..log.segment_recovery import CorruptLogError
from ..protocol.errors import KafkaError
from ..protocol.topics import TopicIdPartition, TopicPartition
from ..rlm.manager import RemoteLogManager
from .cluster_view import NO_LEADER, ClusterImage, PartitionRegistration
from .config import BrokerConfig, ConfigError
from .fetcher_pool import FetcherPool
from .followed_partition import FollowedPartition
from .hosted_partitions import HostedPartitions
from .partition import Partition, PartitionServices
from .topic_config import config_in_force, log_defaults

T = TypeVar("T")

CHANGES_MAX: Final = 16
"""Partitions that are changed at the same time."""
TICK_S_MAX: Final = 5.0
OUTSIDE_ERRORS: Final = (OSError, KafkaError, CorruptFileError, CorruptLogError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Role:
    """What a partition was last made to be."""

    leader: int
    leader_epoch: int


class ReplicaManager:
    """`tier` is None on a broker without a remote storage system."""

    def __init__(
        self,
        config: BrokerConfig,
        hosted: HostedPartitions,
        services: PartitionServices,
        logs: LogManager,
        fetchers: FetcherPool,
        tier: RemoteLogManager | None,
    ) -> None:
        self._config = config
        self._hosted = hosted
        self._services = services
        self._logs = logs
        self._fetchers = fetchers
        self._tier = tier
        self._roles: dict[TopicPartition, _Role] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns once the present image is applied."""
        self._services.view.subscribe(lambda old, new: self._changed.set())
        await self._apply(self._hosted.image)
        self._tasks = [
            asyncio.create_task(self._follow_images(), name="replica-manager"),
            asyncio.create_task(self._tick(), name="isr-timer"),
        ]

    async def close(self) -> None:
        """Stop following, leading and tiering; the logs are left to their manager."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._fetchers.close()
        for partition in self._hosted.partitions.values():
            if self._tier is not None:
                await self._tier.stop(partition.partition)
            await partition.close()
        self._hosted.partitions.clear()

    # -- images -------------------------------------------------------------------------------------------------------

    async def _follow_images(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._supervised(self._apply(self._hosted.image))

    async def _tick(self) -> None:
        """Look for laggards; try again what has failed."""
        while True:
            await asyncio.sleep(min(self._services.lag_time_max_ms / 2000, TICK_S_MAX))
            for partition in list(self._hosted.partitions.values()):
                if partition.leadership is not None:
                    partition.leadership.check_lag()
            if self._hosted.failures:
                self._changed.set()

    async def _supervised(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - the supervisor of the image loop
            _log.exception("applying a cluster image failed by a fault of ours; it is tried again")
            await asyncio.sleep(TICK_S_MAX)
            self._changed.set()

    async def _apply(self, image: ClusterImage) -> None:
        wanted = image.hosted_by(self._services.node_id)
        hosted = [partition.partition for partition in self._hosted.partitions.values()]
        await _for_each((each for each in hosted if each not in wanted), lambda each: self._remove(each, image))
        await self._delete_strays(wanted)
        configs = self._configs(image, {partition.topic for partition in wanted})
        await _for_each(wanted, lambda each: self._set_up(each, wanted[each], configs[each.topic]))

    async def _delete_strays(self, wanted: Iterable[TopicIdPartition]) -> None:
        """Logs of partitions that are not hosted any more, or of an earlier topic of the same name."""
        topic_ids = {partition.topic_partition: partition.topic_id for partition in wanted}
        for topic_partition, log in sorted(self._logs.logs.items()):
            topic_id = topic_ids.get(topic_partition)
            if topic_id is None or (log.topic_id is not None and log.topic_id != topic_id):
                _log.warning("%s is not assigned to this broker (topic id %s): deleted", topic_partition, log.topic_id)
                await self._logs.delete(topic_partition)

    def _configs(self, image: ClusterImage, topics: Iterable[str]) -> dict[str, LogConfig]:
        try:
            defaults = log_defaults(config_in_force(self._config, image))
        except ConfigError as error:
            _log.error("the cluster's broker configs are not usable, the file's are taken: %s", error)
            defaults = log_defaults(self._config)
        return {topic: _topic_config(topic, image, defaults) for topic in topics}

    # -- one partition ------------------------------------------------------------------------------------------------

    async def _set_up(self, key: TopicIdPartition, registration: PartitionRegistration, config: LogConfig) -> None:
        name = key.topic_partition
        try:
            partition = self._hosted.partitions.get(name)
            if partition is None:
                partition = await self._host(key, config)
            self._configure(partition, config)
            await self._set_role(partition, registration)
        except OUTSIDE_ERRORS as error:
            if self._hosted.failures.get(name) != str(error):
                _log.error("%s is not available: %s", name, error)
            self._hosted.failures[name] = str(error)
        else:
            self._hosted.failures.pop(name, None)

    async def _host(self, key: TopicIdPartition, config: LogConfig) -> Partition:
        name = key.topic_partition
        log = self._logs.get(name)
        if log is None:
            log = await self._logs.create(name, key.topic_id, config)
        partition = self._hosted.partitions[name] = Partition(key, log, self._services)
        return partition

    def _configure(self, partition: Partition, config: LogConfig) -> None:
        if partition.log.config != config:
            partition.log.update_config(config)
            partition.on_config()
            if self._tier is not None:
                self._tier.config_changed(partition.partition)

    async def _set_role(self, partition: Partition, registration: PartitionRegistration) -> None:
        role = _Role(registration.leader, registration.leader_epoch)
        name = partition.partition.topic_partition
        if self._roles.get(name) == role:
            partition.note_registration(registration)
            return
        self._roles.pop(name, None)
        if registration.leader == self._services.node_id:
            await self._lead(partition, registration)
        else:
            await self._follow(partition, registration)
        self._roles[name] = role

    async def _lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        await self._fetchers.remove(partition.partition)
        await partition.lead(registration)
        leadership = partition.leader()
        _log.info(
            "%s: leader at epoch %d from offset %d, ISR %s",
            partition.partition.topic_partition,
            registration.leader_epoch,
            partition.log.log_end_offset,
            list(registration.isr),
        )
        if self._tier is not None:
            self._tier.lead(partition.partition, partition.log, registration.leader_epoch, leadership.low_watermark)

    async def _follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        await partition.step_down(registration)
        await self._fetchers.remove(partition.partition)
        if self._tier is not None:
            self._tier.follow(partition.partition, partition.log)
        if registration.leader != NO_LEADER:
            self._fetchers.add(registration.leader, self._followed(partition))

    def _followed(self, partition: Partition) -> FollowedPartition:
        return FollowedPartition(
            partition, self._logs, has_tier=self._tier is not None, on_replaced=self._on_log_replaced
        )

    def _on_log_replaced(self, partition: Partition) -> None:
        if self._tier is not None:
            self._tier.follow(partition.partition, partition.log)

    async def _remove(self, key: TopicIdPartition, image: ClusterImage) -> None:
        name = key.topic_partition
        partition = self._hosted.partitions.pop(name)
        led = partition.leadership is not None
        self._roles.pop(name, None)
        self._hosted.failures.pop(name, None)
        await self._fetchers.remove(key)
        await partition.step_down(None)
        if self._tier is not None:
            await self._tier.stop(key)
            if led and key.topic_id not in image.topic_names:
                self._tier.delete_remote_partition(key)
        await partition.close()
        await self._logs.delete(name)


def _topic_config(topic: str, image: ClusterImage, defaults: LogConfig) -> LogConfig:
    try:
        return LogConfig.from_topic_configs(image.topics[topic].configs, defaults)
    except KafkaError as error:
        _log.error("topic %s: its configs are not usable, the broker's are taken: %s", topic, error)
        return defaults


async def _for_each(items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """All of them, a limited number at the same time."""
    slots = asyncio.Semaphore(CHANGES_MAX)

    async def one(item: T) -> None:
        async with slots:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))
