"""Fetch requests and responses, versions 4-18, as one version-independent value each.

Record bytes are never copied: a response is written with the caller's buffers or slices of a file as parts of their
own, and a decoded one holds views of the buffer it was received in.

| since | request | response |
|---|---|---|
| 4 | isolation level | last stable offset, aborted transactions |
| 5 | follower's log start offset | log start offset |
| 7 | session id and epoch, forgotten topics (KIP-227) | error code, session id |
| 9 | current leader epoch (KIP-320) | |
| 11 | rack id (KIP-392) | preferred read replica |
| 12 | flexible; last fetched epoch, cluster id; local log start (ours) | flexible; diverging epoch, leader, snapshot |
| 13 | topic id in place of the name (KIP-516) | topic id in place of the name |
| 15 | replica id and epoch in a tagged field (KIP-903) | |
| 16 | | node endpoints (KIP-951) |
| 17 | replica directory id (KIP-853) | |
| 18 | the follower's high watermark (KIP-1166) | |

A field that a version lacks reads as its default and is left out when written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache, lru_cache
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from ..extensions import FIRST_TAG
from ..wire.leader_hints import (
    LeaderIdAndEpoch,
    end_with_endpoints,
    leader_field,
    read_leader,
    read_node_endpoints,
)
from ..wire.primitives import INT64, Reader, Writer, error_code
from ..wire.stepping import Steps, run_to_end, topic_steps
from .messages import (
    HIGH_WATERMARK_UNKNOWN,
    LOCAL_LOG_START_UNKNOWN,
    NO_READ_REPLICA,
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
    SnapshotId,
)

REQUEST_ENDS_MAX: Final = 256
"""Ends of requests that are kept, read and written: one for each fetcher."""
REQUEST_END_SIZE_MAX: Final = 256
"""A longer one is not kept."""
REPEATED_MAX: Final = 256
"""Requests, and responses, that are kept as they are read or written: whatever idles repeats the same."""
REPEATED_SIZE_MAX: Final = 512
"""A longer one is not kept."""

_LOG_START_OFFSET_SINCE: Final = 5
_SESSION_SINCE: Final = 7
RACK_SINCE: Final = 11
_CLUSTER_ID_SINCE: Final = 12
TOPIC_ID_SINCE: Final = 13
_REPLICA_STATE_SINCE: Final = 15
_NODE_ENDPOINTS_SINCE: Final = 16
_DIRECTORY_ID_SINCE: Final = 17
_HIGH_WATERMARK_SINCE: Final = 18

_CLUSTER_ID_TAG: Final = 0
_REPLICA_STATE_TAG: Final = 1
_DIRECTORY_ID_TAG: Final = 0
_HIGH_WATERMARK_TAG: Final = 1
_LOCAL_LOG_START_TAG: Final = FIRST_TAG
_DIVERGING_EPOCH_TAG: Final = 0
_CURRENT_LEADER_TAG: Final = 1
_SNAPSHOT_ID_TAG: Final = 2

_LIMITS = struct.Struct(">iiib")
_LIMITS_AND_SESSION = struct.Struct(">iiibii")
_REPLICA_STATE = struct.Struct(">iq")
_EPOCH_AND_OFFSET = struct.Struct(">iq")
_OFFSET_AND_EPOCH = struct.Struct(">qi")
_ABORTED = struct.Struct(">qq")
_THROTTLE_ERROR_SESSION = struct.Struct(">ihi")
_FLEXIBLE_ANSWER = struct.Struct(">ihqqqBi")
"""A partition's answer in a flexible version, up to the preferred replica, if the array of aborted transactions before
that is null: one byte, and 0."""
_FLEXIBLE_ANSWER_TAIL_SIZE: Final = 5
"""That array and the preferred replica."""


# The fixed-size fields of a partition follow each other in every version, so they are one struct.


class _Layout(NamedTuple):
    """`is_whole`: no field of the newest version is missing."""

    names: tuple[str, ...]
    struct: struct.Struct
    values_of: attrgetter[tuple[int, ...]]
    is_whole: bool


def _layout(*, is_whole: bool = False, **fields: str) -> _Layout:
    return _Layout(tuple(fields), struct.Struct(">" + "".join(fields.values())), attrgetter(*fields), is_whole)


_PARTITION_LAYOUTS: Final = (
    (12, _layout(is_whole=True, partition="i", current_leader_epoch="i", fetch_offset="q", last_fetched_epoch="i",
                 log_start_offset="q", partition_max_bytes="i")),
    (9, _layout(partition="i", current_leader_epoch="i", fetch_offset="q", log_start_offset="q",
                partition_max_bytes="i")),
    (5, _layout(partition="i", fetch_offset="q", log_start_offset="q", partition_max_bytes="i")),
    (4, _layout(partition="i", fetch_offset="q", partition_max_bytes="i")),
)  # fmt: skip
_RESPONSE_LAYOUTS: Final = (
    (5, _layout(partition="i", error_code="h", high_watermark="q", last_stable_offset="q", log_start_offset="q")),
    (4, _layout(partition="i", error_code="h", high_watermark="q", last_stable_offset="q")),
)


def _layout_of(layouts: tuple[tuple[int, _Layout], ...], version: int) -> _Layout:
    return next(layout for since, layout in layouts if version >= since)


@cache
def _partition_layout(version: int) -> _Layout:
    return _layout_of(_PARTITION_LAYOUTS, version)


@cache
def _response_layout(version: int) -> _Layout:
    return _layout_of(_RESPONSE_LAYOUTS, version)


# Requests.


def read_request(reader: Reader, version: int) -> FetchRequest:
    return run_to_end(request_steps(reader, version))


def request_steps(reader: Reader, version: int) -> Steps[FetchRequest]:
    is_old = version < _REPLICA_STATE_SINCE
    replica_id = reader.int32() if is_old else -1
    session_id, session_epoch = 0, -1
    if version >= _SESSION_SINCE:
        limits_and_session = reader.unpack(_LIMITS_AND_SESSION)
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = limits_and_session
    else:
        max_wait_ms, min_bytes, max_bytes, isolation_level = reader.unpack(_LIMITS)
    if session_id == 0 and reader.remaining <= REPEATED_SIZE_MAX:
        data = bytes(reader.data[reader.position :])
        rest, size, elements = _read_repeated_request(data, version, reader.flexible)
        reader.position += size
        reader.elements += elements
    else:
        rest = yield from _request_rest_steps(reader, version)
    topics, forgotten, end = rest
    return FetchRequest(
        max_wait_ms,
        min_bytes,
        topics,
        max_bytes,
        isolation_level,
        replica_id if is_old else end.replica_id,
        end.replica_epoch,
        session_id,
        session_epoch,
        forgotten,
        end.rack_id,
        end.cluster_id,
    )


@lru_cache(REPEATED_MAX)
def _read_repeated_request(data: bytes, version: int, flexible: bool) -> tuple[_RequestRest, int, int]:
    """And how many bytes and elements it has. Who has no session and waits asks for the same again and again."""
    reader = Reader(memoryview(data), 0, flexible=flexible)
    return run_to_end(_request_rest_steps(reader, version)), reader.position, reader.elements


def _request_rest_steps(reader: Reader, version: int) -> Steps[_RequestRest]:
    layout = _partition_layout(version)
    topics = []
    for _ in range(reader.array_length()):
        topics.append((yield from _topic_steps(reader, version, layout)))
    forgotten = []
    if version >= _SESSION_SINCE:
        for _ in range(reader.array_length()):
            forgotten.append((yield from _forgotten_steps(reader, version)))
    read_end = _read_request_end if reader.remaining <= REQUEST_END_SIZE_MAX else _read_request_end.__wrapped__
    end, size = read_end(bytes(reader.data[reader.position :]), version, reader.flexible)
    reader.position += size
    return tuple(topics), tuple(forgotten), end


class _RequestEnd(NamedTuple):
    """What is the same in each request of a fetcher."""

    rack_id: str
    replica_id: int
    replica_epoch: int
    cluster_id: str | None


_RequestRest = tuple[tuple[FetchTopic, ...], tuple[ForgottenTopic, ...], _RequestEnd]
"""What follows the limits and the session."""


@lru_cache(REQUEST_ENDS_MAX)
def _read_request_end(data: bytes, version: int, flexible: bool) -> tuple[_RequestEnd, int]:
    """And how many bytes it takes."""
    reader = Reader(memoryview(data), 0, flexible=flexible)
    rack_id = reader.string() if version >= RACK_SINCE else ""
    tags = reader.tagged_fields()
    replica_id, replica_epoch = -1, -1
    if version >= _REPLICA_STATE_SINCE and _REPLICA_STATE_TAG in tags:
        replica_id, replica_epoch = tags[_REPLICA_STATE_TAG].unpack(_REPLICA_STATE)
    cluster_id = tags[_CLUSTER_ID_TAG].nullable_string() if _CLUSTER_ID_TAG in tags else None
    return _RequestEnd(rack_id, replica_id, replica_epoch, cluster_id), reader.position


def _topic_steps(reader: Reader, version: int, layout: _Layout) -> Steps[FetchTopic]:
    if reader.is_step_over():
        yield
    topic, topic_id = reader.topic(by_id=version >= TOPIC_ID_SINCE)
    partitions = []
    for _ in range(reader.array_length()):
        if reader.is_step_over():
            yield
        values = reader.unpack(layout.struct)
        if not layout.is_whole:
            values = _whole(layout, values)
        number, epoch, offset, last_epoch, log_start, bytes_max = values
        tags = reader.tagged_fields()
        if tags:
            partitions.append(
                FetchPartition(number, epoch, offset, last_epoch, log_start, bytes_max, *_request_tags(tags))
            )
        else:
            partitions.append(FetchPartition(number, epoch, offset, last_epoch, log_start, bytes_max))
    reader.tagged_fields()
    return FetchTopic(tuple(partitions), topic, topic_id)


def _whole(layout: _Layout, values: tuple[int, ...]) -> tuple[int, ...]:
    """Return the fields that the newest version has; those that this layout lacks are -1, not known."""
    held = dict(zip(layout.names, values, strict=True))
    return tuple(held.get(name, -1) for name in _PARTITION_LAYOUTS[0][1].names)


def _request_tags(tags: Mapping[int, Reader]) -> tuple[UUID | None, int, int]:
    """Return the last fields of a `FetchPartition`."""
    directory_id = tags[_DIRECTORY_ID_TAG].uuid() if _DIRECTORY_ID_TAG in tags else None
    high_watermark, local_log_start = HIGH_WATERMARK_UNKNOWN, LOCAL_LOG_START_UNKNOWN
    if _HIGH_WATERMARK_TAG in tags:
        high_watermark = tags[_HIGH_WATERMARK_TAG].int64()
    if _LOCAL_LOG_START_TAG in tags:
        local_log_start = tags[_LOCAL_LOG_START_TAG].int64()
    return directory_id, high_watermark, local_log_start


def _forgotten_steps(reader: Reader, version: int) -> Steps[ForgottenTopic]:
    if reader.is_step_over():
        yield
    topic, topic_id = reader.topic(by_id=version >= TOPIC_ID_SINCE)
    partitions = []
    for _ in range(reader.array_length()):
        if reader.is_step_over():
            yield
        partitions.append(reader.int32())
    reader.tagged_fields()
    return ForgottenTopic(tuple(partitions), topic, topic_id)


def write_request(writer: Writer, request: FetchRequest, version: int) -> None:
    if request.session_id == 0 and len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
        writer.out += _written_request(request, version, writer.flexible)
    else:
        _write_request(writer, request, version)


@lru_cache(REPEATED_MAX)
def _written_request(request: FetchRequest, version: int, flexible: bool) -> bytes:
    """The bytes of a request for one partition."""
    writer = Writer(flexible=flexible)
    _write_request(writer, request, version)
    return bytes(writer.out)


def _write_request(writer: Writer, request: FetchRequest, version: int) -> None:
    if version < _REPLICA_STATE_SINCE:
        writer.int32(request.replica_id)
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    if version >= _SESSION_SINCE:
        writer.out += _LIMITS_AND_SESSION.pack(*limits, request.session_id, request.session_epoch)
    else:
        writer.out += _LIMITS.pack(*limits)
    layout = _partition_layout(version)
    writer.array_length(len(request.topics))
    for topic in request.topics:
        _write_topic(writer, topic, version, layout)
    if version >= _SESSION_SINCE:
        writer.array_length(len(request.forgotten_topics))
        for forgotten in request.forgotten_topics:
            writer.topic(forgotten.topic, forgotten.topic_id, by_id=version >= TOPIC_ID_SINCE)
            writer.array_length(len(forgotten.partitions))
            for partition in forgotten.partitions:
                writer.int32(partition)
            writer.end_structure()
    writer.out += _request_end(
        version, writer.flexible, request.rack_id, request.cluster_id, request.replica_id, request.replica_epoch
    )


@lru_cache(REQUEST_ENDS_MAX)
def _request_end(
    version: int, flexible: bool, rack_id: str, cluster_id: str | None, replica_id: int, replica_epoch: int
) -> bytes:
    """The bytes of a `_RequestEnd`."""
    writer = Writer(flexible=flexible)
    if version >= RACK_SINCE:
        writer.string(rack_id)
    tags: dict[int, bytes | None] = {}
    if version >= _CLUSTER_ID_SINCE and cluster_id is not None:
        field = Writer(flexible=True)
        field.string(cluster_id)
        tags[_CLUSTER_ID_TAG] = bytes(field.out)
    if version >= _REPLICA_STATE_SINCE and (replica_id, replica_epoch) != (-1, -1):
        tags[_REPLICA_STATE_TAG] = _REPLICA_STATE.pack(replica_id, replica_epoch) + b"\0"
    writer.end_structure(tags)
    return bytes(writer.out)


def _write_topic(writer: Writer, topic: FetchTopic, version: int, layout: _Layout) -> None:
    writer.topic(topic.topic, topic.topic_id, by_id=version >= TOPIC_ID_SINCE)
    writer.array_length(len(topic.partitions))
    for partition in topic.partitions:
        writer.out += layout.struct.pack(*layout.values_of(partition))
        tags: dict[int, bytes | None] = {}
        if version >= _DIRECTORY_ID_SINCE and partition.replica_directory_id is not None:
            tags[_DIRECTORY_ID_TAG] = partition.replica_directory_id.bytes
        if version >= _HIGH_WATERMARK_SINCE and partition.high_watermark != HIGH_WATERMARK_UNKNOWN:
            tags[_HIGH_WATERMARK_TAG] = INT64.pack(partition.high_watermark)
        if writer.flexible and partition.local_log_start_offset != LOCAL_LOG_START_UNKNOWN:
            tags[_LOCAL_LOG_START_TAG] = INT64.pack(partition.local_log_start_offset)
        writer.end_structure(tags)
    writer.end_structure()


# Responses.


def read_response(reader: Reader, version: int) -> FetchResponse:
    return run_to_end(read_response_steps(reader, version))


def read_response_steps(reader: Reader, version: int) -> Steps[FetchResponse]:
    """A short response that has no records is kept, and returned again for the same bytes."""
    if len(reader.data) > REPEATED_SIZE_MAX:  # the whole frame: empty records are a view of it
        return (yield from _response_body_steps(reader, version))
    key = bytes(reader.data[reader.position :]), version, reader.flexible
    found = _read_responses.get(key)
    if found is not None:
        reader.position = reader.end
        return found
    response = yield from _response_body_steps(reader, version)
    if reader.position == reader.end and not any(
        each.records for topic in response.topics for each in topic.partitions
    ):
        if len(_read_responses) >= REPEATED_MAX:
            del _read_responses[next(iter(_read_responses))]
        _read_responses[key] = response
    return response


_read_responses: dict[tuple[bytes, int, bool], FetchResponse] = {}
"""The last ones, the oldest first, by their bytes after the header."""


def _response_body_steps(reader: Reader, version: int) -> Steps[FetchResponse]:
    throttle_time_ms, code, session_id = read_response_start(reader, version)
    topics = []
    for _ in range(reader.array_length()):
        topics.append((yield from _topic_response_steps(reader, version)))
    tags = reader.tagged_fields()
    endpoints = read_node_endpoints(tags) if tags else ()
    return FetchResponse(tuple(topics), error_code(code), session_id, throttle_time_ms, endpoints)


def read_response_start(reader: Reader, version: int) -> tuple[int, int, int]:
    """Throttle time in ms, error code and session id, which stand before the array of topics."""
    if version >= _SESSION_SINCE:
        throttle_time_ms, code, session_id = reader.unpack(_THROTTLE_ERROR_SESSION)
        return throttle_time_ms, code, session_id
    return reader.int32(), 0, 0


def read_topic_start(reader: Reader, version: int) -> tuple[str, UUID | None]:
    """Name and id of a topic, whose array of partitions follows."""
    return reader.topic(by_id=version >= TOPIC_ID_SINCE)


def _topic_response_steps(reader: Reader, version: int) -> Steps[FetchTopicResponse]:
    if reader.is_step_over():
        yield
    topic, topic_id = read_topic_start(reader, version)
    partitions = []
    for _ in range(reader.array_length()):
        if reader.is_step_over():
            yield
        partitions.append((yield from _partition_response_steps(reader, version)))
    reader.tagged_fields()
    return FetchTopicResponse(tuple(partitions), topic, topic_id)


def read_partition_response(reader: Reader, version: int) -> FetchPartitionResponse:
    return run_to_end(_partition_response_steps(reader, version))


def _partition_response_steps(reader: Reader, version: int) -> Steps[FetchPartitionResponse]:
    if not reader.flexible:
        return (yield from _old_partition_response_steps(reader, version))
    partition, code, high_watermark, last_stable, log_start, is_aborted, preferred = reader.unpack(_FLEXIBLE_ANSWER)
    aborted = None
    if is_aborted:
        reader.position -= _FLEXIBLE_ANSWER_TAIL_SIZE
        aborted, preferred = (yield from _aborted_steps(reader)), reader.int32()
    fields = partition, error_code(code), high_watermark, last_stable, log_start, aborted, preferred
    records = reader.nullable_records()
    tags = reader.tagged_fields()
    return FetchPartitionResponse(*fields, records, *(_answer_tags(tags) if tags else ()))


def _old_partition_response_steps(reader: Reader, version: int) -> Steps[FetchPartitionResponse]:
    partition, code, high_watermark, last_stable, *log_start = reader.unpack(_response_layout(version).struct)
    return FetchPartitionResponse(
        partition,
        error_code(code),
        high_watermark,
        last_stable,
        log_start[0] if log_start else -1,
        (yield from _aborted_steps(reader)),
        reader.int32() if version >= RACK_SINCE else NO_READ_REPLICA,
        reader.nullable_records(),
    )


def _answer_tags(
    tags: Mapping[int, Reader],
) -> tuple[EpochEndOffset | None, LeaderIdAndEpoch | None, SnapshotId | None]:
    """Return the last fields of a `FetchPartitionResponse`."""
    diverging, leader, snapshot = None, read_leader(tags, _CURRENT_LEADER_TAG), None
    if _DIVERGING_EPOCH_TAG in tags:
        diverging = EpochEndOffset(*tags[_DIVERGING_EPOCH_TAG].unpack(_EPOCH_AND_OFFSET))
    if _SNAPSHOT_ID_TAG in tags:
        snapshot = SnapshotId(*tags[_SNAPSHOT_ID_TAG].unpack(_OFFSET_AND_EPOCH))
    return diverging, leader, snapshot


def _aborted_steps(reader: Reader) -> Steps[tuple[AbortedTransaction, ...] | None]:
    length = reader.nullable_array_length()
    if length < 0:
        return None
    aborted = []
    for _ in range(length):
        if reader.is_step_over():
            yield
        aborted.append(AbortedTransaction(*reader.unpack(_ABORTED)))
        reader.tagged_fields()
    return tuple(aborted)


def write_response(writer: Writer, response: FetchResponse, version: int) -> None:
    run_to_end(response_steps(writer, response, version))


def response_steps(writer: Writer, response: FetchResponse, version: int) -> Steps[None]:
    if _is_repeated(response):
        writer.out += _written_response(response, version, writer.flexible)
    else:
        yield from _response_steps(writer, response, version)


def _is_repeated(response: FetchResponse) -> bool:
    """Whether the same may well be written again: it is about one partition, and has no records."""
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return False
    answer = response.topics[0].partitions[0]
    records = answer.records
    return (records is None or (type(records) is bytes and not records)) and answer.aborted_transactions is None


@lru_cache(REPEATED_MAX)
def _written_response(response: FetchResponse, version: int, flexible: bool) -> bytes:
    writer = Writer(flexible=flexible)
    run_to_end(_response_steps(writer, response, version))
    return bytes(writer.out)


def _response_steps(writer: Writer, response: FetchResponse, version: int) -> Steps[None]:
    if version >= _SESSION_SINCE:
        start = _THROTTLE_ERROR_SESSION.pack(response.throttle_time_ms, response.error_code, response.session_id)
        writer.out += start
    else:
        writer.int32(response.throttle_time_ms)
    yield from topic_steps(writer, response.topics, _write_partition_response, version, by_id=version >= TOPIC_ID_SINCE)
    end_with_endpoints(writer, response.node_endpoints if version >= _NODE_ENDPOINTS_SINCE else ())


def _write_partition_response(writer: Writer, answer: FetchPartitionResponse, version: int) -> None:
    aborted = answer.aborted_transactions
    if aborted is None and writer.flexible:
        writer.out += _FLEXIBLE_ANSWER.pack(
            answer.partition,
            answer.error_code,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            0,
            answer.preferred_read_replica,
        )
    else:
        layout = _response_layout(version)
        writer.pack(layout.struct, *layout.values_of(answer))
        writer.array_length(-1 if aborted is None else len(aborted))
        for transaction in aborted or ():
            writer.pack(_ABORTED, *transaction)
            writer.end_structure()
        if version >= RACK_SINCE:
            writer.int32(answer.preferred_read_replica)
    writer.records(answer.records)
    if not writer.flexible or (
        answer.diverging_epoch is None and answer.current_leader is None and answer.snapshot_id is None
    ):
        writer.end_structure()
    else:
        writer.end_structure(_response_tags(answer))


def _response_tags(answer: FetchPartitionResponse) -> dict[int, bytes | None]:
    diverging, leader, snapshot = answer.diverging_epoch, answer.current_leader, answer.snapshot_id
    assert diverging != (-1, -1), f"a follower spins on a diverging epoch of (-1, -1): partition {answer.partition}"
    return {
        _DIVERGING_EPOCH_TAG: None if diverging is None else _EPOCH_AND_OFFSET.pack(*diverging) + b"\0",
        _CURRENT_LEADER_TAG: leader_field(leader),
        _SNAPSHOT_ID_TAG: None if snapshot is None else _OFFSET_AND_EPOCH.pack(*snapshot) + b"\0",
    }
