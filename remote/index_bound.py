"""How large may an index of a remote segment be? Judged before its bytes are in memory, by what the segment can have.

The same bounds hold as for files of a log directory (`log.core.file_sizes`). Offsets do not count: a survey asks for
indexes before it knows where the segment ends. Pure.
"""

from __future__ import annotations

from typing import Final

from ..log.core import (
    LEADER_EPOCH_BYTES_MAX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_BYTES_MAX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    index_bytes_max,
)
from .core.segment import RemoteLogSegmentMetadata
from .storage import IndexType, RemoteStorageCorruptError

_SUFFIXES: Final = {
    IndexType.OFFSET: OFFSET_INDEX_SUFFIX,
    IndexType.TIMESTAMP: TIME_INDEX_SUFFIX,
    IndexType.TRANSACTION: TRANSACTION_INDEX_SUFFIX,
}


def index_size_max(segment: RemoteLogSegmentMetadata, index_type: IndexType) -> int:
    """Return the bytes that no sound index of this segment exceeds."""
    match index_type:
        case IndexType.LEADER_EPOCH:
            return LEADER_EPOCH_BYTES_MAX
        case IndexType.PRODUCER_SNAPSHOT:
            return SNAPSHOT_BYTES_MAX
        case _:
            return index_bytes_max(_SUFFIXES[index_type], segment.segment_size_in_bytes)


def check_index_size(segment: RemoteLogSegmentMetadata, index_type: IndexType, size_bytes: int) -> None:
    """RemoteStorageCorruptError if an index of `size_bytes` cannot be one of this segment."""
    size_max = index_size_max(segment, index_type)
    if size_bytes > size_max:
        raise RemoteStorageCorruptError(
            f"{index_type.value} of segment {segment.segment_id}: {size_bytes} bytes, where a segment of "
            f"{segment.segment_size_in_bytes} bytes has at most {size_max}"
        )
