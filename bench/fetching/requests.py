"""A fetch that is written once and sent many times. Pure.

A reader that makes its requests while it is measured, or parses answers to learn the next offset, is measured itself.
So each request is a frame of bytes, with the size that its answer had when the partition was walked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tierfetch.protocol import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION: Final = 12
"""The last version that names topics: no id has to be learnt."""
PARTITION_BYTES: Final = 1 << 20
RESPONSE_BYTES: Final = 50 << 20
MAX_WAIT_MS: Final = 500
CLIENT_ID: Final = "bench"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """`frame` is the whole request; `answer_bytes` is the size of the answer, without the four bytes that give it."""

    frame: bytes
    answer_bytes: int


def fetch_request(topic: str, partition: int, offset: int) -> FetchRequest:
    """Return a consumer's fetch of one partition, with the limits that Kafka's consumers have by default."""
    asked = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=PARTITION_BYTES)
    return FetchRequest(MAX_WAIT_MS, 1, (FetchTopic((asked,), topic),), RESPONSE_BYTES)


def request_frame(request: FetchRequest) -> bytes:
    """Return the request as it goes to the socket."""
    parts = write_request(RequestHeader(ApiKey.FETCH, FETCH_VERSION, 0, CLIENT_ID), request)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # a fetch has no slices


def dealt(partitions: Sequence[Sequence[T]], connections: int) -> list[list[T]]:
    """Return what each connection sends: the partitions in turn, each whole and in order."""
    shares: list[list[T]] = [[] for _ in range(connections)]
    for number, requests in enumerate(partitions):
        shares[number % connections] += requests
    return shares


def total_bytes(partitions: Sequence[Sequence[PreparedRequest]]) -> int:
    return sum(request.answer_bytes for requests in partitions for request in requests)


def pieces(size: int, piece: int) -> Iterator[tuple[int, int]]:
    """Yield (offset, count) of what a file of this size is read in."""
    for offset in range(0, size, piece):
        yield offset, min(piece, size - offset)
