"""Messages from plain values, for tests that name a few fields of a large message."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.codec import TYPED
from tierfetch.protocol.messages.registry import request_class, response_class

T = TypeVar("T")


def message_of(cls: type[T], values: Mapping[str, Any]) -> T:
    """Return the message with these values: a mapping stands for a structure, a list or tuple for an array."""
    return cls(**{name: _held(cls, name, value) for name, value in values.items()})


def _held(cls: type[Any], name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return message_of(_nested_class(cls, name), value)
    if isinstance(value, list | tuple):
        return tuple(_held(cls, name, item) for item in value)
    return value


def _nested_class(cls: type[Any], name: str) -> type[Any]:
    kind = get_type_hints(cls)[name]
    while arguments := [item for item in get_args(kind) if item not in (NoneType, Ellipsis)]:
        (kind,) = arguments
    found: type[Any] = kind
    return found


def request_body(api: ApiKey, body: Any) -> Any:
    """Return the body as `write_request` takes it: of a typed API the message, given as such or as plain values."""
    return message_of(request_class(api), body) if api in TYPED and isinstance(body, Mapping) else body


def response_body(api: ApiKey, body: Any) -> Any:
    """Return the body as `write_response` takes it."""
    return message_of(response_class(api), body) if api in TYPED and isinstance(body, Mapping) else body
