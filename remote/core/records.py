"""Kafka's `__remote_log_metadata` records: one event of a remote segment or partition <-> the value of one record.

    value = frame version 1, api key, version (each an unsigned varint), body

| api key | event                          | body: big-endian fields in this order, flexible (KIP-482)                |
|---------|--------------------------------|--------------------------------------------------------------------------|
| 0       | RemoteLogSegmentMetadata       | segment id, start int64, end int64, broker int32, max timestamp int64,   |
|         |                                | event timestamp int64, [epoch int32, start int64, tags], size int32,     |
|         |                                | custom metadata, state int8, tags (0: transaction index empty, bool)     |
| 1       | RemoteLogSegmentMetadataUpdate | segment id, broker int32, event timestamp int64, custom metadata,        |
|         |                                | state int8, tags                                                         |
| 2       | RemotePartitionDeleteMetadata  | partition, broker int32, event timestamp int64, state int8, tags         |

    segment id = partition, id uuid, tags          partition = name, topic id uuid, partition int32, tags

Names and custom metadata are compact (length + 1 as unsigned varint; 0 is null). We write version 0, Apache Kafka 4.3's
only one. Version 1 adds tagged fields only; they are skipped, like every unknown tag. The key of a record is null.
Sources: `Remote*MetadataRecord.json` in Kafka's storage module.

What is read comes from outside: whatever is malformed, unknown or impossible raises MetadataRecordError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Final
from uuid import UUID

from ...log.core import EpochEntry
from ...protocol import PeerError, TopicIdPartition, check_topic_name
from ...protocol.wire import read_uvarint, write_uvarint
from .segment import (
    RemoteLogEvent,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)

FRAME_VERSION: Final = 1
SEGMENT_METADATA_KEY: Final = 0
SEGMENT_UPDATE_KEY: Final = 1
PARTITION_DELETE_KEY: Final = 2
VERSION_WRITTEN: Final = 0
VERSION_MAX: Final = 1
TXN_INDEX_EMPTY_TAG: Final = 0

_PARTITIONS_INTERNED_MAX = 4096
_UUID = struct.Struct(">16s")
_INT8 = struct.Struct(">b")
_INT32 = struct.Struct(">i")
_SEGMENT = struct.Struct(">qqiqq")
_EPOCH = struct.Struct(">iq")
_WRITER = struct.Struct(">iq")


class MetadataRecordError(PeerError, ValueError):
    """A record of the remote log metadata topic that cannot be understood."""


def encode_event(event: RemoteLogEvent) -> bytes:
    """The value of the record."""
    match event:
        case RemoteLogSegmentMetadata():
            return _encode_segment(event)
        case RemoteLogSegmentMetadataUpdate():
            return _encode_update(event)
        case RemotePartitionDeleteMetadata():
            return _encode_partition_delete(event)


def decode_event(value: bytes) -> RemoteLogEvent:
    """The inverse of `encode_event`; MetadataRecordError says what is wrong."""
    reader = _Reader(value)
    with _malformed_is_said(value):
        key = _read_key(reader)
        if key == SEGMENT_METADATA_KEY:
            event: RemoteLogEvent = _decode_segment(reader)
        elif key == SEGMENT_UPDATE_KEY:
            event = _decode_update(reader)
        else:
            event = _decode_partition_delete(reader)
        if reader.position != len(value):
            raise MetadataRecordError(f"{len(value) - reader.position} trailing bytes")
        return event


def decode_partition(value: bytes) -> TopicIdPartition:
    """Whose event this is, for a third of the price of `decode_event`."""
    reader = _Reader(value)
    with _malformed_is_said(value):
        _read_key(reader)
        return reader.partition()


@contextmanager
def _malformed_is_said(value: bytes) -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError) as error:
        raise MetadataRecordError(f"record of {len(value)} bytes is truncated") from error
    except ValueError as error:
        raise MetadataRecordError(f"record of {len(value)} bytes: {error}") from error


def _read_key(reader: _Reader) -> int:
    frame, key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
    if frame != FRAME_VERSION:
        raise MetadataRecordError(f"frame version {frame}, expected {FRAME_VERSION}")
    if key > PARTITION_DELETE_KEY or version > VERSION_MAX:
        raise MetadataRecordError(f"unknown: api key {key}, version {version}")
    return key


def _encode_segment(event: RemoteLogSegmentMetadata) -> bytes:
    out = _begin(SEGMENT_METADATA_KEY)
    _write_segment_id(out, event.segment_id)
    out += _SEGMENT.pack(
        event.start_offset, event.end_offset, event.broker_id, event.max_timestamp_ms, event.event_timestamp_ms
    )
    write_uvarint(out, len(event.segment_leader_epochs) + 1)
    for entry in event.segment_leader_epochs:
        out += _EPOCH.pack(entry.epoch, entry.start_offset)
        _write_no_tags(out)
    out += _INT32.pack(event.segment_size_in_bytes)
    _write_nullable(out, event.custom_metadata)
    out += _INT8.pack(event.state)
    if event.txn_index_empty:
        out += bytes((1, TXN_INDEX_EMPTY_TAG, 1, True))
    else:
        _write_no_tags(out)
    return bytes(out)


def _encode_update(event: RemoteLogSegmentMetadataUpdate) -> bytes:
    out = _begin(SEGMENT_UPDATE_KEY)
    _write_segment_id(out, event.segment_id)
    out += _WRITER.pack(event.broker_id, event.event_timestamp_ms)
    _write_nullable(out, event.custom_metadata)
    out += _INT8.pack(event.state)
    _write_no_tags(out)
    return bytes(out)


def _encode_partition_delete(event: RemotePartitionDeleteMetadata) -> bytes:
    out = _begin(PARTITION_DELETE_KEY)
    _write_partition(out, event.topic_id_partition)
    out += _WRITER.pack(event.broker_id, event.event_timestamp_ms)
    out += _INT8.pack(event.state)
    _write_no_tags(out)
    return bytes(out)


def _begin(key: int) -> bytearray:
    return bytearray((FRAME_VERSION, key, VERSION_WRITTEN))


def _write_partition(out: bytearray, partition: TopicIdPartition) -> None:
    _write_nullable(out, partition.topic.encode())
    out += partition.topic_id.bytes
    out += _INT32.pack(partition.partition)
    _write_no_tags(out)


def _write_segment_id(out: bytearray, segment_id: RemoteLogSegmentId) -> None:
    _write_partition(out, segment_id.topic_id_partition)
    out += segment_id.id.bytes
    _write_no_tags(out)


def _write_nullable(out: bytearray, value: bytes | None) -> None:
    write_uvarint(out, 0 if value is None else len(value) + 1)
    out += value or b""


def _write_no_tags(out: bytearray) -> None:
    out.append(0)


class _Reader:
    """A cursor over one value; IndexError or struct.error where it ends early."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def uvarint(self) -> int:
        value, self.position = read_uvarint(self._data, self.position)
        return value

    def unpack(self, fields: struct.Struct) -> tuple[int, ...]:
        values = fields.unpack_from(self._data, self.position)
        self.position += fields.size
        return values

    def uuid(self) -> UUID:
        return UUID(bytes=self.take(_UUID.size))

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise IndexError(f"{size} bytes at {self.position} of {len(self._data)}")
        taken, self.position = self._data[self.position : end], end
        return taken

    def nullable(self) -> bytes | None:
        length = self.uvarint()
        return self.take(length - 1) if length else None

    def tags(self) -> dict[int, bytes]:
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}

    def partition(self) -> TopicIdPartition:
        name, topic_id = self.nullable(), self.take(_UUID.size)
        (partition,) = self.unpack(_INT32)
        self.tags()
        return _intern_partition(name or b"", topic_id, partition)

    def segment_id(self) -> RemoteLogSegmentId:
        partition = self.partition()
        segment_id = RemoteLogSegmentId(partition, self.uuid())
        self.tags()
        return segment_id

    def epochs(self) -> tuple[EpochEntry, ...]:
        entries = []
        for _ in range(self.uvarint() - 1):
            epoch, start_offset = self.unpack(_EPOCH)
            self.tags()
            entries.append(EpochEntry(epoch, start_offset))
        return tuple(entries)


@lru_cache(maxsize=_PARTITIONS_INTERNED_MAX)
def _intern_partition(name: bytes, topic_id: bytes, partition: int) -> TopicIdPartition:
    """One value for the many segments of a partition; its name becomes part of paths and object keys."""
    topic = name.decode("ascii")
    check_topic_name(topic)
    if partition < 0:
        raise MetadataRecordError(f"partition {partition} of topic {topic} is negative")
    return TopicIdPartition(UUID(bytes=topic_id), topic, partition)


def _decode_segment(reader: _Reader) -> RemoteLogSegmentMetadata:
    segment_id = reader.segment_id()
    start_offset, end_offset, broker_id, max_timestamp_ms, event_timestamp_ms = reader.unpack(_SEGMENT)
    epochs = reader.epochs()
    (size,) = reader.unpack(_INT32)
    custom_metadata = reader.nullable()
    (state,) = reader.unpack(_INT8)
    txn_index_empty = any(reader.tags().get(TXN_INDEX_EMPTY_TAG, b""))
    if not 0 <= start_offset <= end_offset:
        raise MetadataRecordError(f"{segment_id}: offsets {start_offset} to {end_offset} are not a range")
    if size < 0:
        raise MetadataRecordError(f"{segment_id}: size {size} is negative")
    _check_epochs(segment_id, end_offset, epochs)
    return RemoteLogSegmentMetadata(
        segment_id=segment_id,
        start_offset=start_offset,
        end_offset=end_offset,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        segment_size_in_bytes=size,
        segment_leader_epochs=epochs,
        state=RemoteLogSegmentState(state),
        custom_metadata=custom_metadata,
        txn_index_empty=txn_index_empty,
    )


def _check_epochs(segment_id: RemoteLogSegmentId, end_offset: int, epochs: tuple[EpochEntry, ...]) -> None:
    """They begin within the segment where the log start lay there: what is below it is forgotten."""
    text = " ".join(f"{entry.epoch}@{entry.start_offset}" for entry in epochs) or "none"
    if not epochs or epochs[0].epoch < 0 or epochs[0].start_offset > end_offset:
        raise MetadataRecordError(f"{segment_id}: leader epochs ({text}) begin only after offset {end_offset}")
    if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(epochs)):
        raise MetadataRecordError(f"{segment_id}: leader epochs ({text}) do not increase")


def _decode_update(reader: _Reader) -> RemoteLogSegmentMetadataUpdate:
    segment_id = reader.segment_id()
    broker_id, event_timestamp_ms = reader.unpack(_WRITER)
    custom_metadata = reader.nullable()
    (state,) = reader.unpack(_INT8)
    reader.tags()
    return RemoteLogSegmentMetadataUpdate(
        segment_id, RemoteLogSegmentState(state), event_timestamp_ms, broker_id, custom_metadata
    )


def _decode_partition_delete(reader: _Reader) -> RemotePartitionDeleteMetadata:
    partition = reader.partition()
    broker_id, event_timestamp_ms = reader.unpack(_WRITER)
    (state,) = reader.unpack(_INT8)
    reader.tags()
    return RemotePartitionDeleteMetadata(partition, RemotePartitionDeleteState(state), event_timestamp_ms, broker_id)
