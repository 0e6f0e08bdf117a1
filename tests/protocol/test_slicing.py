"""Large requests: read and written in steps, handled piece by piece, alone on their connection."""

from __future__ import annotations

import asyncio
import logging
import struct
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import (
    RequestHeader,
    read_request_header,
    request_body_steps,
    response_steps,
    write_request,
    write_response,
)
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.messages.base import Message
from tierfetch.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tierfetch.protocol.messages.groups import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tierfetch.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tierfetch.protocol.messages.registry import request_class, response_class
from tierfetch.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.net.slicing import PIECE_ELEMENTS, SPLITS, ConnectionClosedError, answered_in_pieces, pieces
from tierfetch.protocol.request_elements import ELEMENTS_MAX_OF, REQUEST_ELEMENTS_MAX
from tierfetch.protocol.wire.primitives import STEP_ELEMENTS, TAGGED_FIELDS_MAX, MalformedMessageError, Writer
from tierfetch.protocol.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tierfetch.protocol.wire.stepping import Steps
from tierfetch.protocol.wire.steps import KEPT_BYTES_MAX, _Kept
from tierfetch.tests.messages import request_of, response_of
from tierfetch.tests.protocol.full_content import full_request, full_response
from tierfetch.tests.protocol.wire_fakes import Gate, joined, raw_peer, serving, until
from tierfetch.tests.turns import turns

CONTEXT = RequestContext(ApiKey.METADATA, 4, None, 1, "peer", "PLAINTEXT", 0.0)


def names(count: int) -> MetadataRequest:
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"t{number}") for number in range(count)))


def counted(steps: Steps[Any]) -> tuple[int, Any]:
    """The number of steps, and the result."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def body_steps(header: RequestHeader, request: Any) -> Steps[Any]:
    frame = joined(write_request(header, request))
    return request_body_steps(*read_request_header(memoryview(frame)[4:]))


@pytest.mark.parametrize("version", [4, 12])
def test_a_large_message_is_read_and_written_in_steps(version: int) -> None:
    count = 5 * STEP_ELEMENTS + 1
    steps, request = counted(body_steps(RequestHeader(ApiKey.METADATA, version, 1, None), names(count)))
    assert (steps, request.topics) == (5, names(count).topics)
    response = MetadataResponse(
        brokers=(), topics=tuple(MetadataResponseTopic(name=f"t{number}", partitions=()) for number in range(count))
    )
    steps, parts = counted(response_steps(ApiKey.METADATA, version, 1, response))
    assert steps == 5
    assert joined(parts) == joined(write_response(ApiKey.METADATA, version, 1, response))


def test_many_small_arrays_are_steps_too() -> None:
    topics = tuple(ProduceTopic((ProducePartition(0, None),), f"t{number}") for number in range(3 * STEP_ELEMENTS))
    steps, request = counted(body_steps(RequestHeader(ApiKey.PRODUCE, 9, 1, None), ProduceRequest(-1, 1, topics)))
    assert (steps, request.topics) == (6, topics)


def answered(*partitions: MetadataResponsePartition) -> MetadataResponse:
    return MetadataResponse(brokers=(), topics=(MetadataResponseTopic(name="t", partitions=partitions),))


@pytest.mark.parametrize("version", [4, 8, 12])
def test_an_object_that_is_written_often_is_written_once(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (MetadataResponsePartition(partition_index=index, leader_id=7) for index in (0, 1))
    equal = MetadataResponsePartition(partition_index=0, leader_id=7)
    response = answered(first, other)
    expected = joined(write_response(ApiKey.METADATA, version, 1, response))
    own_writers: list[Writer] = []

    def noted(start: bytes = b"", *, flexible: bool) -> Writer:
        own_writers.append(made := Writer(start, flexible=flexible))
        return made

    monkeypatch.setattr("tierfetch.protocol.wire.steps.Writer", noted)
    assert joined(write_response(ApiKey.METADATA, version, 1, response)) == expected
    assert own_writers == []
    assert joined(write_response(ApiKey.METADATA, version, 1, answered(equal, other))) == expected
    assert len(own_writers) == 2  # of the topic, which is another one, and of the partition


@pytest.mark.parametrize("version", [4, 12])
def test_a_topic_is_written_in_steps_once(version: int) -> None:
    partitions = tuple(
        MetadataResponsePartition(partition_index=number, leader_id=1, replica_nodes=(1, 2), isr_nodes=(1,))
        for number in range(STEP_ELEMENTS - 10)
    )
    topics = tuple(MetadataResponseTopic(name=f"t{number}", partitions=partitions) for number in range(4))
    response = MetadataResponse(brokers=(), topics=topics)
    steps, first = counted(response_steps(ApiKey.METADATA, version, 1, response))
    assert steps == 3  # no topic takes one by itself: they count on from each other
    steps, again = counted(response_steps(ApiKey.METADATA, version, 1, response))
    assert steps == 0
    assert joined(again) == joined(first)
    answers = [MetadataResponse(brokers=(), topics=some) for some in ((), *((each,) for each in topics))]
    empty, *each = (len(joined(write_response(ApiKey.METADATA, version, 1, answer))) for answer in answers)
    assert len(joined(first)) - empty == sum(size - empty for size in each)


def test_so_many_bytes_of_objects_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfetch.protocol.wire.steps.KEPT_BYTES_MAX", 8)

    def write(writer: Writer, item: Message) -> Steps[None]:
        writer.int32(len(item.replica_nodes) if isinstance(item, MetadataResponsePartition) else -1)
        yield from ()

    kept = _Kept(MetadataResponsePartition, write)
    sizes, objects = [], []
    for nodes in range(5):
        writer = Writer(flexible=True)
        objects.append(MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=(1,) * nodes))
        kept.write(writer, objects[-1])
        assert writer.out == nodes.to_bytes(4, "big")
        sizes.append(len(kept._found))
    assert sizes == [1, 2, 1, 2, 1]


def test_the_bytes_of_an_object_are_kept_no_longer_than_the_object() -> None:
    """A client may name any number of topics that do not exist: each is another object, in one answer."""

    def write(writer: Writer, item: Message) -> Steps[None]:
        assert isinstance(item, MetadataResponsePartition)
        writer.int32(item.partition_index)
        yield from ()

    kept = _Kept(MetadataResponsePartition, write)
    lasting = MetadataResponsePartition(partition_index=7, leader_id=1)
    kept.write(Writer(flexible=True), lasting)
    for number in range(KEPT_BYTES_MAX // 4 + 1):
        writer = Writer(flexible=True)
        kept.write(writer, MetadataResponsePartition(partition_index=number, leader_id=1))
        assert writer.out == number.to_bytes(4, "big")
    assert list(kept._found) == [id(lasting)]
    assert kept._size_bytes == 4


@pytest.mark.parametrize(("api", "limit"), [(ApiKey.METADATA, 50_000), (ApiKey.PRODUCE, 200_000), (ApiKey.VOTE, 1000)])
def test_an_api_may_name_so_many_elements(api: ApiKey, limit: int) -> None:
    assert ELEMENTS_MAX_OF.get(api, REQUEST_ELEMENTS_MAX) == limit


def test_tagged_fields_are_counted_before_any_is_built() -> None:
    tags = bytes([0xFF, 0x01]) + b"".join(bytes([0x80 | tag & 0x7F, 1, 0]) for tag in range(255))
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1) + tags
    with pytest.raises(MalformedMessageError, match=f"255 tagged fields .* at most {TAGGED_FIELDS_MAX}"):
        read_request_header(memoryview(bytearray(frame)))


def test_pieces_have_few_elements_and_lose_none() -> None:
    split = SPLITS[ApiKey.METADATA]
    cut = list(pieces(names(250).topics or (), split))
    assert [len(piece) for piece in cut] == [PIECE_ELEMENTS, PIECE_ELEMENTS, 50]
    assert [topic for piece in cut for topic in piece] == list(names(250).topics or ())


def test_what_is_asked_twice_is_looked_up_once() -> None:
    same = (MetadataRequestTopic(name=""),) * 900
    assert list(pieces(same, SPLITS[ApiKey.METADATA])) == [[same[0]]]
    assert list(pieces(same * 3, SPLITS[ApiKey.METADATA])) == [[], [], [same[0]]], "looking for repetitions is work too"
    offsets = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=1, timestamp=5),) * 1000)
    ((topic,),) = [piece for piece in pieces((offsets, offsets), SPLITS[ApiKey.LIST_OFFSETS]) if piece]
    assert len(topic.partitions) == 1


def listed(topic: str, numbers: range) -> ListOffsetsTopic:
    return ListOffsetsTopic(
        name=topic, partitions=tuple(ListOffsetsPartition(partition_index=number, timestamp=-1) for number in numbers)
    )


async def test_a_topic_cut_in_pieces_is_one_topic_in_the_response() -> None:
    sizes = []

    async def handler(_: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
        sizes.append(sum(1 + len(topic.partitions) for topic in request.topics))
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=each.partition_index)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    request = ListOffsetsRequest(
        replica_id=-1, topics=(listed("a", range(250)), listed("b", range(5)), listed("c", range(120)))
    )
    response = await answered_in_pieces(handler, SPLITS[ApiKey.LIST_OFFSETS], CONTEXT, request)
    assert max(sizes) <= PIECE_ELEMENTS
    assert [(topic.name, [each.offset for each in topic.partitions]) for topic in response.topics] == [
        ("a", list(range(250))),
        ("b", list(range(5))),
        ("c", list(range(120))),
    ]


async def test_a_piece_that_fails_as_a_whole_ends_the_request() -> None:
    asked = []

    async def handler(
        _: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        asked.append(request)
        return AlterPartitionReassignmentsResponse(
            error_code=ErrorCode.not_controller, error_message=None, responses=()
        )

    split = SPLITS[ApiKey.ALTER_PARTITION_REASSIGNMENTS]
    request = AlterPartitionReassignmentsRequest(timeout_ms=1, topics=(listed("a", range(1000)),))  # type: ignore[arg-type]
    response = await answered_in_pieces(handler, split, CONTEXT, request)
    assert (response.error_code, len(asked)) == (ErrorCode.not_controller, 1)


@pytest.mark.parametrize(
    ("api", "pieces_begun"),
    [(ApiKey.OFFSET_COMMIT, 1), (ApiKey.TXN_OFFSET_COMMIT, 1), (ApiKey.LIST_OFFSETS, 1), (ApiKey.DELETE_RECORDS, 3)],
    ids=lambda each: each.name if isinstance(each, ApiKey) else str(each),
)
async def test_no_offsets_are_committed_for_a_client_that_has_given_up(api: ApiKey, pieces_begun: int) -> None:
    """It may have committed newer ones over its next connection, or begun its next transaction."""
    begun: list[Any] = []

    async def handler(_: RequestContext, request: Any) -> Any:
        begun.append(request)
        return replace(response_of(api, full_response(api)), topics=())

    request = request_of(api, full_request(api))
    topic, partition = request.topics[0], request.topics[0].partitions[0]
    partitions = tuple(replace(partition, partition_index=number) for number in range(250))
    request = replace(request, topics=(replace(topic, partitions=partitions),))
    with suppress(ConnectionClosedError):
        await answered_in_pieces(handler, SPLITS[api], replace(CONTEXT, is_closed=lambda: bool(begun)), request)
    assert len(begun) == pieces_begun


@pytest.mark.parametrize("api", SPLITS, ids=lambda api: api.name)
def test_the_arrays_of_a_split_exist(api: ApiKey) -> None:
    split = SPLITS[api]
    assert split.items in request_class(api).__dataclass_fields__
    assert split.answers in response_class(api).__dataclass_fields__


async def test_nothing_begins_on_a_connection_before_a_large_request_is_answered() -> None:
    gate = Gate()
    async with serving({ApiKey.METADATA: gate}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.METADATA, 4, 1, names(PIECE_ELEMENTS + 101))
        await until(lambda: len(gate.gates) == 1)
        peer.send(ApiKey.METADATA, 4, 2, names(1))
        for number in range(4):
            await until(partial(lambda index: len(gate.gates) > index, number))
            await asyncio.sleep(0)
            assert len(gate.gates) == number + 1
            gate.gates[number].set_result(MetadataResponse(brokers=(), topics=()))
        assert [len(request.topics) for request in gate.requests] == [PIECE_ELEMENTS, PIECE_ELEMENTS, 1, 1]


async def test_no_piece_that_only_asks_begins_once_its_connection_is_reset(caplog: pytest.LogCaptureFixture) -> None:
    gate, changes = Gate(), Gate()
    handlers = {ApiKey.METADATA: gate, ApiKey.DELETE_TOPICS: changes}
    async with serving(handlers) as server, raw_peer(server.port) as peer, raw_peer(server.port) as other:
        peer.send(ApiKey.METADATA, 4, 1, names(3 * PIECE_ELEMENTS))
        deletions = tuple(DeleteTopicState(name=f"t{number}", topic_id=None) for number in range(3 * PIECE_ELEMENTS))
        for number in range(2):
            other.send(ApiKey.DELETE_TOPICS, 6, number, DeleteTopicsRequest(topics=deletions, timeout_ms=1))
        await until(lambda: len(gate.gates) == len(changes.gates) == 1)
        peer.reset()
        other.reset()
        await turns()
        deleted = (DeletableTopicResult(name="t", topic_id=None),) * 5_000
        gate.gates[0].set_result(MetadataResponse(brokers=(), topics=()))
        for number in range(3):
            await until(partial(lambda index: len(changes.gates) > index, number))
            changes.gates[number].set_result(DeleteTopicsResponse(responses=deleted))
        await until(lambda: not server.connections)
    assert (len(gate.gates), len(changes.gates)) == (1, 3)
    assert [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING] == [None]


async def test_a_large_group_assignment_is_answered() -> None:
    gate = Gate()
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=bytes(5 * 1024 * 1024))
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=(assignment,))
    async with serving({ApiKey.SYNC_GROUP: gate}) as server, raw_peer(server.port) as peer:
        peer.send(ApiKey.SYNC_GROUP, 4, 1, request)
        await until(lambda: len(gate.gates) == 1)
        gate.gates[0].set_result(SyncGroupResponse(error_code=ErrorCode.none, assignment=b""))
        assert (await peer.response(ApiKey.SYNC_GROUP, 4))[0] == 1
        assert gate.requests[0].assignments == (assignment,)


async def test_a_large_request_that_cannot_be_read_ends_its_connection_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = Gate()
    frame = joined(write_request(RequestHeader(ApiKey.METADATA, 4, 1, "raw"), names(5_000)))[4:-10]
    async with serving({ApiKey.METADATA: gate}) as server, raw_peer(server.port) as peer:
        peer.writer.write(struct.pack(">i", len(frame)) + frame)
        peer.send(ApiKey.METADATA, 4, 2, names(1))
        assert await peer.is_closed()
    assert gate.requests == []
    (record,) = [item for item in caplog.records if item.levelno >= logging.WARNING]
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert "METADATA of 127.0.0.1" in record.getMessage()
