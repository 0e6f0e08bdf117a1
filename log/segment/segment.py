"""One segment: a `.log` file, its offset, time and transaction index, and what is known of its batches.

| state | file | offset and time index | bytes |
|---|---|---|---|
| active | open | in memory, ahead of their files | grow at the end; cut by truncation |
| closed, indexes unsaved | open | in memory | immutable |
| closed | opened on demand, parked by `OpenSegments` | loaded on demand | immutable |
| removed | renamed to `.deleted`, later unlinked; open until the last pin goes | - | - |

Invariants:

* `written_bytes <= size_bytes`: batches are accounted for (`account`) before they are written, and no read goes beyond
  `written_bytes`. The largest timestamp is that of the written batches.
* The indexes of an active segment are never needed after a crash: recovery scans every segment that was not flushed
  whole. They are saved when the segment is closed and flushed, and at a clean close, if they have changed; the close of
  one log among many leaves out what is cheaper to rebuild (`may_stay_unindexed`).
* An index file that is missing or damaged is rebuilt from the log at its first use.
* While a pin is held the file stays open; a slice is a pin that truncation also waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError, value
from ...protocol.records import LOG_OVERHEAD, BatchHeader
from ..core.config import LogConfig
from ..core.errors import CorruptFileError
from ..core.file_names import DELETED_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, offset_file
from ..core.index import (
    NO_TIMESTAMP,
    RELATIVE_OFFSET_MAX,
    AbortedTransaction,
    OffsetIndex,
    OffsetPosition,
    TransactionIndex,
)
from ..core.recent_batches import RecentBatches
from ..core.segment_indexes import SegmentIndexes
from ..disk.port import Disk, DiskFile
from .batch_scan import HEADER_READ_BYTES, HeaderScan
from .index_files import read_index, read_indexes, read_largest_timestamp, rebuild_indexes, write_indexes
from .open_limit import OpenSegments
from .slices import HeldSlices, LogSlice

logger = logging.getLogger(__name__)

UNINDEXED_BYTES_MAX: Final = 64 * 1024
"""The size of a segment that costs less to scan, in one read, than it costs to write and to read its index files."""
REFINE_SHARE: Final = 8
"""An index entry is a good enough end of a slice if it wastes at most this fraction of what may be read."""


@value
class Published:
    """The visible end of a segment: the batches that were accounted for when a write was submitted."""

    end_position: int
    end_offset: int
    max_timestamp_ms: int
    max_timestamp_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentExtent:
    """What the names and sizes of a segment's files say: where it begins and ends, and whether it has aborted data.

    `has_index_files` is true if there is any index file, or may be.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    has_transaction_index: bool
    has_index_files: bool = True

    @classmethod
    def empty(cls, base_offset: int) -> SegmentExtent:
        """Return the extent of a segment without a batch."""
        return cls(base_offset=base_offset, next_offset=base_offset, size_bytes=0, has_transaction_index=False)


class Pinned:
    """The context manager of `with segment.pinned():`, for every read."""

    __slots__ = ("_segment",)

    def __init__(self, segment: LogSegment) -> None:
        self._segment = segment

    def __enter__(self) -> None:
        self._segment.pins += 1

    def __exit__(self, *_: object) -> None:
        self._segment.pins -= 1


class LogSegment:
    """Offsets `[base_offset, next_offset)`; for a closed segment `next_offset` is the base of the next one."""

    __slots__ = (
        "_config",
        "_directory",
        "_disk",
        "_file",
        "_has_index_files",
        "_indexes",
        "_indexes_saved",
        "_open_segments",
        "_saved_bytes",
        "_transaction_index",
        "base_offset",
        "created_ms",
        "first_timestamp_ms",
        "has_transaction_index",
        "is_active",
        "last_modified_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "next_offset",
        "pins",
        "recent",
        "size_bytes",
        "slices",
        "written_bytes",
    )

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        extent: SegmentExtent,
        *,
        config: LogConfig,
        open_segments: OpenSegments,
        now_ms: int,
    ) -> None:
        """Create a closed segment without reading its files; `config` gives the interval and limit of its indexes."""
        self._disk = disk
        self._directory = directory
        self._config = config
        self._open_segments = open_segments
        self._file: DiskFile | None = None
        self._indexes: SegmentIndexes | None = None
        self._indexes_saved = True
        self._has_index_files = extent.has_index_files
        self._saved_bytes: int | None = None
        self._transaction_index: TransactionIndex | None = None
        self.recent: RecentBatches | None = None
        """The positions of the last batches of the active segment; None otherwise."""
        self.slices = HeldSlices()
        self.base_offset = extent.base_offset
        self.next_offset = extent.next_offset
        self.size_bytes = extent.size_bytes
        self.written_bytes = extent.size_bytes
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = extent.base_offset
        self.first_timestamp_ms = NO_TIMESTAMP
        self.created_ms = now_ms
        self.last_modified_ms = now_ms
        self.has_transaction_index = extent.has_transaction_index
        self.is_active = False
        self.pins = 0

    def __repr__(self) -> str:
        return f"LogSegment({self.path}, next_offset={self.next_offset}, size_bytes={self.size_bytes})"

    @property
    def path(self) -> Path:
        return self._path(LOG_SUFFIX)

    @property
    def largest_timestamp_ms(self) -> int:
        """The time for retention in ms: the largest timestamp, or the time of the last change without one."""
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.last_modified_ms

    @property
    def can_park(self) -> bool:
        return not self.is_active and self._indexes_saved and self.pins == 0

    # Appending: no await, for the active segment.

    def fitting(self, headers: Sequence[BatchHeader], now_ms: int, config: LogConfig) -> int:
        """Return how many of these batches, counted from the first, fit in this segment; after them a new one begins.

        An empty segment takes any batch, unless its base offset is too far below.
        """
        indexes = self._active_indexes()
        if self.size_bytes > 0 and indexes.is_full:
            return 0
        last_offset_max = self.base_offset + RELATIVE_OFFSET_MAX
        size_bytes, first_timestamp_ms = self.size_bytes, self.first_timestamp_ms
        segment_ms = config.segment_ms_in_force
        for count, header in enumerate(headers):
            if header.base_offset + header.last_offset_delta > last_offset_max:
                return count
            size_bytes += header.batch_length + LOG_OVERHEAD
            if size_bytes == header.batch_length + LOG_OVERHEAD:
                first_timestamp_ms = header.max_timestamp
                continue
            if first_timestamp_ms >= 0:
                waited_ms = header.max_timestamp - first_timestamp_ms
            else:
                waited_ms = now_ms - self.created_ms
            if size_bytes > config.segment_bytes or waited_ms > segment_ms:
                return count
        return len(headers)

    def account(self, headers: Sequence[BatchHeader], now_ms: int) -> Published:
        """Account for consecutive batches that will be written at `size_bytes`; return the argument of `publish`
        for when they are.
        """
        indexes = self._active_indexes()
        if self.size_bytes == 0:
            self.first_timestamp_ms = headers[0].max_timestamp
        indexes.account(headers, self.size_bytes)
        size_bytes = self.size_bytes
        for header in headers:
            size = header.batch_length + LOG_OVERHEAD
            size_bytes += size
            if self.recent is not None:
                self.recent.append(header.base_offset + header.last_offset_delta, size)
        self.size_bytes = size_bytes
        self.next_offset = headers[-1].next_offset
        self.last_modified_ms = now_ms
        return self._accounted(indexes)

    def publish_all(self) -> None:
        """Publish every accounted batch: all of them are in the file already."""
        indexes = self._active_indexes()
        if self.size_bytes > self.written_bytes:
            self.publish(self._accounted(indexes))

    def _accounted(self, indexes: SegmentIndexes) -> Published:
        return Published(self.size_bytes, self.next_offset, indexes.max_timestamp_ms, indexes.max_timestamp_offset)

    def publish(self, published: Published) -> None:
        """Make the batches up to `published` visible: their bytes are in the file."""
        assert self.written_bytes < published.end_position <= self.size_bytes, (self, published)
        self.written_bytes = published.end_position
        self.max_timestamp_ms = published.max_timestamp_ms
        self.max_timestamp_offset = published.max_timestamp_offset

    def account_aborted(self, aborted: AbortedTransaction) -> None:
        """Account for an aborted transaction whose marker is in this segment."""
        assert self._transaction_index is not None, self
        self._transaction_index.append(aborted)
        self.has_transaction_index = True

    def _active_indexes(self) -> SegmentIndexes:
        assert self.is_active, self
        assert self._indexes is not None, self
        return self._indexes

    def _note_timestamps(self, indexes: SegmentIndexes) -> None:
        self.max_timestamp_ms, self.max_timestamp_offset = indexes.max_timestamp_ms, indexes.max_timestamp_offset

    # Becoming active, closing, cutting.

    async def start(self) -> None:
        """Create the file of a new segment, and make it the active one."""
        self.rebuild_from_nothing()
        self._file = await self._disk.open(self.path, create=True)
        size = await self._file.size()
        assert size == 0, f"{self.path} must not exist yet, and has {size} bytes"
        self._has_index_files = False

    def rebuild_from_nothing(self) -> None:
        """Forget all facts about the batches; `account` rebuilds them batch by batch."""
        self._open_segments.forget(self)
        self._indexes = self._new_indexes()
        self._transaction_index = TransactionIndex()
        self.recent = RecentBatches(self.base_offset, 0)
        self._indexes_saved = False
        self._saved_bytes = None
        self.has_transaction_index = False
        self.is_active = True
        self.size_bytes = self.written_bytes = 0
        self.next_offset = self.base_offset
        self.first_timestamp_ms = NO_TIMESTAMP
        self._note_timestamps(self._indexes)

    async def activate(self) -> int:
        """Make it the active segment; return where its batches end, which is `size_bytes` if none is torn.

        Raise CorruptRecordError if bytes after the last index entry are not a batch.
        """
        self.is_active = True
        self._open_segments.forget(self)
        indexes = await self.indexes()
        await self.transaction_index()
        self._indexes_saved = False
        end = await self._resume(indexes)
        if not indexes.has_largest_timestamp:
            self._saved_bytes = None
        return end

    def deactivate(self, next_base_offset: int) -> None:
        """Close it at a roll; the indexes stay in memory until `save_indexes`."""
        assert next_base_offset >= self.next_offset, (self, next_base_offset)
        self.finish()
        self.next_offset = next_base_offset

    def finish(self) -> None:
        """End appending: the segment is no longer active."""
        self._active_indexes().close()
        self.recent = None
        self.is_active = False

    async def truncate_to(self, offset: int) -> None:
        """Cut every batch that holds `offset` or more; the segment is the active one afterwards."""
        position = await self.position_of(offset)
        indexes = await self.indexes()
        transactions = await self.transaction_index()
        self.is_active = True
        self._open_segments.forget(self)
        self._indexes_saved = False
        self._saved_bytes = None
        file = await self.file()
        await file.truncate(position)
        await file.sync()
        self.size_bytes = self.written_bytes = position
        indexes.truncate_to(offset)
        transactions.truncate_to(offset)
        self.has_transaction_index = len(transactions) > 0
        await self._resume(indexes)

    async def _resume(self, indexes: SegmentIndexes) -> int:
        """Read the batches after the last index entry; return where they end."""
        start = end = indexes.tail_position
        headers: list[BatchHeader] = []
        with self.pinned():
            file = await self.file()
            first = await anext(HeaderScan(file, 0, self.size_bytes), None)
            async for position, header in HeaderScan(file, start, self.size_bytes):
                headers.append(header)
                end = position + header.size_bytes
        indexes.resume(headers)
        self.first_timestamp_ms = first[1].max_timestamp if first is not None else NO_TIMESTAMP
        self.next_offset = headers[-1].next_offset if headers else self.base_offset
        self.recent = RecentBatches(self.next_offset, end)
        self._note_timestamps(indexes)
        return end

    # Indexes.

    async def indexes(self) -> SegmentIndexes:
        """Return the offset and the time index, from memory, their files, or the log itself."""
        indexes = self._indexes
        if indexes is None:
            loaded = await self._load_indexes()
            indexes = self._indexes = self._indexes or loaded
            await self._open_segments.opened(self)
        return indexes

    async def transaction_index(self) -> TransactionIndex:
        """Return the transaction index. Raise CorruptFileError if it is damaged: only recovery can rebuild it."""
        index = self._transaction_index
        if index is None:
            loaded = TransactionIndex()
            if self.has_transaction_index:
                suffix = TRANSACTION_INDEX_SUFFIX
                data = await read_index(self._disk, self._directory, self.base_offset, suffix, self.size_bytes)
                loaded = TransactionIndex.decode(data, name=str(self._path(suffix)))
            index = self._transaction_index = self._transaction_index or loaded
            await self._open_segments.opened(self)
        return index

    @property
    def may_stay_unindexed(self) -> bool:
        """Whether a clean close may leave the index files of the active segment out: there are none, which the next
        start would believe, and a scan is cheaper.
        """
        return not self._has_index_files and self.size_bytes <= UNINDEXED_BYTES_MAX

    @property
    def needs_saving(self) -> bool:
        """Whether this is a closed segment with indexes that its files lack."""
        return not self.is_active and not self._indexes_saved and self._saved_bytes != self.size_bytes

    async def save_indexes(self, *, sync: bool = True, sync_names: bool = True) -> None:
        """Write the indexes to their files, durably; only those of a closed segment can be parked afterwards.

        Without `sync_names` the caller syncs the directory before anybody relies on them, without `sync` the files too.
        """
        if self._indexes_saved:
            return
        if self._saved_bytes != self.size_bytes:
            await self._write_indexes(sync=sync, sync_names=sync_names)
        if not self.is_active:
            self._indexes_saved = True
            await self._open_segments.opened(self)

    async def _write_indexes(self, *, sync: bool, sync_names: bool) -> None:
        assert self._indexes is not None, self
        assert self._transaction_index is not None, self
        self._has_index_files = True
        if self.has_transaction_index:
            encoded = self._transaction_index.encode()
            await self._disk.write_file(self._path(TRANSACTION_INDEX_SUFFIX), encoded, sync=sync)
        else:
            await self._disk.remove(self._path(TRANSACTION_INDEX_SUFFIX))
        # Last, so that their presence proves that the transaction index was saved.
        await write_indexes(self._disk, self._directory, self._indexes, sync=sync, sync_names=sync_names)
        self._saved_bytes = self.size_bytes

    async def load_largest_timestamp(self) -> None:
        """Load the largest timestamp of a closed segment from the end of its time index, or from the whole segment."""
        last = await read_largest_timestamp(self._disk, self._directory, self.base_offset)
        if last is not None:
            self.max_timestamp_ms, self.max_timestamp_offset = last.timestamp, last.offset
        elif self.size_bytes:
            self._note_timestamps(await self.indexes())

    def _new_indexes(self) -> SegmentIndexes:
        return SegmentIndexes(
            self.base_offset,
            interval_bytes=self._config.index_interval_bytes,
            bytes_max=self._config.segment_index_bytes,
        )

    async def _load_indexes(self) -> SegmentIndexes:
        try:
            indexes = await read_indexes(self._disk, self._directory, self._new_indexes(), self.size_bytes)
            self._saved_bytes = self.size_bytes
            return indexes
        except (FileNotFoundError, CorruptFileError) as error:
            logger.warning("%s: the indexes are rebuilt from the log: %s", self.path, error)
            return await self._rebuild_indexes()

    async def _rebuild_indexes(self) -> SegmentIndexes:
        self._has_index_files = True
        with self.pinned():
            file = await self.file()
            return await rebuild_indexes(
                self._disk, self._directory, self._new_indexes(), file, self.size_bytes, is_closed=not self.is_active
            )

    # Reading.

    async def position_of(self, offset: int) -> int:
        """Return where the first batch begins whose last offset is `offset` or above; `size_bytes` without one.
        CorruptRecordError if a damaged one hides that: its records must not count as removed by compaction.
        """
        offset = max(offset, self.base_offset)
        if self.recent is not None:
            recent = self.recent.position_of(offset)
            if recent is not None:
                return recent
        with self.pinned():
            indexes = await self.indexes()
            file = await self.file()
            below, whole = indexes.offset.lookup(offset), self.written_bytes
            # Where batches are large, who reads on begins at one with an entry: its header is read alone.
            far = _far_entry(indexes.offset, below) if below.offset < offset else None
            if far is not None and await _is_in_batch(offset, file, far, whole):
                return far
            async for position, header in HeaderScan(file, below.position, self.size_bytes, whole_until=whole):
                if header.last_offset >= offset:
                    return position
        return self.size_bytes

    async def slice_end(self, start: int, limit: int, *, max_bytes: int, min_one_batch: bool) -> int:
        """Return the last border between batches in `[start, min(limit, start + max_bytes)]`.

        With `min_one_batch` at least the first batch's end. `start` and `limit` are borders themselves.
        """
        target = start + max_bytes
        if limit <= target:
            return limit
        end = self.recent.border_at_or_before(target) if self.recent is not None else None
        if end is None:
            end = await self._border_by_index(start, target)
        if end <= start:
            end = start
            if min_one_batch:
                with self.pinned():
                    first = await anext(HeaderScan(await self.file(), start, limit), None)
                if first is None:
                    raise CorruptRecordError(f"{self.path}: expected a complete batch", start)
                end = start + first[1].size_bytes
        return end

    async def _border_by_index(self, start: int, target: int) -> int:
        with self.pinned():
            entry = (await self.indexes()).offset.last_at_or_before(target)
            end = entry.position if entry is not None and entry.position > start else start
            if target - end <= (target - start) // REFINE_SHARE:
                return end
            async for position, header in HeaderScan(await self.file(), end, self.size_bytes):
                if position + header.size_bytes > target:
                    return position
        return end

    @property
    def open_file(self) -> DiskFile:
        """The `.log` of the active segment, or of one that is not written whole."""
        assert self._file is not None, self
        return self._file

    async def file(self) -> DiskFile:
        """Return the open `.log`; pin the segment before. FileNotFoundError if the segment was removed meanwhile."""
        assert self.is_active or self.pins, self
        file = self._file
        if file is None:
            opened = await self._disk.open(self.path)
            file = self._file
            if file is None:
                file = self._file = opened
            else:
                await opened.close()
            await self._open_segments.opened(self)
        return file

    def hold(self, position: int, end: int, *, first_offset: int, end_offset: int) -> LogSlice:
        """Return a slice of `[position, end)` of an open, pinned segment; its offsets are below `end_offset`."""
        assert self._file is not None, self
        assert 0 <= position < end <= self.written_bytes, (self, position, end)
        indexes = self._indexes if end < self.size_bytes else None
        entry = None if indexes is None else indexes.offset.first_at_or_after(end)
        end_offset = min(end_offset, self.next_offset if entry is None else entry.offset)
        log_slice = LogSlice(
            self, self._file, position, end - position, first_offset=first_offset, end_offset=end_offset
        )
        self.slices.add(log_slice)
        self.pins += 1
        return log_slice

    def pinned(self) -> Pinned:
        """Return a context manager that keeps the file open."""
        return Pinned(self)

    def slice_changed(self, log_slice: LogSlice, *, released: bool) -> None:
        """Called by a slice of this segment."""
        if released:
            self.pins -= 1
        self.slices.changed(log_slice, released=released)

    # Closing and removing.

    async def park(self) -> None:
        """Close the file and drop the indexes; both come back on demand."""
        file, self._file = self._file, None
        self._indexes = self._transaction_index = self.recent = None
        self._open_segments.forget(self)
        if file is not None:
            await file.close()

    async def relocate(self, directory: Path) -> None:
        """Note that the directory of the log was renamed: what is open is opened again under the new name, as others
        are given the path of an open file. OSError.
        """
        self._directory = directory
        if self.is_active:
            renamed, self._file = self._file, await self._disk.open(self.path)
            assert renamed is not None, self
            await renamed.close()
        elif self.can_park:
            await self.park()

    async def set_aside(self) -> list[Path]:
        """Rename the log, then its indexes, to `.deleted`: for the log it is a removal. Return the new names.

        Unlinking takes time with the size of a file; renaming does not. An index without a log is swept at the next
        start.
        """
        self._open_segments.forget(self)
        aside: list[Path] = []
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = self._path(suffix)
            deleted = path.with_name(path.name + DELETED_SUFFIX)
            try:
                await self._disk.rename(path, deleted)
            except FileNotFoundError:
                continue
            except OSError:
                # A full disk may have no block for the longer name: then only unlinking frees space.
                await self._disk.remove(path)
            else:
                aside.append(deleted)
        return aside

    async def remove_files(self) -> None:
        """Unlink the log, then its indexes, of a log that is not open yet."""
        self._open_segments.forget(self)
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            await self._disk.remove(self._path(suffix))

    def _path(self, suffix: str) -> Path:
        return offset_file(self._directory, self.base_offset, suffix)


def _far_entry(index: OffsetIndex, entry: OffsetPosition) -> int | None:
    """Return the position of the entry after this one, if a read from there on would end before it."""
    following = index.first_at_or_after(entry.position + 1)
    if following is None or following.position - entry.position < HEADER_READ_BYTES:
        return None
    return following.position


async def _is_in_batch(offset: int, file: DiskFile, position: int, end: int) -> bool:
    """Return whether the batch at `position` is undamaged and has `offset` between its first and its last one."""
    try:
        found = await anext(HeaderScan(file, position, end), None)
    except CorruptRecordError:
        return False  # an earlier batch may hold it; if none does, the search from there on meets the damage again
    return found is not None and found[1].base_offset <= offset <= found[1].last_offset
