"""Requests of any version, and responses through kio's own codec, so that a handler's answer is proven encodable."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

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
from tierfetch.protocol.messages.base import Message, Request
from tierfetch.protocol.net.dispatch import RequestContext
from tierfetch.protocol.wire.framing import SIZE_BYTES
from tierfetch.protocol.wire.primitives import Part
from tierfetch.tests.protocol.entities import build_entity

RequestT = TypeVar("RequestT", bound=Request[Any])
ResponseT = TypeVar("ResponseT", bound=Message)


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
    return RequestContext(api, version, "test", 1, "127.0.0.1:1", "PLAINTEXT", 0.0, client_host="127.0.0.1")


async def ask(handle: Callable[[RequestContext, Any], Awaitable[Mapping[str, Any]]], request: Any) -> Any:
    """What the client decodes from the handler's encoded answer."""
    response_type = ApiKey(request.__api_key__).response_type(request.__version__)
    entity = build_entity(response_type, await handle(context(request), request))
    buffer = io.BytesIO()
    entity_writer(response_type)(buffer, entity)
    decoded, _ = entity_reader(response_type)(buffer.getvalue(), 0)
    assert decoded == entity, "the response does not survive its own encoding"
    return decoded


async def ask_message(
    handle: Callable[[RequestContext, RequestT], Awaitable[ResponseT]], request: RequestT, version: int | None = None
) -> ResponseT:
    """Return what the client reads of the answer; both ways through the bytes of the version, by default the newest."""
    api = ApiKey(request.api_key)
    version = api.max_version if version is None else version
    parts = write_request(RequestHeader(api, version, 1, "test"), request)
    header, reader = read_request_header(memoryview(_joined(parts))[SIZE_BYTES:])
    response = await handle(context_of(api, version), read_request_body(header, reader))
    answer: ResponseT = read_response(
        api, version, memoryview(_joined(write_response(api, version, 1, response)))[SIZE_BYTES:]
    )
    return answer


def _joined(parts: list[Part]) -> bytes:
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # no slices of files here


def all_versions(key: ApiKey) -> range:
    return range(key.min_version, key.max_version + 1)
