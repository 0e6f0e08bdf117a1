"""Messages from literal values, and back: a test may say what goes over the wire as mappings.

The values go through the bytes of the asked version, so a name or a type that the version does not have fails.
"""

from __future__ import annotations

from dataclasses import fields, replace
from io import BytesIO
from typing import Any

from kio.serial import entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.messages.base import Message
from tierfetch.protocol.messages.needed_fields import NEEDED_SINCE
from tierfetch.protocol.messages.registry import MESSAGES, request_class, response_class
from tierfetch.protocol.messages.versions import upgraded
from tierfetch.protocol.wire.message_codec import message_reader
from tierfetch.protocol.wire.primitives import Reader
from tierfetch.tests.protocol.entities import build_entity


def request_of(api: ApiKey, values: Any, version: int | None = None) -> Any:
    """Return the newest form of a request from values or an entity; a message as it is."""
    if api not in MESSAGES or isinstance(values, Message):
        return values
    version = api.max_version if version is None else version
    return _through_bytes(request_class(api), api.request_type(version), api, version, values)


def response_of(api: ApiKey, values: Any, version: int | None = None) -> Any:
    """Return the newest form of a response; the rest as in `request_of`."""
    if api not in MESSAGES or isinstance(values, Message):
        return values
    version = api.max_version if version is None else version
    return _through_bytes(response_class(api), api.response_type(version), api, version, values)


def _through_bytes(cls: type[Any], entity_type: type[Any], api: ApiKey, version: int, values: Any) -> Any:
    out = BytesIO()
    entity_writer(entity_type)(out, build_entity(entity_type, values))
    reader = Reader(memoryview(out.getvalue()), 0, flexible=api.is_flexible(version))
    return upgraded(message_reader(cls, entity_type)(reader), version)


def plain(message: Any) -> Any:
    """Return a message as mappings and lists, all the way down."""
    if isinstance(message, Message):
        return {name: plain(getattr(message, name)) for name in message.__slots__}
    return [plain(item) for item in message] if isinstance(message, list | tuple) else message


def fitting(request: Any, version: int | None) -> Any:
    """Return the request with defaults in the fields that this version cannot express; None is the newest."""
    since = NEEDED_SINCE.get(type(request), {})
    if not since:
        return request
    newer = {name for name, first in since.items() if version is not None and version < first}
    return replace(request, **{item.name: item.default for item in fields(request) if item.name in newer})
