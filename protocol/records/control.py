"""Control records: what a batch with the control bit holds. The key names the type, the value depends on it.

    key := version int16, type int16        value of ABORT and COMMIT := version int16, coordinator epoch int32

ABORT and COMMIT end a producer's transaction in one partition (KIP-98); the others belong to the KRaft quorum
(`quorum_records`). Later versions may append fields: readers take what they know and leave the rest.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from ...light_dataclass import dataclass
from ..errors import CorruptRecordError
from . import Record, SkimmedRecord
from .batch_header import (
    BATCH_HEADER_SIZE,
    CONTROL_BIT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    sealed,
)

_KEY: Final = struct.Struct(">hh")
_END_TRANSACTION: Final = struct.Struct(">hi")
_VERSION: Final = 0

# The record of a marker, as this and Kafka's coordinators write it: the same bytes but for the type and the epoch.
_RECORD: Final = struct.Struct(">7sh3siB")
_TO_TYPE: Final = bytes((2 * 16, 0, 0, 0, 2 * _KEY.size, 0, _VERSION))
"""The length, attributes, both deltas, and the length of the key with its version."""
_TO_EPOCH: Final = bytes((2 * _END_TRANSACTION.size, 0, _VERSION))
"""The length of the value, and its version; no headers follow it."""
_BATCH_LENGTH: Final = BATCH_HEADER_SIZE - LOG_OVERHEAD + _RECORD.size
_ATTRIBUTES: Final = TRANSACTIONAL_BIT | CONTROL_BIT


class ControlType(IntEnum):
    """Types of control records; UNKNOWN is any of a later Kafka."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def _missing_(cls, value: object) -> ControlType:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """COMMIT or ABORT by the transaction coordinator of `coordinator_epoch`."""

    type: ControlType
    coordinator_epoch: int

    def __post_init__(self) -> None:
        assert self.type in {ControlType.ABORT, ControlType.COMMIT}, f"{self.type!r} ends no transaction"


_ENDS: Final = {int(kind): kind for kind in (ControlType.ABORT, ControlType.COMMIT)}


def control_key(kind: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(_VERSION, kind)


def control_type(record: Record | SkimmedRecord) -> ControlType:
    """The type of a record from a control batch; CorruptRecordError if its key cannot name one."""
    if record.key is None or len(record.key) < _KEY.size:
        raise _malformed(record, "key", record.key, _KEY.size)
    version, type_id = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptRecordError(f"control record at offset {record.offset}: key version {version}")
    return ControlType(type_id)


def parse_end_transaction_marker(record: Record | SkimmedRecord) -> EndTransactionMarker:
    """The marker in a record whose `control_type` is ABORT or COMMIT; CorruptRecordError if its value is malformed."""
    if record.value is None or len(record.value) < _END_TRANSACTION.size:
        raise _malformed(record, "value", record.value, _END_TRANSACTION.size)
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(record.value)
    if version < 0:
        raise CorruptRecordError(f"control record at offset {record.offset}: marker version {version}")
    return EndTransactionMarker(control_type(record), coordinator_epoch)


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    partition_leader_epoch: int = -1,
) -> bytes:
    """The batch of one record that a leader appends for WriteTxnMarkers."""
    header = HEADER.pack(
        base_offset,
        _BATCH_LENGTH,
        partition_leader_epoch,
        MAGIC,
        0,  # the CRC, not known yet
        _ATTRIBUTES,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        -1,
        1,
    )
    return sealed(header, _RECORD.pack(_TO_TYPE, marker.type, _TO_EPOCH, marker.coordinator_epoch, 0))


def usual_marker(buf: Buffer, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """Return the marker in a batch that is as `build_end_transaction_batch` makes it; None for any other one, which has
    to be read record by record. Each marker is read once by every replica of its partition.
    """
    if header.batch_length != _BATCH_LENGTH or header.attributes != _ATTRIBUTES or header.record_count != 1:
        return None
    if len(buf) - position < BATCH_HEADER_SIZE + _RECORD.size:
        return None
    to_type, kind, to_epoch, coordinator_epoch, headers = _RECORD.unpack_from(buf, position + BATCH_HEADER_SIZE)
    if to_type != _TO_TYPE or to_epoch != _TO_EPOCH or headers:
        return None
    known = _ENDS.get(kind)
    return None if known is None else EndTransactionMarker(known, coordinator_epoch)


def _malformed(record: Record | SkimmedRecord, part: str, data: bytes | None, size: int) -> CorruptRecordError:
    found = "null" if data is None else f"{len(data)} bytes"
    return CorruptRecordError(
        f"control record at offset {record.offset}: {part} of {found} where at least {size} bytes are expected"
    )
