"""Reads and writes message classes in any version, by kio's schema of that version.

    read = message_reader(MetadataRequest, ApiKey.METADATA.request_type(4))
    request = read(reader)                  # fields that version 4 lacks have the class's defaults
    write = message_writer(MetadataResponse, ApiKey.METADATA.response_type(4))
    write(writer, response)                 # fields that version 4 lacks are left out

Readers and writers are built once for each class and version. As in Kafka (KIP-482), unknown tagged fields are skipped,
and a tagged field that holds its default is not written. Every fault in the bytes is a `MalformedMessageError`. A value
that does not fit its field is an internal error: TypeError, struct.error, or UnicodeEncodeError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from operator import attrgetter
from types import NoneType
from typing import Final, cast, get_args, get_type_hints

from kio.static.protocol import Entity

from ..messages.base import Message, MessageT
from .primitives import MalformedMessageError, Reader, Writer, error_code
from .schema import FieldSchema, schema_of

Read = Callable[[Reader], object]
"""Reads one field; its schema says what that is."""
Write = Callable[[Writer, object], None]
"""Writes one field."""
TaggedWriter = tuple[int, Callable[[Message], object], Write, object]
"""The tag of a field, how it is taken from a message and written, and its default."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")


_made_readers: dict[tuple[type[Message], type[Entity]], Callable[[Reader], Message]] = {}
_made_writers: dict[tuple[type[Message], type[Entity]], object] = {}
"""The codecs by class and schema; at most one for each version of each message."""


def nested_class(owner: type[Message], field_name: str) -> type[Message]:
    """Return the message class of a nested structure, or of an array of them."""
    kind = get_type_hints(owner)[field_name]
    while arguments := [item for item in get_args(kind) if item not in (NoneType, Ellipsis)]:
        (kind,) = arguments
    found: type[Message] = kind
    return found


# Bytes to messages.


def message_reader(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Reader], MessageT]:
    """Return the function that reads a `cls` from a message of that version, and moves the reader to its end."""
    made = _made_readers.get((cls, entity_type))
    if made is None:
        made = _made_readers[cls, entity_type] = _make_reader(cls, entity_type)
    return cast("Callable[[Reader], MessageT]", made)  # the key has the class


def _make_reader(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Reader], MessageT]:
    plain: list[tuple[str, Read]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    for schema in schema_of(entity_type):
        read = field_reader(cls, schema)
        if schema.tag is None:
            plain.append((schema.plain_name, read))
        else:
            tagged[schema.tag] = (schema.plain_name, read)

    def read_message(reader: Reader) -> MessageT:
        values = {name: read(reader) for name, read in plain}
        read_tagged(reader, tagged, values)
        return cls(**values)

    return read_message


def read_tagged(reader: Reader, tagged: Mapping[int, tuple[str, Read]], values: dict[str, object]) -> None:
    """Read the end of a structure: the tagged fields that are known go into `values`."""
    for tag, field in reader.tagged_fields().items():
        if tag in tagged:
            name, read = tagged[tag]
            values[name] = read(field)


def field_reader(cls: type[Message], schema: FieldSchema) -> Read:
    """Return the function that reads one field, all elements of an array included."""
    read_one = element_reader(cls, schema)
    if not schema.is_array:
        return read_one

    def read_array(reader: Reader) -> tuple[object, ...] | None:
        length = reader.nullable_array_length()
        if length >= 0:
            return tuple([read_one(reader) for _ in range(length)])
        if not schema.is_nullable:
            raise MalformedMessageError(f"{schema.name} is null before byte {reader.position}")
        return None

    return read_array


def element_reader(cls: type[Message], schema: FieldSchema) -> Read:
    """Return the function that reads one element of an array, or the field itself."""
    # A tagged field that is null is not written at all; an array is null as a whole.
    is_nullable = schema.is_nullable and not schema.is_array and schema.tag is None
    if schema.entity is None:
        return (_NULLABLE_READERS if is_nullable else _READERS)[schema.kafka_type]
    read = message_reader(nested_class(cls, schema.plain_name), schema.entity)
    return (lambda reader: None if reader.int8() < 0 else read(reader)) if is_nullable else read


def _bytes(reader: Reader) -> bytes:
    value = reader.nullable_records()
    if value is None:
        raise MalformedMessageError(f"null before byte {reader.position} where bytes are needed")
    return bytes(value)


def _nullable_bytes(reader: Reader) -> bytes | None:
    value = reader.nullable_records()
    return None if value is None else bytes(value)


_READERS: Final[Mapping[str, Read]] = {
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
    "timedelta_i32": Reader.int32,
    "timedelta_i64": Reader.int64,
    "datetime_i64": Reader.int64,
}
_NULLABLE_READERS: Final[Mapping[str, Read]] = {
    **_READERS,
    "string": Reader.nullable_string,
    "bytes": _nullable_bytes,
    "records": _nullable_bytes,
}


# Messages to bytes.


def message_writer(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Writer, MessageT], None]:
    """Return the function that writes a `cls` as a message of that version."""
    made = _made_writers.get((cls, entity_type))
    if made is None:
        made = _made_writers[cls, entity_type] = _make_writer(cls, entity_type)
    return cast("Callable[[Writer, MessageT], None]", made)  # the key has the class


def _make_writer(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Writer, MessageT], None]:
    plain = [
        (attrgetter(schema.plain_name), field_writer(cls, schema))
        for schema in schema_of(entity_type)
        if schema.tag is None
    ]
    tagged = tagged_writers(cls, entity_type)

    def write_message(writer: Writer, message: MessageT) -> None:
        for get, write in plain:
            write(writer, get(message))
        write_tagged(writer, tagged, message)

    return write_message


def tagged_writers(cls: type[Message], entity_type: type[Entity]) -> list[TaggedWriter]:
    """Return how the tagged fields of a message are written, in the order of their tags."""
    defaults = {item.name: item.default for item in fields(cls)}
    found: list[TaggedWriter] = []
    for schema in schema_of(entity_type):
        name = schema.plain_name
        if schema.tag is not None:
            assert defaults[name] is not MISSING, f"{cls.__name__}.{name} is tagged and has no default"
            found.append((schema.tag, attrgetter(name), field_writer(cls, schema), defaults[name]))
    return sorted(found, key=lambda item: item[0])


def write_tagged(writer: Writer, tagged: Sequence[TaggedWriter], message: Message) -> None:
    """Write the end of a structure: the tagged fields that are not at their defaults."""
    if not writer.flexible or not tagged:
        writer.end_structure()
        return
    present: dict[int, bytes] = {}
    for tag, get, write, default in tagged:
        held = get(message)
        if held is not None and held != default:
            present[tag] = _encoded(write, held)
    writer.end_structure(present)


def _encoded(write: Write, held: object) -> bytes:
    writer = Writer(flexible=True)
    write(writer, held)
    return b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]  # no slices of files here


def field_writer(cls: type[Message], schema: FieldSchema) -> Write:
    """Return the function that writes one field, all elements of an array included."""
    write_one = element_writer(cls, schema)
    place = f"{cls.__name__}.{schema.plain_name}"

    def write_required(writer: Writer, held: object) -> None:
        if held is None:
            raise TypeError(f"{place} is None")
        write_one(writer, held)

    def write_array(writer: Writer, held: object) -> None:
        if held is None:
            if not schema.is_nullable:
                raise TypeError(f"{place} is None")
            writer.array_length(-1)
            return
        if not isinstance(held, tuple):
            raise TypeError(f"{place} is a {type(held).__name__}, not a tuple")
        writer.array_length(len(held))
        for item in held:
            write_one(writer, item)

    if schema.is_array:
        return write_array
    return write_one if schema.is_nullable or schema.kafka_type == "uuid" else write_required


def element_writer(cls: type[Message], schema: FieldSchema) -> Write:
    """Return the function that writes one element of an array, or the field itself."""
    if schema.entity is None:
        return _WRITERS[schema.kafka_type]
    nested = nested_class(cls, schema.plain_name)
    write = message_writer(nested, schema.entity)

    def write_nested(writer: Writer, held: object) -> None:
        if type(held) is not nested:
            raise TypeError(
                f"{cls.__name__}.{schema.plain_name} holds a {type(held).__name__}, not a {nested.__name__}"
            )
        write(writer, held)

    def write_nullable(writer: Writer, held: object) -> None:
        writer.pack(_INT8, -1 if held is None else 1)
        if held is not None:
            write_nested(writer, held)

    return write_nullable if schema.is_nullable and not schema.is_array and schema.tag is None else write_nested


def _packed(layout: struct.Struct) -> Callable[[Writer, int], None]:
    return lambda writer, held: writer.pack(layout, held)


_TYPED_WRITERS: Final = {
    "bool": _packed(_INT8),
    "int8": _packed(_INT8),
    "int16": _packed(_INT16),
    "int32": _packed(_INT32),
    "int64": _packed(_INT64),
    "uint16": _packed(_UINT16),
    "uint32": _packed(_UINT32),
    "float64": _packed(_FLOAT64),
    "string": Writer.string,
    "bytes": Writer.records,
    "records": Writer.records,
    "uuid": Writer.uuid,
    "error_code": _packed(_INT16),
    "timedelta_i32": _packed(_INT32),
    "timedelta_i64": _packed(_INT64),
    "datetime_i64": _packed(_INT64),
}
_WRITERS: Final = cast("Mapping[str, Write]", _TYPED_WRITERS)
"""The writers by type. What a field holds fits its writer by its class's annotation, or the writer raises TypeError."""
