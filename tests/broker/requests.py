"""Requests of any version, and responses through kio's own codec, so that a handler's answer is proven encodable."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tierfetch.protocol.api import ApiKey


class RequestEntities:
    """`make("MetadataRequest", topics=())` with the fields that the version has."""

    def __init__(self, key: ApiKey, version: int) -> None:
        self._module = load_payload_module(int(key), version, EntityType.request)

    def __call__(self, name: str, /, **fields: Any) -> Any:
        entity = getattr(self._module, name)
        known = {field.name for field in dataclasses.fields(entity)}
        return entity(**{field: value for field, value in fields.items() if field in known})


def over_the_wire(response: Any) -> Any:
    """What the client decodes from the encoded response."""
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    decoded, _ = entity_reader(type(response))(buffer.getvalue(), 0)
    assert decoded == response, "the response does not survive its own encoding"
    return decoded


def all_versions(key: ApiKey) -> range:
    return range(key.min_version, key.max_version + 1)


def topics_of(response: Any, name: str = "topics") -> dict[str, Any]:
    return {entry.name: entry for entry in getattr(response, name)}
