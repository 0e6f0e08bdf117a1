"""Whole frames: headers against kio's, every version of every API there and back, and bytes from a hostile peer."""

from __future__ import annotations

import io
import resource
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer

from tierfetch.protocol import codec
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, UnsupportedVersionError
from tierfetch.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataResponse
from tierfetch.protocol.wire.message_codec import message_writer
from tierfetch.protocol.wire.primitives import ELEMENTS_MAX, MalformedMessageError, Writer
from tierfetch.tests.messages import request_of, response_of
from tierfetch.tests.protocol.entity_strategies import entities
from tierfetch.tests.protocol.wire_fakes import joined
from tierfetch.tests.protocol.wire_strategies import FETCH_REQUEST, FETCH_RESPONSE, PRODUCE_REQUEST, PRODUCE_RESPONSE

ALL_VERSIONS = [(api, version) for api in ApiKey for version in range(api.min_version, api.max_version + 1)]
REQUESTS = {ApiKey.PRODUCE: PRODUCE_REQUEST, ApiKey.FETCH: FETCH_REQUEST}
RESPONSES = {ApiKey.PRODUCE: PRODUCE_RESPONSE, ApiKey.FETCH: FETCH_RESPONSE}


def requests(api: ApiKey, version: int) -> st.SearchStrategy[Any]:
    if api in REQUESTS:
        return REQUESTS[api]  # type: ignore[return-value]
    return entities(api.request_type(version)).map(lambda entity: request_of(api, entity, version))


def responses(api: ApiKey, version: int) -> st.SearchStrategy[Any]:
    if api in RESPONSES:
        return RESPONSES[api]  # type: ignore[return-value]
    return entities(api.response_type(version)).map(lambda entity: response_of(api, entity, version))


def read_request(frame: bytes | bytearray) -> tuple[RequestHeader, Any]:
    header, reader = codec.read_request_header(memoryview(frame))
    return header, codec.read_request_body(header, reader)


@pytest.mark.parametrize(("api", "version"), ALL_VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_requests_have_the_right_header_and_come_back(api: ApiKey, version: int) -> None:
    header_type: Any = HeaderV2 if api.is_flexible(version) else HeaderV1

    @settings(max_examples=3, database=None)
    @given(body=requests(api, version), client_id=st.none() | st.text(max_size=5))
    def check(body: Any, client_id: str | None) -> None:
        header = RequestHeader(api, version, 77, client_id)
        frame = joined(codec.write_request(header, body))
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        expected = io.BytesIO()
        entity_writer(header_type)(
            expected,
            header_type(request_api_key=api, request_api_version=version, correlation_id=77, client_id=client_id),
        )
        assert frame[4:].startswith(expected.getvalue())
        again, body_again = read_request(frame[4:])
        assert again == header
        assert joined(codec.write_request(again, body_again)) == frame

    check()


@pytest.mark.parametrize(("api", "version"), ALL_VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
def test_responses_come_back(api: ApiKey, version: int) -> None:
    @settings(max_examples=3, database=None)
    @given(body=responses(api, version))
    def check(body: Any) -> None:
        frame = joined(codec.write_response(api, version, 5, body))
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        view = memoryview(frame)[4:]
        assert codec.correlation_id_of(view) == 5
        again = codec.read_response(api, version, view)
        assert joined(codec.write_response(api, version, 5, again)) == frame

    check()


@pytest.mark.parametrize(
    ("api", "version", "header"), [(ApiKey.METADATA, 8, 4), (ApiKey.METADATA, 9, 5), (ApiKey.API_VERSIONS, 4, 4)]
)
def test_response_headers_are_flexible_except_those_of_api_versions(api: ApiKey, version: int, header: int) -> None:
    response = (
        ApiVersionsResponse(api_keys=()) if api is ApiKey.API_VERSIONS else MetadataResponse(brokers=(), topics=())
    )
    frame = joined(codec.write_response(api, version, 5, response))
    body = Writer(flexible=api.is_flexible(version))
    message_writer(type(response), api.response_type(version))(body, response)
    assert len(frame) == 4 + header + len(joined(body.finish()))


@pytest.mark.parametrize(
    ("key", "version", "message"),
    [(9999, 0, "API key 9999 is unknown"), (3, 14, "METADATA version 14, where 0 to 13"), (0, 2, "PRODUCE version 2")],
)
def test_a_request_that_we_do_not_offer_is_named(key: int, version: int, message: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=message) as caught:
        read_request(struct.pack(">hhih", key, version, 42, -1))
    assert (caught.value.api_key, caught.value.correlation_id) == (key, 42)


def test_unknown_tagged_fields_in_a_request_header_are_skipped() -> None:
    frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 1, -1) + b"\x01\x63\x02ab" + b"\x02a\x02b\x00"
    header, body = read_request(frame)
    assert (header.api, body.client_software_name) == (ApiKey.API_VERSIONS, "a")


def test_bytes_behind_a_request_are_ignored_and_behind_a_response_are_not() -> None:
    request = joined(codec.write_request(RequestHeader(ApiKey.API_VERSIONS, 0, 1, None), ApiVersionsRequest()))
    assert read_request(request[4:] + b"more")[0].api is ApiKey.API_VERSIONS
    response = joined(codec.write_response(ApiKey.API_VERSIONS, 0, 1, ApiVersionsResponse(api_keys=())))
    with pytest.raises(MalformedMessageError, match="4 bytes after a response"):
        codec.read_response(ApiKey.API_VERSIONS, 0, memoryview(response + b"more")[4:])


def test_another_message_is_not_written() -> None:
    with pytest.raises(TypeError, match="expected a MetadataRequest, not ApiVersionsRequest"):
        codec.write_request(RequestHeader(ApiKey.METADATA, 1, 1, None), ApiVersionsRequest())


# Bytes from a hostile peer.


def read_or_refuse(frame: bytes | bytearray) -> None:
    try:
        read_request(frame)
    except (MalformedMessageError, UnsupportedVersionError):
        return


@given(frame=st.binary(max_size=300))
def test_random_bytes_are_refused_or_read(frame: bytes) -> None:
    read_or_refuse(frame)


@given(api_version=st.sampled_from(ALL_VERSIONS), body=st.binary(max_size=200))
def test_random_bodies_are_refused_or_read(api_version: tuple[ApiKey, int], body: bytes) -> None:
    api, version = api_version
    read_or_refuse(struct.pack(">hhih", api, version, 1, -1) + b"\0" * api.is_flexible(version) + body)


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_mutated_requests_are_refused_or_read(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from(ALL_VERSIONS))
    frame = joined(codec.write_request(RequestHeader(api, version, 1, "c"), data.draw(requests(api, version))))[4:]
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(frame) - 1))
        frame[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    read_or_refuse(frame[: data.draw(st.integers(0, len(frame)))])


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_mutated_responses_are_refused_or_read(data: st.DataObject) -> None:
    api, version = data.draw(st.sampled_from(ALL_VERSIONS))
    frame = joined(codec.write_response(api, version, 1, data.draw(responses(api, version))))[4:]
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(4, len(frame) - 1)) if len(frame) > 4 else 0
        frame[position] = data.draw(st.integers(0, 255))
    try:
        codec.read_response(api, version, memoryview(frame))
    except MalformedMessageError:
        return


@pytest.mark.parametrize(("api", "version"), ALL_VERSIONS, ids=lambda value: getattr(value, "name", str(value)))
@pytest.mark.parametrize("filler", [b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\xff", b"\x80\x80\x80\x80\x08"])
def test_huge_lengths_take_no_memory(api: ApiKey, version: int, filler: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for lead in range(12):
        header = struct.pack(">hhih", api, version, 1, -1) + b"\0" * api.is_flexible(version)
        read_or_refuse(header + b"\x01" * lead + filler * 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kB"


def test_a_frame_of_countless_tiny_elements_is_refused() -> None:
    names = struct.pack(">i", ELEMENTS_MAX + 1) + b"\0\0" * (ELEMENTS_MAX + 1)
    with pytest.raises(MalformedMessageError, match="more than 50000 array elements"):
        read_request(struct.pack(">hhih", ApiKey.METADATA, 0, 1, -1) + names)
