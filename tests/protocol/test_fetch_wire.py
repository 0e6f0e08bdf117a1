"""Fetch on the wire: byte for byte what kio writes, in every version, without a copy of the records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.fetch import messages as fetch_messages
from tierfetch.protocol.fetch import wire as fetch_wire
from tierfetch.protocol.fetch.messages import (
    HIGH_WATERMARK_UNKNOWN,
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from tierfetch.protocol.wire.primitives import MalformedMessageError, Reader, Writer
from tierfetch.tests.protocol.entities import read_entity
from tierfetch.tests.protocol.wire_fakes import joined
from tierfetch.tests.protocol.wire_kit import kio_bytes, our_bytes, reader_of
from tierfetch.tests.protocol.wire_strategies import (
    FETCH_REQUEST,
    FETCH_RESPONSE,
    fetch_request_values,
    fetch_response_values,
)

API = ApiKey.FETCH
VERSIONS = st.integers(API.min_version, API.max_version)
ALL_VERSIONS = range(API.min_version, API.max_version + 1)


class FakeSlice:
    """A slice of `size` bytes that knows whether it was let go."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.releases = 0

    def at_once(self) -> bytes | None:
        return None

    async def send(self, transport: Any) -> None:
        raise AssertionError("not in these tests")

    def release(self) -> None:
        self.releases += 1


def request_of_version(request: FetchRequest, version: int) -> FetchRequest:
    """What is left of the request once it went through that version."""

    def partition_of_version(partition: FetchPartition) -> FetchPartition:
        since = {"log_start_offset": 5, "current_leader_epoch": 9, "last_fetched_epoch": 12}
        missing: dict[str, Any] = {name: -1 for name, first in since.items() if version < first}
        partition = replace(partition, **missing)
        if version < 17:
            partition = replace(partition, replica_directory_id=None)
        return partition if version >= 18 else replace(partition, high_watermark=HIGH_WATERMARK_UNKNOWN)

    by_id = version >= 13
    return replace(
        request,
        replica_epoch=request.replica_epoch if version >= 15 else -1,
        session_id=request.session_id if version >= 7 else 0,
        session_epoch=request.session_epoch if version >= 7 else -1,
        rack_id=request.rack_id if version >= 11 else "",
        cluster_id=request.cluster_id if version >= 12 else None,
        topics=tuple(
            FetchTopic(
                tuple(map(partition_of_version, topic.partitions)),
                "" if by_id else topic.topic,
                topic.topic_id if by_id else None,
            )
            for topic in request.topics
        ),
        forgotten_topics=tuple(
            ForgottenTopic(topic.partitions, "" if by_id else topic.topic, topic.topic_id if by_id else None)
            for topic in request.forgotten_topics
        )
        if version >= 7
        else (),
    )


def response_of_version(response: FetchResponse, version: int) -> FetchResponse:
    def partition_of_version(partition: FetchPartitionResponse) -> FetchPartitionResponse:
        if version < 5:
            partition = replace(partition, log_start_offset=-1)
        if version < 11:
            partition = replace(partition, preferred_read_replica=-1)
        if version < 12:
            partition = replace(partition, diverging_epoch=None, current_leader=None, snapshot_id=None)
        return partition

    by_id = version >= 13
    return replace(
        response,
        error_code=response.error_code if version >= 7 else ErrorCode.none,
        session_id=response.session_id if version >= 7 else 0,
        node_endpoints=response.node_endpoints if version >= 16 else (),
        topics=tuple(
            FetchTopicResponse(
                tuple(map(partition_of_version, topic.partitions)),
                "" if by_id else topic.topic,
                topic.topic_id if by_id else None,
            )
            for topic in response.topics
        ),
    )


@given(request=FETCH_REQUEST, version=VERSIONS)
def test_request_is_what_kio_writes_and_comes_back(request: FetchRequest, version: int) -> None:
    written = our_bytes(API, fetch_wire.write_request, request, version)
    assert written == kio_bytes(API.request_type(version), fetch_request_values(request))
    source = reader_of(API, written, version)
    assert fetch_wire.read_request(source, version) == request_of_version(request, version)
    assert source.remaining == 0


@given(response=FETCH_RESPONSE, version=VERSIONS)
def test_response_is_what_kio_writes_and_comes_back(response: FetchResponse, version: int) -> None:
    written = our_bytes(API, fetch_wire.write_response, response, version)
    assert written == kio_bytes(API.response_type(version), fetch_response_values(response))
    source = reader_of(API, written, version)
    assert fetch_wire.read_response(source, version) == response_of_version(response, version)
    assert source.remaining == 0


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_slices_are_parts_of_their_own_between_the_headers(version: int) -> None:
    slices = [FakeSlice(size) for size in (100, 0, 2**20)]
    partitions = tuple(FetchPartitionResponse(i, records=records) for i, records in enumerate(slices))
    writer = Writer(flexible=API.is_flexible(version))
    fetch_wire.write_response(writer, FetchResponse(topics=(FetchTopicResponse(partitions, "t"),)), version)
    parts = writer.finish()
    assert [part for part in parts if isinstance(part, FakeSlice)] == [slices[0], slices[2]], "nothing of size 0"
    with_bytes = joined([bytes(part.size) if isinstance(part, FakeSlice) else part for part in parts])
    decoded = fetch_wire.read_response(reader_of(API, with_bytes, version), version)
    assert [partition.records for partition in decoded.topics[0].partitions] == [bytes(s.size) for s in slices]


def test_release_lets_go_of_every_slice() -> None:
    slices = [FakeSlice(1), FakeSlice(2)]
    partitions = (
        FetchPartitionResponse(0, records=slices[0]),
        FetchPartitionResponse(1, records=b"x"),
        FetchPartitionResponse(2, records=None),
        FetchPartitionResponse(3, records=slices[1]),
    )
    fetch_messages.release_records(FetchResponse(topics=(FetchTopicResponse(partitions, "t"),)))
    assert [item.releases for item in slices] == [1, 1]


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_records_of_a_response_are_views_of_the_frame(version: int) -> None:
    records = bytes(range(256)) * 40
    response = FetchResponse(topics=(FetchTopicResponse((FetchPartitionResponse(0, records=records),), "t"),))
    frame = bytearray(our_bytes(API, fetch_wire.write_response, response, version))
    view = fetch_wire.read_response(reader_of(API, frame, version), version).topics[0].partitions[0].records
    assert isinstance(view, memoryview)
    assert view.obj is frame


def test_a_diverging_epoch_of_nothing_is_never_sent() -> None:
    """A Java follower answers it with another fetch at once, about 2,000 a second."""
    partition = FetchPartitionResponse(0, diverging_epoch=EpochEndOffset(-1, -1))
    with pytest.raises(AssertionError, match="spins"):
        our_bytes(API, fetch_wire.write_response, FetchResponse(topics=(FetchTopicResponse((partition,), "t"),)), 18)


@given(request=FETCH_REQUEST, version=VERSIONS, data=st.data())
def test_a_truncated_request_is_malformed(request: FetchRequest, version: int, data: st.DataObject) -> None:
    written = our_bytes(API, fetch_wire.write_request, request, version)
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(MalformedMessageError):
        fetch_wire.read_request(reader_of(API, written[:cut], version), version)


@given(response=FETCH_RESPONSE, version=VERSIONS, data=st.data())
def test_a_truncated_response_is_malformed(response: FetchResponse, version: int, data: st.DataObject) -> None:
    written = our_bytes(API, fetch_wire.write_response, response, version)
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(MalformedMessageError):
        fetch_wire.read_response(reader_of(API, written[:cut], version), version)


@pytest.mark.parametrize("version", range(12, API.max_version + 1))
def test_F11_a_thin_followers_local_start_is_a_field_that_others_skip(version: int) -> None:
    topic_id = UUID(int=7)
    thin = FetchPartition(0, local_log_start_offset=90)
    full = replace(thin, local_log_start_offset=fetch_messages.LOCAL_LOG_START_UNKNOWN)
    name = {"topic_id": topic_id} if version >= 13 else {"topic": "t"}

    def request(partition: FetchPartition) -> FetchRequest:
        return FetchRequest(max_wait_ms=0, min_bytes=1, topics=(FetchTopic((partition,), **name),))  # type: ignore[arg-type]

    written = our_bytes(API, fetch_wire.write_request, request(thin), version)
    assert fetch_wire.read_request(reader_of(API, written, version), version) == request(thin)
    assert len(written) > len(our_bytes(API, fetch_wire.write_request, request(full), version))
    assert read_entity(reader_of(API, written, version), API.request_type(version)), "as every other node reads it"


@given(request=FETCH_REQUEST, response=FETCH_RESPONSE, version=VERSIONS)
def test_what_repeats_is_the_same_each_time(request: FetchRequest, response: FetchResponse, version: int) -> None:
    for write, read, message in (
        (fetch_wire.write_request, fetch_wire.read_request, request),
        (fetch_wire.write_response, fetch_wire.read_response, response),
    ):
        written = our_bytes(API, write, message, version)
        assert our_bytes(API, write, message, version) == written
        sources = [reader_of(API, written, version) for _ in range(2)]
        assert read(sources[0], version) == read(sources[1], version)
        assert [source.remaining for source in sources] == [0, 0]


def idle_request(offset: int, *, session_id: int = 0, partitions: int = 1) -> FetchRequest:
    wanted = tuple(FetchPartition(number, fetch_offset=offset) for number in range(partitions))
    return FetchRequest(500, 1, (FetchTopic(wanted, topic_id=UUID(int=1)),), session_id=session_id)


def read_again(request: FetchRequest) -> FetchRequest:
    return fetch_wire.read_request(reader_of(API, our_bytes(API, fetch_wire.write_request, request, 18), 18), 18)


def response_of(records: bytes | None, offset: int) -> FetchResponse:
    answer = FetchPartitionResponse(0, high_watermark=offset, records=records)
    return FetchResponse((FetchTopicResponse((answer,), topic_id=UUID(int=1)),))


def response_again(response: FetchResponse) -> FetchResponse:
    return fetch_wire.read_response(reader_of(API, our_bytes(API, fetch_wire.write_response, response, 18), 18), 18)


def test_what_an_idle_client_repeats_is_read_once() -> None:
    assert read_again(idle_request(5)).topics is read_again(idle_request(5)).topics
    assert read_again(idle_request(6)).topics[0].partitions[0].fetch_offset == 6
    in_session = read_again(idle_request(5, session_id=3)), read_again(idle_request(5, session_id=3))
    assert in_session[0].topics is not in_session[1].topics, "the next request of a session is another one"
    assert response_again(response_of(b"", 5)) is response_again(response_of(b"", 5))
    assert response_again(response_of(b"", 6)).topics[0].partitions[0].high_watermark == 6
    assert response_again(response_of(b"x", 5)) is not response_again(response_of(b"x", 5)), "records are views"


def test_little_is_kept_of_what_repeats() -> None:
    kept = fetch_wire._read_repeated_request, fetch_wire._written_request, fetch_wire._written_response
    for number in range(fetch_wire.REPEATED_MAX + 10):
        read_again(idle_request(1_000 + number))
        response_again(response_of(b"", 1_000 + number))
        response_again(response_of(b"x", 1_000 + number))
    assert [cache.cache_info().currsize for cache in kept] == [fetch_wire.REPEATED_MAX] * 3
    assert len(fetch_wire._read_responses) == fetch_wire.REPEATED_MAX
    before = fetch_wire._read_repeated_request.cache_info()
    read_again(idle_request(5, partitions=fetch_wire.REPEATED_SIZE_MAX // 32))
    assert fetch_wire._read_repeated_request.cache_info() == before, "what is long is not kept"


def test_a_response_does_not_keep_a_long_frame() -> None:
    frame = memoryview(bytes(1_000) + our_bytes(API, fetch_wire.write_response, response_of(b"", 7), 18))
    readers = [Reader(frame, 1_000, flexible=True) for _ in range(2)]
    one, other = [fetch_wire.read_response(reader, 18) for reader in readers]
    assert (one, one is other) == (other, False), "a header may be long"
