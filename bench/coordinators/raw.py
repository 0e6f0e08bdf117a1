"""What benchmarks of coordinators ask of a cluster by protocol: features, topics, coordinators, records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

from tierfetch.protocol import ErrorCode, KafkaError
from tierfetch.protocol.fetch.messages import FetchPartition, FetchRequest, FetchTopic
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.cluster import ApiVersionsRequest, FeatureUpdateKey, UpdateFeaturesRequest
from tierfetch.protocol.messages.groups import FindCoordinatorRequest
from tierfetch.protocol.net import Address, ClientLimits, KafkaClient
from tierfetch.protocol.requests import metadata_of

from ..systems import Cluster

ANSWER_TIMEOUT_S: Final = 330.0
"""A JoinGroup is answered after the rebalance timeout at the latest."""
RETRY_S: Final = 0.02
BY_NAME_MAX: Final = 9
"""The last version of requests for offsets that names topics."""
FEATURES: Final[Mapping[str, int]] = {"transaction.version": 2, "group.version": 1, "share.version": 1}
STATE_TOPICS: Final[Mapping[str, str]] = {
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""The topics of coordinators, alike in both systems."""
_NOT_NOW: Final = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    }
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that does not change: the addresses that lead its partitions, by number."""

    name: str
    topic_id: UUID
    leaders: tuple[Address, ...]

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(range(len(self.leaders)))


def new_client() -> KafkaClient:
    limits = ClientLimits(request_timeout_s=ANSWER_TIMEOUT_S, connect_timeout_s=60.0)
    return KafkaClient(client_id="bench", random=Random(), limits=limits)


def bootstrap_of(cluster: Cluster) -> Address:
    return Address.parse(cluster.bootstrap_servers.split(",")[0])


def raise_features(cluster: Cluster) -> None:
    """Let a cluster offer all that clients of today may use; what is offered already is left."""
    asyncio.run(_raise_features(bootstrap_of(cluster)))


async def _raise_features(bootstrap: Address) -> None:
    client = new_client()
    try:
        answer = await client.send(
            bootstrap, ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        )
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        updates = tuple(
            FeatureUpdateKey(feature=name, max_version_level=level)
            for name, level in FEATURES.items()
            if levels.get(name, 0) < level
        )
        if updates:
            updated = await client.send(bootstrap, UpdateFeaturesRequest(feature_updates=updates))
            if updated.error_code is not ErrorCode.none:
                raise KafkaError(updated.error_code, str(updated.error_message))
    finally:
        await client.close()


async def topic_of(client: KafkaClient, bootstrap: Address, name: str) -> Topic:
    """Return what a consumer knows of a topic, once each partition has a leader."""
    for _ in range(round(ANSWER_TIMEOUT_S / RETRY_S)):
        answer = await client.send(bootstrap, metadata_of([name]))
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        (topic,) = answer.topics
        leaders = [partition.leader_id for partition in sorted(topic.partitions, key=lambda each: each.partition_index)]
        if topic.topic_id is not None and leaders and all(leader in brokers for leader in leaders):
            return Topic(name, topic.topic_id, tuple(brokers[leader] for leader in leaders))
        await asyncio.sleep(RETRY_S)
    raise TimeoutError(f"topic {name!r} has partitions without a leader")


class Coordinator:
    """The coordinator of one group, looked for when it is needed, and again after it has changed."""

    def __init__(self, client: KafkaClient, bootstrap: Address, group_id: str) -> None:
        self.client = client
        self.group_id = group_id
        self._bootstrap = bootstrap
        self._address: Address | None = None

    async def address(self) -> Address:
        """Wait for one as long as it takes."""
        while self._address is None:
            request = FindCoordinatorRequest(coordinator_keys=(self.group_id,))
            answer = await self.client.send(self._bootstrap, request)
            (found,) = answer.coordinators
            if found.error_code is ErrorCode.none:
                self._address = Address(found.host, found.port)
            else:
                await asyncio.sleep(RETRY_S)
        return self._address

    async def ask(self, request: Request[ResponseT], *, max_version: int | None = None) -> ResponseT:
        return await self.client.send(await self.address(), request, max_version=max_version)

    async def has_moved(self, error: ErrorCode) -> bool:
        """Return whether the error is one after which the request is sent again, to the coordinator of then."""
        if error not in _NOT_NOW:
            return False
        self._address = None
        await asyncio.sleep(RETRY_S)
        return True


async def read_first(client: KafkaClient, topic: Topic, numbers: Iterable[int]) -> None:
    """Return once a record of each partition was read."""
    left = set(numbers)
    while left:
        by_leader: dict[Address, list[int]] = {}
        for number in sorted(left):
            by_leader.setdefault(topic.leaders[number], []).append(number)
        for leader, some in by_leader.items():
            left -= await _read_from(client, leader, topic, some)


async def _read_from(client: KafkaClient, leader: Address, topic: Topic, numbers: Iterable[int]) -> set[int]:
    """Return those of the partitions of which records came."""
    partitions = tuple(FetchPartition(number, partition_max_bytes=1024) for number in numbers)
    asked = FetchTopic(partitions, topic=topic.name, topic_id=topic.topic_id)
    connection = await client.connection(leader)
    answer = await connection.fetch(FetchRequest(max_wait_ms=100, min_bytes=1, topics=(asked,), isolation_level=1))
    return {each.partition for found in answer.topics for each in found.partitions if each.records}
