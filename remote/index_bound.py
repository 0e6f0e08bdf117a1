"""How large may an index of a remote segment be? Judged before its bytes are in memory, by what the segment can have.

| index             | entries                                              | at most                             |
|-------------------|------------------------------------------------------|-------------------------------------|
| offset index      | one for a batch                                      | batches that the log has room for   |
| time index        | one for a batch, one at the end                      | the same, and one                   |
| transaction index | one for an ABORT marker, which is a batch            | batches that the log has room for   |
| producer snapshot | one for a producer, of older segments too            | `SNAPSHOT_BYTES_MAX`                |
| leader epochs     | one for a leader epoch, of older segments too        | `LEADER_EPOCH_BYTES_MAX`            |

The interval between entries is the writer's configuration, which no reader knows: it may be 0. Offsets do not count: a
survey asks for indexes before it knows where the segment ends. Below `PREALLOCATED_BYTES` an index of batches is read
in any case, and judged by its contents. Pure.
"""

from __future__ import annotations

from typing import Final

from ..protocol.records import BATCH_HEADER_SIZE
from .core.segment import RemoteLogSegmentMetadata
from .storage import IndexType, RemoteStorageCorruptError

PREALLOCATED_BYTES: Final = 10 << 20
"""Kafka's default for `segment.index.bytes`: an index that was not trimmed has zeros up to there."""
SNAPSHOT_BYTES_MAX: Final = 64 << 20
"""1.4 million producers of one partition within `producer.id.expiration.ms`."""
LEADER_EPOCH_BYTES_MAX: Final = 4 << 20
"""Some 150,000 elections of one partition that are in its log."""
_BATCH_ENTRY_BYTES: Final = {IndexType.OFFSET: 8, IndexType.TIMESTAMP: 12, IndexType.TRANSACTION: 34}


def index_size_max(segment: RemoteLogSegmentMetadata, index_type: IndexType) -> int:
    """Return the bytes that no sound index of this segment exceeds."""
    match index_type:
        case IndexType.LEADER_EPOCH:
            return LEADER_EPOCH_BYTES_MAX
        case IndexType.PRODUCER_SNAPSHOT:
            return SNAPSHOT_BYTES_MAX
        case _:
            batches = segment.segment_size_in_bytes // BATCH_HEADER_SIZE
            return max(PREALLOCATED_BYTES, _BATCH_ENTRY_BYTES[index_type] * (batches + 1))


def check_index_size(segment: RemoteLogSegmentMetadata, index_type: IndexType, size_bytes: int) -> None:
    """RemoteStorageCorruptError if an index of `size_bytes` cannot be one of this segment."""
    size_max = index_size_max(segment, index_type)
    if size_bytes > size_max:
        raise RemoteStorageCorruptError(
            f"{index_type.value} of segment {segment.segment_id}: {size_bytes} bytes, where a segment of "
            f"{segment.segment_size_in_bytes} bytes has at most {size_max}"
        )
