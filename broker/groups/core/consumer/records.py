"""The records of a consumer group (KIP-848): bytes <-> values, Kafka's `ConsumerGroup*Key` and `*Value`.

    key   := kind int16, group string [, member id or regular expression string]
    value := version int16 = 0, fields, all flexible          null is a tombstone

| kind | of | value |
|---|---|---|
| 3 | a group | its epoch, and a hash of the topics that it reads |
| 4 | a group | its topics, before Kafka 4.1: only tombstones are written, anything else is passed over |
| 5 | a member | what it subscribes to, and who it is |
| 6 | a group | the epoch of the target assignment |
| 7 | a member | its target assignment |
| 8 | a member | its epoch, what it owns now, and since which epoch (a tagged field, Kafka 4.3) |
| 16 | a regular expression | the topics that it matches |

A member comes before its assignments, a tombstone of it after theirs, as Kafka's coordinator writes and expects them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import IntEnum
from functools import lru_cache
from typing import Final
from uuid import UUID

from .....light_dataclass import dataclass
from .....protocol import value
from .....protocol.wire import MalformedMessageError, Reader, Writer

Assignment = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""
NOTHING: Final[Assignment] = {}
LAYOUTS_MAX: Final = 128
"""Numbers of partitions for which the layout of an array is kept."""
_VERSION: Final = 0
_EPOCHS_TAG: Final = 0
_Epochs = dict[int, list[tuple[UUID, list[int]]]]


class Kind(IntEnum):
    """The value is the version of the key."""

    GROUP = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET = 6
    TARGET_MEMBER = 7
    CURRENT = 8
    REGEX = 16


class MemberState(IntEnum):
    """Where a member is on its way to its target; the value is that of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@value
class ConsumerKey:
    """`name` is a member id, or a regular expression."""

    kind: Kind
    group_id: str
    name: str = ""


@value
class GroupEpoch:
    """Bumped with every change of members, subscriptions and topics."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What a member of the classic protocol brought: its protocols by preference, with metadata."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member and its subscription. `topics` is sorted."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


@value
class TargetEpoch:
    """The group epoch that the target assignment was made for."""

    epoch: int


@value
class Target:
    """What a member shall own."""

    assignment: Assignment


@value(kw_only=True)
class Current:
    """What a member owns, and what it has still to give up."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)
    epochs: Mapping[int, Assignment] = field(default_factory=dict)
    """What it got of both in another epoch than its own, by that epoch (KIP-1251)."""

    @property
    def own_epoch(self) -> int:
        """The epoch in which it got what `epochs` does not name; 0 for a static member that is away, as in Kafka."""
        return max(self.epoch, 0)

    def since(self, topic_ids: AbstractSet[UUID]) -> Mapping[UUID, Mapping[int, int]]:
        """Return the epoch in which it got each partition that it owns or has still to give up, of these topics. One
        pass, for each topic may have epochs of its own.
        """
        got: dict[UUID, dict[int, int]] = {topic_id: {} for topic_id in topic_ids}
        now = ((self.own_epoch, held) for held in (self.assigned, self.revoking))
        for epoch, held in (*now, *self.epochs.items()):
            for topic_id in held.keys() & got.keys():
                got[topic_id].update(dict.fromkeys(held[topic_id], epoch))
        return got


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics that a regular expression matches, as of a version of the metadata; `topics` is sorted."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


ConsumerValue = GroupEpoch | Subscriber | TargetEpoch | Target | Current | Resolved
_KINDS: Final = {int(kind): kind for kind in Kind}
_STATES: Final = {int(state): state for state in MemberState}
_NAMED: Final = frozenset({Kind.MEMBER, Kind.TARGET_MEMBER, Kind.CURRENT, Kind.REGEX})


def normalized(partitions: Iterable[tuple[UUID, Iterable[int]]]) -> Assignment:
    """Return partitions as an assignment."""
    assignment: dict[UUID, frozenset[int]] = {}
    for topic_id, numbers in partitions:
        merged = frozenset(numbers)
        if topic_id in assignment:
            merged |= assignment[topic_id]
        if merged:
            assignment[topic_id] = merged
    return assignment


# Keys.


def encode_key(kind: int, *names: str) -> bytes:
    """Write a kind, the group's id, and the name within it if the kind has one."""
    writer = Writer(flexible=False)
    writer.int16(kind)
    for name in names:
        writer.string(name)
    return bytes(writer.out)


def encode_consumer_key(key: ConsumerKey) -> bytes:
    return encode_key(key.kind, key.group_id, *((key.name,) if key.kind in _NAMED else ()))


def decode_consumer_key(version: int, reader: Reader) -> ConsumerKey | None:
    """Return a key of which the version is read; None if it is of another kind."""
    kind = _KINDS.get(version)
    if kind is None:
        return None
    return ConsumerKey(kind, reader.string(), reader.string() if kind in _NAMED else "")


# Values.


def encode_consumer_value(value: ConsumerValue) -> bytes:
    writer = Writer(flexible=True)
    writer.int16(_VERSION)
    match value:
        case GroupEpoch():
            writer.int32(value.epoch)
            writer.end_structure({0: _int64(value.metadata_hash)} if value.metadata_hash else {})
        case Subscriber():
            _write_subscriber(writer, value)
        case TargetEpoch():
            writer.int32(value.epoch)
            writer.end_structure()
        case Target():
            write_assignment(writer, value.assignment)
            writer.end_structure()
        case Current():
            writer.int32(value.epoch)
            writer.int32(value.previous_epoch)
            writer.out.append(value.state)
            since = value.since(value.assigned.keys() | value.revoking.keys())
            write_assignment(writer, value.assigned, since)
            write_assignment(writer, value.revoking, since)
            writer.end_structure()
        case Resolved():
            write_strings(writer, value.topics)
            writer.int64(value.version)
            writer.int64(value.timestamp_ms)
            writer.end_structure()
    return bytes(writer.out)


def decode_consumer_value(kind: Kind, reader: Reader) -> ConsumerValue | None:
    """Return the value; None for a kind that has no meaning today. Raise MalformedMessageError."""
    version = reader.int16()
    if version != _VERSION:
        raise MalformedMessageError(f"value version {version} of {kind.name}, known is {_VERSION}")
    reader.flexible = True
    read = _READERS.get(kind)
    return None if read is None else read(reader)


def _read_group(reader: Reader) -> GroupEpoch:
    epoch, tagged = reader.int32(), reader.tagged_fields()
    return GroupEpoch(epoch, tagged[0].int64() if 0 in tagged else 0)


def _read_subscriber(reader: Reader) -> Subscriber:
    instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    topics = tuple(sorted(reader.string() for _ in range(reader.array_length())))
    regex, rebalance_timeout_ms, assignor = reader.nullable_string(), reader.int32(), reader.nullable_string()
    tagged = reader.tagged_fields()
    return Subscriber(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=topics,
        regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        assignor=assignor,
        classic=_read_classic(tagged[0]) if 0 in tagged else None,
    )


def _read_classic(reader: Reader) -> ClassicMetadata | None:
    if reader.uvarint() == 0:  # A structure that may be null has a number before it, 0 for null.
        return None
    session_timeout_ms = reader.int32()
    protocols = tuple(_read_protocol(reader) for _ in range(reader.array_length()))
    reader.tagged_fields()
    return ClassicMetadata(session_timeout_ms, protocols)


def _read_protocol(reader: Reader) -> tuple[str, bytes]:
    name, metadata = reader.string(), reader.nullable_records()
    if metadata is None:
        raise MalformedMessageError("null where the metadata of a protocol is needed")
    reader.tagged_fields()
    return name, bytes(metadata)


def _read_target_epoch(reader: Reader) -> TargetEpoch:
    return TargetEpoch(reader.int32())


def _read_target(reader: Reader) -> Target:
    return Target(read_assignment(reader))


def _read_current(reader: Reader) -> Current:
    epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    earlier: _Epochs = {}
    assigned, revoking = _read_held(reader, earlier), _read_held(reader, earlier)
    epochs = {each: normalized(topics) for each, topics in earlier.items() if each != max(epoch, 0)}
    return Current(
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=_STATES.get(state, MemberState.UNKNOWN),
        assigned=assigned,
        revoking=revoking,
        epochs=epochs,
    )


def _read_held(reader: Reader, earlier: _Epochs) -> Assignment:
    """Return partitions, and note the epochs in which the member got them, as far as there is one for each."""
    topics = []
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        numbers = reader.unpack(_numbers(reader.array_length()))
        tagged = reader.tagged_fields()
        if topic_id is None:
            continue
        topics.append((topic_id, numbers))
        epochs = _read_epochs(tagged[_EPOCHS_TAG], len(numbers)) if _EPOCHS_TAG in tagged else []
        by_epoch: dict[int, list[int]] = {}
        for number, epoch in zip(numbers, epochs, strict=False):
            by_epoch.setdefault(epoch, []).append(number)
        for epoch, some in by_epoch.items():
            earlier.setdefault(epoch, []).append((topic_id, some))
    return normalized(topics)


def _read_epochs(reader: Reader, count: int) -> list[int]:
    """Return the epochs of so many partitions; none of them if there are more or fewer, as Kafka's coordinator does."""
    reader.elements_max = max(reader.elements_max, count)
    length = reader.nullable_array_length()
    return [reader.int32() for _ in range(length)] if length == count else []


def _read_resolved(reader: Reader) -> Resolved:
    topics = tuple(sorted(reader.string() for _ in range(reader.array_length())))
    return Resolved(topics, reader.int64(), reader.int64())


_READERS: Final[Mapping[Kind, Callable[[Reader], ConsumerValue]]] = {
    Kind.GROUP: _read_group,
    Kind.MEMBER: _read_subscriber,
    Kind.TARGET: _read_target_epoch,
    Kind.TARGET_MEMBER: _read_target,
    Kind.CURRENT: _read_current,
    Kind.REGEX: _read_resolved,
}


def _write_subscriber(writer: Writer, value: Subscriber) -> None:
    writer.string(value.instance_id)
    writer.string(value.rack_id)
    writer.string(value.client_id)
    writer.string(value.client_host)
    write_strings(writer, value.topics)
    writer.string(value.regex)
    writer.int32(value.rebalance_timeout_ms)
    writer.string(value.assignor)
    writer.end_structure({0: b"\x00" if value.classic is None else _classic(value.classic)})


def _classic(value: ClassicMetadata) -> bytes:
    writer = Writer(b"\x01", flexible=True)
    writer.int32(value.session_timeout_ms)
    writer.array_length(len(value.protocols))
    for name, metadata in value.protocols:
        writer.string(name)
        writer.array_length(len(metadata))
        writer.out += metadata
        writer.end_structure()
    writer.end_structure()
    return bytes(writer.out)


def _int64(value: int) -> bytes:
    writer = Writer(flexible=True)
    writer.int64(value)
    return bytes(writer.out)


def write_strings(writer: Writer, texts: tuple[str, ...]) -> None:
    writer.array_length(len(texts))
    for text in texts:
        writer.string(text)


def write_assignment(
    writer: Writer, assignment: Assignment, since: Mapping[UUID, Mapping[int, int]] | None = None
) -> None:
    """Write partitions; with `since` also the epoch in which the member got each of a topic."""
    writer.array_length(len(assignment))
    for topic_id, numbers in sorted(assignment.items()):
        writer.uuid(topic_id)
        writer.array_length(len(numbers))
        for number in sorted(numbers):
            writer.int32(number)
        writer.end_structure({} if since is None else {_EPOCHS_TAG: _epochs(sorted(numbers), since[topic_id])})


def _epochs(numbers: list[int], since: Mapping[int, int]) -> bytes:
    writer = Writer(flexible=True)
    writer.array_length(len(numbers))
    for number in numbers:
        writer.int32(since[number])
    return bytes(writer.out)


@lru_cache(LAYOUTS_MAX)
def _numbers(count: int) -> struct.Struct:
    return struct.Struct(f">{count}i")


def read_assignment(reader: Reader) -> Assignment:
    topics = []
    for _ in range(reader.array_length()):
        topic_id = reader.uuid()
        numbers = reader.unpack(_numbers(reader.array_length()))
        reader.tagged_fields()
        if topic_id is not None:
            topics.append((topic_id, numbers))
    return normalized(topics)
