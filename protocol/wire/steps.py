"""Reads and writes message classes in steps, so that a large message does not hold the event loop.

    steps = stepping_reader(MetadataRequest, schema)(reader)    # a generator: it yields after each STEP_ELEMENTS
    message = run_to_end(steps)                                 # or an event loop drives it, other work in between

Of elements of a class `WrittenOften` the bytes are kept for the next message with the same object, up to
`KEPT_BYTES_MAX`, and no longer than the object: what is in one message alone, as a topic that does not exist, leaves
nothing here, and pushes nothing out.

What is read and written is what `message_codec` reads and writes. Only arrays take steps: a structure without arrays is
read and written at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import attrgetter
from typing import Final, cast

from kio.static.protocol import Entity

from ..messages.base import Message, MessageT, WrittenOften
from .message_codec import (
    Read,
    Write,
    element_reader,
    element_writer,
    field_reader,
    field_writer,
    nested_class,
    read_tagged,
    tagged_writers,
    write_tagged,
)
from .primitives import MalformedMessageError, Reader, Writer
from .schema import FieldSchema, schema_of
from .stepping import Steps, run_to_end

KEPT_BYTES_MAX: Final = 1 << 20
"""The limit of bytes that are kept of one class, for each version that is asked for. Then all are forgotten."""

ReadSteps = Callable[[Reader], Steps[object]]
WriteSteps = Callable[[Writer, object], Steps[None]]

_made_readers: dict[tuple[type[Message], type[Entity]], Callable[[Reader], Steps[Message]]] = {}
_made_writers: dict[tuple[type[Message], type[Entity]], object] = {}


def _has_arrays(entity_type: type[Entity]) -> bool:
    return any(
        schema.is_array or (schema.entity is not None and _has_arrays(schema.entity))
        for schema in schema_of(entity_type)
    )


def _has_long_arrays(entity_type: type[Entity]) -> bool:
    """Whether one has arrays of structures with arrays: it takes steps of its own, where others are written at once."""
    return any(
        schema.is_array and schema.entity is not None and _has_arrays(schema.entity)
        for schema in schema_of(entity_type)
    )


# Bytes to messages.


def stepping_reader(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Reader], Steps[MessageT]]:
    """Return the generator function that reads a `cls` from a message of that version."""
    made = _made_readers.get((cls, entity_type))
    if made is None:
        made = _made_readers[cls, entity_type] = _make_reader(cls, entity_type)
    return cast("Callable[[Reader], Steps[MessageT]]", made)  # the key has the class


def _make_reader(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Reader], Steps[MessageT]]:
    plain: list[tuple[str, Read | None, ReadSteps | None]] = []
    tagged: dict[int, tuple[str, Read]] = {}
    for schema in schema_of(entity_type):
        if schema.tag is not None:
            tagged[schema.tag] = (schema.plain_name, field_reader(cls, schema))
        elif schema.is_array:
            plain.append((schema.plain_name, None, _array_reader(cls, schema)))
        else:
            plain.append((schema.plain_name, field_reader(cls, schema), None))

    def read_message(reader: Reader) -> Steps[MessageT]:
        values: dict[str, object] = {}
        for name, read, steps in plain:
            if steps is not None:
                values[name] = yield from steps(reader)
            elif read is not None:
                values[name] = read(reader)
        read_tagged(reader, tagged, values)
        return cls(**values)

    return read_message


def _array_reader(cls: type[Message], schema: FieldSchema) -> ReadSteps:
    read_one = element_reader(cls, schema)
    nested: ReadSteps | None = None
    if schema.entity is not None and _has_arrays(schema.entity):
        nested = stepping_reader(nested_class(cls, schema.plain_name), schema.entity)

    def read_array(reader: Reader) -> Steps[tuple[object, ...] | None]:
        length = reader.nullable_array_length()
        if length < 0:
            if schema.is_nullable:
                return None
            raise MalformedMessageError(f"{schema.name} is null before byte {reader.position}")
        items: list[object] = []
        while len(items) < length:
            if reader.is_step_over():
                yield
            if nested is not None:
                items.append((yield from nested(reader)))
            else:
                items.append(read_one(reader))
        return tuple(items)

    return read_array


# Messages to bytes.


def stepping_writer(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Writer, MessageT], Steps[None]]:
    """Return the generator function that writes a `cls` as a message of that version."""
    made = _made_writers.get((cls, entity_type))
    if made is None:
        made = _made_writers[cls, entity_type] = _make_writer(cls, entity_type)
    return cast("Callable[[Writer, MessageT], Steps[None]]", made)  # the key has the class


def _make_writer(cls: type[MessageT], entity_type: type[Entity]) -> Callable[[Writer, MessageT], Steps[None]]:
    plain: list[tuple[Callable[[Message], object], Write | None, WriteSteps | None]] = []
    for schema in schema_of(entity_type):
        get = attrgetter(schema.plain_name)
        if schema.is_array and schema.tag is None:
            plain.append((get, None, _array_writer(cls, schema)))
        elif schema.tag is None:
            plain.append((get, field_writer(cls, schema), None))
    tagged = tagged_writers(cls, entity_type)

    def write_message(writer: Writer, message: MessageT) -> Steps[None]:
        for get, write, steps in plain:
            if steps is not None:
                yield from steps(writer, get(message))
            elif write is not None:
                write(writer, get(message))
        write_tagged(writer, tagged, message)

    return write_message


def _array_writer(cls: type[Message], schema: FieldSchema) -> WriteSteps:
    write_one = element_writer(cls, schema)
    nested: Callable[[Writer, Message], Steps[None]] | None = None
    nested_cls: type[Message] = Message
    if schema.entity is not None and _has_arrays(schema.entity):
        nested_cls = nested_class(cls, schema.plain_name)
        nested = stepping_writer(nested_cls, schema.entity)
        if issubclass(nested_cls, WrittenOften):
            kept = _Kept(nested_cls, nested)
            if _has_long_arrays(schema.entity):
                nested = kept.write_steps
            else:
                write_one, nested = kept.write, None

    place = f"{cls.__name__}.{schema.plain_name}"

    def write_array(writer: Writer, held: object) -> Steps[None]:
        items = _begun(writer, held, place, is_nullable=schema.is_nullable)
        for item in items:
            if writer.is_step_over():
                yield
            if nested is None:
                write_one(writer, item)
                continue
            if type(item) is not nested_cls:
                raise TypeError(f"{place} holds a {type(item).__name__}")
            yield from nested(writer, item)

    return write_array


def _begun(writer: Writer, held: object, place: str, *, is_nullable: bool) -> tuple[object, ...]:
    """Write the length of an array; return its elements, none of null."""
    if held is None:
        if not is_nullable:
            raise TypeError(f"{place} is None")
        writer.array_length(-1)
        return ()
    if not isinstance(held, tuple):
        raise TypeError(f"{place} is a {type(held).__name__}, not a tuple")
    writer.array_length(len(held))
    return held


class _Written(weakref.ref[Message]):
    """The bytes of an object."""

    __slots__ = ("data", "key")
    data: bytes
    key: int


class _Kept:
    """The bytes of elements that were written as one version of their message, by identity."""

    def __init__(self, cls: type[Message], write: Callable[[Writer, Message], Steps[None]]) -> None:
        self._cls = cls
        self._write = write
        self._found: dict[int, _Written] = {}
        """Each goes with its object, before another one can have the `id`."""
        self._size_bytes = 0

    def write(self, writer: Writer, held: object) -> None:
        found = self._found.get(id(held))
        if found is None:
            own = Writer(flexible=writer.flexible)
            run_to_end(self._written(own, held))
            writer.out += own.out
        else:
            writer.out += found.data

    def write_steps(self, writer: Writer, held: Message) -> Steps[None]:
        """Do the same; the first time in steps."""
        found = self._found.get(id(held))
        if found is None:
            own = Writer(flexible=writer.flexible)
            own.count_on(writer)
            yield from self._written(own, held)
            writer.count_on(own)
            writer.out += own.out
        else:
            writer.out += found.data

    def _written(self, own: Writer, held: object) -> Steps[None]:
        if not isinstance(held, self._cls):
            raise TypeError(f"an array of {self._cls.__name__} holds a {type(held).__name__}")
        yield from self._write(own, held)
        size_bytes = len(own.out)
        if self._size_bytes + size_bytes > KEPT_BYTES_MAX:
            self._found.clear()
            self._size_bytes = 0
        # Another message may have kept it between two steps.
        if id(held) not in self._found and size_bytes <= KEPT_BYTES_MAX:
            written = self._found[id(held)] = _Written(held, self._forget)
            written.data, written.key = bytes(own.out), id(held)
            self._size_bytes += size_bytes

    def _forget(self, written: weakref.ref[Message]) -> None:
        assert isinstance(written, _Written)
        del self._found[written.key]
        self._size_bytes -= len(written.data)
