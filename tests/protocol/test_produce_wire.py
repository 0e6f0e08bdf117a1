"""Produce on the wire: byte for byte what kio writes, in every version, without a copy of the records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.wire import produce as produce_wire
from tierfetch.protocol.wire.primitives import MalformedMessageError, Writer
from tierfetch.protocol.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from tierfetch.tests.protocol.wire_kit import kio_bytes, our_bytes, reader_of
from tierfetch.tests.protocol.wire_strategies import (
    PRODUCE_REQUEST,
    PRODUCE_RESPONSE,
    produce_request_values,
    produce_response_values,
)

API = ApiKey.PRODUCE
VERSIONS = st.integers(API.min_version, API.max_version)


def request_of_version(request: ProduceRequest, version: int) -> ProduceRequest:
    """What is left of the request once it went through that version."""
    topics = tuple(
        replace(topic, topic="") if version >= 13 else replace(topic, topic_id=None) for topic in request.topics
    )
    return replace(request, topics=topics)


def response_of_version(response: ProduceResponse, version: int) -> ProduceResponse:
    def partition_of_version(partition: ProducePartitionResponse) -> ProducePartitionResponse:
        if version < 5:
            partition = replace(partition, log_start_offset=-1)
        if version < 8:
            partition = replace(partition, record_errors=(), error_message=None)
        return partition if version >= 10 else replace(partition, current_leader=None)

    return replace(
        response,
        node_endpoints=response.node_endpoints if version >= 10 else (),
        topics=tuple(
            ProduceTopicResponse(
                tuple(map(partition_of_version, topic.partitions)),
                topic.topic if version < 13 else "",
                topic.topic_id if version >= 13 else None,
            )
            for topic in response.topics
        ),
    )


@given(request=PRODUCE_REQUEST, version=VERSIONS)
def test_request_is_what_kio_writes_and_comes_back(request: ProduceRequest, version: int) -> None:
    written = our_bytes(API, produce_wire.write_request, request, version)
    assert written == kio_bytes(API.request_type(version), produce_request_values(request))
    source = reader_of(API, written, version)
    assert produce_wire.read_request(source, version) == request_of_version(request, version)
    assert source.remaining == 0


@given(response=PRODUCE_RESPONSE, version=VERSIONS)
def test_response_is_what_kio_writes_and_comes_back(response: ProduceResponse, version: int) -> None:
    written = our_bytes(API, produce_wire.write_response, response, version)
    assert written == kio_bytes(API.response_type(version), produce_response_values(response))
    source = reader_of(API, written, version)
    assert produce_wire.read_response(source, version) == response_of_version(response, version)
    assert source.remaining == 0


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
def test_records_of_a_request_are_a_writable_view_of_the_frame(version: int) -> None:
    records = bytes(range(256)) * 100
    request = ProduceRequest(acks=-1, timeout_ms=5, topics=(ProduceTopic((ProducePartition(3, records),), "t"),))
    frame = bytearray(our_bytes(API, produce_wire.write_request, request, version))
    view = produce_wire.read_request(reader_of(API, frame, version), version).topics[0].partitions[0].records
    assert isinstance(view, memoryview)
    assert view == records
    position = frame.index(records)
    view[0] = 7
    assert frame[position] == 7


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
def test_records_are_passed_on_as_the_same_object(version: int) -> None:
    records = bytes(10_000)
    request = ProduceRequest(acks=1, timeout_ms=5, topics=(ProduceTopic((ProducePartition(0, records),), "t"),))
    writer = Writer(flexible=API.is_flexible(version))
    produce_wire.write_request(writer, request, version)
    assert any(part is records for part in writer.finish())


@given(request=PRODUCE_REQUEST, version=VERSIONS, data=st.data())
def test_a_truncated_request_is_malformed(request: ProduceRequest, version: int, data: st.DataObject) -> None:
    written = our_bytes(API, produce_wire.write_request, request, version)
    cut = data.draw(st.integers(0, len(written) - 1))
    with pytest.raises(MalformedMessageError):
        produce_wire.read_request(reader_of(API, written[:cut], version), version)


def test_an_unknown_error_code_of_a_newer_broker_is_unknown_server_error() -> None:
    response = ProduceResponse(topics=(ProduceTopicResponse((ProducePartitionResponse(0, 0x5A5A),), "t"),))  # type: ignore[arg-type]
    written = our_bytes(API, produce_wire.write_response, response, 9)
    assert produce_wire.read_response(reader_of(API, written, 9), 9).topics[0].partitions[0].error_code == -1
