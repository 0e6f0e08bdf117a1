"""A Fetch response while it arrives: the answer of each partition as soon as its last byte is there.

A follower thus writes the first partition's records while the leader still sends the last one's. What is reported early
is a hint to begin sooner. The response is read again when it is whole, and that counts: until then, bytes that cannot
be read are taken for a part of what can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from ..api import ApiKey
from ..wire.primitives import ELEMENTS_MAX, INT32, MalformedMessageError, Reader, ShortMessageError
from .messages import FetchPartitionResponse
from .wire import read_partition_response, read_response_start, read_topic_start

PIECES_AT_ONCE_MAX: Final = 500
"""Answers that are reported early each time that bytes have arrived: many small ones are no longer worth a hint."""


class ArrivedAnswer(NamedTuple):
    """`topic_id` is None where the version names topics."""

    topic: str
    topic_id: UUID | None
    answer: FetchPartitionResponse


class ArrivingFetchResponse:
    """One frame's response, in one version. Records are views of the frame. `elements_max`: as when it is whole."""

    def __init__(self, frame: memoryview, version: int, elements_max: int = ELEMENTS_MAX) -> None:
        self._frame = frame
        self._version = version
        flexible = ApiKey.FETCH.has_flexible_response_header(version)
        self._reader = Reader(frame[:0], INT32.size, flexible=flexible, elements_max=elements_max)
        self._topics_left: int | None = None
        self._partitions_left = 0
        self._topic: tuple[str, UUID | None] | None = None
        self._needed = 0
        """Fewer bytes of the frame than these are not looked at."""

    def arrived(self, count: int) -> Iterator[ArrivedAnswer]:
        """The answers that are whole with the first `count` bytes of the frame, and were not before."""
        if count < self._needed:
            return
        self._reader.continue_with(self._frame[:count])
        for _ in range(PIECES_AT_ONCE_MAX):
            if self._topics_left == 0 and not self._partitions_left:
                return
            position = self._reader.position
            try:
                arrived = self._step()
            except MalformedMessageError as error:
                self._reader.position = position
                self._needed = error.end if isinstance(error, ShortMessageError) else count + 1
                return
            if arrived is not None:
                yield arrived

    def _step(self) -> ArrivedAnswer | None:
        """Read one piece; only when all of it is there anything changes but the reader."""
        reader = self._reader
        if self._topics_left is None:
            reader.tagged_fields()
            read_response_start(reader, self._version)
            self._topics_left = reader.array_length()
            return None
        if self._partitions_left:
            answer = read_partition_response(reader, self._version)
            self._partitions_left -= 1
            assert self._topic is not None, "a partition without a topic"
            return ArrivedAnswer(*self._topic, answer)
        if self._topic is not None:
            reader.tagged_fields()
        topic = read_topic_start(reader, self._version)
        self._partitions_left = reader.array_length()
        self._topic = topic
        self._topics_left -= 1
        return None
