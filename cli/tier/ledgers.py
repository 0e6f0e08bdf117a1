"""The ledgers of all partitions, from `__remote_log_metadata`, read through the brokers that lead it.

Any Kafka cluster will do: it is asked who leads what, and then only ListOffsets and Fetch. Records of a kind that is
not known, and events that the ledger refuses, are passed over, as every broker does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final
from uuid import UUID

from ...broker import MetadataTopicReader
from ...broker.cluster import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from ...protocol import (
    OUTSIDE,
    REMOTE_LOG_METADATA_TOPIC,
    ErrorCode,
    KafkaError,
    RetriableError,
    TopicIdPartition,
    metadata_of,
)
from ...protocol.messages.cluster import MetadataResponse
from ...protocol.net import Address, KafkaClient
from ...remote import Backoff, RemoteLogMetadataError, partition_of
from ...remote.core import IllegalTransitionError, MetadataRecordError, RemoteLogLedger, decode_event
from ..command_config import make_client

CLIENT_ID: Final = "tierfetch-cli"
REQUEST_TIMEOUT_S: Final = 10.0
RETRY_FOR_S: Final = 30.0
BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 2000
JITTER: Final = 0.2
NO_TOPIC_ID: Final = UUID(int=0)

_log = logging.getLogger(__name__)


class MetadataUnavailableError(RetriableError):
    """The remote log metadata cannot be read; the message says why."""


class MetadataTopicLedgers:
    """`read_on` as often as needed, then `close`."""

    def __init__(self, bootstrap: Sequence[Address]) -> None:
        self._bootstrap = bootstrap
        self._random = Random()
        self._client = self._make_client()
        self._image = ClusterImage("", {}, {}, {})
        self._topic = MetadataTopicReader(
            lambda: self._image, self._client, self._make_client, timeout_s=REQUEST_TIMEOUT_S
        )
        self._positions: dict[int, int] = {}
        self._ledgers: dict[TopicIdPartition, RemoteLogLedger] = {}

    async def close(self) -> None:
        await self._topic.close()
        await self._client.close()

    async def read_on(self) -> Mapping[TopicIdPartition, RemoteLogLedger]:
        """Return the same ledgers each time, with everything that was committed when this was called.
        MetadataUnavailableError.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + RETRY_FOR_S
        backoff = Backoff(BACKOFF_MS, BACKOFF_MAX_MS, JITTER, self._random)
        while True:
            self._image = await self._find_topic()
            try:
                for partition in sorted(self._image.topics[REMOTE_LOG_METADATA_TOPIC].partitions):
                    await self._read_partition(partition)
                return self._ledgers
            except OUTSIDE as error:
                if loop.time() >= deadline_s:
                    raise MetadataUnavailableError(f"remote log metadata cannot be read: {error}") from error
                _log.debug("trying again: %s", error)
                await asyncio.sleep(backoff.next_delay_ms() / 1000)

    async def _read_partition(self, partition: int) -> None:
        start, end = await self._topic.bounds(partition)
        position = max(start, self._positions.get(partition, start))
        while position < end:
            batch = await self._topic.read(partition, position)
            for offset, value in batch.records:
                self._apply(f"{REMOTE_LOG_METADATA_TOPIC}-{partition} offset {offset}", value)
            if batch.next_offset <= position:
                raise RemoteLogMetadataError(f"partition {partition} gives nothing at offset {position} of {end}")
            position = self._positions[partition] = batch.next_offset

    def _apply(self, where: str, value: bytes) -> None:
        try:
            event = decode_event(value)
            partition = partition_of(event)
            self._ledgers.setdefault(partition, RemoteLogLedger(partition)).apply(event)
        except (MetadataRecordError, IllegalTransitionError) as error:
            _log.debug("skipping %s: %s", where, error)

    async def _find_topic(self) -> ClusterImage:
        """The brokers, and the leaders of the metadata topic, asked of the first broker that answers."""
        request = metadata_of([REMOTE_LOG_METADATA_TOPIC])
        failures = []
        for address in self._bootstrap:
            try:
                response = await self._client.send(address, request, timeout_s=REQUEST_TIMEOUT_S)
                return _image_of(response)
            except OUTSIDE as error:
                failures.append(str(error))
        reasons = "; ".join(failures)
        raise MetadataUnavailableError(f"no broker knows {REMOTE_LOG_METADATA_TOPIC}: {reasons}")

    def _make_client(self) -> KafkaClient:
        return make_client(CLIENT_ID)


def _image_of(response: MetadataResponse) -> ClusterImage:
    (topic,) = response.topics
    if topic.error_code is not ErrorCode.none:
        raise KafkaError(topic.error_code, f"the cluster has no topic {topic.name} that could be read")
    partitions = {
        partition.partition_index: PartitionRegistration(
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=-1,
            replicas=tuple(partition.replica_nodes),
            isr=tuple(partition.isr_nodes),
        )
        for partition in topic.partitions
    }
    image = TopicImage(REMOTE_LOG_METADATA_TOPIC, topic.topic_id or NO_TOPIC_ID, {}, partitions)
    return ClusterImage(
        cluster_id=response.cluster_id or "",
        brokers={
            broker.node_id: BrokerRegistration(broker.node_id, broker.host, broker.port) for broker in response.brokers
        },
        topics={image.name: image},
        broker_configs={},
    )
