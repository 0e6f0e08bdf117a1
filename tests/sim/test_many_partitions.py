"""What a client reads of many partitions at once is compared with what it has written."""

from __future__ import annotations

from uuid import UUID

import pytest

from tierfetch.broker.cluster import ClusterImage, TopicImage
from tierfetch.protocol import ErrorCode, TopicPartition
from tierfetch.protocol.fetch import FetchPartitionResponse, FetchResponse, FetchTopicResponse
from tierfetch.protocol.records import Record, build_batch
from tierfetch.sim.scenarios.looks.many_partitions import wrong_fetch

IMAGE = ClusterImage("c", {}, {"t": TopicImage("t", UUID(int=7), {}, {})}, {})
ENDS = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}
VALUES = {TopicPartition("t", 0): b"a", TopicPartition("t", 1): b"b"}


def part(number: int, offset: int, value: bytes, code: ErrorCode = ErrorCode.none) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        number, code, records=build_batch([Record(offset, 0, None, value)], base_offset=offset)
    )


def answer(*parts: FetchPartitionResponse, code: ErrorCode = ErrorCode.none) -> FetchResponse:
    return FetchResponse((FetchTopicResponse(parts, "", UUID(int=7)),), code)


FIRST, SECOND = part(0, 5, b"a"), part(1, 0, b"b")


@pytest.mark.parametrize(
    ("found", "differing"),
    [
        (answer(FIRST), "['t-1']"),
        (answer(FIRST, part(1, 1, b"b")), "['t-1']"),
        (answer(part(0, 5, b"b"), SECOND), "['t-0']"),
        (answer(FIRST, part(1, 0, b"b", ErrorCode.offset_out_of_range)), "['t-1']"),
        (answer(FIRST, SECOND, part(2, 0, b"b")), "['t-2']"),
        (answer(FIRST, SECOND, code=ErrorCode.fetch_session_id_not_found), "[]"),
    ],
)
def test_each_partition_gives_what_was_written_to_it(found: FetchResponse, differing: str) -> None:
    assert wrong_fetch(answer(SECOND, FIRST), IMAGE, ENDS, VALUES) == []
    (text,) = wrong_fetch(found, IMAGE, ENDS, VALUES)
    assert text.endswith(f"other records of {differing}")
