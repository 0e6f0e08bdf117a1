"""Messages as bytes, by kio and by us, for the tests of those that we write ourselves."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from kio.serial import entity_writer

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.wire.primitives import Reader, Writer
from tierfetch.tests.protocol.entities import build_entity
from tierfetch.tests.protocol.wire_fakes import joined


def kio_bytes(entity_type: type[Any], values: dict[str, Any]) -> bytes:
    """What kio writes."""
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, build_entity(entity_type, values))
    return buffer.getvalue()


def our_bytes(api: ApiKey, write: Callable[[Writer, Any, int], None], message: Any, version: int) -> bytes:
    writer = Writer(flexible=api.is_flexible(version))
    write(writer, message, version)
    return bytes(joined(writer.finish()))


def reader_of(api: ApiKey, data: bytes | bytearray, version: int) -> Reader:
    return Reader(memoryview(data), 0, flexible=api.is_flexible(version))
