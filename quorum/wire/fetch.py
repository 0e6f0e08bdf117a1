"""Fetch and FetchSnapshot of the metadata log, to and from the wire.

Fetch names the topic by its id, which needs version 13; older ones name it, and are answered so. A response's records
are a slice of the log that the server sends, a received one's are views of the frame; batches are checked here, before
anything of them reaches the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol, TypeVar
from uuid import UUID

from ...fetcher.core import DivergingEpoch
from ...protocol import METADATA_TOPIC_ID, ErrorCode, KafkaError
from ...protocol.fetch import (
    HIGH_WATERMARK_UNKNOWN,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchTopic,
    FetchTopicResponse,
    SnapshotId,
)
from ...protocol.fetch import FetchRequest as WireFetchRequest
from ...protocol.fetch import FetchResponse as WireFetchResponse
from ...protocol.messages import quorum as kafka
from ...protocol.wire import LeaderIdAndEpoch, NodeEndpoint, Part
from ..core.messages import (
    NO_LEADER,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    SnapshotChunk,
)
from ..core.state import NO_DIRECTORY_ID, OffsetAndEpoch, ReplicaKey
from ..core.voters import VotersAt
from ..storage.control_batches import fetched_records
from ..storage.snapshot_file import FileChunk
from .messages import (
    PARTITION,
    REQUEST_ERRORS,
    TOPIC,
    directory,
    leader_endpoint,
    leader_id_of,
    leader_of,
    node_endpoints,
)

AnyTopic = TypeVar("AnyTopic", FetchTopic, FetchTopicResponse)


class _WithPartitions(Protocol):
    """A topic of a request or of a response."""

    @property
    def partitions(self) -> Sequence[object]: ...


MIN_BYTES: Final = 1
SHOWN_MAX: Final = 10
"""Topics and partitions; of more, only their number is shown."""
TEXT_MAX: Final = 200
"""Characters of what was asked for in place of the metadata log, in the refusal."""
REPEATED_MAX: Final = 64
"""Requests, and responses without records, that are kept: while nothing happens they are the same."""


# Fetch.


@lru_cache(REPEATED_MAX)
def fetch_request(request: FetchRequest) -> WireFetchRequest:
    """A replica of an idle quorum repeats its request: it gets the same one, which is written once."""
    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=HIGH_WATERMARK_UNKNOWN if request.high_watermark < 0 else request.high_watermark,
    )
    return WireFetchRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=MIN_BYTES,
        max_bytes=request.max_bytes,
        topics=(FetchTopic((partition,), topic_id=METADATA_TOPIC_ID),),
    )


def read_fetch_request(body: WireFetchRequest) -> FetchRequest:
    """INVALID_REQUEST unless it asks for the metadata log alone."""
    topic = _single(body.topics)
    if topic is None or not _is_metadata(topic):
        raise _not_single(ErrorCode.invalid_request, body.topics)
    partition = topic.partitions[0]
    told = partition.high_watermark
    return FetchRequest(
        cluster_id=body.cluster_id,
        replica=ReplicaKey(body.replica_id, partition.replica_directory_id or NO_DIRECTORY_ID),
        epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        max_wait_ms=max(body.max_wait_ms, 0),
        max_bytes=max(min(body.max_bytes, partition.partition_max_bytes), MIN_BYTES),
        high_watermark=-1 if told == HIGH_WATERMARK_UNKNOWN else told,
    )


def _single(topics: Sequence[AnyTopic]) -> AnyTopic | None:
    """The topic, if it is the only one, and partition 0 its only one."""
    if len(topics) != 1 or len(topics[0].partitions) != 1 or topics[0].partitions[0].partition != PARTITION:
        return None
    return topics[0]


def _not_single(code: ErrorCode, topics: Sequence[_WithPartitions]) -> KafkaError:
    """Return an error whose text is short, and quickly made, however much was asked for."""
    size = sum(1 + len(topic.partitions) for topic in topics)
    text = str(topics)[:TEXT_MAX] if size <= SHOWN_MAX else f"{len(topics)} topics"
    return KafkaError(code, f"expected {TOPIC}-{PARTITION} alone, found {text}")


def _is_metadata(topic: FetchTopic) -> bool:
    return topic.topic_id == METADATA_TOPIC_ID or (topic.topic_id is None and topic.topic == TOPIC)


def fetch_response(request: WireFetchRequest, response: FetchResponse, records: Part) -> WireFetchResponse:
    """`records`: what was read of the response's range, empty if there is none."""
    if response.error in REQUEST_ERRORS:
        return WireFetchResponse(topics=(), error_code=response.error)
    topic = request.topics[0]
    if isinstance(records, bytes) and not records:
        return _without_records(topic.topic, topic.topic_id, response)
    return _with_records(topic.topic, topic.topic_id, response, records)


@lru_cache(REPEATED_MAX)
def _without_records(topic: str, topic_id: UUID | None, response: FetchResponse) -> WireFetchResponse:
    return _with_records(topic, topic_id, response, b"")


def _with_records(topic: str, topic_id: UUID | None, response: FetchResponse, records: Part) -> WireFetchResponse:
    diverging, snapshot = response.diverging, response.snapshot_id
    partition = FetchPartitionResponse(
        PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        records=records,
        diverging_epoch=None if diverging is None else EpochEndOffset(diverging.epoch, diverging.end_offset),
        snapshot_id=None if snapshot is None else SnapshotId(snapshot.offset, snapshot.epoch),
        current_leader=LeaderIdAndEpoch(leader_id_of(response.leader), response.leader.epoch),
    )
    leader_id, at = response.leader.leader_id, response.leader_endpoint
    return WireFetchResponse(
        topics=(FetchTopicResponse((partition,), topic, topic_id),),
        node_endpoints=() if leader_id is None or at is None else (NodeEndpoint(leader_id, at.host, at.port),),
    )


def read_fetch_response(body: WireFetchResponse, before: VotersAt) -> FetchResponse:
    """`before`: the voters in effect at the log's end. CorruptRecordError, INVALID_REQUEST for what is no answer."""
    if body.error_code is not ErrorCode.none:
        return FetchResponse(error=body.error_code, leader=NO_LEADER)
    topic = _single(body.topics)
    if topic is None:
        raise _not_single(ErrorCode.invalid_request, body.topics)
    partition = topic.partitions[0]
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    for place in (diverging, snapshot):
        if place is not None and (place.epoch < 0 or place.end_offset < 0):
            raise KafkaError(ErrorCode.invalid_request, f"expected an epoch and an offset of 0 or more, found {place}")
    hint = partition.current_leader
    data = partition.records
    assert data is None or isinstance(data, bytes | bytearray | memoryview), data
    return FetchResponse(
        error=partition.error_code,
        leader=NO_LEADER if hint is None else leader_of(hint),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=None if diverging is None else DivergingEpoch(diverging.epoch, diverging.end_offset),
        snapshot_id=None if snapshot is None else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        records=fetched_records(data, before) if data else None,
        leader_endpoint=None if hint is None else leader_endpoint(body.node_endpoints, hint.leader_id),
    )


# FetchSnapshot.


def fetch_snapshot_request(request: FetchSnapshotRequest) -> kafka.FetchSnapshotRequest:
    snapshot = request.snapshot_id
    partition = kafka.FetchSnapshotRequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=kafka.FetchSnapshotRequestSnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return kafka.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=(kafka.FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=(partition,)),),
    )


def read_fetch_snapshot_request(body: kafka.FetchSnapshotRequest) -> FetchSnapshotRequest:
    found = [(topic.name, partition) for topic in body.topics for partition in topic.partitions]
    if len(found) != 1 or found[0][0] != TOPIC or found[0][1].partition != PARTITION:
        raise _not_single(ErrorCode.unknown_topic_or_partition, body.topics)
    partition = found[0][1]
    return FetchSnapshotRequest(
        cluster_id=body.cluster_id,
        replica=ReplicaKey(body.replica_id, directory(partition.replica_directory_id)),
        epoch=partition.current_leader_epoch,
        snapshot_id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=max(body.max_bytes, MIN_BYTES),
    )


def fetch_snapshot_response(
    response: FetchSnapshotResponse, asked: OffsetAndEpoch, chunk: FileChunk | None
) -> kafka.FetchSnapshotResponse:
    """`chunk`: what was read of the response's range, None with an error."""
    if response.error in REQUEST_ERRORS:
        return fetch_snapshot_error(response.error)
    leader = response.leader
    partition = kafka.FetchSnapshotResponsePartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=kafka.FetchSnapshotResponseSnapshotId(end_offset=asked.offset, epoch=asked.epoch),
        current_leader=kafka.FetchSnapshotResponseLeaderIdAndEpoch(
            leader_id=leader_id_of(leader), leader_epoch=leader.epoch
        ),
        size=0 if chunk is None else chunk.size,
        position=0 if chunk is None else chunk.position,
        unaligned_records=b"" if chunk is None else chunk.data,
    )
    return kafka.FetchSnapshotResponse(
        topics=(kafka.FetchSnapshotResponseTopicSnapshot(name=TOPIC, partitions=(partition,)),),
        node_endpoints=node_endpoints(kafka.FetchSnapshotResponseNodeEndpoint, leader, response.leader_endpoint),
    )


def fetch_snapshot_error(error: ErrorCode, _: str = "") -> kafka.FetchSnapshotResponse:
    return kafka.FetchSnapshotResponse(error_code=error, topics=())


def read_fetch_snapshot_response(body: kafka.FetchSnapshotResponse) -> FetchSnapshotResponse:
    if body.error_code is not ErrorCode.none:
        return FetchSnapshotResponse(error=body.error_code, leader=NO_LEADER)
    partitions = [partition for topic in body.topics for partition in topic.partitions]
    if len(partitions) != 1 or partitions[0].index != PARTITION:
        raise _not_single(ErrorCode.invalid_request, body.topics)
    partition = partitions[0]
    data = partition.unaligned_records
    is_chunk = partition.error_code is ErrorCode.none
    return FetchSnapshotResponse(
        error=partition.error_code,
        leader=leader_of(partition.current_leader),
        snapshot_id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        chunk=SnapshotChunk(data, partition.position, len(data), partition.size) if is_chunk else None,
        leader_endpoint=leader_endpoint(body.node_endpoints, partition.current_leader.leader_id),
    )
