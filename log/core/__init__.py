"""The formats and rules of a local log. Pure.

file_names         builds and parses the names of files and directories, which are Kafka's.
listing            classifies the files of a partition's directory.
validation         checks bytes before a leader appends them as a batch.
epochs             caches at which offset each leader epoch began (KIP-101, KIP-279).
producers          tracks all producers of a log: duplicates, open transactions, last stable offset (KIP-98).
producer_state     judges the next batch of one producer (KIP-98, KIP-890).
producer_snapshot  encodes and decodes the `.snapshot` files.
index              encodes and searches the offset, time and transaction indexes.
segment_indexes    grows the offset and time index of a segment entry by entry.
recent_batches     remembers where the last batches of the active segment lie.
replica_copy       decides how a future log follows the log that it will replace (KIP-113).
retention          decides which local segments may be deleted.
free_space         decides when clients' records are refused for want of room.
checkpoints        encodes and decodes the checkpoint files of a log directory.
config             holds a topic's configuration: Kafka's names, units, defaults, limits.
properties         reads a node's `.properties` file into pydantic models.
errors             declares the error of a damaged file.

Other folders import the names below; what is in `properties` from there, for pydantic is not needed by all.
"""

from __future__ import annotations

from .checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    MetaProperties,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offsets,
    decode_partition_metadata,
    encode_meta_properties,
    encode_offsets,
    encode_partition_metadata,
)
from .config import (
    ALL_REPLICAS,
    DEFAULTS_WITHOUT_EFFECT,
    INT32_MAX,
    INT64_MAX,
    TOPIC_CONFIG_TYPES,
    UNLIMITED,
    LogConfig,
    throttled_replicas,
)
from .epochs import EpochEnd, EpochEntry, LeaderEpochCache
from .errors import CorruptFileError
from .file_names import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    future_directory,
    parse_directory,
    parse_offset_file,
)
from .index import (
    NO_TIMESTAMP,
    AbortedTransaction,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    TransactionIndex,
)
from .producer_snapshot import decode_snapshot, encode_snapshot
from .producer_state import AppendOrigin
from .producers import ProducerStateManager
from .replica_copy import Restart
from .segment_indexes import SegmentIndexes
from .validation import check_size

__all__ = [
    "ALL_REPLICAS",
    "DEFAULTS_WITHOUT_EFFECT",
    "INT32_MAX",
    "INT64_MAX",
    "LEADER_EPOCH_CHECKPOINT",
    "LOG_START_OFFSET_CHECKPOINT",
    "LOG_SUFFIX",
    "META_PROPERTIES",
    "NO_TIMESTAMP",
    "PARTITION_METADATA",
    "RECOVERY_POINT_CHECKPOINT",
    "REPLICATION_OFFSET_CHECKPOINT",
    "SNAPSHOT_SUFFIX",
    "TOPIC_CONFIG_TYPES",
    "TRANSACTION_INDEX_SUFFIX",
    "UNLIMITED",
    "AbortedTransaction",
    "AppendOrigin",
    "CorruptFileError",
    "EpochEnd",
    "EpochEntry",
    "LeaderEpochCache",
    "LogConfig",
    "MetaProperties",
    "OffsetIndex",
    "OffsetPosition",
    "ProducerStateManager",
    "Restart",
    "SegmentIndexes",
    "TimeIndex",
    "TimestampOffset",
    "TransactionIndex",
    "check_size",
    "decode_leader_epochs",
    "decode_meta_properties",
    "decode_offsets",
    "decode_partition_metadata",
    "decode_snapshot",
    "encode_meta_properties",
    "encode_offsets",
    "encode_partition_metadata",
    "encode_snapshot",
    "future_directory",
    "parse_directory",
    "parse_offset_file",
    "throttled_replicas",
]
