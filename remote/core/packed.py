"""A finished remote segment as one short byte string: what the ledger keeps of the many segments that nobody touches.

A partition may have many thousands of them for years. As objects they take some 600 bytes each and slow down every full
garbage collection; packed they take 110, and the collector does not see them.

    start offset uint64 | last offset uint64 | id 16 bytes | broker int32 | max timestamp int64
    | event timestamp int64 | size int64 | flags uint8 | custom metadata size int32, -1 for none
    | custom metadata | (epoch int32, start offset int64) for each leader epoch

Offsets come first and big-endian, so the order of packed segments as bytes is the order of their start offsets, and the
id makes that order total. The partition and the state are known to the caller. Pure, private to this process and its
ledger snapshots (`snapshot.py`): a change here needs another snapshot version.
"""

from __future__ import annotations

import struct
from typing import Final
from uuid import UUID

from ...log.core import EpochEntry
from ...protocol import TopicIdPartition
from .segment import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState

_HEAD: Final = struct.Struct(">QQ16siqqqBi")
_OFFSETS: Final = struct.Struct(">QQ")
_EPOCH: Final = struct.Struct(">iq")
_LAST_EPOCH: Final = struct.Struct(">i8x")
_MAX_TIMESTAMP: Final = struct.Struct(">36xq")
_SIZE: Final = struct.Struct(">52xq")
_TXN_INDEX_EMPTY: Final = 1
_NO_CUSTOM_METADATA: Final = -1

PACKED_SIZE_MIN: Final = _HEAD.size + _EPOCH.size


def pack(metadata: RemoteLogSegmentMetadata) -> bytes:
    """Return everything of `metadata` but its partition and state."""
    custom = metadata.custom_metadata
    head = _HEAD.pack(
        metadata.start_offset,
        metadata.end_offset,
        metadata.segment_id.id.bytes,
        metadata.broker_id,
        metadata.max_timestamp_ms,
        metadata.event_timestamp_ms,
        metadata.segment_size_in_bytes,
        _TXN_INDEX_EMPTY if metadata.txn_index_empty else 0,
        _NO_CUSTOM_METADATA if custom is None else len(custom),
    )
    epochs = b"".join(_EPOCH.pack(entry.epoch, entry.start_offset) for entry in metadata.segment_leader_epochs)
    return head + (custom or b"") + epochs


def unpack(
    packed: bytes,
    partition: TopicIdPartition,
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
) -> RemoteLogSegmentMetadata:
    """Return what `pack` was given."""
    start, end, raw_id, broker_id, max_ms, event_ms, size, flags, custom_size = _HEAD.unpack_from(packed)
    epochs_at = _HEAD.size + max(0, custom_size)
    return RemoteLogSegmentMetadata(
        segment_id=RemoteLogSegmentId(partition, UUID(bytes=raw_id)),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=max_ms,
        broker_id=broker_id,
        event_timestamp_ms=event_ms,
        segment_size_in_bytes=size,
        segment_leader_epochs=tuple(EpochEntry(*entry) for entry in _EPOCH.iter_unpack(packed[epochs_at:])),
        state=state,
        custom_metadata=None if custom_size < 0 else packed[_HEAD.size : epochs_at],
        txn_index_empty=bool(flags & _TXN_INDEX_EMPTY),
    )


def offsets_of(packed: bytes) -> tuple[int, int]:
    """Return the first and the last offset, both inclusive."""
    return _OFFSETS.unpack_from(packed)


def end_key(packed: bytes) -> bytes:
    """Return the last offset as bytes, which sort as the numbers do."""
    return packed[8:16]


def offset_key(offset: int) -> bytes:
    """Return what sorts before every packed segment that starts at `offset` or later, and after all others."""
    return offset.to_bytes(8, "big")


def id_of(packed: bytes) -> int:
    """Return the id's 128 bits."""
    return int.from_bytes(packed[16:32], "big")


def size_of(packed: bytes) -> int:
    """Return the size of the `.log` in bytes."""
    return int(_SIZE.unpack_from(packed)[0])


def max_timestamp_of(packed: bytes) -> int:
    """Return the largest timestamp of a record in ms."""
    return int(_MAX_TIMESTAMP.unpack_from(packed)[0])


def last_epoch_of(packed: bytes) -> int:
    """Return the leader epoch that the segment ends in."""
    return int(_LAST_EPOCH.unpack_from(packed, len(packed) - _EPOCH.size)[0])
