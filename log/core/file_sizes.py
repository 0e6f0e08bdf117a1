"""How large may a file be that is read whole? Judged by its name, before its bytes are in memory.

What has grown beyond it, in a directory that others may write to, is not what its name says.

| name | at most | that is |
|---|---|---|
| `leader-epoch-checkpoint` | 4 MiB | some 150,000 elections of one partition that are in its log |
| `<offset>.snapshot` | 64 MiB | 1.4 million producers of one partition within `producer.id.expiration.ms` |
| `<name>-offset-checkpoint` | 64 MiB | 220,000 partitions with the longest names, a million with usual ones |
| `bootstrap.checkpoint` | 16 MiB | what a cluster is formatted with: features, credentials |
| `.index`, `.timeindex`, `.txnindex` | `index_bytes_max` | an entry for each batch that the segment has room for |
| any other: `partition.metadata`, `meta.properties`, `quorum-state`, marks | 1 MiB | a few lines |
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
SMALL_BYTES_MAX: Final = 1 << 20
ENTRY_BYTES: Final = {OFFSET_INDEX_SUFFIX: 8, TIME_INDEX_SUFFIX: 12, TRANSACTION_INDEX_SUFFIX: 34}

_LARGEST_SEGMENT_BYTES: Final = 2**31 - 1
_BY_ENDING: Final = (
    ("leader-epoch-checkpoint", LEADER_EPOCH_BYTES_MAX),
    ("leader_epoch_checkpoint", LEADER_EPOCH_BYTES_MAX),  # as it is called in a tier
    ("-offset-checkpoint", OFFSETS_BYTES_MAX),
    ("bootstrap.checkpoint", BOOTSTRAP_BYTES_MAX),
    (SNAPSHOT_SUFFIX, SNAPSHOT_BYTES_MAX),
)


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
    return SMALL_BYTES_MAX


def check_bytes(name: str, size_bytes: int, bytes_max: int) -> None:
    """Raise CorruptFileError, which names the file, for one that is larger."""
    if size_bytes > bytes_max:
        raise CorruptFileError(f"{name}: {size_bytes} bytes, where a file of this name has at most {bytes_max}")
