"""The primitive types of Kafka's protocol, read from a frame and written to a response.

A `Reader` and a `Writer` know whether the message is flexible (KIP-482), so that codecs do not ask at each field:

| | flexible | not flexible |
|---|---|---|
| string, nullable string | uvarint length + 1, 0 = null | int16 length, -1 = null |
| records | uvarint length + 1, 0 = null | int32 length, -1 = null |
| array | uvarint length + 1, 0 = null | int32 length, -1 = null |
| end of a structure | tagged fields: uvarint count, then (uvarint tag, uvarint size, bytes) | nothing |

Rules:
* A reader raises `MalformedMessageError` and nothing else, whatever the bytes are.
* A length from outside is compared with what is left of the frame before anything is made of that length. Every array
  element takes at least one byte, so an array is never longer than the rest of the frame; `elements_max` bounds what
  a large frame of tiny elements costs, and loops over arrays call `is_step_over` at each element.
* A string is at most `STRING_SIZE_MAX` bytes in every version: what came in a flexible request may have to leave in a
  response that is not flexible.
* Record bytes are never copied: they come out as views of the frame and go in as parts of their own.
* Tagged fields that the reader does not know are skipped, as KIP-482 demands.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from ..errors import ErrorCode, PeerError
from ..topics import interned_id
from .varint import read_uvarint, write_uvarint

if TYPE_CHECKING:
    import asyncio

Buffer = bytes | bytearray | memoryview
BUFFER_TYPES: Final = (bytes, bytearray, memoryview)
"""The types for `isinstance`: an existing tuple takes a third of the time of a new union."""

ZERO_UUID: Final = UUID(int=0)
INLINE_RECORDS_SIZE_MAX: Final = 4096
"""Records up to this size are copied into the part before them, those of a slice if they are in memory: cheaper than
system calls of their own."""
INLINE_BYTES_MAX: Final = 64 * 1024
"""So are larger slices in memory, up to this size in all of a message: a common answer is one part, for which its
receiver wakes once."""

ELEMENTS_MAX: Final = 1_000_000
"""Array elements of one message. A two-byte element becomes an object of a hundred bytes and takes microseconds."""

STEP_ELEMENTS: Final = 500
"""Elements that are read or written at once; in between the event loop may do other work."""
TAGGED_FIELDS_MAX: Final = 64
"""Tagged fields of one structure. Kafka's largest has seven."""
TAGGED_ELEMENTS_MAX: Final = 10_000
"""Array elements within one tagged field: brokers' endpoints, log directories."""

STRING_SIZE_MAX: Final = 2**15 - 1
"""Bytes. Kafka's readers refuse longer ones too."""

UUID_SIZE: Final = 16
UUIDS_MAX: Final = 4096
"""The number of cached UUIDs: topics are few, and a UUID takes longer to create than the rest of a topic."""

UVARINTS_MAX: Final = 1024
"""Tags and sizes of tagged fields that are kept encoded: they are always the same few."""

INT8 = struct.Struct(">b")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
INT64 = struct.Struct(">q")

_NO_FIELDS: Final[Mapping[int, bytes | None]] = {}
_NO_TAGS: Final[Mapping[int, Reader]] = {}


class _ErrorCodes(dict[int, ErrorCode]):
    def __missing__(self, _: int) -> ErrorCode:
        return ErrorCode.unknown_server_error


error_code: Final[Callable[[int], ErrorCode]] = _ErrorCodes({int(code): code for code in ErrorCode}).__getitem__
"""The code of that number, or UNKNOWN_SERVER_ERROR for one from a newer peer."""


class MalformedMessageError(PeerError):
    """Bytes that are no valid message. Nothing after them can be trusted: close the connection."""


class ShortMessageError(MalformedMessageError):
    """The message ends before its byte `end`."""

    def __init__(self, message: str, end: int) -> None:
        super().__init__(message)
        self.end = end


class Sendable(Protocol):
    """Bytes that a transport can send by itself, such as a slice of a log file. `LogSlice` satisfies it."""

    @property
    def size(self) -> int:
        """In bytes."""

    def at_once(self) -> bytes | None:
        """All bytes, if they are in memory; else they have to be sent."""

    async def send(self, transport: asyncio.WriteTransport) -> None:
        """Send exactly `size` bytes; nothing else writes to the transport meanwhile. Any error: close the transport.

        Where the bytes must be copied (TLS) it awaits `transport.get_protocol().drain()` between pieces.
        """

    def release(self) -> None:
        """Let go of the file, whether the bytes were sent or not. Idempotent."""


Part = Buffer | Sendable
"""A piece of an encoded message."""


def part_size(part: Part) -> int:
    """In bytes."""
    return len(part) if isinstance(part, BUFFER_TYPES) else part.size


@lru_cache(UUIDS_MAX)
def uuid_of(raw: bytes) -> UUID | None:
    """Return the uuid of 16 bytes, None for the zero uuid."""
    value = UUID(bytes=raw)
    return None if value == ZERO_UUID else interned_id(value)


@lru_cache(UVARINTS_MAX)
def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    write_uvarint(encoded, value)
    return bytes(encoded)


class _Stepped:
    """Counts the elements that were read or written; a subclass begins with `_step` 0."""

    __slots__ = ("_step",)

    _step: int

    def is_step_over(self) -> bool:
        """Count one element; return whether so many were read or written that other work should have its turn."""
        self._step += 1
        if self._step < STEP_ELEMENTS:
            return False
        self._step = 0
        return True

    def count_on(self, other: _Stepped) -> None:
        """Count on from where `other` is: this one reads or writes what comes next."""
        self._step = other._step


class Reader(_Stepped):
    """A cursor over one frame. Views given out share the frame's memory and are writable if it is.

    Most lengths take one byte, and most structures have no tagged fields: that is looked for first, without a call, as
    calls are most of what reading costs.
    """

    __slots__ = ("data", "elements", "elements_max", "end", "flexible", "position")

    def __init__(self, data: memoryview, position: int, *, flexible: bool, elements_max: int = ELEMENTS_MAX) -> None:
        self.data = data
        self.end = len(data)
        self.elements = 0
        """Array elements and tagged fields so far."""
        self.elements_max = elements_max
        self._step = 0
        self.position = position
        self.flexible = flexible

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def continue_with(self, data: memoryview) -> None:
        """More of the frame is there: these bytes are those before, and further ones."""
        self.data = data
        self.end = len(data)

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Return a row of integers of fixed size."""
        try:
            values = layout.unpack_from(self.data, self.position)
        except struct.error:
            raise self._short(layout.size) from None
        self.position += layout.size
        return values

    def boolean(self) -> bool:
        return self.int8() != 0

    def int8(self) -> int:
        value: int = self.unpack(INT8)[0]
        return value

    def int16(self) -> int:
        value: int = self.unpack(INT16)[0]
        return value

    def int32(self) -> int:
        value: int = self.unpack(INT32)[0]
        return value

    def int64(self) -> int:
        value: int = self.unpack(INT64)[0]
        return value

    def uvarint(self) -> int:
        try:
            value = self.data[self.position]
            if value < 0x80:
                self.position += 1
            else:
                value, self.position = read_uvarint(self.data, self.position)
        except (IndexError, ValueError) as error:
            raise MalformedMessageError(f"bad variable-length integer at byte {self.position}: {error}") from None
        return value

    def uuid(self) -> UUID | None:
        """None for the zero uuid, which stands for "no topic id"."""
        end = self.position + UUID_SIZE
        if end > self.end:
            raise self._short(UUID_SIZE)
        raw = bytes(self.data[self.position : end])
        self.position = end
        return uuid_of(raw)

    def topic(self, *, by_id: bool) -> tuple[str, UUID | None]:
        """Name ("" where topics go by id) and id (None where they go by name)."""
        return ("", self.uuid()) if by_id else (self.string(), None)

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedMessageError(f"null at byte {self.position} where a string is needed")
        return value

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.int16()
        return self.nullable_text(length)

    def nullable_text(self, length: int) -> str | None:
        """A string of that length in bytes, -1 for null."""
        if not length:
            return ""
        if length < 0 and self._is_null(length):
            return None
        if length > STRING_SIZE_MAX:
            raise MalformedMessageError(
                f"string of {length} bytes before byte {self.position}: {STRING_SIZE_MAX} is the longest"
            )
        start, end = self.position, self.position + length
        if end > self.end:
            raise self._short(length)
        try:
            text = str(self.data[start:end], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessageError(f"string of {length} bytes at byte {start} is not UTF-8") from None
        self.position = end
        return text

    def nullable_records(self) -> memoryview | None:
        """A view of the frame."""
        length = self.uvarint() - 1 if self.flexible else self.int32()
        return None if length < 0 and self._is_null(length) else self._take(length)

    def array_length(self) -> int:
        position = self.position
        if self.flexible and position < self.end:
            length = self.data[position] - 1
            if 0 <= length < 0x7F and length < self.end - position and self.elements + length <= self.elements_max:
                self.position = position + 1
                self.elements += length
                return length
        length = self.nullable_array_length()
        if length < 0:
            raise MalformedMessageError(f"null before byte {self.position} where an array is needed")
        return length

    def nullable_array_length(self) -> int:
        """-1 for null."""
        length = self.uvarint() - 1 if self.flexible else self.int32()
        if length < 0 and self._is_null(length):
            return -1
        if length > self.end - self.position:
            raise MalformedMessageError(
                f"array of {length} elements at byte {self.position}, but only {self.remaining} bytes are left"
            )
        self._count(length)
        return length

    def _count(self, elements: int) -> None:
        self.elements += elements
        if self.elements > self.elements_max:
            raise MalformedMessageError(f"more than {self.elements_max} array elements in one message")

    def tagged_fields(self) -> Mapping[int, Reader]:
        """The tagged fields at the end of a structure, each as a reader bounded to it; empty if not flexible."""
        if not self.flexible:
            return _NO_TAGS
        if self.position < self.end and not self.data[self.position]:
            self.position += 1
            return _NO_TAGS
        count = self.uvarint()
        if count * 2 > self.remaining:
            raise MalformedMessageError(f"{count} tagged fields, but only {self.remaining} bytes are left")
        if count > TAGGED_FIELDS_MAX:
            raise MalformedMessageError(f"{count} tagged fields in one structure, at most {TAGGED_FIELDS_MAX} are read")
        self._count(count)
        elements_max = min(self.elements_max, TAGGED_ELEMENTS_MAX)
        fields = {}
        for _ in range(count):
            tag = self.uvarint()
            fields[tag] = Reader(self._take(self.uvarint()), 0, flexible=True, elements_max=elements_max)
        return fields

    def _is_null(self, length: int) -> bool:
        if length < -1:
            raise MalformedMessageError(f"length {length} before byte {self.position}: -1 is the smallest")
        return length < 0

    def _take(self, count: int) -> memoryview:
        end = self.position + count
        if end > self.end:
            raise self._short(count)
        view = self.data[self.position : end]
        self.position = end
        return view

    def _short(self, count: int) -> MalformedMessageError:
        message = f"{count} bytes are needed at byte {self.position}, but the message has only "
        return ShortMessageError(message + f"{max(self.remaining, 0)} left", self.position + count)


class Writer(_Stepped):
    """Collects the parts of one message. Values are ours: one that does not fit is a bug, not an answer."""

    __slots__ = ("_inline_left", "_parts", "flexible", "out")

    def __init__(self, start: bytes = b"", *, flexible: bool) -> None:
        self._step = 0
        self._inline_left = INLINE_BYTES_MAX
        self.flexible = flexible
        self.out = bytearray(start)
        """The part being written; replaced by `records`, so never keep it."""
        self._parts: list[Part] = []

    def pack(self, layout: struct.Struct, *values: int) -> None:
        """Fixed-size fields in a row."""
        self.out += layout.pack(*values)

    def int16(self, value: int) -> None:
        self.out += INT16.pack(value)

    def int32(self, value: int) -> None:
        self.out += INT32.pack(value)

    def int64(self, value: int) -> None:
        self.out += INT64.pack(value)

    def topic(self, name: str, topic_id: UUID | None, *, by_id: bool) -> None:
        """A topic by its id or by its name; the other one is not sent."""
        if by_id:
            self.uuid(topic_id)
        else:
            self.string(name)

    def uuid(self, value: UUID | None) -> None:
        self.out += (value or ZERO_UUID).int.to_bytes(UUID_SIZE, "big")

    def string(self, value: str | None) -> None:
        """A string or, where the schema allows it, null."""
        if value is None:
            self.out += b"\0" if self.flexible else INT16.pack(-1)
            return
        encoded = value.encode()
        self._length(INT16, len(encoded))
        self.out += encoded

    def array_length(self, length: int) -> None:
        """-1 for null."""
        if self.flexible and length < 0x7F:
            self.out.append(length + 1)
        else:
            self._length(INT32, length)

    def records(self, records: Part | None) -> None:
        """The length, then the bytes: copied if they are few, else as a part of their own."""
        if records is None:
            self._length(INT32, -1)
            return
        small: Buffer | None
        if isinstance(records, BUFFER_TYPES):
            size = len(records)
            small = records if size <= INLINE_RECORDS_SIZE_MAX else None
        else:
            size = records.size
            small = records.at_once() if size <= max(INLINE_RECORDS_SIZE_MAX, self._inline_left) else None
        self._length(INT32, size)
        if small is not None:
            self.out += small
            self._inline_left -= size
        elif size > 0:
            self._parts += (self.out, records)
            self.out = bytearray()

    def end_structure(self, tagged_fields: Mapping[int, bytes | None] = _NO_FIELDS) -> None:
        """The end of a structure. Fields in ascending order of tags; None leaves one out, as for a default value."""
        if not tagged_fields:
            if self.flexible:
                self.out.append(0)
            return
        present = [(tag, value) for tag, value in tagged_fields.items() if value is not None]
        if not self.flexible:
            assert not present, f"tagged fields {present} in a message that has none"
            return
        self.out += _uvarint(len(present))
        for tag, value in present:
            self.out += _uvarint(tag) + _uvarint(len(value)) + value

    def finish(self) -> list[Part]:
        """All parts in order; the writer is of no use afterwards."""
        return [*self._parts, self.out]

    def finish_frame(self) -> list[Part]:
        """Finish, and write the size of all that follows into the first four bytes, which were left free."""
        if not self._parts:
            INT32.pack_into(self.out, 0, len(self.out) - INT32.size)
            return [self.out]
        parts = self.finish()
        first = parts[0]
        assert isinstance(first, bytearray), first
        INT32.pack_into(first, 0, sum(map(part_size, parts)) - INT32.size)
        return parts

    def _length(self, layout: struct.Struct, length: int) -> None:
        if not self.flexible:
            self.out += layout.pack(length)
        elif length < 0x7F:
            self.out.append(length + 1)
        else:
            write_uvarint(self.out, length + 1)
