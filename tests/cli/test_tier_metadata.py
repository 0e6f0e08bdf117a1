"""Remote log metadata read through brokers, and a tier verified while it is in use."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from tierfetch.cli.tier import ledgers as ledgers_module
from tierfetch.cli.tier.ledgers import MetadataTopicLedgers, MetadataUnavailableError
from tierfetch.cli.tier.verify import Audits, surveyed, verify
from tierfetch.log.core import EpochEntry
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch.messages import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from tierfetch.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tierfetch.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tierfetch.protocol.net.client import Address
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.server import Server
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.topics import REMOTE_LOG_METADATA_TOPIC, TopicIdPartition
from tierfetch.remote import IndexType, RemoteStorageError
from tierfetch.remote.audit import AuditReport
from tierfetch.remote.core import (
    FindingKind,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from tierfetch.remote.core.records import encode_event
from tierfetch.remote.core.segment import RemoteLogEvent
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.protocol.wire_fakes import HOST, serving

PARTITION = TopicIdPartition(uuid.UUID(int=5), "t", 0)
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
EPOCHS = b"0\n1\n0 0\n"


def segment(number: int) -> RemoteLogSegmentMetadata:
    """Segments of ten offsets, one after the other."""
    start = number * 10
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(PARTITION, uuid.UUID(int=number + 1)),
        start_offset=start,
        end_offset=start + 9,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=1,
        segment_size_in_bytes=3,
        segment_leader_epochs=(EpochEntry(0, start),),
        txn_index_empty=True,
    )


def update(metadata: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(metadata.segment_id, state, 2, 1)


class MetadataCluster:
    """One broker with `__remote_log_metadata` in two partitions; a record is a batch."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {0: [], 1: []}
        self.error = ErrorCode.none
        self.not_leader_answers = 0
        self.is_silent = False
        self.fetches: list[tuple[int, int]] = []
        self.server: Server | None = None

    @property
    def handlers(self) -> dict[int, Any]:
        return {ApiKey.METADATA: self.metadata, ApiKey.LIST_OFFSETS: self.list_offsets, ApiKey.FETCH: self.fetch}

    @property
    def address(self) -> Address:
        assert self.server is not None
        return Address(HOST, self.server.port)

    def write(self, partition: int, *events: RemoteLogEvent) -> None:
        self.values[partition] += [encode_event(event) for event in events]

    async def metadata(self, _: RequestContext, request: MetadataRequest) -> MetadataResponse:
        assert request.topics is not None
        (asked,) = request.topics
        assert asked.name == REMOTE_LOG_METADATA_TOPIC
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=(1,), isr_nodes=(1,)
            )
            for number in self.values
        )
        topic = MetadataResponseTopic(
            error_code=self.error, name=asked.name, topic_id=uuid.UUID(int=9), partitions=partitions
        )
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host=HOST, port=self.address.port),),
            cluster_id="c",
            controller_id=1,
            topics=(topic,),
        )

    async def list_offsets(self, _: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        offset = 0 if asked.timestamp == -2 else len(self.values[asked.partition_index])
        code = ErrorCode.none
        if self.not_leader_answers:
            self.not_leader_answers -= 1
            code = ErrorCode.not_leader_or_follower
        answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code, offset=offset)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=topic.name, partitions=(answer,)),))

    async def fetch(self, _: RequestContext, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        self.fetches.append((asked.partition, asked.fetch_offset))
        value = self.values[asked.partition][asked.fetch_offset]
        if self.is_silent:
            return FetchResponse(
                topics=(FetchTopicResponse((FetchPartitionResponse(asked.partition),), topic.topic, topic.topic_id),)
            )
        batch = build_batch([Record(asked.fetch_offset, 0, None, value, ())], base_offset=asked.fetch_offset)
        answer = FetchPartitionResponse(asked.partition, records=batch)
        return FetchResponse(topics=(FetchTopicResponse((answer,), topic.topic, topic.topic_id),))


@pytest.fixture
async def cluster() -> AsyncIterator[MetadataCluster]:
    cluster = MetadataCluster()
    async with serving(cluster.handlers) as server:
        cluster.server = server
        yield cluster


@pytest.fixture
async def source(cluster: MetadataCluster) -> AsyncIterator[MetadataTopicLedgers]:
    source = MetadataTopicLedgers([Address(HOST, 1), cluster.address])
    yield source
    await source.close()


async def test_all_partitions_are_read_and_then_read_on(cluster: MetadataCluster, source: MetadataTopicLedgers) -> None:
    other = TopicIdPartition(uuid.UUID(int=6), "u", 3)
    of_other = replace(segment(0), segment_id=RemoteLogSegmentId(other, uuid.UUID(int=77)))
    cluster.write(0, segment(0), update(segment(0), FINISHED))
    cluster.write(1, of_other)
    found = await source.read_on()
    assert sorted(found) == [PARTITION, other]
    assert [metadata.start_offset for metadata in found[PARTITION].finished()] == [0]
    assert found[other].finished() == []
    cluster.write(0, update(segment(0), DELETING))
    again = await source.read_on()
    assert again[PARTITION].finished() == []
    assert cluster.fetches == [(0, 0), (0, 1), (1, 0), (0, 2)]


async def test_what_no_broker_understands_is_passed_over(
    cluster: MetadataCluster, source: MetadataTopicLedgers
) -> None:
    cluster.values[0] = [b"nonsense", b"\x01\x63\x00"]
    cluster.write(0, update(segment(3), FINISHED), segment(0))
    found = await source.read_on()
    assert [metadata.start_offset for metadata in found[PARTITION].segments()] == [0]


async def test_a_leader_that_has_moved_is_looked_up_again(
    cluster: MetadataCluster, source: MetadataTopicLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers_module, "BACKOFF_MS", 1)
    cluster.write(0, segment(0))
    cluster.not_leader_answers = 2
    assert len((await source.read_on())[PARTITION]) == 1


async def test_it_gives_up_after_a_while(
    cluster: MetadataCluster, source: MetadataTopicLedgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers_module, "RETRY_FOR_S", 0.0)
    cluster.not_leader_answers = 1
    with pytest.raises(MetadataUnavailableError, match="NOT_LEADER_OR_FOLLOWER"):
        await source.read_on()
    cluster.write(1, segment(0))
    cluster.is_silent = True
    with pytest.raises(MetadataUnavailableError, match="partition 1 gives nothing at offset 0 of 1"):
        await source.read_on()


async def test_a_cluster_without_metadata(cluster: MetadataCluster, source: MetadataTopicLedgers) -> None:
    cluster.error = ErrorCode.unknown_topic_or_partition
    with pytest.raises(MetadataUnavailableError, match=r"cannot be reached.*has no topic __remote_log_metadata"):
        await source.read_on()


class Tier(MemoryRemoteStorage):
    """Three segments of which the metadata knows. `meanwhile` is done when it was listed for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] = lambda: None
        for number in range(3):
            self.store(number)

    def store(self, number: int) -> None:
        indexes = dict.fromkeys(IndexType, b"") | {IndexType.LEADER_EPOCH: EPOCHS}
        del indexes[IndexType.TRANSACTION]
        self.put(segment(number), b"log", indexes)

    def remove(self, number: int) -> None:
        for key in [key for key in self.objects if key[0] == segment(number).segment_id]:
            del self.objects[key]

    async def list_objects(self, partition: TopicIdPartition):
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        async for listed in super().list_objects(partition):
            yield listed

    async def list_partitions(self) -> AsyncIterator[TopicIdPartition]:
        for partition in sorted({key[0].topic_id_partition for key in self.objects}):
            yield partition


class Events:
    """A source of ledgers: `coming` is what has been written when it is read on."""

    def __init__(self) -> None:
        self.coming: list[RemoteLogEvent] = []
        self._ledger = RemoteLogLedger(PARTITION)
        for number in range(3):
            self.coming += [segment(number), update(segment(number), FINISHED)]

    async def read_on(self) -> Mapping[TopicIdPartition, RemoteLogLedger]:
        while self.coming:
            self._ledger.apply(self.coming.pop(0))
        return {PARTITION: self._ledger}


async def verified(tier: Tier, events: Events, *, deep: bool = False, topics: tuple[str, ...] = ()) -> AuditReport:
    audits = Audits(
        storage=tier, topics=topics, deep=deep, now_ms=3, on_plan=lambda total: None, on_read=lambda count: None
    )
    reports = await verify(audits, cast(MetadataTopicLedgers, events))
    return reports[PARTITION]


def kinds(report: AuditReport) -> list[FindingKind]:
    return [finding.kind for finding in report.findings]


async def test_what_is_copied_meanwhile_is_no_orphan() -> None:
    tier, events = Tier(), Events()

    def copy() -> None:
        tier.store(3)
        events.coming += [segment(3)]

    tier.meanwhile = copy
    assert kinds(await verified(tier, events)) == []


async def test_what_is_deleted_meanwhile_is_not_missing() -> None:
    tier, events = Tier(), Events()

    def delete() -> None:
        tier.remove(0)
        events.coming += [update(segment(0), DELETING)]

    tier.meanwhile = delete
    assert kinds(await verified(tier, events)) == []


async def test_what_stays_is_found() -> None:
    tier = Tier()
    tier.remove(1)
    tier.store(5)
    report = await verified(tier, Events())
    assert sorted({kind.value for kind in kinds(report)}) == ["missing", "orphan"]


async def test_what_is_corrupt_is_found_unless_it_is_gone() -> None:
    tier, events = Tier(), Events()
    assert set(kinds(await verified(tier, events, deep=True))) == {FindingKind.CORRUPT}
    tier, events = Tier(), Events()
    tier.meanwhile = lambda: events.coming.extend(update(segment(number), DELETING) for number in range(3))
    assert kinds(await verified(tier, events, deep=True)) == []


async def test_partitions_of_which_only_objects_are_left() -> None:
    tier = Tier()
    stray = TopicIdPartition(uuid.UUID(int=8), "gone", 0)
    tier.objects[RemoteLogSegmentId(stray, uuid.UUID(int=1)), None] = b"log"
    audits = Audits(
        storage=tier, topics=(), deep=False, now_ms=3, on_plan=lambda total: None, on_read=lambda count: None
    )
    reports = await verify(audits, cast(MetadataTopicLedgers, Events()))
    assert {partition: kinds(report) for partition, report in reports.items()} == {
        PARTITION: [],
        stray: [FindingKind.ORPHAN],
    }
    chosen = await verify(replace(audits, topics=("t",)), cast(MetadataTopicLedgers, Events()))
    assert list(chosen) == [PARTITION]


async def test_a_plugin_that_does_not_list_partitions_needs_the_metadata() -> None:
    """Nothing found must not look like nothing wrong."""
    with pytest.raises(RemoteStorageError, match="MemoryRemoteStorage cannot list partitions"):
        await surveyed(MemoryRemoteStorage(), ())
