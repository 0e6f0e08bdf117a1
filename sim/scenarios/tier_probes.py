"""What consumers get of a tier that is slow and nothing else: probes of a cluster that has converged.

| anomaly              | what is asked                                           | found when                          |
|----------------------|---------------------------------------------------------|-------------------------------------|
| waits for the tier   | one Fetch of partitions in the tier and of a local one  | the local records take longer than  |
|                      |                                                         | `LOCAL_S`, or are not in the answer |
| tier in series       | one Fetch of several partitions in the tier             | it takes longer than its wait and   |
|                      |                                                         | `remote.fetch.max.wait.ms`          |
| stuck in a slow tier | all of a partition, read committed                      | it takes more delays than the       |
|                      |                                                         | segments explain                    |

While other faults last the same is promised, but what a fetch waits for is hard to see from outside then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final
from uuid import UUID

from ...broker import Broker
from ...broker.cluster import ClusterImage
from ...light_dataclass import dataclass
from ...protocol import TopicIdPartition, TopicPartition
from ...protocol.fetch import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from ...protocol.net import Address, KafkaClient
from ..judges.core.acknowledged_writes import Anomaly
from ..machine.objects import SimObjectStore

SLOW_S: Final = (0.8, 1.5)
"""Most calls take longer than `remote.fetch.max.wait.ms`, which is 500 ms."""
LOCAL_S: Final = 0.1
FETCH_WAIT_S: Final = 0.3
REMOTE_WAIT_S: Final = 0.5
SLACK_S: Final = 0.3
DELAYS_PER_SEGMENT: Final = 6
"""Reads of the segment itself, its indexes and its producers, some one after the other."""
READ_S: Final = 10.0
BYTES_MAX: Final = 64 * 1024
TIMEOUT_S: Final = 20.0

ReadStable = Callable[[TopicPartition, float], Awaitable[bool]]
"""Read a partition to its end, read committed, within a time: whether that was enough."""


@dataclass(frozen=True, slots=True)
class _Asked:
    partition: TopicIdPartition
    offset: int


class TierProbes:
    """Each of them makes the store slow for as long as it takes."""

    def __init__(
        self,
        store: SimObjectStore,
        rng: Random,
        *,
        image: Callable[[], ClusterImage],
        brokers: Callable[[], Mapping[int, Broker | None]],
        read_stable: ReadStable,
    ) -> None:
        self._store = store
        self._rng = rng
        self._image = image
        self._brokers = brokers
        self._read_stable = read_stable
        self._client = KafkaClient(client_id="probe", random=rng)

    async def fetches(self) -> list[Anomaly]:
        """Check the first two rows, of each broker."""
        found: list[Anomaly] = []
        async with self._slow():
            for broker_id, broker in sorted(self._brokers().items()):
                if broker is not None:
                    found += await self._fetch(broker_id, broker)
        await self._client.close()
        return found

    async def committed(self, partitions: Sequence[TopicPartition]) -> list[Anomaly]:
        """Check the last row."""
        found: list[Anomaly] = []
        async with self._slow() as slow_s:
            for partition in partitions:
                segments = sum(f"{partition}" in key and key.endswith(".log") for key in self._store.objects)
                within_s = READ_S + segments * DELAYS_PER_SEGMENT * (slow_s + REMOTE_WAIT_S)
                if not await self._read_stable(partition, within_s):
                    detail = f"read-committed readers do not come to its end in {within_s:.0f} s, calls take {slow_s} s"
                    found.append(Anomaly("stuck in a slow tier", str(partition), detail))
        return found

    @asynccontextmanager
    async def _slow(self) -> AsyncIterator[float]:
        self._store.faults.slow_s = self._rng.choice(SLOW_S)
        try:
            yield self._store.faults.slow_s
        finally:
            self._store.faults.slow_s = 0.0

    async def _fetch(self, broker_id: int, broker: Broker) -> list[Anomaly]:
        tiered, local = self._led(broker_id, broker)
        found: list[Anomaly] = []
        if tiered and local:
            took_s, answers = await self._ask(broker_id, [*tiered, local])
            own = answers.get((local.partition.topic_id, local.partition.partition))
            if took_s > LOCAL_S or own is None or not own.records:
                detail = f"a fetch of it and of {len(tiered)} in the tier from {broker_id} took {took_s:.3f} s"
                found.append(Anomaly("waits for the tier", str(local.partition.topic_partition), detail))
        if tiered:
            took_s, _ = await self._ask(broker_id, tiered)
            if took_s > FETCH_WAIT_S + REMOTE_WAIT_S + SLACK_S:
                detail = f"a fetch of {len(tiered)} partitions from {broker_id} took {took_s:.3f} s"
                found.append(Anomaly("tier in series", str(tiered[0].partition.topic_partition), detail))
        return found

    def _led(self, broker_id: int, broker: Broker) -> tuple[list[_Asked], _Asked | None]:
        """Return what it leads that begins in the tier, and another partition at the end of its local log."""
        tiered: list[_Asked] = []
        local: list[_Asked] = []
        for _, topic in sorted(self._image().topics.items()):
            for number, registration in sorted(topic.partitions.items()):
                hosted = broker.hosted.partitions.get(TopicPartition(topic.name, number))
                if hosted is None or registration.leader != broker_id:
                    continue
                name, log = topic.id_partition(number), hosted.log.state
                if log.offsets.local_log_start_offset < log.high_watermark:
                    local.append(_Asked(name, log.high_watermark - 1))
                if log.log_start_offset < log.offsets.local_log_start_offset:
                    tiered.append(_Asked(name, log.log_start_offset))
        if not local:
            return tiered, None
        chosen = self._rng.choice(local)
        return [each for each in tiered if each.partition != chosen.partition], chosen

    async def _ask(
        self, broker_id: int, asked: Sequence[_Asked]
    ) -> tuple[float, dict[tuple[UUID | None, int], FetchPartitionResponse]]:
        """Return how long it took, and the answers by topic id and partition."""
        loop = asyncio.get_running_loop()
        broker = self._image().brokers[broker_id]
        topics = tuple(
            FetchTopic(
                (FetchPartition(each.partition.partition, fetch_offset=each.offset, partition_max_bytes=BYTES_MAX),),
                each.partition.topic,
                each.partition.topic_id,
            )
            for each in asked
        )
        request = FetchRequest(
            max_wait_ms=int(FETCH_WAIT_S * 1000), min_bytes=1, max_bytes=len(asked) * BYTES_MAX, topics=topics
        )
        await self._client.connection(Address(broker.host, broker.port))
        began_s = loop.time()
        response = await self._client.send(Address(broker.host, broker.port), request, timeout_s=TIMEOUT_S)
        took_s = loop.time() - began_s
        answers = {(topic.topic_id, each.partition): each for topic in response.topics for each in topic.partitions}
        return took_s, answers
