"""A cluster that exists only as answers: what the capture's questions get, and how it changes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID, uuid4

from tierfetch.cli.cluster_session import Cluster, ListedTopic
from tierfetch.cli.tier.ledgers import MetadataUnavailableError
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.messages.cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
    MetadataResponsePartition,
)
from tierfetch.protocol.messages.configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tierfetch.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tierfetch.protocol.messages.topics import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote.core import (
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

Key = tuple[str, int]
FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING: Final = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


@dataclass
class FakePartition:
    leader: int = 1
    replicas: tuple[int, ...] = (1, 2)
    isr: tuple[int, ...] = (1, 2)
    offsets: dict[int, int] = field(default_factory=lambda: {-1: 1000, -2: 0, -4: 0, -5: -1, -6: 0})
    sizes: dict[int, int] = field(default_factory=lambda: {1: 100_000, 2: 100_000})


@dataclass
class FakeLedgers:
    """A `LedgerSource`. A copy that is not finished, and one that is being deleted, are in every ledger too."""

    cluster: FakeCluster
    brokers: list[int]
    is_closed: bool = False

    async def close(self) -> None:
        self.is_closed = True

    async def read_on(self) -> dict[TopicIdPartition, RemoteLogLedger]:
        if self.cluster.unreadable:
            raise MetadataUnavailableError(self.cluster.unreadable)
        found: dict[TopicIdPartition, RemoteLogLedger] = {}
        for topic_id, (topic, index), first, last, size in self.cluster.segments:
            partition = TopicIdPartition(topic_id, topic, index)
            ledger = found.setdefault(partition, RemoteLogLedger(partition))
            for states in ((FINISHED,), (), (FINISHED, DELETING)):
                copied = _started(partition, first, last, size)
                ledger.apply(copied)
                for state in states:
                    ledger.apply(RemoteLogSegmentMetadataUpdate(copied.segment_id, state, 2, 1))
        return found


def _started(partition: TopicIdPartition, first: int, last: int, size: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, uuid4()),
        start_offset=first,
        end_offset=last,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=1,
        segment_size_in_bytes=size,
        segment_leader_epochs=(EpochEntry(0, first),),
        txn_index_empty=True,
    )


@dataclass
class FakeCluster:
    """An `Asker`. `before_answer` is called with each request, and may change anything."""

    partitions: dict[Key, FakePartition]
    brokers: tuple[int, ...] = (1, 2)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    unsupported: set[int] = field(default_factory=set)
    moving: list[Key] = field(default_factory=list)
    fenced: tuple[int, ...] = ()
    total_bytes: int = 10**12
    before_answer: Callable[[FakeCluster, ApiKey, Any], None] = lambda cluster, api, body: None
    asked: list[ApiKey] = field(default_factory=list)
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    segments: list[tuple[UUID, Key, int, int, int]] = field(default_factory=list)
    """Topic id, topic and partition, first and last offset, bytes: what the remote log metadata have as finished."""
    unreadable: str = ""
    """Why the remote log metadata cannot be read."""
    readers: list[FakeLedgers] = field(default_factory=list)

    def ledgers(self, brokers: Sequence[Address]) -> FakeLedgers:
        self.readers.append(FakeLedgers(self, [broker.port for broker in brokers]))
        return self.readers[-1]

    async def send(self, request: Request[ResponseT]) -> ResponseT:
        return await self.send_to(Address("broker", self.brokers[0]), request)

    async def send_to(self, address: Address, request: Request[ResponseT]) -> ResponseT:
        response: ResponseT = self._answer(address, ApiKey(request.api_key), request)
        return response

    async def cluster(self, topics: Sequence[str] | None = None) -> Cluster:
        self._note(ApiKey.METADATA, None)
        by_topic: dict[str, list[MetadataResponsePartition]] = {}
        for (name, index), part in sorted(self.partitions.items()):
            by_topic.setdefault(name, []).append(
                MetadataResponsePartition(
                    partition_index=index, leader_id=part.leader, replica_nodes=part.replicas, isr_nodes=part.isr
                )
            )
        return Cluster(
            brokers={broker: Address("broker", broker) for broker in self.brokers},
            racks={broker: f"rack-{broker}" for broker in self.brokers},
            topics=tuple(ListedTopic(name, None, tuple(parts)) for name, parts in by_topic.items()),
            topic_ids=self.topic_ids,
        )

    def _answer(self, address: Address, api: ApiKey, body: Any) -> Any:
        self._note(api, body)
        broker = address.port
        if broker in self.silent:
            raise ConnectionRefusedError(f"{address} refuses")
        match api:
            case ApiKey.LIST_OFFSETS:
                return ListOffsetsResponse(topics=tuple(self._offsets(broker, topic) for topic in body.topics))
            case ApiKey.DESCRIBE_LOG_DIRS:
                return DescribeLogDirsResponse(results=(self._log_dir(broker),))
            case ApiKey.DESCRIBE_CONFIGS:
                return DescribeConfigsResponse(results=tuple(self._configs(each) for each in body.resources))
            case ApiKey.DESCRIBE_CLUSTER:
                registered = (*self.brokers, *(self.fenced if body.include_fenced_brokers else ()))
                described = [
                    DescribeClusterBroker(broker_id=each, host="broker", port=each, rack=f"rack-{each}")
                    for each in registered
                ]
                return DescribeClusterResponse(cluster_id="c", brokers=tuple(described))
            case ApiKey.LIST_PARTITION_REASSIGNMENTS:
                parts = tuple(
                    OngoingTopicReassignment(
                        name=topic, partitions=(OngoingPartitionReassignment(partition_index=index),)
                    )
                    for topic, index in self.moving
                )
                return ListPartitionReassignmentsResponse(error_message=None, topics=parts)
        raise KafkaError(ErrorCode.unsupported_version, api.name)

    def _note(self, api: ApiKey, body: Any) -> None:
        self.asked.append(api)
        self.before_answer(self, api, body)

    def _offsets(self, broker: int, topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        parts = []
        for asked in topic.partitions:
            index, timestamp = asked.partition_index, asked.timestamp
            part = self.partitions.get((topic.name, index))
            if part is None:
                code = ErrorCode.unknown_topic_or_partition
            elif part.leader != broker:
                code = ErrorCode.not_leader_or_follower
            else:
                code = ErrorCode.unsupported_version if timestamp in self.unsupported else ErrorCode.none
            offset = part.offsets.get(timestamp, -1) if part is not None and code is ErrorCode.none else -1
            parts.append(ListOffsetsPartitionResponse(partition_index=index, error_code=code, offset=offset))
        return ListOffsetsTopicResponse(name=topic.name, partitions=tuple(parts))

    def _log_dir(self, broker: int) -> DescribeLogDirsResult:
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for (name, index), part in self.partitions.items():
            if broker in part.sizes:
                topics.setdefault(name, []).append(
                    DescribeLogDirsPartition(
                        partition_index=index, partition_size=part.sizes[broker], offset_lag=0, is_future_key=False
                    )
                )
        return DescribeLogDirsResult(
            log_dir="/data",
            total_bytes=self.total_bytes,
            topics=tuple(DescribeLogDirsTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items()),
        )

    def _configs(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        name = resource.resource_name
        found = self.topic_configs.get(name, {}) if resource.resource_type == 2 else self.broker_configs
        return DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=name,
            configs=tuple(
                DescribeConfigsResourceResult(name=key, value=value, read_only=False, is_sensitive=False, synonyms=())
                for key, value in found.items()
            ),
        )
