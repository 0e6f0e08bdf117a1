"""Primitive types: what a reader refuses and says, and what a writer does not copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfetch.protocol.errors import ErrorCode
from tierfetch.protocol.topics import interned_id
from tierfetch.protocol.wire.primitives import (
    INLINE_BYTES_MAX,
    INLINE_RECORDS_SIZE_MAX,
    INT32,
    MalformedMessageError,
    Reader,
    Writer,
    error_code,
    part_size,
)
from tierfetch.tests.protocol.wire_fakes import MemorySlice, joined


def reader(data: bytes | bytearray, *, flexible: bool) -> Reader:
    return Reader(memoryview(data), 0, flexible=flexible)


@pytest.mark.parametrize(
    ("flexible", "data", "read", "message"),
    [
        (False, b"\0\0", Reader.int32, "4 bytes are needed at byte 0, but the message has only 2 left"),
        (False, b"\0\5abc", Reader.string, "5 bytes are needed at byte 2, but the message has only 3 left"),
        (False, b"\xff\xff", Reader.string, "null at byte 2 where a string is needed"),
        (False, b"\xff\xfe", Reader.nullable_string, "length -2 before byte 2"),
        (False, b"\0\2\xff\xff", Reader.string, "string of 2 bytes at byte 2 is not UTF-8"),
        (False, b"\xff\xff\xff\xfe", Reader.nullable_records, "length -2 before byte 4"),
        (False, b"\xff\xff\xff\xff", Reader.array_length, "null before byte 4 where an array is needed"),
        (False, b"\xff\xff\xff\xfe", Reader.nullable_array_length, "length -2 before byte 4"),
        (False, b"\x7f\xff\xff\xff", Reader.array_length, "array of 2147483647 elements at byte 4, but only 0 bytes"),
        (True, b"\x00", Reader.string, "null at byte 1 where a string is needed"),
        (True, b"\x81\x80\x02" + bytes(40_000), Reader.string, "string of 32768 bytes before byte 3"),
        (True, b"\x0b12345", Reader.array_length, "array of 10 elements at byte 1, but only 5 bytes are left"),
        (True, b"\xff\xff\xff\xff\xff", Reader.array_length, "bad variable-length integer at byte 0"),
        (True, b"\x80", Reader.array_length, "bad variable-length integer at byte 0"),
        (True, b"\x03\x00\x00", Reader.tagged_fields, "3 tagged fields, but only 2 bytes are left"),
        (True, b"\x01\x00\x09abc", Reader.tagged_fields, "9 bytes are needed at byte 3"),
    ],
)
def test_a_fault_is_named(flexible: bool, data: bytes, read: Callable[[Reader], Any], message: str) -> None:
    with pytest.raises(MalformedMessageError, match=message):
        read(reader(data, flexible=flexible))


@given(
    flexible=st.booleans(),
    text=st.none() | st.text(max_size=300),
    topic_id=st.none() | st.uuids().filter(lambda value: value != UUID(int=0)),
    records=st.none() | st.binary(max_size=300),
    length=st.none() | st.integers(0, 200),
)
def test_what_is_written_is_read(
    flexible: bool, text: str | None, topic_id: UUID | None, records: bytes | None, length: int | None
) -> None:
    writer = Writer(flexible=flexible)
    writer.string(text)
    writer.uuid(topic_id)
    writer.records(records)
    writer.array_length(-1 if length is None else length)
    again = reader(joined(writer.finish()) + bytes(200), flexible=flexible)
    assert again.nullable_string() == text
    assert again.uuid() == topic_id
    assert again.nullable_records() == records
    assert again.nullable_array_length() == (-1 if length is None else length)
    assert again.remaining == 200


@pytest.mark.parametrize("flexible", [False, True])
def test_the_longest_string_is_read(flexible: bool) -> None:
    writer = Writer(flexible=flexible)
    writer.string("x" * 32_767)
    assert reader(joined(writer.finish()), flexible=flexible).string() == "x" * 32_767


def test_an_id_from_the_wire_is_the_object_that_others_have() -> None:
    writer = Writer(flexible=True)
    writer.uuid(UUID(int=2**100))
    known = interned_id(UUID(int=2**100))
    assert reader(joined(writer.finish()), flexible=True).uuid() is known


def test_tagged_fields_are_bounded_to_their_size() -> None:
    writer = Writer(flexible=True)
    writer.end_structure({1: b"ab", 2: None, 300: INT32.pack(7)})
    fields = reader(bytes(writer.out), flexible=True).tagged_fields()
    assert sorted(fields) == [1, 300]
    assert fields[300].int32() == 7
    with pytest.raises(MalformedMessageError):
        fields[1].int32()


def test_a_structure_that_is_not_flexible_has_no_tagged_fields() -> None:
    writer = Writer(flexible=False)
    writer.end_structure({1: None})
    assert not writer.out
    with pytest.raises(AssertionError, match="has none"):
        writer.end_structure({1: b"x"})
    assert reader(b"\x01", flexible=False).tagged_fields() == {}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_only_small_records_are_copied(kind: Callable[[bytes], Any]) -> None:
    small, large = kind(bytes(INLINE_RECORDS_SIZE_MAX)), kind(bytes(INLINE_RECORDS_SIZE_MAX + 1))
    writer = Writer(flexible=False)
    writer.records(small)
    writer.records(large)
    first, second, third = writer.finish()
    assert second is large
    assert [part_size(first), part_size(third)] == [4 + len(small) + 4, 0]


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_small_slice_is_copied_if_it_is_in_memory(is_in_memory: bool) -> None:
    small = MemorySlice(bytes(INLINE_RECORDS_SIZE_MAX), is_in_memory=is_in_memory)
    large = MemorySlice(bytes(INLINE_BYTES_MAX + 1))
    writer = Writer(flexible=False)
    writer.records(small)
    writer.records(large)
    parts = writer.finish()
    assert [part for part in parts if isinstance(part, MemorySlice)] == ([large] if is_in_memory else [small, large])
    assert sum(map(part_size, parts)) == 4 + small.size + 4 + large.size


def test_larger_slices_are_copied_too_as_far_as_a_message_may_have_them() -> None:
    half, small = MemorySlice(bytes(INLINE_BYTES_MAX // 2)), MemorySlice(bytes(INLINE_RECORDS_SIZE_MAX))
    writer = Writer(flexible=False)
    for records in (half, half, small, half, small):
        writer.records(records)
    first, second, third = writer.finish()
    assert second is half
    assert part_size(first) == 4 * 4 + 2 * half.size + small.size
    assert part_size(third) == 4 + small.size


def test_error_codes_of_newer_peers_are_unknown_server_error() -> None:
    assert error_code(3) is ErrorCode.unknown_topic_or_partition
    assert error_code(9999) is ErrorCode.unknown_server_error
