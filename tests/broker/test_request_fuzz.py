"""A whole node in this process, and requests of any bytes: each is answered or its connection closed, without an error
of the node, and other connections are served afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import RequestHeader, write_request
from tierfetch.protocol.wire.primitives import Part
from tierfetch.tests.broker.test_every_api import combined_node
from tierfetch.tests.messages import request_of
from tierfetch.tests.protocol.entities import build_entity
from tierfetch.tests.protocol.full_content import full_request
from tierfetch.tests.protocol.wire_fakes import joined

ANSWER_TIMEOUT_S = 20.0
PING = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 1, -1)
EXAMPLES = 150
CHANGES_NOTHING = (
    *(ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_GROUPS, ApiKey.FETCH),
    *(ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.LIST_GROUPS, ApiKey.LIST_OFFSETS),
    *(ApiKey.METADATA, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.OFFSET_FETCH, ApiKey.SYNC_GROUP),
    *(ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.PRODUCE, ApiKey.LEAVE_GROUP, ApiKey.DELETE_GROUPS),
)
"""APIs that nobody can stop the node with on purpose, as the quorum's and the brokers' own may."""


class Errors(logging.Handler):
    """Remembers what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@dataclass
class Target:
    loop: asyncio.AbstractEventLoop
    port: int
    errors: Errors = field(default_factory=Errors)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    loop = asyncio.new_event_loop()
    node = combined_node(tmp_path_factory.mktemp("fuzz"))
    running = loop.run_until_complete(node.__aenter__())
    target = Target(loop, running.broker.address.port)
    logging.getLogger().addHandler(target.errors)
    yield target
    logging.getLogger().removeHandler(target.errors)
    loop.run_until_complete(node.__aexit__(None, None, None))
    loop.close()


async def exchange(port: int, data: bytes) -> bytes | None:
    """One response; None if the connection is closed, or nothing comes because a request of that size is awaited."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)
    except (OSError, asyncio.IncompleteReadError):
        return None
    finally:
        writer.close()


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A header that is right, and any bytes after it."""
    api = draw(st.sampled_from(CHANGES_NOTHING))
    version = draw(st.integers(api.min_version, api.max_version))
    tags = b"\0" * api.is_flexible(version)
    body = draw(st.binary(max_size=200) | st.integers(0, 255).map(lambda byte: bytes([byte]) * 60))
    return framed(struct.pack(">hhih", api, version, 1, -1) + tags + body)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A full request, some of whose bytes are others."""
    api = draw(st.sampled_from([api for api in CHANGES_NOTHING if api not in (ApiKey.FETCH, ApiKey.PRODUCE)]))
    version = draw(st.integers(api.min_version, api.max_version))
    entity = build_entity(api.request_type(version), full_request(api))
    parts: list[Part] = write_request(RequestHeader(api, version, 1, "x"), request_of(api, entity, version))
    frame = joined(parts)
    for _ in range(draw(st.integers(1, 4))):
        frame[draw(st.integers(14, len(frame) - 1))] = draw(st.integers(0, 255))
    return bytes(frame)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.binary(max_size=100) | bodies() | damaged())
def test_any_bytes_are_answered_or_refused(target: Target, data: bytes) -> None:
    target.loop.run_until_complete(exchange(target.port, data))
    answer = target.loop.run_until_complete(exchange(target.port, PING))
    assert answer is not None
    assert answer[4:6] == b"\0\0"
    assert target.errors.messages == []
