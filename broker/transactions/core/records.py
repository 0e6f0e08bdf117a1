"""The records of `__transaction_state`: bytes <-> values, Kafka's `TransactionLogKey` and `TransactionLogValue`.

    key   := version int16 (0), transactional id
    value := version int16, fields            null is a tombstone: the transactional id has expired

| value | versions read | written |
|---|---|---|
| a transactional id | 0, 1 | 1 from transaction version 1 of the cluster on, and for ends that bump epochs; else 0 |

Version 1 is flexible and has three tagged fields: the previous and the next producer id, and the client's transaction
version (KIP-890). Keys of other versions are of a later Kafka: `decode_record` gives None, and readers skip them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ....light_dataclass import dataclass
from ....protocol import CorruptRecordError, TopicPartition, numbers_by_topic
from ....protocol.wire import MalformedMessageError, Reader, Writer
from .states import COMPLETE, NO_PRODUCER_ID, TransactionState, TransactionValue

FLEXIBLE_SINCE: Final = 1
_KEY: Final = 0
_VALUE_VERSION_MAX: Final = 1
_PREVIOUS_ID_TAG: Final = 0
_NEXT_ID_TAG: Final = 1
_VERSION_TAG: Final = 2
_NEVER_STORED: Final = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One record; a `value` of None is a tombstone. `version` is the format that a value is written in."""

    transactional_id: str
    value: TransactionValue | None
    version: int = FLEXIBLE_SINCE

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Key and value as bytes."""
        if self.value is None:
            return encode_key(self.transactional_id), None
        # What the old format cannot hold would be lost with the coordinator: a retry could not be recognized.
        version = FLEXIBLE_SINCE if self.value.bumps_epochs else self.version
        return encode_key(self.transactional_id), encode_value(self.value, version)


def encode_key(transactional_id: str) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(_KEY)
    writer.string(transactional_id)
    return bytes(writer.out)


def encode_value(value: TransactionValue, version: int) -> bytes:
    is_flexible = version >= FLEXIBLE_SINCE
    writer = Writer(flexible=False)
    writer.int16(version)
    writer.flexible = is_flexible
    writer.int64(value.producer_id)
    writer.int16(value.producer_epoch)
    writer.int32(value.timeout_ms)
    writer.out += bytes((value.state,))
    if value.state is TransactionState.EMPTY:
        writer.array_length(-1)
    else:
        _write_partitions(writer, value.partitions)
    writer.int64(value.last_update_ms)
    writer.int64(value.start_ms)
    writer.end_structure(_tagged(value) if is_flexible else {})
    return bytes(writer.out)


def _write_partitions(writer: Writer, partitions: Iterable[TopicPartition]) -> None:
    by_topic = numbers_by_topic(partitions)
    writer.array_length(len(by_topic))
    for topic, numbers in by_topic.items():
        writer.string(topic)
        writer.array_length(len(numbers))
        for number in numbers:
            writer.int32(number)
        writer.end_structure({})


def _tagged(value: TransactionValue) -> dict[int, bytes]:
    fields = {}
    if value.previous_producer_id != NO_PRODUCER_ID:
        fields[_PREVIOUS_ID_TAG] = value.previous_producer_id.to_bytes(8, "big", signed=True)
    if value.next_producer_id != NO_PRODUCER_ID:
        fields[_NEXT_ID_TAG] = value.next_producer_id.to_bytes(8, "big", signed=True)
    if value.transaction_version:
        fields[_VERSION_TAG] = value.transaction_version.to_bytes(2, "big", signed=True)
    return fields


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """None for a record of another kind. CorruptRecordError for one that cannot be read."""
    try:
        reader = Reader(memoryview(key), 0, flexible=False)
        if reader.int16() != _KEY:
            return None
        transactional_id = reader.string()
        return TransactionRecord(transactional_id, None if value is None else _decode_value(value))
    except MalformedMessageError as error:
        raise CorruptRecordError(f"a record of transactions: {error}") from error


def _decode_value(data: bytes) -> TransactionValue:
    reader = Reader(memoryview(data), 0, flexible=False)
    version = reader.int16()
    if not 0 <= version <= _VALUE_VERSION_MAX:
        raise MalformedMessageError(f"value version {version}, known are 0 to {_VALUE_VERSION_MAX}")
    reader.flexible = version >= FLEXIBLE_SINCE
    producer_id, producer_epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = _state(reader.int8())
    partitions = _read_partitions(reader)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    tagged = reader.tagged_fields()
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        # Kafka keeps no partitions of what is complete; a later reader must not send markers to them again.
        partitions=frozenset() if state in COMPLETE else partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=tagged[_PREVIOUS_ID_TAG].int64() if _PREVIOUS_ID_TAG in tagged else NO_PRODUCER_ID,
        next_producer_id=tagged[_NEXT_ID_TAG].int64() if _NEXT_ID_TAG in tagged else NO_PRODUCER_ID,
        transaction_version=tagged[_VERSION_TAG].int16() if _VERSION_TAG in tagged else 0,
    )


def _state(number: int) -> TransactionState:
    known = {int(state): state for state in TransactionState if state not in _NEVER_STORED}
    if number not in known:
        raise MalformedMessageError(f"transaction state {number}, expected one of {sorted(known)}")
    return known[number]


def _read_partitions(reader: Reader) -> frozenset[TopicPartition]:
    partitions = set()
    for _ in range(reader.nullable_array_length()):
        topic = reader.string()
        partitions |= {TopicPartition(topic, reader.int32()) for _ in range(reader.array_length())}
        reader.tagged_fields()
    return frozenset(partitions)
