"""Remote segments as values, and the ledger that says which of them exist and hold an offset. Pure.

segment      declares ids, metadata events and states (KIP-405).
ledger       applies events, rejects illegal transitions, and finds the segment that holds an offset.
packed       keeps a readable segment as one short byte string.
usable       keeps which segments count for one replica, as they and its log change.
epoch_index  orders the readable segments of one leader epoch.
lineage      decides which segments belong to a leader's history, and how far they reach.
snapshot     encodes and decodes the ledgers of one metadata partition as of one offset.
records      encodes and decodes the records of `__remote_log_metadata`.
offset_runs  holds sets of offsets as runs without a gap.
findings     declares what may be wrong with a tier.
byte_lru     is a least-recently-used map bounded in bytes.
"""

from __future__ import annotations

from .byte_lru import ByteLru
from .findings import Finding, FindingKind
from .ledger import IllegalTransitionError, RemoteLogLedger
from .lineage import (
    Gap,
    OffsetAndEpoch,
    covering,
    earliest_pending_upload,
    end_on_lineage,
    is_within_lineage,
    latest_tiered,
    with_max_timestamp,
    with_timestamp_from,
    youngest,
)
from .offset_runs import OffsetRuns
from .records import MetadataRecordError, decode_event, encode_event
from .segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from .usable import Bounds, UsableSegments

__all__ = [
    "Bounds",
    "ByteLru",
    "Finding",
    "FindingKind",
    "Gap",
    "IllegalTransitionError",
    "MetadataRecordError",
    "OffsetAndEpoch",
    "OffsetRuns",
    "RemoteLogLedger",
    "RemoteLogSegmentId",
    "RemoteLogSegmentMetadata",
    "RemoteLogSegmentMetadataUpdate",
    "RemoteLogSegmentState",
    "RemotePartitionDeleteMetadata",
    "RemotePartitionDeleteState",
    "UsableSegments",
    "covering",
    "decode_event",
    "earliest_pending_upload",
    "encode_event",
    "end_on_lineage",
    "is_within_lineage",
    "latest_tiered",
    "with_max_timestamp",
    "with_timestamp_from",
    "youngest",
]
