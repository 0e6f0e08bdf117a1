"""Object names of a tiered segment: the layout of Kafka's `LocalTieredStorage`, shared by every plugin here.

    [prefix/]<topic>-<partition>-<topic uuid>/<20-digit start offset>-<segment uuid>.<suffix>

Where the first part would be longer than a file system's names may be (255 bytes; Java's has no answer to that), the
topic continues in a second one; `~` is in no topic's name:

    [prefix/]<200 characters of the topic>~/<the rest>-<partition>-<topic uuid>/...

The one place that knows names. A name is built from validated parts only (topic names are checked, uuids and numbers
are rendered), so nothing from outside can leave the prefix.
"""

from __future__ import annotations

import re
from functools import lru_cache
from uuid import UUID

from ..protocol import TopicIdPartition, check_topic_name, uuid_from_text, uuid_to_text
from ..remote import IndexType, RemoteObject
from ..remote.core import RemoteLogSegmentId, RemoteLogSegmentMetadata

LOG_SUFFIX = "log"
NAME_BYTES_MAX = 255
_CUT_AT = 200
_CUT_MARK = "~"
_DIRECTORY = re.compile(r"(.+)-(\d{1,10})-([\w-]{22})")
_NAME = re.compile(r"(\d{20})-([\w-]{22})\.([a-z_]+)")
_SUFFIXES = {kind.value: kind for kind in IndexType}


def partition_directory(partition: TopicIdPartition) -> str:
    """Return the partition's directory: one name, or two with a slash between them."""
    check_topic_name(partition.topic)
    name = f"{partition.topic}-{partition.partition}-{uuid_to_text(partition.topic_id)}"
    return name if len(name) <= NAME_BYTES_MAX else f"{name[:_CUT_AT]}{_CUT_MARK}/{name[_CUT_AT:]}"


def has_more_parts(directory: str) -> bool:
    """Whether a directory at the top is the first part of a name that was cut."""
    return directory.endswith(_CUT_MARK)


def partition_of(directory: str) -> TopicIdPartition | None:
    """The inverse of `partition_directory`; None for a foreign name."""
    match = _DIRECTORY.fullmatch(directory.replace(f"{_CUT_MARK}/", "", 1))
    if match is None:
        return None
    try:
        partition = TopicIdPartition(uuid_from_text(match[3]), match[1], int(match[2]))
        return partition if partition_directory(partition) == directory else None
    except ValueError:
        return None


def segment_stem(metadata: RemoteLogSegmentMetadata) -> str:
    """Common beginning of all names of one segment, within its partition's directory."""
    assert metadata.start_offset >= 0, metadata
    return f"{metadata.start_offset:020d}-{uuid_to_text(metadata.segment_id.id)}"


def segment_key(metadata: RemoteLogSegmentMetadata, kind: IndexType | None) -> str:
    """Key of one object; `kind` None is the `.log`."""
    suffix = kind.value if kind is not None else LOG_SUFFIX
    return f"{partition_directory(metadata.segment_id.topic_id_partition)}/{segment_stem(metadata)}.{suffix}"


def segment_keys(metadata: RemoteLogSegmentMetadata) -> list[str]:
    """Every key the segment may have, the `.log` first: once that is deleted, so is the segment."""
    return [segment_key(metadata, kind) for kind in (None, *IndexType)]


def object_name(key: str) -> str:
    """The last part of a key, or of the common beginning of a segment's keys. The segment's id in it makes it unique;
    together with its directory it could be longer than a file name may be.
    """
    name = key.rpartition("/")[2]
    assert name, f"{key!r} names a directory"
    return name


def describe_object(key: str, size: int, partition: TopicIdPartition) -> RemoteObject:
    """What a listed key is; a foreign name keeps `segment_id` None."""
    match = _NAME.fullmatch(key.rpartition("/")[2])
    known = match and (match[3] == LOG_SUFFIX or match[3] in _SUFFIXES)
    if not match or not known:
        return RemoteObject(key, size, None, None, is_log=False)
    try:
        segment_id = RemoteLogSegmentId(partition, _uuid(match[2]))
    except ValueError:
        return RemoteObject(key, size, None, None, is_log=False)
    kind = _SUFFIXES.get(match[3])
    return RemoteObject(key, size, segment_id, kind, is_log=kind is None, start_offset=int(match[1]))


@lru_cache(1)
def _uuid(text: str) -> UUID:
    """The objects of a segment are adjacent in a listing."""
    return uuid_from_text(text)
