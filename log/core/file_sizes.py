"""How large may a file be that is read whole? Judged by its name, before its bytes are in memory.

What has grown beyond it, in a directory that others may write to, is not what its name says.

| name | at most | that is |
|---|---|---|
| `leader-epoch-checkpoint` | 4 MiB | some 150,000 elections of one partition that are in its log |
| `<offset>.snapshot` | 64 MiB | 1.4 million producers of one partition within `producer.id.expiration.ms` |
| `<name>-offset-checkpoint` | 64 MiB | 220,000 partitions with the longest names, a million with usual ones |
| `bootstrap.checkpoint` | 16 MiB | what a cluster is formatted with: features, credentials |
| `.index`, `.timeindex`, `.txnindex` | `index_bytes_max` | an entry for each batch that the segment has room for |
| `remote-partition-deletions` | 64 MiB | as many partitions of deleted topics |
| `quorum-state` | 64 KiB | more voters than a quorum has |
| `meta.properties` | 64 KiB | four lines, and comments |
| `partition.metadata`, `.kafka_cleanshutdown` | 4 KiB | one or two lines |
| any other | 1 MiB | none that brokers read |

Nothing that is written may be larger than what is read: `tests/log/test_file_sizes.py`.
"""

from __future__ import annotations

from typing import Final

from ...protocol.records import BATCH_HEADER_SIZE
from .errors import CorruptFileError
from .file_names import (
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)

PREALLOCATED_BYTES: Final = 10 << 20
"""Kafka's default for `segment.index.bytes`: an index that was not trimmed has zeros up to there."""
SNAPSHOT_BYTES_MAX: Final = 64 << 20
LEADER_EPOCH_BYTES_MAX: Final = 4 << 20
OFFSETS_BYTES_MAX: Final = 64 << 20
BOOTSTRAP_BYTES_MAX: Final = 16 << 20
PROPERTIES_BYTES_MAX: Final = 64 << 10
LINES_BYTES_MAX: Final = 4 << 10
OTHER_BYTES_MAX: Final = 1 << 20
ENTRY_BYTES: Final = {OFFSET_INDEX_SUFFIX: 8, TIME_INDEX_SUFFIX: 12, TRANSACTION_INDEX_SUFFIX: 34}

_LARGEST_SEGMENT_BYTES: Final = 2**31 - 1
_BY_ENDING: Final = (
    ("leader-epoch-checkpoint", LEADER_EPOCH_BYTES_MAX),
    ("leader_epoch_checkpoint", LEADER_EPOCH_BYTES_MAX),  # as it is called in a tier
    ("-offset-checkpoint", OFFSETS_BYTES_MAX),
    ("bootstrap.checkpoint", BOOTSTRAP_BYTES_MAX),
    (SNAPSHOT_SUFFIX, SNAPSHOT_BYTES_MAX),
    ("remote-partition-deletions", OFFSETS_BYTES_MAX),
    ("quorum-state", PROPERTIES_BYTES_MAX),
    ("meta.properties", PROPERTIES_BYTES_MAX),
    ("partition.metadata", LINES_BYTES_MAX),
    (".kafka_cleanshutdown", LINES_BYTES_MAX),
)
_REMEDIES: Final = {
    "meta.properties": "restore the version, cluster.id, node.id and directory.id of this node in it",
    "bootstrap.checkpoint": "restore it, or format the directory again if this controller has joined no quorum yet",
}
"""What to do about files that a node does not start without, and cannot make again."""


def index_bytes_max(suffix: str, segment_bytes: int) -> int:
    """Return the bytes that no sound index of a segment of that size exceeds.

    The interval between entries is the writer's configuration, which no reader knows: it may be 0. So there may be an
    entry for each batch (the transaction index: for each ABORT marker, which is a batch), one more at the end.
    """
    return max(PREALLOCATED_BYTES, ENTRY_BYTES[suffix] * (segment_bytes // BATCH_HEADER_SIZE + 1))


def file_bytes_max(name: str) -> int:
    """Return the bytes that no sound file of this name exceeds."""
    for ending, bytes_max in _BY_ENDING:
        if name.endswith(ending):
            return bytes_max
    for suffix in ENTRY_BYTES:
        if name.endswith(suffix):
            return index_bytes_max(suffix, _LARGEST_SEGMENT_BYTES)
    return OTHER_BYTES_MAX


def check_bytes(name: str, size_bytes: int, bytes_max: int) -> None:
    """Raise CorruptFileError for one that is larger. It names the file, its size, the limit, and what to do where the
    node does not repair it by itself.
    """
    if size_bytes > bytes_max:
        remedy = _REMEDIES.get(name.rpartition("/")[2])
        advice = f": {remedy}" if remedy else ""
        raise CorruptFileError(f"{name}: {size_bytes} bytes, where a file of this name has at most {bytes_max}{advice}")
