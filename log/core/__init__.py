"""The formats and rules of a local log. Pure.

file_names         builds and parses the names of files and directories, which are Kafka's.
listing            classifies the files of a partition's directory.
validation         checks bytes before a leader appends them as a batch.
epochs             caches at which offset each leader epoch began (KIP-101, KIP-279).
producers          tracks all producers of a log: duplicates, open transactions, last stable offset (KIP-98).
producer_state     judges the next batch of one producer (KIP-98, KIP-890).
packed_producer    packs the entry of one producer into few bytes.
producer_snapshot  encodes and decodes the `.snapshot` files.
index              encodes and searches the offset, time and transaction indexes.
segment_indexes    grows the offset and time index of a segment entry by entry.
recent_batches     remembers where the last batches of the active segment lie.
replica_copy       decides how a future log follows the log that it will replace (KIP-113).
file_sizes         says how large a file that is read whole may be.
retention          decides which local segments may be deleted.
free_space         decides when clients' records are refused for want of room.
checkpoints        encodes and decodes the checkpoint files of a log directory.
config             holds a topic's configuration: Kafka's names, units, defaults, limits.
properties         reads a node's `.properties` file into pydantic models.
errors             declares the error of a damaged file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...doors import lazy_door
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
    FUTURE_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    future_directory,
    parse_directory,
    parse_offset_file,
)
from .file_sizes import LEADER_EPOCH_BYTES_MAX, SNAPSHOT_BYTES_MAX, check_bytes, file_bytes_max, index_bytes_max
from .index import (
    NO_TIMESTAMP,
    AbortedTransaction,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    TransactionIndex,
)
from .producer_snapshot import decode_snapshot, decoded_slices, encode_snapshot
from .producer_state import NO_SEQUENCE, AppendOrigin, ProducerStateEntry, earlier_sequence
from .producers import OpenTransaction, ProducerStateManager
from .replica_copy import Restart
from .segment_indexes import SegmentIndexes
from .validation import check_size

if TYPE_CHECKING:
    from .properties import (
        Boolean,
        ConfigError,
        Listener,
        NaturalInt,
        Paths,
        PositiveInt,
        PositiveLong,
        PropertyKeys,
        Unlimited,
        as_text,
        boolean,
        comma_list,
        config_types,
        keys_of,
        nearest_key,
        parse_host_and_port,
        parse_listener,
        read_properties,
        unknown_key,
        validated,
    )

__all__ = [
    "ALL_REPLICAS",
    "DEFAULTS_WITHOUT_EFFECT",
    "FUTURE_SUFFIX",
    "INT32_MAX",
    "INT64_MAX",
    "LEADER_EPOCH_BYTES_MAX",
    "LEADER_EPOCH_CHECKPOINT",
    "LOG_START_OFFSET_CHECKPOINT",
    "LOG_SUFFIX",
    "META_PROPERTIES",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "OFFSET_INDEX_SUFFIX",
    "PARTITION_METADATA",
    "RECOVERY_POINT_CHECKPOINT",
    "REPLICATION_OFFSET_CHECKPOINT",
    "SNAPSHOT_BYTES_MAX",
    "SNAPSHOT_SUFFIX",
    "TIME_INDEX_SUFFIX",
    "TOPIC_CONFIG_TYPES",
    "TRANSACTION_INDEX_SUFFIX",
    "UNLIMITED",
    "AbortedTransaction",
    "AppendOrigin",
    "Boolean",
    "ConfigError",
    "CorruptFileError",
    "EpochEnd",
    "EpochEntry",
    "LeaderEpochCache",
    "Listener",
    "LogConfig",
    "MetaProperties",
    "NaturalInt",
    "OffsetIndex",
    "OffsetPosition",
    "OpenTransaction",
    "Paths",
    "PositiveInt",
    "PositiveLong",
    "ProducerStateEntry",
    "ProducerStateManager",
    "PropertyKeys",
    "Restart",
    "SegmentIndexes",
    "TimeIndex",
    "TimestampOffset",
    "TransactionIndex",
    "Unlimited",
    "as_text",
    "boolean",
    "check_bytes",
    "check_size",
    "comma_list",
    "config_types",
    "decode_leader_epochs",
    "decode_meta_properties",
    "decode_offsets",
    "decode_partition_metadata",
    "decode_snapshot",
    "decoded_slices",
    "earlier_sequence",
    "encode_meta_properties",
    "encode_offsets",
    "encode_partition_metadata",
    "encode_snapshot",
    "file_bytes_max",
    "future_directory",
    "index_bytes_max",
    "keys_of",
    "nearest_key",
    "parse_directory",
    "parse_host_and_port",
    "parse_listener",
    "parse_offset_file",
    "read_properties",
    "throttled_replicas",
    "unknown_key",
    "validated",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_door(
        __name__,
        {
            "Boolean": "properties",
            "ConfigError": "properties",
            "Listener": "properties",
            "NaturalInt": "properties",
            "Paths": "properties",
            "PositiveInt": "properties",
            "PositiveLong": "properties",
            "PropertyKeys": "properties",
            "Unlimited": "properties",
            "as_text": "properties",
            "boolean": "properties",
            "comma_list": "properties",
            "config_types": "properties",
            "keys_of": "properties",
            "parse_host_and_port": "properties",
            "parse_listener": "properties",
            "read_properties": "properties",
            "nearest_key": "properties",
            "unknown_key": "properties",
            "validated": "properties",
        },
    )
