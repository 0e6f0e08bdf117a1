"""The `RemoteLogMetadataManager` on the topic `__remote_log_metadata`, which Apache Kafka's brokers read and write too.

Who does what:

    add_segment ... -> check against the own ledger -> append to the topic -> wait until the event has come back
    MetadataPartitionReader (one for each metadata partition in use) -> LedgerBook -> ledger, wait_newer

A write, step by step, and what a failure leaves:

| step                                    | if it fails there                                                         |
|-----------------------------------------|---------------------------------------------------------------------------|
| wait until the ledger is ready          | nothing written                                                           |
| `ledger.check`: refused, or known       | nothing written: IllegalTransitionError, or success                       |
| `append`, again after a back-off        | unknown: the record may be there, once or more often (it is idempotent)   |
| the event comes back through the reader | written; if another broker's event came first and forbids it, it is       |
|                                         | skipped by all, and the writer gets IllegalTransitionError                |
| deadline (`consume.wait.ms`)            | unknown: RemoteLogMetadataError; reading on, the ledger will tell         |

So a COPY_SEGMENT_STARTED of unknown fate either shows up in the ledger, as an orphan for the sweep, or never was. An
append that fails is not taken for an answer while its event may still come back: whichever is first ends the write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from random import Random

from pydantic import BaseModel, ConfigDict, Field

from ..protocol import OUTSIDE, REMOTE_LOG_METADATA_TOPIC, TopicIdPartition, describe_error
from .backoff import Backoff
from .core.records import encode_event
from .core.segment import RemoteLogEvent
from .ledger_book import BookedMetadataManager, partition_of
from .metadata import MetadataMismatchError, RemoteLogMetadataError
from .metadata_topic import (
    MetadataTopicSettings,
    RemoteLogMetadataContext,
    metadata_partition,
)
from .topic_reader import MetadataPartitionReader

_log = logging.getLogger(__name__)

BACKOFF_JITTER = 0.2
KEEP_EVERYTHING = -1


def _kafkas_key(name: str) -> str:
    return "remote.log.metadata." + name.replace("_", ".")


class TopicManagerConfig(BaseModel):
    """`rlmm.config.*` of the `topic` plugin: Kafka's keys, without that prefix; an unknown key is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kafkas_key, populate_by_name=True)

    topic_num_partitions: int = Field(
        50, ge=1, description="Partitions of the topic, if it is to be created; if set, it must have so many."
    )
    topic_replication_factor: int = Field(3, ge=1, le=32_767, description="Its replicas.")
    topic_min_isr: int = Field(2, ge=1, description="Its min.insync.replicas.")
    topic_retention_ms: int = Field(-1, ge=-1, description="Its retention; -1 keeps everything, as it should be.")
    topic_brokers_min: int = Field(1, ge=1, description="Not created before so many brokers are alive; ours.")
    consume_wait_ms: int = Field(120_000, gt=0, description="Deadline of a write, until it has been read back.")
    request_timeout_ms: int = Field(30_000, gt=0, description="Deadline of one call to the topic.")
    retry_backoff_ms: int = Field(100, gt=0, description="First pause after a failed call.")
    retry_backoff_max_ms: int = Field(5_000, gt=0, description="Longest pause.")


def _check_count(count: int, config: TopicManagerConfig) -> None:
    """MetadataMismatchError if the count that an operator has set is not the topic's: one of the two has changed,
    and with another count than it began with events are looked for where they are not. Where none is set the topic's
    own holds (Kafka takes its default of 50 for a wish, and refuses).
    """
    configured = config.topic_num_partitions
    if "topic_num_partitions" in config.model_fields_set and count != configured:
        raise MetadataMismatchError(
            f"{REMOTE_LOG_METADATA_TOPIC} has {count} partitions, and rlmm.config.{_kafkas_key('topic_num_partitions')}"
            f" says {configured}: correct the key, or remove it so that this broker takes the topic's own count"
        )


class TopicBasedRemoteLogMetadataManager(BookedMetadataManager):
    """Remote log metadata in the topic `__remote_log_metadata`, as Kafka's TopicBasedRemoteLogMetadataManager.

    Partitions may be assigned before the topic can be reached; they become ready once it can.
    """

    Config = TopicManagerConfig

    def __init__(self, config: TopicManagerConfig, context: RemoteLogMetadataContext) -> None:
        super().__init__()
        self._config = config
        self._topic = context.topic
        self._random: Random = context.random
        self._give_up = context.give_up
        self._files = context.files
        self._partition_count: int | None = None
        self._assigned: set[TopicIdPartition] = set()
        self._readers: dict[int, MetadataPartitionReader] = {}
        self._finder_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns at once: the topic is looked for, and created, in the background."""
        assert self._finder_task is None, "started already"
        if self._config.topic_retention_ms != KEEP_EVERYTHING:
            _log.warning(
                "%s=%d: brokers of Apache Kafka forget remote segments after that time; set it to -1",
                _kafkas_key("topic_retention_ms"),
                self._config.topic_retention_ms,
            )
        self._finder_task = asyncio.create_task(self._find_topic(), name="metadata-topic")

    async def close(self) -> None:
        readers = list(self._readers.values())
        self._readers.clear()
        self._assigned.clear()
        self._book.close()
        if self._finder_task is not None:
            self._finder_task.cancel()
            await asyncio.wait([self._finder_task])
        for reader in readers:
            await reader.close()

    async def assign(self, partitions: Collection[TopicIdPartition]) -> None:
        added = sorted(partition for partition in set(partitions) if partition not in self._book)
        for partition in added:
            self._book.add(partition)
        self._assigned.update(added)
        self._read_for(added)

    async def unassign(self, partitions: Collection[TopicIdPartition]) -> None:
        for partition in sorted(self._assigned.intersection(partitions)):
            self._assigned.remove(partition)
            self._book.remove(partition)
            for reader in self._readers.values():
                reader.leave(partition)
        idle = [number for number, reader in self._readers.items() if reader.is_idle]
        for reader in [self._readers.pop(number) for number in idle]:
            await reader.close()

    def _backoff(self) -> Backoff:
        config = self._config
        maximum_ms = max(config.retry_backoff_ms, config.retry_backoff_max_ms)
        return Backoff(config.retry_backoff_ms, maximum_ms, BACKOFF_JITTER, self._random)

    async def _find_topic(self) -> None:
        config = self._config
        settings = MetadataTopicSettings(
            config.topic_num_partitions,
            config.topic_replication_factor,
            config.topic_min_isr,
            config.topic_retention_ms,
            config.topic_brokers_min,
        )
        backoff = self._backoff()
        while self._partition_count is None:
            try:
                async with asyncio.timeout(config.request_timeout_ms / 1000):
                    count = await self._topic.ensure(settings)
                _check_count(count, config)
                self._partition_count = count
            except MetadataMismatchError as error:
                _log.error("remote log metadata is unusable: %s; correct the topic, then restart the broker", error)
                self._give_up(f"remote log metadata is unusable: {error}")
                return
            except OUTSIDE as error:
                _log.warning("cannot reach the remote log metadata topic, retrying: %s", describe_error(error))
            except Exception:  # noqa: BLE001 the supervisor of this task
                _log.exception("internal error while looking up the remote log metadata topic; retrying")
            if self._partition_count is None:
                await asyncio.sleep(backoff.next_delay_ms() / 1000)
        self._read_for(sorted(self._assigned))

    def _read_for(self, partitions: Iterable[TopicIdPartition]) -> None:
        if self._partition_count is None:
            return
        by_number: dict[int, list[TopicIdPartition]] = {}
        for partition in partitions:
            by_number.setdefault(metadata_partition(partition, self._partition_count), []).append(partition)
        for number, group in by_number.items():
            if number not in self._readers:
                self._readers[number] = MetadataPartitionReader(
                    self._topic, number, self._book, self._backoff, self._config.request_timeout_ms, self._files
                )
                self._readers[number].start()
            self._readers[number].join(group)

    async def _write(self, event: RemoteLogEvent, *, also_if_known: bool = False) -> None:
        async def append(arrival: asyncio.Future[None]) -> None:
            assert self._partition_count is not None, partition_of(event)
            number = metadata_partition(partition_of(event), self._partition_count)
            await self._append(number, encode_event(event), arrival)

        try:
            async with asyncio.timeout(self._config.consume_wait_ms / 1000):
                await self._book.write(event, append, also_if_known=also_if_known)
        except TimeoutError as error:
            raise RemoteLogMetadataError(
                f"{partition_of(event)}: a {type(event).__name__} was not read back within "
                f"{self._config.consume_wait_ms} ms; it may or may not be written"
            ) from error

    async def _append(self, number: int, value: bytes, arrival: asyncio.Future[None]) -> None:
        """Returns once the record is committed, by the topic's word or because it has been read."""
        backoff = self._backoff()
        while not arrival.done():
            try:
                async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                    await self._topic.append(number, value)
                return
            except OUTSIDE as error:
                _log.warning("cannot write to metadata partition %d, retrying: %s", number, describe_error(error))
            await asyncio.wait([arrival], timeout=backoff.next_delay_ms() / 1000)
