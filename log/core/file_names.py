"""Names of the files and directories of a log: Kafka's, so that each side opens what the other wrote.

| name | what |
|---|---|
| `<20-digit base offset>.log` `.index` `.timeindex` `.txnindex` | a segment and its indexes |
| `<20-digit offset>.snapshot` | the producer state at that offset |
| `leader-epoch-checkpoint`, `partition.metadata` | one each a partition |
| `adopted` | empty: the log was rebuilt from the tier and has not been in sync since; our own |
| `unsynced` | empty: an fsync has failed, what is above the recovery point has to be written again; our own |
| `<name>.deleted`, `.cleaned`, `.swap`, `.tmp` | left by an interrupted deletion, compaction, atomic write |
| `<topic>-<partition>` | a partition's directory |
| the same, cut if too long, with `.<32 hex digits>` and `-delete` or `-stray` | goes; another incarnation's |
| the same, whole, with `.<32 hex digits>-future` | will take the place of the log in another log directory |
| `<32 hex digits of the name's hash>.adopt/<topic>-<partition>` | is being built, to take the place of the live one |
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import TopicPartition, check_topic_name

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
"""The suffix of a file that belongs to no log any longer (Kafka's): unlinked in the background or at the next start."""
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

ADOPTED_FILE: Final = "adopted"
THIN_FILE: Final = "thin"
UNSYNCED_FILE: Final = "unsynced"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
FUTURE_SUFFIX: Final = "-future"
ADOPT_SUFFIX: Final = ".adopt"
NAME_BYTES_MAX: Final = 255

_SEGMENT_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_PARTITION_DIRECTORY = re.compile(r"(.+)-(\d+)")
_MARKED_DIRECTORY = re.compile(r"(.+?)\.[0-9a-f]{32}(-delete|-stray|-future)")
_ADOPTION_DIRECTORY = re.compile(r"[0-9a-f]{32}\.adopt")


def offset_file(directory: Path, offset: int, suffix: str) -> Path:
    """`directory/<20-digit offset><suffix>`."""
    assert offset >= 0, (directory, offset, suffix)
    return directory / f"{offset:020d}{suffix}"


def parse_offset_file(name: str) -> tuple[int, str] | None:
    """`(offset, suffix)` of a segment, index or snapshot file; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


@dataclass(frozen=True, slots=True)
class DirectoryName:
    """A partition's directory; `marker` is one of the three suffixes, or empty for the live one.

    The topic of a long name with `-delete` or `-stray` may have lost its end.
    """

    topic_partition: TopicPartition
    marker: str = ""


def parse_directory(name: str) -> DirectoryName | None:
    """What a directory in a log dir is for; None for a foreign name."""
    marked = _MARKED_DIRECTORY.fullmatch(name)
    match = _PARTITION_DIRECTORY.fullmatch(marked[1] if marked else name)
    if match is None:
        return None
    try:
        check_topic_name(match[1])
    except ValueError:
        return None
    return DirectoryName(TopicPartition(match[1], int(match[2])), marked[2] if marked else "")


def marked_directory(directory: Path, unique: str, marker: str) -> Path:
    """The sibling of a partition's directory that carries `-delete` or `-stray`; `unique` is 32 hex digits."""
    topic, partition = directory.name.rsplit("-", 1)
    tail = f"-{partition}.{unique}{marker}"
    name = topic[: NAME_BYTES_MAX - len(tail)] + tail
    assert _MARKED_DIRECTORY.fullmatch(name), name
    return directory.with_name(name)


def future_directory(directory: Path, unique: str) -> Path:
    """The sibling of a partition's directory in which its future log is; `unique` is 32 hex digits. ValueError for a
    topic whose name is too long, as Kafka does not cut it.
    """
    name = f"{directory.name}.{unique}{FUTURE_SUFFIX}"
    if len(name) > NAME_BYTES_MAX:
        raise ValueError(f"the topic name is too long: {name} has more than {NAME_BYTES_MAX} bytes")
    return directory.with_name(name)


def adopt_directory(directory: Path) -> Path:
    """Where the successor of a partition's directory is built: in a sibling of its own, and there under its full name,
    which may be too long to carry a suffix.
    """
    digest = hashlib.blake2s(directory.name.encode(), digest_size=16).hexdigest()
    return directory.with_name(digest + ADOPT_SUFFIX) / directory.name


def is_adoption(name: str) -> bool:
    """Whether a directory in a log dir is one in which a successor is built."""
    return _ADOPTION_DIRECTORY.fullmatch(name) is not None
