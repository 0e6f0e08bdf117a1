"""`__remote_log_metadata` through the leaders of its partitions: `remote.metadata_topic.MetadataTopic` over the wire.

Never from a local replica: it may hold what is not committed, or lack what is.

Answers come in the order of their requests, so what waits has connections of its own: each read under way, because it
is a long poll, and all appends together, because they wait for followers (whose questions may go the same way).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from ..fetcher.core import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..limited_log import LimitedLog
from ..protocol import REMOTE_LOG_METADATA_TOPIC, CorruptRecordError, ErrorCode, KafkaError, TopicPartition, offsets_of
from ..protocol.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from ..protocol.net import Address, KafkaClient, reading_batch
from ..protocol.records import DECOMPRESSED_BYTES_MIN, Record, build_batch, iter_batches
from ..protocol.wire import ACKS_ALL, ProducePartition, ProduceRequest, ProduceTopic
from ..remote import NO_EPOCH, MetadataBatch, MetadataTopicSettings, RemoteLogMetadataError
from .cluster.view import ClusterImage, ClusterView, NewTopic, TopicImage
from .replicas.leadership import WallClock

_log = LimitedLog(logging.getLogger(__name__))

T = TypeVar("T")

READ_WAIT_MS: Final = 2000
READ_BYTES_MAX: Final = 4 * 1024 * 1024
BATCH_BYTES_MAX: Final = DECOMPRESSED_BYTES_MIN
"""What one batch may take when decompressed; a broker writes one record a batch, uncompressed."""
RECORDS_PER_READ_MAX: Final = 100_000
"""A read ends with the batch that reaches this number, so that its records fit into memory."""
BROKER_TIMEOUT_SHARE: Final = 0.9
"""The share of our own deadline: the leader gives up earlier than we do, so that we learn why."""


class MetadataLeader(NamedTuple):
    """The leader of a partition of the topic."""

    address: Address
    leader_epoch: int


class MetadataTopicReader:
    """Reads of the topic. `image` returns the cluster as it is known now; `questions` is for requests that are
    answered at once, `make_client` returns clients for all that waits.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        questions: KafkaClient,
        make_client: Callable[[], KafkaClient],
        *,
        timeout_s: float,
    ) -> None:
        self._image = image
        self._questions = questions
        self._make_client = make_client
        self._timeout_s = timeout_s
        self._broker_timeout_ms = int(timeout_s * 1000 * BROKER_TIMEOUT_SHARE)
        self._readers: dict[KafkaClient, None] = {}
        self._idle_readers: dict[int, list[KafkaClient]] = {}
        """Clients by partition: a connection stays with the leader that it was made for."""

    async def close(self) -> None:
        readers, self._readers = self._readers, {}
        self._idle_readers.clear()
        for client in readers:
            await client.close()

    async def bounds(self, partition: int) -> tuple[int, int]:
        return await self._offset(partition, EARLIEST_TIMESTAMP), await self._offset(partition, LATEST_TIMESTAMP)

    async def read(self, partition: int, offset: int, last_epoch: int = NO_EPOCH) -> MetadataBatch:
        topic = self._topic()
        wanted = FetchPartition(
            partition, fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=READ_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=READ_WAIT_MS,
            min_bytes=1,
            max_bytes=READ_BYTES_MAX,
            topics=(FetchTopic((wanted,), topic.name, topic.topic_id),),
        )
        async with self._reader(partition) as client:
            response = await client.send(
                self._leader(partition), request, timeout_s=READ_WAIT_MS / 1000 + self._timeout_s
            )
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"{self._name(partition)} at offset {offset}")
        answer = _only(answer for each in response.topics for answer in each.partitions)
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"{self._name(partition)} at offset {offset}")
        if answer.diverging_epoch is not None:
            raise KafkaError(
                ErrorCode.offset_out_of_range,
                f"{self._name(partition)}: before offset {offset} epoch {last_epoch} was read, and the leader's log "
                f"diverges at {answer.diverging_epoch}",
            )
        return await _batch(answer, offset, self._name(partition))

    @asynccontextmanager
    async def _reader(self, partition: int) -> AsyncIterator[KafkaClient]:
        """Lend a client to one read. It is closed if the read is cancelled: the next read would first wait for the
        answer that no caller awaits.
        """
        idle = self._idle_readers.setdefault(partition, [])
        client = idle.pop() if idle else self._make_client()
        self._readers[client] = None
        try:
            yield client
        except asyncio.CancelledError:
            self._readers.pop(client, None)
            await client.close()
            raise
        finally:
            if client in self._readers:
                idle.append(client)

    async def _offset(self, partition: int, timestamp: int) -> int:
        request = offsets_of([(REMOTE_LOG_METADATA_TOPIC, partition)], timestamp, timeout_ms=self._broker_timeout_ms)
        response = await self._questions.send(self._leader(partition), request, timeout_s=self._timeout_s)
        answer = _only(answer for topic in response.topics for answer in topic.partitions)
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"offset {timestamp} of {self._name(partition)}")
        return answer.offset

    def _topic(self) -> TopicImage:
        topic = self._image().topics.get(REMOTE_LOG_METADATA_TOPIC)
        if topic is None:
            raise RemoteLogMetadataError(f"there is no topic {REMOTE_LOG_METADATA_TOPIC} yet")
        return topic

    def _leader(self, partition: int) -> Address:
        found = self.leader(partition)
        if found is None:
            raise RemoteLogMetadataError(f"{self._name(partition)} has no leader now")
        return found.address

    def topic_id(self) -> UUID | None:
        topic = self._image().topics.get(REMOTE_LOG_METADATA_TOPIC)
        return None if topic is None else topic.topic_id

    def leader(self, partition: int) -> MetadataLeader | None:
        image = self._image()
        registration = image.partition(TopicPartition(REMOTE_LOG_METADATA_TOPIC, partition))
        broker = None if registration is None else image.brokers.get(registration.leader)
        if registration is None or broker is None:
            return None
        return MetadataLeader(Address(broker.host, broker.port), registration.leader_epoch)

    @staticmethod
    def _name(partition: int) -> str:
        return f"{REMOTE_LOG_METADATA_TOPIC}-{partition}"


class BrokerMetadataTopic(MetadataTopicReader):
    """A broker's: it makes the topic where there is none, and writes."""

    def __init__(
        self,
        view: ClusterView,
        questions: KafkaClient,
        make_client: Callable[[], KafkaClient],
        now_ms: WallClock,
        *,
        timeout_s: float,
    ) -> None:
        super().__init__(lambda: view.image, questions, make_client, timeout_s=timeout_s)
        self._view = view
        self._now_ms = now_ms
        self._appends = make_client()
        self._new_image = asyncio.Event()
        view.subscribe(self._on_image)

    def _on_image(self, _before: ClusterImage, _after: ClusterImage) -> None:
        """Wake up who waits now."""
        self._new_image.set()
        self._new_image.clear()

    async def another_leader(self, partition: int, than: Hashable) -> None:
        while (found := self.leader(partition)) is None or found == than:
            await self._new_image.wait()

    async def close(self) -> None:
        await self._appends.close()
        await super().close()

    async def ensure(self, settings: MetadataTopicSettings) -> int:
        if REMOTE_LOG_METADATA_TOPIC not in self._view.image.topics:
            alive = sum(not broker.fenced for broker in self._view.image.brokers.values())
            if alive < settings.brokers_min:
                raise RemoteLogMetadataError(
                    f"there is no topic {REMOTE_LOG_METADATA_TOPIC} yet: it is created once {settings.brokers_min} "
                    f"brokers are alive, and {alive} are"
                )
            new = NewTopic(
                REMOTE_LOG_METADATA_TOPIC,
                settings.num_partitions,
                settings.replication_factor,
                configs={
                    "cleanup.policy": "delete",
                    "retention.ms": str(settings.retention_ms),
                    "min.insync.replicas": str(settings.min_insync_replicas),
                    "remote.storage.enable": "false",
                    # Local segments go once FINISHED is committed: what says where they are must survive a power cut.
                    "flush.messages": "1",
                },
            )
            try:
                await self._view.create_topic(new)
            except KafkaError as error:
                if error.code is not ErrorCode.topic_already_exists:
                    raise
        return len(self._topic().partitions)

    async def append(self, partition: int, value: bytes) -> int:
        topic = self._topic()
        batch = build_batch([Record(0, self._now_ms(), None, value, ())], base_offset=0)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=self._broker_timeout_ms,
            topics=(ProduceTopic((ProducePartition(partition, batch),), topic.name, topic.topic_id),),
        )
        response = await self._appends.send(self._leader(partition), request, timeout_s=self._timeout_s)
        assert response is not None, request
        answer = _only(answer for each in response.topics for answer in each.partitions)
        if answer.error_code is not ErrorCode.none:
            name, reason = self._name(partition), answer.error_message or "not written"
            raise KafkaError(answer.error_code, reason if reason.startswith(f"{name}:") else f"{name}: {reason}")
        return answer.base_offset


def _only(answers: Iterable[T]) -> T:
    """Return the answer for the one partition that was asked for."""
    found = list(answers)
    if len(found) != 1:
        raise RemoteLogMetadataError(f"the leader answers for {len(found)} partitions, asked for one")
    return found[0]


async def _batch(answer: FetchPartitionResponse, offset: int, name: str) -> MetadataBatch:
    """Return the records from `offset` on; the first batch may begin before it. A batch that cannot be read is logged
    and skipped, as a record is that cannot: no broker wrote it.
    """
    data = answer.records
    assert data is None or isinstance(data, bytes | bytearray | memoryview), data
    records: list[tuple[int, bytes]] = []
    next_offset, last_epoch = offset, NO_EPOCH
    for position, header in iter_batches(data or b""):
        next_offset, last_epoch = max(next_offset, header.next_offset), header.partition_leader_epoch
        if header.is_control:
            continue
        try:
            async with reading_batch(data or b"", position, header, BATCH_BYTES_MAX) as slices:
                async for some in slices:
                    records += [
                        (each.offset, each.value or b"") for each in some if each.has_value and each.offset >= offset
                    ]
        except CorruptRecordError as error:
            message = "%s: offsets %d to %d are skipped: %s"
            _log.error(str(name), message, name, header.base_offset, header.last_offset, error)
        if len(records) >= RECORDS_PER_READ_MAX:
            break
    return MetadataBatch(records, next_offset, last_epoch)
