"""Requests of any content, most of them near what the node has: its topics, groups, brokers, epochs and ids.

A sequence of requests goes over one connection. Each is of an API that the node offers, in any of its versions:

| kind | what it looks for |
|---|---|
| every field drawn, names and numbers mostly from the node's state | handlers that trust what a request says |
| the same, with some bytes changed, cut or added | codecs |
| a right header and any bytes; any bytes in a frame | framing, sizes |
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from io import BytesIO
from typing import Any, Final, cast

from hypothesis import strategies as st
from kio.serial import entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.records import Compression, Record, build_batch
from tierfetch.tests.abuse.attacks import connect, frame
from tierfetch.tests.bombs import batch_of, empty_records, header_bomb
from tierfetch.tests.broker import api_scene
from tierfetch.tests.broker.api_scene import Scene
from tierfetch.tests.protocol.entity_strategies import PRIMITIVES, entity_strategy

REQUESTS_MAX: Final = 4
"""Requests of one sequence."""
ANSWER_TIMEOUT_S: Final = 0.1
"""A sequence is over when nothing has come for so long: a Fetch may wait for as long as it says."""
PING: Final = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 1, -1)
PING_TIMEOUT_S: Final = 30.0

NAMES: Final = (
    *(api_scene.TOPIC, api_scene.MOVING, api_scene.LIVE, api_scene.COMMITTED, api_scene.METADATA_TOPIC),
    *("__consumer_offsets", "__remote_log_metadata", "new", "", ".", "a" * 300, "\0", "1", "77", "limited"),
    *("consumer", "range", "PLAINTEXT", "CONTROLLER", "127.0.0.1", "client-id", "user", "ip", "User:alice"),
    *("retention.ms", "cleanup.policy", "compact", "max.message.bytes", "-1", "metadata.version", "kraft.version"),
    *("producer_byte_rate", "request_percentage", "SCRAM-SHA-256", "PLAIN"),
)


def batches() -> st.SearchStrategy[bytes]:
    """Record batches: right ones, damaged ones, and such as hold very much."""
    records = st.lists(st.binary(max_size=50) | st.none(), min_size=1, max_size=4)
    codec = st.sampled_from((Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD))

    def batch(values: Sequence[bytes | None], codec: Compression) -> bytes:
        built = [Record(number, number, value, value) for number, value in enumerate(values)]
        return bytes(build_batch(built, base_offset=0, compression=codec))

    right = st.builds(batch, records, codec)
    large = st.sampled_from(
        (header_bomb(100_000), batch_of(empty_records(50_000), 50_000), batch_of(b"", 2**31 - 1), batch_of(b"\0", 1))
    )
    return right | changed(right) | large


@st.composite
def changed(draw: st.DrawFn, of: st.SearchStrategy[bytes], first: int = 0) -> bytes:
    """Bytes of which some, from `first` on, are others, missing or too many."""
    data = bytearray(draw(of))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(min(first, len(data)), len(data)))
        what = draw(st.sampled_from(("set", "cut", "add")))
        if what == "set" and position < len(data):
            data[position] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
        elif what == "cut":
            del data[position : position + draw(st.integers(1, 8))]
        else:
            data[position:position] = draw(st.binary(min_size=1, max_size=8))
    return bytes(data)


def vocabulary(scene: Scene) -> Mapping[str, st.SearchStrategy[Any]]:
    """What fields are drawn from, by kio's name of their type: mostly what means something to the node."""
    small = (0, 1, -1, 2, 3, api_scene.BROKER, api_scene.GHOST, api_scene.OBSERVER, scene.leader_id, scene.leader_epoch)
    epochs = (scene.broker_epoch, scene.ghost_epoch)
    ids = (*scene.topic_ids.values(), api_scene.METADATA_TOPIC_ID)
    names = (*NAMES, scene.cluster_id, scene.live.member_id)
    times = tuple(timedelta(milliseconds=number) for number in (0, 1, 100, -1, 2**31 - 1))
    near: dict[str, st.SearchStrategy[Any]] = {
        "int8": st.sampled_from((0, 1, -1, 2, 3, 127)),
        "int16": st.sampled_from((*small, 32_767)),
        "int32": st.sampled_from((*small, 100, 2**31 - 1, -(2**31))),
        "int64": st.sampled_from((*small, *epochs, 2**63 - 1, -(2**63))),
        "string": st.sampled_from(names),
        "bytes": st.sampled_from((b"", b"\0\0", api_scene.SUBSCRIPTION, api_scene.ASSIGNMENT)),
        "records": batches(),
        "uuid": st.sampled_from((None, *ids)),
        "timedelta_i32": st.sampled_from(times),
    }
    return {**PRIMITIVES, **{name: mostly(values, PRIMITIVES[name]) for name, values in near.items()}}


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw one of ten from `rare`; `one_of` would draw from both alike."""
    return st.integers(0, 9).flatmap(lambda number: usual if number else rare)


def frames(apis: Sequence[ApiKey], scene: Scene) -> st.SearchStrategy[list[bytes]]:
    """Sequences of requests to a node that offers these APIs."""
    words = vocabulary(scene)

    @cache
    def content(api: ApiKey, version: int) -> st.SearchStrategy[bytes]:
        entity_type = api.request_type(version)
        write = cast(Callable[[BytesIO, object], None], entity_writer(entity_type))

        def framed(entity: object) -> bytes:
            out = BytesIO()
            write(out, entity)
            return frame(api, version, out.getvalue())

        return entity_strategy(entity_type, words).map(framed)

    nothing: st.SearchStrategy[list[bytes]] = st.just([])
    versions = st.sampled_from([(api, number) for api in apis for number in api_versions(api)])
    any_body = st.builds(lambda of, body: frame(of[0], of[1], body), versions, st.binary(max_size=100))
    any_frame = st.binary(max_size=100).map(lambda data: struct.pack(">i", len(data)) + data)
    drawn = versions.flatmap(lambda of: content(*of))
    bad = st.one_of(changed(drawn, 4).map(resized), changed(drawn), any_body, any_frame).map(lambda data: [data])
    # A request that cannot be understood ends the connection, and what follows it is not seen.
    last = st.booleans().flatmap(lambda is_bad: bad if is_bad else nothing)
    return st.builds(lambda some, more: [*some, *more], st.lists(drawn, min_size=1, max_size=REQUESTS_MAX), last)


def resized(data: bytes) -> bytes:
    """Return a frame whose size is right again."""
    return struct.pack(">i", len(data) - 4) + data[4:]


def api_versions(api: ApiKey) -> range:
    return range(api.min_version, api.max_version + 1)


def send(port: int, data: Sequence[bytes]) -> int:
    """Send the requests over one connection, all at once. Return the number of responses that came."""
    received, count = bytearray(), 0
    with connect(port) as connection, contextlib.suppress(OSError):
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.sendall(b"".join(data))
        while count < len(data) and (some := connection.recv(1 << 20)):
            received += some
            while len(received) >= 4 and len(received) >= (size := 4 + struct.unpack_from(">i", received)[0]):
                del received[:size]
                count += 1
    return count


def ping(port: int) -> None:
    """Ask for the node's versions on a connection of its own. OSError if it does not answer."""
    with connect(port) as connection:
        connection.settimeout(PING_TIMEOUT_S)
        connection.sendall(PING)
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        assert len(connection.recv(size, socket.MSG_WAITALL)) == size
