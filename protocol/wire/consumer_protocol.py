"""What consumers of the classic protocol say and are given: Kafka's ConsumerProtocolSubscription and -Assignment.

    subscription := version int16, topics [string], user data,
                    from 1 owned [topic, [partition]], from 2 generation int32, from 3 rack string
    assignment   := version int16, [topic, [partition]], user data

What comes after the fields that are needed here is passed over, so a later version is read too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final

from ...light_dataclass import dataclass
from .primitives import MalformedMessageError, Reader, Writer

OWNED_SINCE: Final = 1
RACK_SINCE: Final = 3
NO_BYTES: Final = -1
"""The length of user data where there are none."""


@dataclass(frozen=True, slots=True)
class ClassicSubscription:
    """The topics that a member subscribes to, what it owns by their names, and its rack."""

    version: int
    topics: tuple[str, ...]
    owned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rack_id: str | None = None


def read_subscription(data: bytes) -> ClassicSubscription | None:
    """Return a consumer's subscription; None if it is none."""
    reader = Reader(memoryview(data), 0, flexible=False)
    try:
        version = reader.int16()
        topics = tuple(sorted({reader.string() for _ in range(reader.array_length())}))
        reader.nullable_records()
        owned = _read_partitions(reader) if version >= OWNED_SINCE else {}
    except MalformedMessageError:
        return None
    return ClassicSubscription(version, topics, owned, _read_rack(reader) if version >= RACK_SINCE else None)


def write_subscription(topics: Sequence[str], *, owns_nothing: bool = False) -> bytes:
    """Return a subscription of version 0; of version 1, and of a member that `owns_nothing`, if it has to say that."""
    writer = Writer(flexible=False)
    writer.int16(OWNED_SINCE if owns_nothing else 0)
    writer.array_length(len(topics))
    for topic in topics:
        writer.string(topic)
    writer.int32(NO_BYTES)
    if owns_nothing:
        writer.array_length(0)
    return bytes(writer.out)


def read_assignment(data: bytes) -> Mapping[str, frozenset[int]] | None:
    """Return the partitions of an assignment by topic; None if it is none. Empty bytes assign nothing."""
    if not data:
        return {}
    reader = Reader(memoryview(data), 0, flexible=False)
    try:
        reader.int16()
        return _read_partitions(reader)
    except MalformedMessageError:
        return None


def write_assignment(partitions: Mapping[str, Collection[int]], version: int = 0) -> bytes:
    """Return an assignment of these partitions by topic."""
    writer = Writer(flexible=False)
    writer.int16(version)
    writer.array_length(len(partitions))
    for topic, numbers in sorted(partitions.items()):
        writer.string(topic)
        writer.array_length(len(numbers))
        for number in sorted(numbers):
            writer.int32(number)
    writer.int32(NO_BYTES)
    return bytes(writer.out)


def _read_partitions(reader: Reader) -> dict[str, frozenset[int]]:
    return {
        reader.string(): frozenset([reader.int32() for _ in range(reader.array_length())])
        for _ in range(reader.array_length())
    }


def _read_rack(reader: Reader) -> str | None:
    """Return the rack after the generation; None if there is none, or it cannot be read: nothing depends on it."""
    try:
        reader.int32()
        return reader.nullable_string() or None
    except MalformedMessageError:
        return None
