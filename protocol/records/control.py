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
from . import Record, SkimmedRecord, build_batch

_KEY: Final = struct.Struct(">hh")
_END_TRANSACTION: Final = struct.Struct(">hi")
_VERSION: Final = 0


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
    record = Record(
        offset=base_offset,
        timestamp=timestamp_ms,
        key=control_key(marker.type),
        value=_END_TRANSACTION.pack(_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def _malformed(record: Record | SkimmedRecord, part: str, data: bytes | None, size: int) -> CorruptRecordError:
    found = "null" if data is None else f"{len(data)} bytes"
    return CorruptRecordError(
        f"control record at offset {record.offset}: {part} of {found} where at least {size} bytes are expected"
    )
