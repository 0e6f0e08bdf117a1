"""The records of `__consumer_offsets`: bytes <-> values, Kafka's `OffsetCommitKey/Value` and `GroupMetadataKey/Value`.

    key   := version int16, fields            version 0, 1: an offset (group, topic, partition); 2: a group (group)
    value := version int16, fields            null is a tombstone: the offset or the group was deleted

| value | versions read | written |
|---|---|---|
| offset | 0-4 | 3; 1 where the client gave an expiry of its own (OffsetCommit before version 5); 4 with a topic id |
| group | 0-4 | 3 |

Values from version 4 on are flexible (KIP-482, KIP-915). Records of consumer groups (KIP-848) are `consumer.records`,
those of share groups (KIP-932) `share.records`.
Keys of other versions belong to other kinds of groups and to later Kafkas: `decode_record` gives None, and readers of
the topic skip them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, cast
from uuid import UUID

from ....light_dataclass import dataclass
from ....protocol import CorruptRecordError, value
from ....protocol.wire import MalformedMessageError, Reader, Writer, uuid_of
from .consumer.records import (
    ConsumerKey,
    ConsumerValue,
    decode_consumer_key,
    decode_consumer_value,
    encode_consumer_key,
    encode_consumer_value,
)
from .share.records import (
    ShareGroupKey,
    ShareValue,
    decode_share_key,
    decode_share_value,
    encode_share_key,
    encode_share_value,
)

NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

SCOPES_MAX: Final = 1024
SCOPE_BYTES_MAX: Final = 1024
"""Pairs of a group and a topic that are kept decoded: a group commits many partitions of a topic, which share them."""

_OFFSET_KEYS: Final = frozenset({b"\x00\x00", b"\x00\x01"})
_OFFSET_KEY: Final = 1
_GROUP_KEY: Final = 2
_FLEXIBLE_SINCE: Final = 4
_VALUE_VERSION_MAX: Final = 4
_OFFSET_WITH_EXPIRY: Final = 1
_OFFSET_VALUE: Final = 3
_OFFSET_WITH_TOPIC_ID: Final = 4
_TAG_OF_TOPIC_ID: Final = b"\1\0\x10"
"""One tagged field, number 0, of 16 bytes."""
_GROUP_VALUE: Final = 3
_TOPIC_ID_TAG: Final = 0
_PARTITION: Final = struct.Struct(">i")
_OFFSET_AND_EPOCH: Final = struct.Struct(">qi")
_PLAIN_OFFSET: Final = struct.Struct(">hqihq")
_PLAIN_OFFSET_WITH_TOPIC_ID: Final = struct.Struct(">hqiBq3s16s")
"""Offsets' values of versions 3 and 4 whose metadata is empty."""


@value(order=True)
class OffsetKey:
    """The position of a group in a partition."""

    group_id: str
    topic: str
    partition: int


@value
class GroupKey:
    """The group itself."""

    group_id: str


Key = OffsetKey | GroupKey | ConsumerKey | ShareGroupKey


@value(kw_only=True)
class OffsetValue:
    """What was committed. Times in ms since the epoch; an `expire_timestamp_ms` is the client's own wish."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """One member; `subscription` is its metadata for the protocol that the group had agreed on."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue:
    """A group at the end of a rebalance."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    current_state_timestamp_ms: int = NO_TIMESTAMP
    members: tuple[MemberValue, ...] = ()


Value = OffsetValue | GroupValue | ConsumerValue | ShareValue


@value
class GroupRecord:
    """One record; a `value` of None is a tombstone."""

    key: Key
    value: Value | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as bytes."""
        key, value = self.key, self.value
        if value is None:
            return encode_key(key), None
        if isinstance(key, ShareGroupKey):
            return encode_key(key), encode_share_value(cast("ShareValue", value))
        return encode_key(key), encode_value(cast("OffsetValue | GroupValue | ConsumerValue", value))


def encode_key(key: Key) -> bytes:
    if isinstance(key, ConsumerKey):
        return encode_consumer_key(key)
    if isinstance(key, ShareGroupKey):
        return encode_share_key(key)
    writer = Writer(flexible=False)
    if isinstance(key, OffsetKey):
        writer.int16(_OFFSET_KEY)
        writer.string(key.group_id)
        writer.string(key.topic)
        writer.int32(key.partition)
    else:
        writer.int16(_GROUP_KEY)
        writer.string(key.group_id)
    return bytes(writer.out)


def encode_value(value: OffsetValue | GroupValue | ConsumerValue) -> bytes:
    match value:
        case OffsetValue():
            return _encode_offset(value)
        case GroupValue():
            return _encode_group(value)
    return encode_consumer_value(value)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """None for a record of another kind. CorruptRecordError for one that cannot be read."""
    try:
        decoded = _decode_key(key)
        if decoded is None:
            return None
        if value is None:
            return GroupRecord(decoded, None)
        if isinstance(decoded, OffsetKey):
            return GroupRecord(decoded, _decode_plain_offset(value) or _decode_offset(*_versioned(value)))
        if isinstance(decoded, GroupKey):
            return GroupRecord(decoded, _decode_group(*_versioned(value)))
        reader = _reader(value)
        if isinstance(decoded, ShareGroupKey):
            return GroupRecord(decoded, decode_share_value(decoded.kind, reader))
        consumer_value = decode_consumer_value(decoded.kind, reader)
        return None if consumer_value is None else GroupRecord(decoded, consumer_value)
    except MalformedMessageError as error:
        raise CorruptRecordError(f"a record of consumer groups: {error}") from error


def is_offset_key(key: bytes) -> bool:
    """Return whether a key is that of an offset, as far as its version says."""
    return key[:2] in _OFFSET_KEYS


def _reader(data: bytes) -> Reader:
    return Reader(memoryview(data), 0, flexible=False)


def _versioned(value: bytes) -> tuple[Reader, int]:
    """Return a reader after the version of a value, and the version."""
    reader = _reader(value)
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION_MAX:
        raise MalformedMessageError(f"value version {version}, known are 0 to {_VALUE_VERSION_MAX}")
    reader.flexible = version >= _FLEXIBLE_SINCE
    return reader, version


def _decode_key(key: bytes) -> Key | None:
    if is_offset_key(key):
        # A key from outside may be long; what is kept is bounded.
        scope = _scope if len(key) <= SCOPE_BYTES_MAX else _read_scope
        group_id, topic, position = scope(key[: -_PARTITION.size])
        return OffsetKey(group_id, topic, _PARTITION.unpack_from(key, position)[0])
    reader = _reader(key)
    version = reader.int16()
    if version == _GROUP_KEY:
        return GroupKey(reader.string())
    return decode_consumer_key(version, reader) or decode_share_key(version, reader)


def _read_scope(prefix: bytes) -> tuple[str, str, int]:
    """Return the group and the topic of an offset's key, without its partition's number, and where that begins."""
    reader = _reader(prefix)
    reader.int16()
    return reader.string(), reader.string(), reader.position


_scope = lru_cache(SCOPES_MAX)(_read_scope)


def _encode_offset(value: OffsetValue) -> bytes:
    has_expiry = value.expire_timestamp_ms != NO_TIMESTAMP
    version = _OFFSET_VALUE
    if has_expiry:
        version = _OFFSET_WITH_EXPIRY
    elif value.topic_id is not None:
        version = _OFFSET_WITH_TOPIC_ID
    writer = Writer(flexible=version >= _FLEXIBLE_SINCE)
    writer.int16(version)
    writer.int64(value.offset)
    if version >= 3:
        writer.int32(value.leader_epoch)
    writer.string(value.metadata)
    writer.int64(value.commit_timestamp_ms)
    if version == _OFFSET_WITH_EXPIRY:
        writer.int64(value.expire_timestamp_ms)
    tagged = {_TOPIC_ID_TAG: value.topic_id.bytes} if version >= _FLEXIBLE_SINCE and value.topic_id else {}
    writer.end_structure(tagged)
    return bytes(writer.out)


def _decode_plain_offset(value: bytes) -> OffsetValue | None:
    """Return the value of what nearly all commits are, without a reader (`python -m bench load`); None for others."""
    topic_id = None
    if len(value) == _PLAIN_OFFSET.size:
        version, offset, leader_epoch, metadata_bytes, commit_timestamp_ms = _PLAIN_OFFSET.unpack(value)
        if version != _OFFSET_VALUE or metadata_bytes:
            return None
    elif len(value) == _PLAIN_OFFSET_WITH_TOPIC_ID.size:
        version, offset, leader_epoch, length, commit_timestamp_ms, tag, raw = _PLAIN_OFFSET_WITH_TOPIC_ID.unpack(value)
        if version != _OFFSET_WITH_TOPIC_ID or length != 1 or tag != _TAG_OF_TOPIC_ID:
            return None
        topic_id = uuid_of(raw)
    else:
        return None
    return OffsetValue(
        offset=offset, leader_epoch=leader_epoch, commit_timestamp_ms=commit_timestamp_ms, topic_id=topic_id
    )


def _decode_offset(reader: Reader, version: int) -> OffsetValue:
    offset, leader_epoch = reader.unpack(_OFFSET_AND_EPOCH) if version >= 3 else (reader.int64(), NO_LEADER_EPOCH)
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else NO_TIMESTAMP
    tagged = reader.tagged_fields()
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=tagged[_TOPIC_ID_TAG].uuid() if _TOPIC_ID_TAG in tagged else None,
    )


def _encode_group(value: GroupValue) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(_GROUP_VALUE)
    writer.string(value.protocol_type)
    writer.int32(value.generation_id)
    writer.string(value.protocol_name)
    writer.string(value.leader)
    writer.int64(value.current_state_timestamp_ms)
    writer.array_length(len(value.members))
    for member in value.members:
        writer.string(member.member_id)
        writer.string(member.group_instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        for data in (member.subscription, member.assignment):
            writer.int32(len(data))
            writer.out += data
    return bytes(writer.out)


def _decode_group(reader: Reader, version: int) -> GroupValue:
    protocol_type = reader.string()
    generation_id = reader.int32()
    protocol_name = reader.nullable_string()
    leader = reader.nullable_string()
    timestamp_ms = reader.int64() if version >= 2 else NO_TIMESTAMP
    members = tuple([_decode_member(reader, version) for _ in range(reader.array_length())])
    reader.tagged_fields()
    return GroupValue(
        protocol_type=protocol_type,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader=leader,
        current_state_timestamp_ms=timestamp_ms,
        members=members,
    )


def _decode_member(reader: Reader, version: int) -> MemberValue:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else NO_TIMESTAMP
    session_timeout_ms = reader.int32()
    subscription, assignment = _bytes(reader), _bytes(reader)
    reader.tagged_fields()
    return MemberValue(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )


def _bytes(reader: Reader) -> bytes:
    data = reader.nullable_records()
    if data is None:
        raise MalformedMessageError(f"null before byte {reader.position} where bytes are needed")
    return bytes(data)
