"""`__remote_log_metadata` through the leaders of its partitions: `remote.metadata_topic.MetadataTopic` over the wire.

Never from a local replica: it may hold what is not committed, or lack what is. Reads are long polls, and answers come
in the order of their requests, so every read that is under way has a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ..fetcher.leader_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ..protocol.api import ApiKey
from ..protocol.client import Address, KafkaClient
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.fetch_wire import FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic
from ..protocol.produce_wire import ACKS_ALL, ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from ..protocol.records import Record, build_batch, iter_batches, iter_records
from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC, TopicPartition
from ..remote.metadata import RemoteLogMetadataError
from ..remote.metadata_topic import MetadataBatch, MetadataTopicSettings
from .cluster_view import ClusterView, NewTopic, TopicImage
from .partition import WallClock

READ_WAIT_MS: Final = 2000
READ_BYTES_MAX: Final = 4 * 1024 * 1024


class BrokerMetadataTopic:
    """`make_client` gives a client of its own for each read under way; `requests` is for all else."""

    def __init__(
        self,
        view: ClusterView,
        requests: KafkaClient,
        make_client: Callable[[], KafkaClient],
        now_ms: WallClock,
        *,
        timeout_s: float,
    ) -> None:
        self._view = view
        self._requests = requests
        self._make_client = make_client
        self._now_ms = now_ms
        self._timeout_s = timeout_s
        self._readers: list[KafkaClient] = []
        self._idle_readers: dict[int, list[KafkaClient]] = {}
        """By partition: a connection stays with the leader that it was made for."""

    async def close(self) -> None:
        readers, self._readers = self._readers, []
        self._idle_readers.clear()
        for client in readers:
            await client.close()

    async def ensure(self, settings: MetadataTopicSettings) -> int:
        if REMOTE_LOG_METADATA_TOPIC not in self._view.image.topics:
            new = NewTopic(
                REMOTE_LOG_METADATA_TOPIC,
                settings.num_partitions,
                settings.replication_factor,
                configs={
                    "cleanup.policy": "delete",
                    "retention.ms": str(settings.retention_ms),
                    "min.insync.replicas": str(settings.min_insync_replicas),
                    "remote.storage.enable": "false",
                },
            )
            try:
                await self._view.create_topic(new)
            except KafkaError as error:
                if error.code is not ErrorCode.topic_already_exists:
                    raise
        return len(self._topic().partitions)

    async def bounds(self, partition: int) -> tuple[int, int]:
        return await self._offset(partition, EARLIEST_TIMESTAMP), await self._offset(partition, LATEST_TIMESTAMP)

    async def append(self, partition: int, value: bytes) -> int:
        topic = self._topic()
        batch = build_batch([Record(0, self._now_ms(), None, value, ())], base_offset=0)
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=int(self._timeout_s * 1000),
            topics=(ProduceTopic((ProducePartition(partition, batch),), topic.name, topic.topic_id),),
        )
        response: ProduceResponse = await self._requests.request(
            self._leader(partition), ApiKey.PRODUCE, request, timeout_s=self._timeout_s
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"{self._name(partition)}: {answer.error_message or 'not written'}")
        return answer.base_offset

    async def read(self, partition: int, offset: int) -> MetadataBatch:
        topic = self._topic()
        wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=READ_BYTES_MAX)
        request = FetchRequest(
            max_wait_ms=READ_WAIT_MS,
            min_bytes=1,
            max_bytes=READ_BYTES_MAX,
            topics=(FetchTopic((wanted,), topic.name, topic.topic_id),),
        )
        with self._reader(partition) as client:
            response: FetchResponse = await client.fetch(
                self._leader(partition), request, timeout_s=READ_WAIT_MS / 1000 + self._timeout_s
            )
        answer = response.topics[0].partitions[0]
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"{self._name(partition)} at offset {offset}")
        return _batch(answer, offset)

    @contextmanager
    def _reader(self, partition: int) -> Iterator[KafkaClient]:
        idle = self._idle_readers.setdefault(partition, [])
        if not idle:
            idle.append(self._make_client())
            self._readers += idle
        client = idle.pop()
        try:
            yield client
        finally:
            idle.append(client)

    async def _offset(self, partition: int, timestamp: int) -> int:
        wanted: Mapping[str, Any] = {"partition_index": partition, "timestamp": timestamp}
        body = {
            "replica_id": -1,
            "isolation_level": 0,
            "timeout_ms": int(self._timeout_s * 1000),
            "topics": [{"name": REMOTE_LOG_METADATA_TOPIC, "partitions": [wanted]}],
        }
        response = await self._requests.request(
            self._leader(partition), ApiKey.LIST_OFFSETS, body, timeout_s=self._timeout_s
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code, f"offset {timestamp} of {self._name(partition)}")
        offset: int = answer.offset
        return offset

    def _topic(self) -> TopicImage:
        topic = self._view.image.topics.get(REMOTE_LOG_METADATA_TOPIC)
        if topic is None:
            raise RemoteLogMetadataError(f"there is no topic {REMOTE_LOG_METADATA_TOPIC} yet")
        return topic

    def _leader(self, partition: int) -> Address:
        image = self._view.image
        registration = image.partition(TopicPartition(REMOTE_LOG_METADATA_TOPIC, partition))
        broker = None if registration is None else image.brokers.get(registration.leader)
        if broker is None:
            raise RemoteLogMetadataError(f"{self._name(partition)} has no leader now")
        return Address(broker.host, broker.port)

    @staticmethod
    def _name(partition: int) -> str:
        return f"{REMOTE_LOG_METADATA_TOPIC}-{partition}"


def _batch(answer: FetchPartitionResponse, offset: int) -> MetadataBatch:
    """Records from `offset` on; the first batch may begin before it."""
    data = answer.records
    assert data is None or isinstance(data, bytes | bytearray | memoryview), data
    records: list[tuple[int, bytes]] = []
    next_offset = offset
    for position, header in iter_batches(data or b""):
        next_offset = max(next_offset, header.next_offset)
        if header.is_control:
            continue
        for record in iter_records(data or b"", position, header):
            if record.offset >= offset and record.value is not None:
                records.append((record.offset, record.value))
    return MetadataBatch(records, next_offset)
