"""What a remote segment is: its id, metadata, legal states, look-up by (epoch, offset), and the two plugin ports.

Knows neither who uploads nor why. A plugin author needs what is exported here, and the suites in
`tierfetch.testing`.
"""

from __future__ import annotations

from .core.ledger import IllegalTransitionError, RemoteLogLedger
from .core.segment import (
    RemoteLogEvent,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from .metadata import RemoteLogMetadataError, RemoteLogMetadataManager
from .storage import (
    IndexType,
    ListsFromOffset,
    ListsPartitions,
    LogSegmentData,
    ObjectRange,
    ReadsObjects,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
    RemoteStorageTimeoutError,
    SegmentSource,
)

__all__ = [
    "IllegalTransitionError",
    "IndexType",
    "ListsFromOffset",
    "ListsPartitions",
    "LogSegmentData",
    "ObjectRange",
    "ReadsObjects",
    "RemoteLogEvent",
    "RemoteLogLedger",
    "RemoteLogMetadataError",
    "RemoteLogMetadataManager",
    "RemoteLogSegmentId",
    "RemoteLogSegmentMetadata",
    "RemoteLogSegmentMetadataUpdate",
    "RemoteLogSegmentState",
    "RemoteObject",
    "RemotePartitionDeleteMetadata",
    "RemotePartitionDeleteState",
    "RemoteResourceNotFoundError",
    "RemoteStorageCorruptError",
    "RemoteStorageError",
    "RemoteStorageManager",
    "RemoteStorageTimeoutError",
    "SegmentSource",
]
