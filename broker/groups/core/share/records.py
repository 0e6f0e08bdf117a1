"""The records of a share group (KIP-932): bytes <-> values, Kafka's `ShareGroup*Key` and `*Value`.

    key   := kind int16, group string [, member id string]
    value := version int16 = 0, fields, all flexible          null is a tombstone

| kind | of | value |
|---|---|---|
| 10 | a member | what it subscribes to, and who it is |
| 11 | a group | its epoch, and a hash of what can be assigned |
| 12 | a group | the epoch of the target assignment |
| 13 | a member | its target assignment |
| 14 | a member | its epoch, and what it has now |
| 15 | a group | the share-partitions whose state is being initialized, is initialized, or is being deleted |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import IntEnum
from typing import Final
from uuid import UUID

from .....light_dataclass import dataclass
from .....protocol.wire import MalformedMessageError, Reader, Writer
from ..consumer.records import (
    Current,
    GroupEpoch,
    MemberState,
    Target,
    TargetEpoch,
    encode_key,
    read_assignment,
    write_assignment,
    write_strings,
)

_VERSION: Final = 0


class ShareKind(IntEnum):
    """The value is the version of the key."""

    MEMBER = 10
    GROUP = 11
    TARGET = 12
    TARGET_MEMBER = 13
    CURRENT = 14
    STARTS = 15


@dataclass(frozen=True, slots=True)
class ShareGroupKey:
    """`name` is a member id."""

    kind: ShareKind
    group_id: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    """A member and its subscription. `topics` is sorted."""

    rack_id: str | None = None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicStarts:
    """Partitions of a topic, under the name that it had."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """The share-partitions of a group: those that are being initialized, those that are, and the topics (names by id)
    whose state is being deleted.
    """

    initializing: Mapping[UUID, TopicStarts] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicStarts] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)


ShareValue = GroupEpoch | ShareMember | TargetEpoch | Target | Current | Starts
_NAMED: Final = frozenset({ShareKind.MEMBER, ShareKind.TARGET_MEMBER, ShareKind.CURRENT})
NO_STARTS: Final = Starts()


def encode_share_key(key: ShareGroupKey) -> bytes:
    return encode_key(key.kind, key.group_id, *((key.name,) if key.kind in _NAMED else ()))


def decode_share_key(version: int, reader: Reader) -> ShareGroupKey | None:
    """Return a key of which the version is read; None if it is of another kind."""
    try:
        kind = ShareKind(version)
    except ValueError:
        return None
    return ShareGroupKey(kind, reader.string(), reader.string() if kind in _NAMED else "")


def encode_share_value(value: ShareValue) -> bytes:
    """Values that other groups have too are written in another way here."""
    writer = Writer(flexible=True)
    writer.int16(_VERSION)
    match value:
        case GroupEpoch():
            writer.int32(value.epoch)
            writer.int64(value.metadata_hash)
        case ShareMember():
            writer.string(value.rack_id)
            writer.string(value.client_id)
            writer.string(value.client_host)
            write_strings(writer, value.topics)
        case TargetEpoch():
            writer.int32(value.epoch)
        case Target():
            write_assignment(writer, value.assignment)
        case Current():
            writer.int32(value.epoch)
            writer.int32(value.previous_epoch)
            writer.out.append(value.state)
            write_assignment(writer, value.assigned)
        case Starts():
            _write_starts(writer, value)
    writer.end_structure()
    return bytes(writer.out)


def _write_starts(writer: Writer, value: Starts) -> None:
    for topics in (value.initializing, value.initialized):
        writer.array_length(len(topics))
        for topic_id, topic in sorted(topics.items()):
            writer.uuid(topic_id)
            writer.string(topic.name)
            writer.array_length(len(topic.partitions))
            for number in sorted(topic.partitions):
                writer.int32(number)
            writer.end_structure()
    writer.array_length(len(value.deleting))
    for topic_id, name in sorted(value.deleting.items()):
        writer.uuid(topic_id)
        writer.string(name)
        writer.end_structure()


def decode_share_value(kind: ShareKind, reader: Reader) -> ShareValue:
    """Return the value. Raise MalformedMessageError."""
    version = reader.int16()
    if version != _VERSION:
        raise MalformedMessageError(f"value version {version} of {kind.name}, known is {_VERSION}")
    reader.flexible = True
    value = _READERS[kind](reader)
    reader.tagged_fields()
    return value


def _read_member(reader: Reader) -> ShareMember:
    rack_id, client_id, client_host = reader.nullable_string(), reader.string(), reader.string()
    topics = tuple(sorted(reader.string() for _ in range(reader.array_length())))
    return ShareMember(rack_id=rack_id, client_id=client_id, client_host=client_host, topics=topics)


def _read_current(reader: Reader) -> Current:
    epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    is_stable = state == MemberState.STABLE
    return Current(
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=MemberState.STABLE if is_stable else MemberState.UNKNOWN,
        assigned=read_assignment(reader),
    )


def _read_starts(reader: Reader) -> Starts:
    return Starts(
        initializing=_read_topics(reader),
        initialized=_read_topics(reader),
        deleting=dict(_read_deleted(reader) for _ in range(reader.array_length())),
    )


def _read_topics(reader: Reader) -> dict[UUID, TopicStarts]:
    topics = {}
    for _ in range(reader.array_length()):
        topic_id, name = _topic_id(reader), reader.string()
        topics[topic_id] = TopicStarts(name, frozenset([reader.int32() for _ in range(reader.array_length())]))
        reader.tagged_fields()
    return topics


def _read_deleted(reader: Reader) -> tuple[UUID, str]:
    topic = _topic_id(reader), reader.string()
    reader.tagged_fields()
    return topic


def _topic_id(reader: Reader) -> UUID:
    topic_id = reader.uuid()
    if topic_id is None:
        raise MalformedMessageError("a topic id of zero")
    return topic_id


_READERS: Final[Mapping[ShareKind, Callable[[Reader], ShareValue]]] = {
    ShareKind.MEMBER: _read_member,
    ShareKind.GROUP: lambda reader: GroupEpoch(reader.int32(), reader.int64()),
    ShareKind.TARGET: lambda reader: TargetEpoch(reader.int32()),
    ShareKind.TARGET_MEMBER: lambda reader: Target(read_assignment(reader)),
    ShareKind.CURRENT: _read_current,
    ShareKind.STARTS: _read_starts,
}
