"""What a remote segment is: its id, metadata, legal states, look-up by (epoch, offset), and the two plugin ports.

It does not know which component uploads, or why. A plugin author needs what is exported here, and the suites in
`tierfetch.testing`.

storage         declares the `RemoteStorageManager` port: one storage product behind five calls and a listing.
metadata        declares the `RemoteLogMetadataManager` port: the ordered record of what is in the tier.
core/           holds segments as values, the ledger, and the leader's lineage.
registry        builds the two plugins from configuration.
look            looks at a tier once: can it be used as it is configured?
topic_manager   implements the metadata port on the topic `__remote_log_metadata`.
file_manager    implements it on files of a directory.
metadata_topic  declares what that implementation needs of the topic.
topic_reader    reads one partition of the topic.
snapshot_files  keeps ledger snapshots as files of one broker.
snapshot_cutter cuts ledger snapshots, and decides whether one may be used.
ledger_book     keeps the ledgers of the partitions that one broker follows, and answers the port's calls from them.
index_cache     caches remote indexes on local disk.
index_bound     says how large an index of a segment may be.
index_proof     checks the entries of an index against its log.
batches         finds batches in bytes that came from the tier.
segment_scan    reads a segment's whole log where one of its small objects is lost.
aborts          finds the aborted transactions of a segment.
contents        reads every byte of a segment and judges it.
embedded        reads a tier without a broker: the public calls of docs/library.md.
audit           compares the tier with the remote log metadata.
survey          rebuilds a ledger from the tier's objects alone.
backoff         computes how long to wait after a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..doors import lazy_door
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
    CopiesInWorker,
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
    StreamsSegments,
)

if TYPE_CHECKING:
    from .aborts import fetch_transaction_index, first_open_offset
    from .audit import AuditReport, audit_ledger, audit_survey, check_lineage, confirmed_report
    from .backoff import Backoff
    from .batches import Found, ReadOn, WholeBatches, batch_at, find_batch, whole_batches
    from .contents import check_contents
    from .embedded import Tier, TierLog, TierSegment, open_tier
    from .file_manager import FileMetadataConfig, FileRemoteLogMetadataManager
    from .index_bound import check_index_size, index_size_max
    from .index_cache import RemoteIndexCache, check_slots
    from .index_proof import WrongIndexError, check_offset_entry, has_time_entry
    from .ledger_book import partition_of
    from .look import look_at_tier
    from .metadata_topic import NO_EPOCH, MetadataBatch, MetadataTopicSettings, RemoteLogMetadataContext
    from .registry import PluginError, load_remote_log_metadata, load_remote_storage
    from .segment_scan import scan, scanned_indexes
    from .snapshot_files import SnapshotFiles
    from .survey import NOT_REPORTED, Sighting, Survey, enter_segment, gather_limited, sight_segments, survey_partition
    from .topic_manager import TopicBasedRemoteLogMetadataManager
    from .topic_reader import MetadataPartitionReader

__all__ = [
    "NOT_REPORTED",
    "NO_EPOCH",
    "AuditReport",
    "Backoff",
    "CopiesInWorker",
    "FileMetadataConfig",
    "FileRemoteLogMetadataManager",
    "Found",
    "IllegalTransitionError",
    "IndexType",
    "ListsFromOffset",
    "ListsPartitions",
    "LogSegmentData",
    "MetadataBatch",
    "MetadataPartitionReader",
    "MetadataTopicSettings",
    "ObjectRange",
    "PluginError",
    "ReadOn",
    "ReadsObjects",
    "ReadsSegments",
    "RemoteIndexCache",
    "RemoteLogEvent",
    "RemoteLogLedger",
    "RemoteLogMetadataContext",
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
    "Sighting",
    "SnapshotFiles",
    "StreamsSegments",
    "Survey",
    "Tier",
    "TierLog",
    "TierSegment",
    "TopicBasedRemoteLogMetadataManager",
    "WholeBatches",
    "WrongIndexError",
    "audit_ledger",
    "audit_survey",
    "batch_at",
    "check_contents",
    "check_index_size",
    "check_lineage",
    "check_offset_entry",
    "check_slots",
    "confirmed_report",
    "enter_segment",
    "fetch_transaction_index",
    "find_batch",
    "first_open_offset",
    "gather_limited",
    "has_time_entry",
    "index_size_max",
    "load_remote_log_metadata",
    "load_remote_storage",
    "look_at_tier",
    "open_tier",
    "partition_of",
    "scan",
    "scanned_indexes",
    "sight_segments",
    "survey_partition",
    "whole_batches",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "AuditReport": "audit",
            "Backoff": "backoff",
            "FileMetadataConfig": "file_manager",
            "FileRemoteLogMetadataManager": "file_manager",
            "Found": "batches",
            "MetadataBatch": "metadata_topic",
            "MetadataPartitionReader": "topic_reader",
            "MetadataTopicSettings": "metadata_topic",
            "NOT_REPORTED": "survey",
            "NO_EPOCH": "metadata_topic",
            "PluginError": "registry",
            "ReadOn": "batches",
            "RemoteIndexCache": "index_cache",
            "RemoteLogMetadataContext": "metadata_topic",
            "Sighting": "survey",
            "SnapshotFiles": "snapshot_files",
            "Survey": "survey",
            "Tier": "embedded",
            "TierLog": "embedded",
            "TierSegment": "embedded",
            "TopicBasedRemoteLogMetadataManager": "topic_manager",
            "WholeBatches": "batches",
            "WrongIndexError": "index_proof",
            "audit_ledger": "audit",
            "audit_survey": "audit",
            "batch_at": "batches",
            "check_contents": "contents",
            "check_index_size": "index_bound",
            "check_lineage": "audit",
            "check_offset_entry": "index_proof",
            "check_slots": "index_cache",
            "confirmed_report": "audit",
            "enter_segment": "survey",
            "fetch_transaction_index": "aborts",
            "find_batch": "batches",
            "first_open_offset": "aborts",
            "gather_limited": "survey",
            "has_time_entry": "index_proof",
            "index_size_max": "index_bound",
            "load_remote_log_metadata": "registry",
            "load_remote_storage": "registry",
            "look_at_tier": "look",
            "open_tier": "embedded",
            "partition_of": "ledger_book",
            "scan": "segment_scan",
            "scanned_indexes": "segment_scan",
            "sight_segments": "survey",
            "survey_partition": "survey",
            "whole_batches": "batches",
        },
    )
