"""Fetches are written once, and are what a consumer would send."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.bench.fetching.requests import (
    FETCH_VERSION,
    PreparedRequest,
    dealt,
    fetch_request,
    pieces,
    request_frame,
    total_bytes,
)
from tierfetch.bench.fetching.walk import next_offset
from tierfetch.protocol import ApiKey, ErrorCode
from tierfetch.protocol.codec import read_request_body, read_request_header
from tierfetch.protocol.fetch import FetchPartitionResponse
from tierfetch.protocol.records import Record, build_batch


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_frame_is_the_fetch_of_a_consumer_without_a_session(partition: int, offset: int) -> None:
    frame = memoryview(request_frame(fetch_request("t", partition, offset)))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header, reader = read_request_header(frame[4:])
    assert (header.api, header.api_version) == (ApiKey.FETCH, FETCH_VERSION)
    body = read_request_body(header, reader)
    assert body == fetch_request("t", partition, offset)
    assert (body.replica_id, body.session_id, body.session_epoch) == (-1, 0, -1)


@given(st.lists(st.lists(st.integers()), max_size=12), st.integers(1, 8))
def test_each_partition_is_read_by_one_connection_in_its_order(partitions: list[list[int]], connections: int) -> None:
    shares = dealt(partitions, connections)
    assert len(shares) == connections
    assert sorted(chain(*shares)) == sorted(chain(*partitions))
    for number, share in enumerate(shares):
        assert share == list(chain(*partitions[number::connections]))


def test_the_sizes_of_all_answers_are_the_whole() -> None:
    assert total_bytes([[PreparedRequest(b"", 3), PreparedRequest(b"", 4)], [], [PreparedRequest(b"", 5)]]) == 12


@given(st.integers(0, 10_000), st.integers(1, 3_000))
def test_pieces_cover_a_file_without_gap_or_overlap(size: int, piece: int) -> None:
    at = 0
    for offset, count in pieces(size, piece):
        assert offset == at
        assert 0 < count <= piece
        at += count
    assert at == size


def batch_of(offsets: range) -> bytes:
    return bytes(build_batch([Record(offset, 0, value=b"v") for offset in offsets], base_offset=offsets[0]))


def answer(records: bytes) -> FetchPartitionResponse:
    return FetchPartitionResponse(0, ErrorCode.none, records=records)


def test_the_next_fetch_begins_after_the_last_whole_batch() -> None:
    batch = batch_of(range(40, 43))
    assert next_offset(answer(batch)) == 43
    assert next_offset(answer(batch + batch[:70])) == 43


def test_there_is_no_next_fetch_without_a_whole_batch() -> None:
    batch = batch_of(range(1))
    assert next_offset(answer(b"")) is None
    assert next_offset(answer(batch[:-1])) is None
