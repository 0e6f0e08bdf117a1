"""What clients of the classic protocol say and are given: Kafka's ConsumerProtocolSubscription and -Assignment.

    subscription := version int16, topics [string], user data,
                    from 1 owned [topic, [partition]], from 2 generation int32, from 3 rack string
    assignment   := version int16, [topic, [partition]], user data

What comes after the fields that are needed here is passed over, so a later version is read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from .....light_dataclass import dataclass
from .....protocol.wire import MalformedMessageError, Reader, Writer
from .records import Assignment, normalized
from .topics import Topics

OWNED_SINCE: Final = 1
RACK_SINCE: Final = 3
ASSIGNMENT_VERSION_MAX: Final = 3


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


def _read_rack(reader: Reader) -> str | None:
    """Return the rack after the generation; None if there is none, or it cannot be read: nothing depends on it."""
    try:
        reader.int32()
        return reader.nullable_string() or None
    except MalformedMessageError:
        return None


def read_assignment(data: bytes, topics: Topics) -> Assignment | None:
    """Return an assignment, without topics that do not exist; None if it is none. Empty bytes assign nothing."""
    if not data:
        return {}
    reader = Reader(memoryview(data), 0, flexible=False)
    try:
        reader.int16()
        return by_id(_read_partitions(reader), topics)
    except MalformedMessageError:
        return None


def by_id(named: Mapping[str, frozenset[int]], topics: Topics) -> Assignment:
    """Return partitions by topic id, without topics that do not exist."""
    return normalized((topics[name].topic_id, numbers) for name, numbers in named.items() if name in topics)


def written_assignment(assignment: Assignment, topics: Topics, version: int) -> bytes:
    """Return an assignment in a version that the member reads."""
    names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id in assignment}
    writer = Writer(flexible=False)
    writer.int16(max(0, min(version, ASSIGNMENT_VERSION_MAX)))
    writer.array_length(len(names))
    for topic_id, name in sorted(names.items(), key=lambda item: item[1]):
        writer.string(name)
        writer.array_length(len(assignment[topic_id]))
        for number in sorted(assignment[topic_id]):
            writer.int32(number)
    writer.int32(-1)
    return bytes(writer.out)


def _read_partitions(reader: Reader) -> dict[str, frozenset[int]]:
    return {
        reader.string(): frozenset([reader.int32() for _ in range(reader.array_length())])
        for _ in range(reader.array_length())
    }
