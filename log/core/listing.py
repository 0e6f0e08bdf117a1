"""The files of a partition's directory, classified by name. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...light_dataclass import dataclass
from ..disk.port import DirectoryEntry
from .checkpoints import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, RECOVERY_POINT_CHECKPOINT
from .file_names import (
    ADOPTED_FILE,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    THIN_FILE,
    UNSYNCED_FILE,
    parse_offset_file,
)

LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, ".cleaned", ".tmp")
OWN_NAMES: Final = frozenset(
    {
        LEADER_EPOCH_CHECKPOINT,
        PARTITION_METADATA,
        ADOPTED_FILE,
        THIN_FILE,
        UNSYNCED_FILE,
        RECOVERY_POINT_CHECKPOINT,
        "quorum-state",
        "unproven-voter",
    }
)
QUORUM_SNAPSHOT_SUFFIX: Final = ".checkpoint"
"""The suffix of the metadata log's snapshots, which its owner maintains."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The classified files: `leftovers` are removed at the next opening; `foreign` files are left alone."""

    log_bytes: dict[int, int]
    """Size by base offset."""
    indexes: frozenset[tuple[int, str]]
    snapshots: list[int]
    leftovers: list[str]
    foreign: list[str]
    has_epochs: bool
    has_metadata: bool
    is_adopted: bool
    is_thin: bool
    is_unsynced: bool


def classify(entries: Sequence[DirectoryEntry]) -> Listing:
    log_bytes: dict[int, int] = {}
    indexes: set[tuple[int, str]] = set()
    snapshots, leftovers, foreign = [], [], []
    for entry in entries:
        parsed = None if entry.is_directory else parse_offset_file(entry.name)
        if parsed is not None and parsed[1] == LOG_SUFFIX:
            log_bytes[parsed[0]] = entry.size
        elif parsed is not None and parsed[1] in INDEX_SUFFIXES:
            indexes.add(parsed)
        elif parsed is not None:
            snapshots.append(parsed[0])
        elif entry.name.endswith(LEFTOVER_SUFFIXES):
            leftovers.append(entry.name)
        elif entry.name not in OWN_NAMES and not entry.name.endswith(QUORUM_SNAPSHOT_SUFFIX):
            foreign.append(entry.name)
    names = {entry.name for entry in entries}
    return Listing(
        log_bytes=log_bytes,
        indexes=frozenset(indexes),
        snapshots=snapshots,
        leftovers=leftovers,
        foreign=foreign,
        has_epochs=LEADER_EPOCH_CHECKPOINT in names,
        has_metadata=PARTITION_METADATA in names,
        is_adopted=ADOPTED_FILE in names,
        is_thin=THIN_FILE in names,
        is_unsynced=UNSYNCED_FILE in names,
    )
