"""Walk a partition once, by fetches whose answers are parsed, and keep the fetches: the measured ones send the same."""

from __future__ import annotations

import socket
import struct
from typing import Final

from tierfetch.protocol import ErrorCode, RetriableError
from tierfetch.protocol.codec import read_response_to
from tierfetch.protocol.fetch import FetchPartitionResponse
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.wire import BUFFER_TYPES

from .requests import FETCH_VERSION, PreparedRequest, fetch_request, request_frame

EMPTY_MAX: Final = 60
"""Answers without records before the walk gives up: a slow tier may need some, of half a second each."""
TIMEOUT_S: Final = 60.0
_SIZE: Final = struct.Struct(">i")


class UnreadablePartitionError(RetriableError):
    """The broker answered with an error, or with nothing where records are."""


def walk(port: int, topic: str, partition: int, end_offset: int | None = None) -> list[PreparedRequest]:
    """Return the fetches that read the partition up to its high watermark, or those that begin below `end_offset`."""
    prepared: list[PreparedRequest] = []
    offset = empty = 0
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        while True:
            request = fetch_request(topic, partition, offset)
            frame = request_frame(request)
            body = _exchange(connection, frame)
            answer = read_response_to(request, FETCH_VERSION, memoryview(body)).topics[0].partitions[0]
            _check(answer, topic, partition, offset)
            if offset >= (answer.high_watermark if end_offset is None else min(end_offset, answer.high_watermark)):
                return prepared
            following = next_offset(answer)
            if following is None:
                empty += 1
                if empty > EMPTY_MAX:
                    raise UnreadablePartitionError(f"{topic}-{partition}: no records came from offset {offset}")
                continue
            prepared.append(PreparedRequest(frame, len(body)))
            offset = following


def next_offset(answer: FetchPartitionResponse) -> int | None:
    """Return the offset after the last whole batch; None if there is none."""
    records = answer.records
    if not records:
        return None
    assert isinstance(records, BUFFER_TYPES), records
    following = None
    for _, batch in iter_batches(records, check_crc=False):
        following = batch.last_offset + 1
    return following


def _check(answer: FetchPartitionResponse, topic: str, partition: int, offset: int) -> None:
    if answer.error_code is not ErrorCode.none:
        raise UnreadablePartitionError(f"{topic}-{partition}, offset {offset}: {answer.error_code.name}")


def _exchange(connection: socket.socket, frame: bytes) -> bytearray:
    connection.sendall(frame)
    size = _received(connection, _SIZE.size)
    return _received(connection, _SIZE.unpack(size)[0])


def _received(connection: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, filled = memoryview(data), 0
    while filled < count:
        more = connection.recv_into(view[filled:])
        if not more:
            raise ConnectionResetError(f"the broker closed the connection after {filled} of {count} bytes")
        filled += more
    return data
