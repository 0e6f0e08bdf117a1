"""Entities: kio's dataclasses, one for each version of each message, from bytes and from plain values.

Tests name what goes over the wire in a version's own terms, apart from the message classes. kio's reader cannot be used
as it is: an unknown tagged field or error code is an exception there. So entities are read here, by their schemas.

    build_entity(ApiKey.LIST_OFFSETS.response_type(7), {"topics": [{"name": "t", "partitions": [...]}]})

| kio's field | plain value | when it is not given |
|---|---|---|
| error_code | ErrorCode or int | NONE |
| timeout, throttle_time (timedelta) | `timeout_ms`, `throttle_time_ms`: int | throttle time 0 |
| a point in time | `<name>_ms`: int, -1 for none | -1 |
| nested entity, array of them | mapping, sequence of mappings (or of entities) | as the schema says |
| uuid | UUID; None and the zero uuid are the same | None |
| others | int, str, bytes, bool, None, sequence of these | the schema's default; TypeError without one |

A name that no version of the message has is a TypeError, so that a slip of the pen is not taken for an old version.
Fields of our own (`extensions`) count as Kafka's do: a version without them leaves them out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType
from kio.static.protocol import Entity

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.extensions import extended_request, extended_response
from tierfetch.protocol.wire.primitives import MalformedMessageError, Reader, error_code
from tierfetch.protocol.wire.schema import FieldSchema, schema_of

_UINT16 = struct.Struct(">H")
_UINT32 = struct.Struct(">I")
_FLOAT64 = struct.Struct(">d")
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def milliseconds(value: timedelta) -> int:
    """What the wire said, of a field that kio gives as a timedelta."""
    return value // _MILLISECOND


# Bytes to entities.


def read_entity(reader: Reader, entity_type: type[Entity]) -> Any:
    """The entity at the reader's position, which moves behind it. MalformedMessageError otherwise."""
    values: dict[str, Any] = {}
    tagged: dict[int, FieldSchema] = {}
    for schema in schema_of(entity_type):
        if schema.tag is None:
            values[schema.name] = _read_field(reader, schema)
        else:
            tagged[schema.tag] = schema
            values[schema.name] = _absent(schema)
    for tag, field_reader in reader.tagged_fields().items():
        if tag in tagged:
            values[tagged[tag].name] = _read_field(field_reader, tagged[tag])
    return entity_type(**values)


def _read_field(reader: Reader, schema: FieldSchema) -> Any:
    read_one = _one_reader(schema)
    if not schema.is_array:
        return read_one(reader)
    length = reader.nullable_array_length()
    if length < 0:
        if not schema.is_nullable:
            raise MalformedMessageError(f"{schema.name} is null before byte {reader.position}")
        return None
    return tuple([read_one(reader) for _ in range(length)])


def _absent(schema: FieldSchema) -> Any:
    """What a tagged field that is not there stands for: of a structure without a default, its fields' own."""
    if schema.default is not MISSING or schema.entity is None:
        return schema.default
    return schema.entity(**{field.name: _zero(field) for field in schema_of(schema.entity)})


def _zero(schema: FieldSchema) -> Any:
    """The default where the schema names none."""
    if schema.default is not MISSING:
        return schema.default
    if schema.is_array:
        return ()
    return _absent(schema) if schema.entity is not None else _ZEROS.get(schema.kafka_type, 0)


@cache
def _one_reader(schema: FieldSchema) -> Callable[[Reader], Any]:
    entity = schema.entity
    if entity is None:
        nullable = schema.is_nullable and not schema.is_array and schema.tag is None
        return _NULLABLE_READERS[schema.kafka_type] if nullable else _READERS[schema.kafka_type]
    if schema.is_nullable and not schema.is_array and schema.tag is None:
        return lambda reader: None if reader.int8() < 0 else read_entity(reader, entity)
    return lambda reader: read_entity(reader, entity)


def _bytes(reader: Reader) -> bytes:
    value = reader.nullable_records()
    if value is None:
        raise MalformedMessageError(f"null before byte {reader.position} where bytes are needed")
    return bytes(value)


def _nullable_bytes(reader: Reader) -> bytes | None:
    value = reader.nullable_records()
    return None if value is None else bytes(value)


def _instant(milliseconds_since_epoch: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds_since_epoch)
    except OverflowError:
        raise MalformedMessageError(f"{milliseconds_since_epoch} ms is no point in time") from None


def _timedelta(value: int) -> timedelta:
    try:
        return timedelta(milliseconds=value)
    except OverflowError:
        raise MalformedMessageError(f"{value} ms is no duration") from None


def _nullable_instant(reader: Reader) -> datetime | None:
    value = reader.int64()
    return None if value == -1 else _instant(value)


_READERS: Final[Mapping[str, Callable[[Reader], Any]]] = {
    "bool": Reader.boolean,
    "int8": Reader.int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "uint16": lambda reader: reader.unpack(_UINT16)[0],
    "uint32": lambda reader: reader.unpack(_UINT32)[0],
    "float64": lambda reader: reader.unpack(_FLOAT64)[0],
    "string": Reader.string,
    "bytes": _bytes,
    "records": _bytes,
    "uuid": Reader.uuid,
    "error_code": lambda reader: error_code(reader.int16()),
    "timedelta_i32": lambda reader: _timedelta(reader.int32()),
    "timedelta_i64": lambda reader: _timedelta(reader.int64()),
    "datetime_i64": lambda reader: _instant(reader.int64()),
}
_NULLABLE_READERS: Final[Mapping[str, Callable[[Reader], Any]]] = {
    **_READERS,
    "string": Reader.nullable_string,
    "bytes": _nullable_bytes,
    "records": _nullable_bytes,
    "datetime_i64": _nullable_instant,
}

_ZEROS: Final[Mapping[str, Any]] = {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": None}
"""Where it is not 0."""

# Plain values to entities.


def build_entity(entity_type: type[Entity], values: Mapping[str, Any]) -> Any:
    """An entity of this version from plain values; see the module's table. TypeError names a field that is missing or
    unknown.
    """
    return _build(entity_type, entity_type, values)


def _build(root: type[Entity], entity_type: type[Entity], values: Mapping[str, Any]) -> Any:
    if isinstance(values, entity_type):
        return values
    arguments: dict[str, Any] = {}
    for schema in schema_of(entity_type):
        if schema.plain_name in values:
            arguments[schema.name] = _convert(root, schema, values[schema.plain_name])
        elif schema.default is not MISSING:
            arguments[schema.name] = schema.default
        else:
            raise TypeError(f"{entity_type.__name__} v{entity_type.__version__} needs {schema.plain_name!r}: {values}")
    if not values.keys() <= _plain_names(entity_type):
        _refuse_unknown_names(root, values)
    return entity_type(**arguments)


def _convert(root: type[Entity], schema: FieldSchema, value: Any) -> Any:
    if value is None:
        return None
    if schema.is_array:
        return tuple(_convert_one(root, schema, item) for item in value)
    return _convert_one(root, schema, value)


def _convert_one(root: type[Entity], schema: FieldSchema, value: Any) -> Any:
    if schema.entity is not None:
        return _build(root, schema.entity, value)
    match schema.kafka_type:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _instant(value)
    return value


@cache
def _plain_names(entity_type: type[Entity]) -> frozenset[str]:
    return frozenset(schema.plain_name for schema in schema_of(entity_type))


def _refuse_unknown_names(root: type[Entity], values: Mapping[str, Any]) -> None:
    unknown = sorted(set(values) - _names_in_any_version(root))
    if unknown:
        raise TypeError(f"no version of {root.__name__} has a field {', '.join(unknown)}")


@cache
def _names_in_any_version(root: Any) -> frozenset[str]:
    """Plain names of all fields of all versions of the message, our own among them; imports all versions once."""
    key = root.__api_key__
    versions = schema_name_map[api_key_map[key]]
    if root.__type__ is EntityType.request:
        types_ = [extended_request(load_request_schema(key, version)) for version in versions]
    else:
        types_ = [extended_response(load_response_schema(key, version)) for version in versions]
    return frozenset().union(*map(_names_within, types_))


def _names_within(entity_type: type[Entity]) -> frozenset[str]:
    """Plain names of the fields of an entity and of all that it holds."""
    held = [_names_within(schema.entity) for schema in schema_of(entity_type) if schema.entity is not None]
    return _plain_names(entity_type).union(*held)
