"""Requests of any version, and responses through kio's own codec, so that a handler's answer is proven encodable."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import (
    RequestHeader,
    read_request_body,
    read_request_header,
    read_response,
    write_request,
    write_response,
)
from tierfetch.protocol.messages.base import Request, ResponseT
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire.entities import build_entity


class RequestEntities:
    """`make("MetadataRequest", topics=())` with the fields that the version has."""

    def __init__(self, key: ApiKey, version: int) -> None:
        self._module = load_payload_module(int(key), version, EntityType.request)

    def __call__(self, name: str, /, **fields: Any) -> Any:
        entity = getattr(self._module, name)
        known = {field.name for field in dataclasses.fields(entity)}
        return entity(**{field: value for field, value in fields.items() if field in known})


def context(request: Any) -> RequestContext:
    """The circumstances of a request, taken from the entity itself."""
    return context_of(ApiKey(request.__api_key__), request.__version__)


def context_of(api: ApiKey, version: int) -> RequestContext:
    return RequestContext(api, version, "test", 1, "127.0.0.1:1", "PLAINTEXT", 0.0)


async def ask(handle: Callable[[RequestContext, Any], Awaitable[Mapping[str, Any]]], request: Any) -> Any:
    """What the client decodes from the handler's encoded answer."""
    response_type = ApiKey(request.__api_key__).response_type(request.__version__)
    entity = build_entity(response_type, await handle(context(request), request))
    buffer = io.BytesIO()
    entity_writer(response_type)(buffer, entity)
    decoded, _ = entity_reader(response_type)(buffer.getvalue(), 0)
    assert decoded == entity, "the response does not survive its own encoding"
    return decoded


async def ask_typed(
    handle: Callable[[RequestContext, Any], Awaitable[ResponseT]], request: Request[ResponseT], version: int
) -> ResponseT:
    """Return what a client reads that asks in this version; both messages go through their bytes."""
    api = ApiKey(request.api_key)
    frame = b"".join(bytes(part) for part in write_request(RequestHeader(api, version, 1, "test"), request))
    header, reader = read_request_header(memoryview(frame)[4:])
    response = await handle(context_of(api, version), read_request_body(header, reader))
    frame = b"".join(bytes(part) for part in write_response(api, version, 1, response))
    found: ResponseT = read_response(api, version, memoryview(frame)[4:])
    return found


def all_versions(key: ApiKey) -> range:
    return range(key.min_version, key.max_version + 1)
