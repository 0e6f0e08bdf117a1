"""Content for every field of a message, as plain values that serve all its versions: none of it is a default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from uuid import UUID
from zlib import crc32

from tierfetch.protocol.api import ApiKey
from tierfetch.protocol.errors import ErrorCode
from tierfetch.tests.protocol.entities import FieldSchema, schema_of

_KINDS: Final[Mapping[str, Any]] = {
    "bool": lambda field, _: field.default is not True,
    "int8": lambda _, seed: seed % 100 + 2,
    "int16": lambda _, seed: seed % 30_000 + 2,
    "uint16": lambda _, seed: seed % 60_000 + 2,
    "int32": lambda _, seed: seed % 2**30 + 2,
    "uint32": lambda _, seed: seed % 2**31 + 2,
    "int64": lambda _, seed: seed * 2**20 + 2,
    "float64": lambda _, seed: seed / 8,
    "string": lambda field, seed: f"{field.name}-{seed}",
    "bytes": lambda field, seed: f"{field.name}-{seed}".encode(),
    "records": lambda field, seed: f"{field.name}-{seed}".encode(),
    "uuid": lambda _, seed: UUID(int=seed + 2**100),
    "error_code": lambda _, seed: ErrorCode(seed % 80 + 1),
    "timedelta_i32": lambda _, seed: seed % 2**30 + 2,
    "timedelta_i64": lambda _, seed: seed + 2,
    "datetime_i64": lambda _, seed: seed + 2,
}
"""By kio's name of the type: a value for a field, drawn from its name."""


def full_request(api: ApiKey) -> dict[str, Any]:
    """Plain values for a request of any version, with two elements in every array."""
    return _content([api.request_type(version) for version in _versions(api)], api.name)


def full_response(api: ApiKey) -> dict[str, Any]:
    """The same for a response."""
    return _content([api.response_type(version) for version in _versions(api)], api.name)


def _versions(api: ApiKey) -> range:
    return range(api.min_version, api.max_version + 1)


def _content(types: Iterable[type[Any]], place: str) -> dict[str, Any]:
    kinds: dict[str, list[FieldSchema]] = {}
    for entity_type in types:
        for field in schema_of(cast(Any, entity_type)):
            kinds.setdefault(field.plain_name, []).append(field)
    return {name: _value(fields, f"{place}.{name}") for name, fields in kinds.items()}


def _value(fields: list[FieldSchema], place: str) -> Any:
    field = fields[-1]
    shapes = {(each.is_array, each.entity is None, each.kafka_type) for each in fields}
    assert len(shapes) == 1, f"{place} is {shapes}: no one value serves all versions"
    if field.is_array:
        return [_one(fields, f"{place}[{number}]") for number in range(2)]
    return _one(fields, place)


def _one(fields: list[FieldSchema], place: str) -> Any:
    field = fields[-1]
    if field.entity is None:
        return _KINDS[field.kafka_type](field, crc32(place.encode()))
    return _content([each.entity for each in fields if each.entity is not None], place)
