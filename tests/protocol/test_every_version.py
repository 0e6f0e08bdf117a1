"""Every API in every version, full of content: whatever holds the messages, their bytes are those of the schemas.

The table of APIs is the list. The bytes are written by kio from its own classes, so that they judge our codecs, and
whatever our codecs make of a message between reading and writing it.
"""

from __future__ import annotations

import dataclasses
import io
import struct
from typing import Any

import pytest
from kio.serial import entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import (
    RequestHeader,
    read_request_body,
    read_request_header,
    read_response,
    request_steps,
    write_request,
    write_response,
)
from tierfetch.protocol.wire.stepping import run_to_end
from tierfetch.tests.messages import request_of, response_of
from tierfetch.tests.protocol.entities import build_entity, schema_of
from tierfetch.tests.protocol.full_content import full_request, full_response
from tierfetch.tests.protocol.wire_fakes import joined

EVERY_VERSION = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api in ApiKey
    for version in range(api.min_version, api.max_version + 1)
]
CORRELATION_ID = 77
OWN_VALUES = {ApiKey.PRODUCE, ApiKey.FETCH}
"""APIs whose requests and responses are values of their own, not plain ones."""


def written(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def defaults_in(entity: Any, place: str = "") -> list[str]:
    """The fields that say no more than their absence would."""
    found = []
    for field in schema_of(type(entity)):
        value = getattr(entity, field.name)
        if (field.default is not dataclasses.MISSING and value == field.default) or value in (None, (), "", b""):
            found.append(f"{place}.{field.name}")
        for item in value if isinstance(value, tuple) else (value,):
            if field.entity is not None and item is not None:
                found += defaults_in(item, f"{place}.{field.name}")
    return found


def framed(start: bytes, entity: Any) -> bytes:
    body = start + written(entity)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_A4_a_full_request_of_every_version_is_read_and_written(api: ApiKey, version: int) -> None:
    content = full_request(api)
    entity = build_entity(api.request_type(version), content)
    assert defaults_in(entity) == []
    header = RequestHeader(api, version, CORRELATION_ID, "client")
    tags = b"\0" if api.is_flexible(version) else b""
    frame = framed(struct.pack(">hhih", api, version, CORRELATION_ID, 6) + b"client" + tags, entity)
    read_header, reader = read_request_header(memoryview(frame)[4:])
    request = read_request_body(read_header, reader)
    assert (read_header, reader.remaining) == (header, 0)
    assert joined(write_request(header, request)) == frame
    assert joined(run_to_end(request_steps(header, request))) == frame
    if api not in OWN_VALUES:
        assert joined(write_request(header, request_of(api, content, version))) == frame


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_A4_a_full_response_of_every_version_is_read_and_written(api: ApiKey, version: int) -> None:
    content = full_response(api)
    entity = build_entity(api.response_type(version), content)
    assert defaults_in(entity) == []
    tags = b"\0" if api.has_flexible_response_header(version) else b""
    frame = framed(struct.pack(">i", CORRELATION_ID) + tags, entity)
    response = read_response(api, version, memoryview(frame)[4:])
    assert joined(write_response(api, version, CORRELATION_ID, response)) == frame
    if api not in OWN_VALUES:
        assert joined(write_response(api, version, CORRELATION_ID, response_of(api, content, version))) == frame
