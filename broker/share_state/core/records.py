"""The records of `__share_group_state`: bytes <-> values, Kafka's `ShareSnapshot*` and `ShareUpdate*` keys and values.

    key   := kind int16, group string, topic id, partition int32
    value := version int16 = 0, fields, all flexible          null is a tombstone: the state was deleted

| kind | value |
|---|---|
| 0 | a snapshot: all that is known of the share-partition, so nothing of it before this record is needed |
| 1 | an update of the snapshot before it: what has changed |

The number of deliveries that are complete is a tagged field (Kafka 4.2, KIP-1226). Keys of other kinds are of a later
Kafka: `decode_record` gives None, and readers skip them.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ....light_dataclass import dataclass
from ....protocol import CorruptRecordError, uuid_to_text
from ....protocol.wire import MalformedMessageError, Reader, Writer
from .batches import Batch

SNAPSHOT_KIND: Final = 0
UPDATE_KIND: Final = 1
UNKNOWN_COUNT: Final = -1
_VERSION: Final = 0
_COUNT_TAG: Final = 0


@dataclass(frozen=True, slots=True, order=True)
class ShareKey:
    """A share-partition: a partition of a topic as one share group sees it."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return the key that decides which partition of `__share_group_state` holds it, as in FindCoordinator."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What has changed. A start offset or leader epoch of -1 is as before."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All of it. `state_epoch` rises with each initialization, `snapshot_epoch` with each snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareRecord:
    """One record; a `value` of None is a tombstone of the snapshot."""

    key: ShareKey
    value: Snapshot | Update | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Return key and value as bytes."""
        kind = UPDATE_KIND if isinstance(self.value, Update) else SNAPSHOT_KIND
        writer = Writer(flexible=False)
        writer.int16(kind)
        writer.string(self.key.group_id)
        writer.uuid(self.key.topic_id)
        writer.int32(self.key.partition)
        return bytes(writer.out), None if self.value is None else _encode_value(self.value)


def _encode_value(value: Snapshot | Update) -> bytes:
    writer = Writer(flexible=True)
    writer.int16(_VERSION)
    writer.int32(value.snapshot_epoch)
    if isinstance(value, Snapshot):
        writer.int32(value.state_epoch)
    writer.int32(value.leader_epoch)
    writer.int64(value.start_offset)
    if isinstance(value, Snapshot):
        writer.int64(value.create_timestamp_ms)
        writer.int64(value.write_timestamp_ms)
    writer.array_length(len(value.batches))
    for batch in value.batches:
        writer.int64(batch.first_offset)
        writer.int64(batch.last_offset)
        writer.out.append(batch.delivery_state)
        writer.int16(batch.delivery_count)
        writer.end_structure()
    count = value.delivery_complete_count
    writer.end_structure({} if count == UNKNOWN_COUNT else {_COUNT_TAG: count.to_bytes(4, "big", signed=True)})
    return bytes(writer.out)


def decode_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Return None for a record of another kind. Raise CorruptRecordError for one that cannot be read."""
    try:
        reader = Reader(memoryview(key), 0, flexible=False)
        kind = reader.int16()
        if kind not in (SNAPSHOT_KIND, UPDATE_KIND):
            return None
        group_id, topic_id, partition = reader.string(), reader.uuid(), reader.int32()
        if topic_id is None:
            raise MalformedMessageError("a topic id of zero")
        return ShareRecord(
            ShareKey(group_id, topic_id, partition),
            None if value is None else _decode_value(value, is_snapshot=kind == SNAPSHOT_KIND),
        )
    except MalformedMessageError as error:
        raise CorruptRecordError(f"a record of share groups: {error}") from error


def _decode_value(data: bytes, *, is_snapshot: bool) -> Snapshot | Update:
    reader = Reader(memoryview(data), 0, flexible=False)
    version = reader.int16()
    if version != _VERSION:
        raise MalformedMessageError(f"value version {version}, known is {_VERSION}")
    reader.flexible = True
    snapshot_epoch = reader.int32()
    state_epoch = reader.int32() if is_snapshot else 0
    leader_epoch, start_offset = reader.int32(), reader.int64()
    created_ms, written_ms = (reader.int64(), reader.int64()) if is_snapshot else (0, 0)
    batches = tuple([_decode_batch(reader) for _ in range(reader.array_length())])
    tagged = reader.tagged_fields()
    count = tagged[_COUNT_TAG].int32() if _COUNT_TAG in tagged else UNKNOWN_COUNT
    if not is_snapshot:
        return Update(
            snapshot_epoch=snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=count,
            batches=batches,
        )
    return Snapshot(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=count,
        create_timestamp_ms=created_ms,
        write_timestamp_ms=written_ms,
        batches=batches,
    )


def _decode_batch(reader: Reader) -> Batch:
    batch = Batch(reader.int64(), reader.int64(), reader.int8(), reader.int16())
    reader.tagged_fields()
    if not 0 <= batch.first_offset <= batch.last_offset or min(batch.delivery_state, batch.delivery_count) < 0:
        raise MalformedMessageError(f"{batch} is no range of offsets in a delivery state")
    return batch
