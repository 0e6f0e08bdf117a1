"""What a remote segment is: its id, metadata, legal states, look-up by (epoch, offset), and the two plugin ports.

It does not know which component uploads, or why. A plugin author needs what is exported here, and the suites in
`tierfetch.testing`.

storage         declares the `RemoteStorageManager` port: one storage product behind five calls and a listing.
metadata        declares the `RemoteLogMetadataManager` port: the ordered record of what is in the tier.
core/           holds segments as values, the ledger, and the leader's lineage.
registry        builds the two plugins from configuration.
look            looks at a tier once: can it be used as it is configured?
topic_manager   implements the metadata port on the topic `__remote_log_metadata`.
metadata_topic  declares what that implementation needs of the topic.
topic_reader    reads one partition of the topic.
snapshot_files  keeps ledger snapshots as files of one broker.
snapshot_cutter cuts ledger snapshots, and decides whether one may be used.
ledger_book     keeps the ledgers of the partitions that one broker follows.
index_cache     caches remote indexes on local disk.
index_proof     checks the entries of an index against its log.
batches         finds batches in bytes that came from the tier.
segment_scan    reads a segment's whole log where one of its small objects is lost.
aborts          finds the aborted transactions of a segment.
contents        reads every byte of a segment and judges it.
audit           compares the tier with the remote log metadata.
survey          rebuilds a ledger from the tier's objects alone.
backoff         computes how long to wait after a failure.
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
    ReadsSegments,
    RemoteObject,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    RemoteStorageManager,
    RemoteStorageRefusedError,
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
    "ReadsSegments",
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
    "RemoteStorageRefusedError",
    "RemoteStorageTimeoutError",
    "SegmentSource",
]
