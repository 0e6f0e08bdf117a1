"""Requests that are legal in form and mean harm, as bytes; in versions that are easy to write by hand."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable, Sequence

from tierfetch.protocol.api import ApiKey

TIMEOUT_S = 120.0


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT_S)


def frame(key: ApiKey, version: int, body: bytes) -> bytes:
    """A request: correlation id 7, client id "x"."""
    tags = b"\0" if key.is_flexible(version) else b""
    content = struct.pack(">hhih", key, version, 7, 1) + b"x" + tags + body
    return struct.pack(">i", len(content)) + content


def answer(port: int, request: bytes) -> bytes | None:
    """Send a request on a connection of its own and return its response; None if the connection is closed instead."""
    with connect(port) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(request)
        return received_frame(connection)
    return None


def received_frame(connection: socket.socket) -> bytes | None:
    """Return the next frame without its size; None if the connection ends before it is whole."""
    head = _exactly(connection, 4)
    return None if head is None else _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        some = connection.recv(min(size - len(received), 1 << 20))
        if not some:
            return None
        received += some
    return bytes(received)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def numbers(layout: str, count: int, *rest: int) -> list[bytes]:
    packer = struct.Struct(layout)
    return [packer.pack(number, *rest) for number in range(count)]


def uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def in_topic(topic: str, partitions: Iterable[bytes]) -> bytes:
    return array([text(topic) + array(list(partitions))])


def produce(topic: str, partitions: Sequence[bytes]) -> bytes:
    return frame(ApiKey.PRODUCE, 3, struct.pack(">hhi", -1, -1, 5000) + in_topic(topic, partitions))


def produce_batch(topic: str, batch: bytes) -> bytes:
    return produce(topic, [struct.pack(">ii", 0, len(batch)) + batch])


def produce_nothing(topic: str, count: int) -> bytes:
    return produce(topic, numbers(">ii", count, -1))


def metadata(names: Sequence[str]) -> bytes:
    return frame(ApiKey.METADATA, 1, array([text(name) for name in names]))


def list_offsets(topic: str, partitions: Sequence[bytes]) -> bytes:
    return frame(ApiKey.LIST_OFFSETS, 1, struct.pack(">i", -1) + in_topic(topic, partitions))


def list_offsets_by_time(topic: str, timestamp_ms: int = 1) -> bytes:
    return list_offsets(topic, [struct.pack(">iq", 0, timestamp_ms)])


def fetch(topic: str, count: int) -> bytes:
    head = struct.pack(">iiiib", -1, 100, 1, 1 << 20, 0)
    return frame(ApiKey.FETCH, 4, head + in_topic(topic, numbers(">iqi", count, 0, 1 << 20)))


def find_coordinator(count: int) -> bytes:
    names = b"".join(b"\x07g%05d" % (number % 100_000) for number in range(count))
    return frame(ApiKey.FIND_COORDINATOR, 4, b"\0" + uvarint(count + 1) + names + b"\0")


def describe_groups(count: int) -> bytes:
    return frame(ApiKey.DESCRIBE_GROUPS, 0, array([text(f"g{number}") for number in range(count)]))


def offset_commit(count: int) -> bytes:
    head = text("group") + struct.pack(">ih", -1, 0) + struct.pack(">q", -1)
    return frame(ApiKey.OFFSET_COMMIT, 2, head + in_topic("t", numbers(">iqh", count, 0, -1)))


def offset_fetch(count: int) -> bytes:
    return frame(ApiKey.OFFSET_FETCH, 1, text("group") + in_topic("t", numbers(">i", count)))


def offset_for_leader_epoch(count: int) -> bytes:
    return frame(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, in_topic("t", numbers(">iii", count, -1, 0)))


def delete_topics(count: int) -> bytes:
    return frame(ApiKey.DELETE_TOPICS, 1, array([text(f"n{i}") for i in range(count)]) + struct.pack(">i", 5000))


def create_topics(count: int, *, validate_only: bool = True) -> bytes:
    topics = [text(f"a/{number}") + struct.pack(">ihii", 1, 1, 0, 0) for number in range(count)]
    return frame(ApiKey.CREATE_TOPICS, 2, array(topics) + struct.pack(">i?", 5000, validate_only))


def describe_configs(count: int) -> bytes:
    resources = [b"\2" + text(f"n{number}") + struct.pack(">i", -1) for number in range(count)]
    return frame(ApiKey.DESCRIBE_CONFIGS, 1, array(resources) + b"\0")


def alter_configs(count: int) -> bytes:
    resources = [
        b"\2" + text(f"n{number}") + array([text("retention.ms") + b"\0" + text("5")]) for number in range(count)
    ]
    return frame(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, array(resources) + b"\0")


def tagged_api_versions(count: int) -> bytes:
    fields = b"".join(uvarint(tag) + b"\0" for tag in range(count))
    return frame(ApiKey.API_VERSIONS, 3, b"\2x\2x" + uvarint(count) + fields)


def vote(count: int) -> bytes:
    partition = struct.pack(">iiiii", 0, 1, 1, 0, 0) + b"\0" * 4
    return frame(
        ApiKey.VOTE, 0, b"\0" + b"\2" + b"\x13__cluster_metadata"[:19] + uvarint(count + 1) + partition * count
    )


def alter_partition(count: int) -> bytes:
    partition = (
        struct.pack(">ii", 0, 0) + b"\2" + struct.pack(">iq", 1, 1) + b"\0" + b"\0" + struct.pack(">i", 0) + b"\0"
    )
    topic = bytes(16) + uvarint(count + 1) + partition * count + b"\0"
    return frame(ApiKey.ALTER_PARTITION, 3, struct.pack(">iq", 1, 0) + b"\2" + topic + b"\0")
