"""Produce requests and responses, versions 3-13, as one version-independent value each.

Record bytes are never copied: a decoded request holds writable views of its frame (the leader stamps offsets in
place), and an encoded one carries the caller's buffers as parts.

| since | request | response |
|---|---|---|
| 3 | transactional id; records v2 | |
| 5 | | log start offset |
| 8 | | record errors, error message (KIP-467) |
| 9 | flexible | flexible |
| 10 | | current leader, node endpoints (KIP-951) |
| 13 | topic id in place of the name (KIP-516) | topic id in place of the name |
"""

from __future__ import annotations

import struct
from typing import ClassVar, Final, NamedTuple
from uuid import UUID

from ..errors import ErrorCode
from ..messages.base import Message, Request
from ..values import value
from .leader_hints import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    end_with_endpoints,
    leader_field,
    read_leader,
    read_node_endpoints,
)
from .primitives import Part, Reader, Writer, error_code
from .stepping import Steps, run_to_end, topic_steps

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

_LOG_START_OFFSET_SINCE: Final = 5
_RECORD_ERRORS_SINCE: Final = 8
_CURRENT_LEADER_SINCE: Final = 10
_TOPIC_ID_SINCE: Final = 13
_CURRENT_LEADER_TAG: Final = 0

_ACKS_TIMEOUT = struct.Struct(">hi")
_PARTITION = struct.Struct(">ihqq")


@value
class ProducePartition:
    """`records` is a view of the frame in a decoded request."""

    partition: int
    records: Part | None


@value
class ProduceTopic:
    """`topic` is empty from version 13 on, `topic_id` None before."""

    partitions: tuple[ProducePartition, ...]
    topic: str = ""
    topic_id: UUID | None = None


@value
class ProduceRequest(Request["ProduceResponse | None"]):
    """`acks`: 0 no answer at all, 1 leader, -1 all in sync."""

    api_key: ClassVar[int] = 0
    acks: int
    timeout_ms: int
    topics: tuple[ProduceTopic, ...]
    transactional_id: str | None = None


class RecordError(NamedTuple):
    """A record that caused its batch to be refused."""

    batch_index: int
    message: str | None = None


@value
class ProducePartitionResponse:
    """-1 for an offset or time that is not known; `log_append_time_ms` is -1 under CreateTime."""

    partition: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


@value
class ProduceTopicResponse:
    """Named as its request names it."""

    partitions: tuple[ProducePartitionResponse, ...]
    topic: str = ""
    topic_id: UUID | None = None


@value
class ProduceResponse(Message):
    """`node_endpoints` of the leaders named in `current_leader`."""

    topics: tuple[ProduceTopicResponse, ...]
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


def read_request(reader: Reader, version: int) -> ProduceRequest:
    return run_to_end(request_steps(reader, version))


def request_steps(reader: Reader, version: int) -> Steps[ProduceRequest]:
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.unpack(_ACKS_TIMEOUT)
    topics = []
    for _ in range(reader.array_length()):
        topics.append((yield from _topic_steps(reader, version)))
    reader.tagged_fields()
    return ProduceRequest(acks, timeout_ms, tuple(topics), transactional_id)


def _topic_steps(reader: Reader, version: int) -> Steps[ProduceTopic]:
    if reader.is_step_over():
        yield
    topic, topic_id = reader.topic(by_id=version >= _TOPIC_ID_SINCE)
    partitions = []
    for _ in range(reader.array_length()):
        if reader.is_step_over():
            yield
        partitions.append(ProducePartition(reader.int32(), reader.nullable_records()))
        reader.tagged_fields()
    reader.tagged_fields()
    return ProduceTopic(tuple(partitions), topic, topic_id)


def write_request(writer: Writer, request: ProduceRequest, version: int) -> None:
    writer.string(request.transactional_id)
    writer.pack(_ACKS_TIMEOUT, request.acks, request.timeout_ms)
    writer.array_length(len(request.topics))
    for topic in request.topics:
        writer.topic(topic.topic, topic.topic_id, by_id=version >= _TOPIC_ID_SINCE)
        writer.array_length(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.records(partition.records)
            writer.end_structure()
        writer.end_structure()
    writer.end_structure()


def read_response(reader: Reader, version: int) -> ProduceResponse:
    return run_to_end(read_response_steps(reader, version))


def read_response_steps(reader: Reader, version: int) -> Steps[ProduceResponse]:
    topics = []
    for _ in range(reader.array_length()):
        topics.append((yield from _topic_response_steps(reader, version)))
    throttle_time_ms = reader.int32()
    tags = reader.tagged_fields()
    return ProduceResponse(tuple(topics), throttle_time_ms, read_node_endpoints(tags) if tags else ())


def _topic_response_steps(reader: Reader, version: int) -> Steps[ProduceTopicResponse]:
    if reader.is_step_over():
        yield
    topic, topic_id = reader.topic(by_id=version >= _TOPIC_ID_SINCE)
    partitions = []
    for _ in range(reader.array_length()):
        if reader.is_step_over():
            yield
        partitions.append((yield from _partition_response_steps(reader, version)))
    reader.tagged_fields()
    return ProduceTopicResponse(tuple(partitions), topic, topic_id)


def _partition_response_steps(reader: Reader, version: int) -> Steps[ProducePartitionResponse]:
    partition, code, base_offset, log_append_time_ms = reader.unpack(_PARTITION)
    log_start_offset = reader.int64() if version >= _LOG_START_OFFSET_SINCE else -1
    record_errors = []
    error_message = None
    if version >= _RECORD_ERRORS_SINCE:
        for _ in range(reader.array_length()):
            if reader.is_step_over():
                yield
            record_errors.append(RecordError(reader.int32(), reader.nullable_string()))
            reader.tagged_fields()
        error_message = reader.nullable_string()
    tags = reader.tagged_fields()
    return ProducePartitionResponse(
        partition,
        error_code(code),
        base_offset,
        log_append_time_ms,
        log_start_offset,
        tuple(record_errors),
        error_message,
        read_leader(tags, _CURRENT_LEADER_TAG) if tags else None,
    )


def write_response(writer: Writer, response: ProduceResponse, version: int) -> None:
    run_to_end(response_steps(writer, response, version))


def response_steps(writer: Writer, response: ProduceResponse, version: int) -> Steps[None]:
    yield from topic_steps(
        writer, response.topics, _write_partition_response, version, by_id=version >= _TOPIC_ID_SINCE
    )
    writer.int32(response.throttle_time_ms)
    end_with_endpoints(writer, response.node_endpoints if version >= _CURRENT_LEADER_SINCE else ())


def _write_partition_response(writer: Writer, answer: ProducePartitionResponse, version: int) -> None:
    writer.pack(_PARTITION, answer.partition, answer.error_code, answer.base_offset, answer.log_append_time_ms)
    if version >= _LOG_START_OFFSET_SINCE:
        writer.int64(answer.log_start_offset)
    if version >= _RECORD_ERRORS_SINCE:
        writer.array_length(len(answer.record_errors))
        for record_error in answer.record_errors:
            writer.int32(record_error.batch_index)
            writer.string(record_error.message)
            writer.end_structure()
        writer.string(answer.error_message)
    if answer.current_leader is not None and version >= _CURRENT_LEADER_SINCE:
        writer.end_structure({_CURRENT_LEADER_TAG: leader_field(answer.current_leader)})
    else:
        writer.end_structure()
