"""Answers of a Fetch response, told while the response arrives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol import codec
from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.fetch.arrival import PIECES_AT_ONCE_MAX, ArrivedAnswer, ArrivingFetchResponse
from tierfetch.protocol.fetch.messages import (
    AbortedTransaction,
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)
from tierfetch.protocol.wire.framing import SIZE_BYTES
from tierfetch.tests.protocol.wire_strategies import FETCH_RESPONSE

VERSIONS = st.integers(ApiKey.FETCH.min_version, ApiKey.FETCH.max_version)


def frame_of(response: FetchResponse, version: int) -> memoryview:
    parts = codec.write_response(ApiKey.FETCH, version, 1, response)
    return memoryview(bytearray(b"".join(parts)))[SIZE_BYTES:]  # type: ignore[arg-type]  # no slices here


def answers_in(response: FetchResponse) -> list[ArrivedAnswer]:
    return [
        ArrivedAnswer(topic.topic, topic.topic_id, partition)
        for topic in response.topics
        for partition in topic.partitions
    ]


@given(response=FETCH_RESPONSE, version=VERSIONS, steps=st.lists(st.integers(1, 200), min_size=1, max_size=30))
def test_what_is_told_piece_by_piece_is_what_the_whole_response_says(
    response: FetchResponse, version: int, steps: list[int]
) -> None:
    frame = frame_of(response, version)
    arriving = ArrivingFetchResponse(frame, version)
    told = []
    count = 0
    for step in steps:
        count = min(count + step, len(frame))
        told += arriving.arrived(count)
    told += arriving.arrived(len(frame))
    whole = codec.read_response(ApiKey.FETCH, version, frame)
    assert told == answers_in(whole)


@given(version=VERSIONS)
def test_an_answer_is_told_with_its_last_byte_and_not_before(version: int) -> None:
    answers = tuple(FetchPartitionResponse(number, records=bytes([number]) * 1000) for number in range(3))
    topics = (FetchTopicResponse(answers[:2], "t"), FetchTopicResponse(answers[2:], "u"))
    frame = frame_of(FetchResponse(topics=topics), version)
    arriving = ArrivingFetchResponse(frame, version)
    told_at: dict[int, int] = {}
    for count in range(len(frame) + 1):
        for arrived in arriving.arrived(count):
            told_at[arrived.answer.partition] = count
            records = arrived.answer.records
            assert isinstance(records, memoryview)
            assert records == answers[arrived.answer.partition].records
    ends = [bytes(frame).rindex(bytes([number]) * 3) + 3 for number in range(1, 3)]
    flexible_end = 1 if ApiKey.FETCH.is_flexible(version) else 0
    assert [told_at[1], told_at[2]] == [end + flexible_end for end in ends]


@given(frame=st.binary(max_size=300), version=VERSIONS)
def test_bytes_that_are_no_response_tell_at_most_answers(frame: bytes, version: int) -> None:
    arriving = ArrivingFetchResponse(memoryview(frame), version)
    for count in range(0, len(frame) + 1, 7):
        for arrived in arriving.arrived(count):
            assert isinstance(arrived.answer, FetchPartitionResponse)


def test_A2_of_many_answers_some_are_told_at_a_time() -> None:
    answers = tuple(FetchPartitionResponse(number) for number in range(2 * PIECES_AT_ONCE_MAX + 1))
    frame = frame_of(FetchResponse(topics=(FetchTopicResponse(answers, "t"),)), 12)
    arriving = ArrivingFetchResponse(frame, 12)
    told = [len(list(arriving.arrived(len(frame)))) for _ in range(4)]
    assert (max(told), sum(told), told[-1]) == (PIECES_AT_ONCE_MAX, len(answers), 0)


def test_A1_an_answer_with_too_much_is_not_told() -> None:
    aborted = (AbortedTransaction(1, 1),) * 11
    answer = FetchPartitionResponse(0, aborted_transactions=aborted)
    frame = frame_of(FetchResponse(topics=(FetchTopicResponse((answer,), "t"),)), 12)
    arriving = ArrivingFetchResponse(frame, 12, elements_max=12)
    assert list(arriving.arrived(len(frame))) == []
