"""A broker's log directory (`log.dirs`) as segments: of a broker that is stopped, a copy, or one that runs on.

| of a segment       | is read from                                                                          |
|--------------------|--------------------------------------------------------------------------------------|
| offsets            | its name and the next one's: what compaction took away between the two is no gap     |
| end of the last    | its last whole batch, looked for from the last entry of its offset index on          |
| what is committed  | `replication-offset-checkpoint`: what is above that high watermark is not read       |
| what is deleted    | `log-start-offset-checkpoint`                                                        |
| leader epochs      | `leader-epoch-checkpoint`                                                            |
| open transactions  | the newest `.snapshot` at or below the end, and the batches after it                 |

A segment's id is made from its place and size, so that one that has grown is another one. Brokers delete and compact
while they run: a file that goes while it is read is an error like any other missing object.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from functools import partial
from typing import Final
from uuid import UUID, uuid5

from ...light_dataclass import dataclass
from ...log.core import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    NO_TIMESTAMP,
    PARTITION_METADATA,
    REPLICATION_OFFSET_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    CorruptFileError,
    EpochEntry,
    LeaderEpochCache,
    OffsetIndex,
    ProducerStateManager,
    TimeIndex,
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_snapshot,
    file_bytes_max,
    parse_directory,
    parse_offset_file,
)
from ...log.segment import end_transaction_marker
from ...protocol import CorruptRecordError, TopicIdPartition, TopicPartition
from ...protocol.records import BATCH_HEADER_SIZE, DECOMPRESSED_BYTES_MAX, BatchHeader, iter_batches, parse_header
from ...remote import (
    NOT_REPORTED,
    IndexType,
    ReadsObjects,
    RemoteResourceNotFoundError,
    RemoteStorageManager,
    Sighting,
    gather_limited,
)
from ...remote.core import Finding, FindingKind, RemoteLogSegmentId, RemoteLogSegmentMetadata

SEGMENTS_AT_ONCE_MAX: Final = 16
SCAN_BYTES: Final = 4 * 1024 * 1024
UNKNOWN_TIMESTAMP: Final = 2**63 - 1
"""The timestamp of a segment without a time index: no time is above it."""
NO_TOPIC_ID: Final = UUID(int=0)
"""The id of a topic from before topics had ids."""
_NAMESPACE: Final = UUID("7d0b9bb2-3c5d-5b1e-9f6c-1f0c6f5b0a51")
_FILES: Final = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.TRANSACTION: ".txnindex",
}


@dataclass(frozen=True, slots=True)
class _Files:
    """One partition's directory, the size of each file, and the base offsets of its segments in order."""

    directory: str
    sizes: dict[str, int]
    bases: list[int]

    def next_base(self, base: int) -> int | None:
        index = bisect_right(self.bases, base)
        return self.bases[index] if index < len(self.bases) else None

    def size(self, base: int, suffix: str) -> int:
        return self.sizes.get(f"{base:020d}{suffix}", 0)

    def key(self, base: int, suffix: str) -> str:
        return f"{self.directory}/{base:020d}{suffix}"


@dataclass(frozen=True, slots=True)
class _Window:
    """Bytes of a log from `start` on."""

    start: int
    content: bytes


class LogDirectoryLayout:
    """A `SegmentStore` over any plugin that gives its objects by key. `location` goes into the segments' ids."""

    def __init__(self, storage: RemoteStorageManager, location: str) -> None:
        assert isinstance(storage, ReadsObjects), storage
        self._storage, self._objects = storage, storage
        self._location = location

    async def partitions(self, wants: Callable[[str], bool]) -> list[TopicIdPartition]:
        found = []
        async for name in self._objects.list_directories(""):
            directory = parse_directory(name)
            if directory is not None and not directory.marker and wants(directory.topic_partition.topic):
                found.append(await self._identified(name, directory.topic_partition))
        return sorted(found)

    async def sight(self, partition: TopicIdPartition, known: Collection[UUID] = (), start_offset: int = 0) -> Sighting:
        """All of it each time: what is known need not be read again, and names alone cost one listing."""
        name = partition.topic_partition
        files = await self._list(str(name))
        high_watermark = (await self._checkpoint(REPLICATION_OFFSET_CHECKPOINT)).get(name)
        epochs = await self._epochs(files.directory)
        ids = {base: self._id(files, base, high_watermark) for base in files.bases}
        looks = (
            partial(self._look_at, partition, ids[base], files, base, high_watermark, epochs)
            for base in files.bases
            if ids[base] not in known and (high_watermark is None or base < high_watermark)
        )
        found = [one for one in await gather_limited(looks, SEGMENTS_AT_ONCE_MAX) if one is not None]
        described = tuple(one for one in found if isinstance(one, RemoteLogSegmentMetadata))
        listed = set(known).intersection(ids.values()).union(one.segment_id.id for one in described)
        findings = tuple(one for one in found if isinstance(one, Finding))
        log_start = (await self._checkpoint(LOG_START_OFFSET_CHECKPOINT)).get(name, 0)
        return Sighting(frozenset(listed), described, findings, log_start)

    async def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        end = min(end, metadata.segment_size_in_bytes)
        return await self._objects.read_object(_key(metadata, LOG_SUFFIX), start, end) if start < end else b""

    async def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        match index_type:
            case IndexType.LEADER_EPOCH:
                return await self._read(f"{_directory(metadata)}/{LEADER_EPOCH_CHECKPOINT}")
            case IndexType.PRODUCER_SNAPSHOT:
                return await self._producers(metadata)
            case _:
                return await self._read(_key(metadata, _FILES[index_type]))

    async def close(self) -> None:
        await self._storage.close()

    async def _identified(self, directory: str, name: TopicPartition) -> TopicIdPartition:
        key = f"{directory}/{PARTITION_METADATA}"
        data = await self._read(key)
        topic_id = decode_partition_metadata(data, name=key) if data else NO_TOPIC_ID
        return TopicIdPartition(topic_id, name.topic, name.partition)

    async def _list(self, directory: str) -> _Files:
        sizes = {key.rpartition("/")[2]: size async for key, size in self._objects.list_keys(f"{directory}/")}
        return _Files(directory, sizes, sorted(_offsets(sizes, LOG_SUFFIX)))

    async def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        return decode_offsets(await self._read(name), name=name)

    async def _epochs(self, directory: str) -> LeaderEpochCache:
        key = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        return LeaderEpochCache(decode_leader_epochs(await self._read(key), name=key))

    def _id(self, files: _Files, base: int, high_watermark: int | None) -> UUID:
        """What grows has another id then, and what is committed of it too."""
        ends = [end for end in (files.next_base(base), high_watermark) if end is not None]
        what = (self._location, files.key(base, LOG_SUFFIX), files.size(base, LOG_SUFFIX), min(ends, default=None))
        return uuid5(_NAMESPACE, repr(what))

    async def _look_at(
        self,
        partition: TopicIdPartition,
        segment_id: UUID,
        files: _Files,
        base: int,
        high_watermark: int | None,
        epochs: LeaderEpochCache,
    ) -> RemoteLogSegmentMetadata | Finding | None:
        subject = files.key(base, LOG_SUFFIX)
        try:
            following = files.next_base(base)
            if following is None:
                size, next_offset, timestamp = await self._end(files, base)
            else:
                size, next_offset = files.size(base, LOG_SUFFIX), following
                timestamp = await self._last_timestamp(files, base)
        except (CorruptFileError, RemoteResourceNotFoundError) as error:
            return Finding(FindingKind.CORRUPT, subject, str(error), base)
        end_offset = next_offset if high_watermark is None else min(next_offset, high_watermark)
        if end_offset <= base:
            return None
        entries = epochs.range(base, end_offset) or (EpochEntry(0, base),)
        return RemoteLogSegmentMetadata(
            segment_id=RemoteLogSegmentId(partition, segment_id),
            start_offset=base,
            end_offset=end_offset - 1,
            max_timestamp_ms=timestamp,
            broker_id=NOT_REPORTED,
            event_timestamp_ms=NOT_REPORTED,
            segment_size_in_bytes=size,
            segment_leader_epochs=(EpochEntry(entries[0].epoch, base), *entries[1:]),
            txn_index_empty=not files.size(base, _FILES[IndexType.TRANSACTION]),
        )

    async def _end(self, files: _Files, base: int) -> tuple[int, int, int]:
        """Return the last segment's size in whole batches, its next offset, and its largest timestamp."""
        key = files.key(base, LOG_SUFFIX)
        index = OffsetIndex.decode(await self._read(files.key(base, _FILES[IndexType.OFFSET])), base)
        end, next_offset = index.last_entry.position if index.last_entry else 0, base
        timestamp = await self._last_timestamp(files, base) if end else NO_TIMESTAMP
        try:
            async for data, at, header in self._batches(key, end, files.size(base, LOG_SUFFIX)):
                end, next_offset = data.start + at + header.size_bytes, header.next_offset
                timestamp = max(timestamp, header.max_timestamp)
        except CorruptRecordError:
            # As a broker does when it recovers: the log ends before the first batch that is none.
            return end, next_offset, timestamp
        return end, next_offset, timestamp

    async def _last_timestamp(self, files: _Files, base: int) -> int:
        suffix = _FILES[IndexType.TIMESTAMP]
        times = TimeIndex.decode(await self._read(files.key(base, suffix)), base)
        return times.last_entry.timestamp if len(times) else UNKNOWN_TIMESTAMP

    async def _producers(self, metadata: RemoteLogSegmentMetadata) -> bytes:
        """As a snapshot at the end of the segment."""
        files = await self._list(_directory(metadata))
        end_offset = metadata.end_offset + 1
        producers = await self._last_snapshot(files, end_offset)
        for base, upto in zip(files.bases, [*files.bases[1:], end_offset], strict=True):
            if upto <= producers.map_end_offset or base >= end_offset:
                continue
            key, size = files.key(base, LOG_SUFFIX), files.size(base, LOG_SUFFIX)
            async for data, at, header in self._batches(key, 0, size):
                if producers.map_end_offset < header.next_offset <= end_offset:
                    producers.apply(header, marker=end_transaction_marker(data.content, at, header))
        return encode_snapshot(producers.entries.values())

    async def _last_snapshot(self, files: _Files, end_offset: int) -> ProducerStateManager:
        for offset in sorted(_offsets(files.sizes, SNAPSHOT_SUFFIX), reverse=True):
            if offset > end_offset:
                continue
            key = files.key(offset, SNAPSHOT_SUFFIX)
            try:
                return ProducerStateManager.from_snapshot(await self._read(key), offset, name=key)
            except CorruptFileError:
                continue
        return ProducerStateManager(files.bases[0] if files.bases else 0)

    async def _batches(self, key: str, start: int, end: int) -> AsyncIterator[tuple[_Window, int, BatchHeader]]:
        """The whole batches of [start, end), and where each is in the window that holds it. CorruptRecordError."""
        wanted = SCAN_BYTES
        while start < end:
            content = await self._objects.read_object(key, start, min(end, start + wanted))
            window, used = _Window(start, content), 0
            for at, header in iter_batches(content):
                yield window, at, header
                used = at + header.size_bytes
            if used:
                start, wanted = start + used, SCAN_BYTES
                continue
            if len(content) < BATCH_HEADER_SIZE:
                return
            batch = parse_header(content).size_bytes
            if batch <= wanted or start + batch > end:
                return
            if batch > DECOMPRESSED_BYTES_MAX:
                raise CorruptRecordError(
                    f"{key}: a batch of {batch} bytes, at most {DECOMPRESSED_BYTES_MAX} are one", start
                )
            wanted = batch

    async def _read(self, key: str) -> bytes:
        """Empty where there is no such file: Kafka makes most of them when they are first needed."""
        try:
            return await self._objects.read_whole(key, file_bytes_max(key))
        except RemoteResourceNotFoundError:
            return b""


def _offsets(names: Iterable[str], suffix: str) -> list[int]:
    return [parsed[0] for name in names if (parsed := parse_offset_file(name)) and parsed[1] == suffix]


def _directory(metadata: RemoteLogSegmentMetadata) -> str:
    return str(metadata.segment_id.topic_id_partition.topic_partition)


def _key(metadata: RemoteLogSegmentMetadata, suffix: str) -> str:
    return f"{_directory(metadata)}/{metadata.start_offset:020d}{suffix}"
