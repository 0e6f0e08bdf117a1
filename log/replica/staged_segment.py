"""A segment that is written beside a log before it becomes part of it: the output of a cleaning, or a tier segment.

open_log       creates an empty `.log.cleaned`; files of an earlier attempt are removed
save_indexes   writes `indexes` and `transactions`, as `.cleaned`
commit         renames to `.swap` under the log's gate: the segment is now valid (table of `segment.swap`)
make_live      renames to the live names
discard        removes the files unless `commit` has begun; after that an error fails the log, and recovery ends it
"""

from __future__ import annotations

from ..core.file_names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ..core.index import INDEX_BYTES_MAX, TransactionIndex
from ..core.segment_indexes import SegmentIndexes
from ..disk.port import DiskFile
from ..segment.segment import LogSegment, SegmentExtent
from ..segment.swap import cleaned_file, commit_cleaned, discard_cleaned, make_live
from .state import LogState


class StagedSegment:
    """One staged segment of the log whose state it is given."""

    def __init__(self, state: LogState, base_offset: int, *, index_bytes_max: int = INDEX_BYTES_MAX) -> None:
        self._state = state
        self._base_offset = base_offset
        self._is_committing = False
        self.transactions = TransactionIndex()
        self.indexes = SegmentIndexes(
            base_offset, interval_bytes=state.config.index_interval_bytes, bytes_max=index_bytes_max
        )

    async def open_log(self) -> DiskFile:
        await self.discard()
        path = cleaned_file(self._state.directory, self._base_offset, LOG_SUFFIX)
        return await self._state.disk.open(path, create=True)

    async def save_indexes(self) -> None:
        state = self._state
        self.indexes.close()
        contents = {
            OFFSET_INDEX_SUFFIX: self.indexes.offset.encode(),
            TIME_INDEX_SUFFIX: self.indexes.time.encode(),
            TRANSACTION_INDEX_SUFFIX: self.transactions.encode(),
        }
        for suffix in self._suffixes[1:]:
            await state.disk.write_file(cleaned_file(state.directory, self._base_offset, suffix), contents[suffix])

    async def discard(self) -> None:
        if not self._is_committing:
            await discard_cleaned(self._state.disk, self._state.directory, self._base_offset)

    async def commit(self) -> None:
        self._is_committing = True
        await commit_cleaned(self._state.disk, self._state.directory, self._base_offset, self._suffixes)

    async def make_live(self) -> None:
        await make_live(self._state.disk, self._state.directory, self._base_offset, self._suffixes)

    def live(self, *, size_bytes: int, next_offset: int, now_ms: int) -> LogSegment:
        """Return the segment as an entry of the log's segment list."""
        state = self._state
        segment = LogSegment(
            state.disk,
            state.directory,
            SegmentExtent(
                base_offset=self._base_offset,
                next_offset=next_offset,
                size_bytes=size_bytes,
                has_transaction_index=len(self.transactions) > 0,
            ),
            config=state.config,
            open_segments=state.open_segments,
            now_ms=now_ms,
        )
        segment.max_timestamp_ms = self.indexes.max_timestamp_ms
        segment.max_timestamp_offset = self.indexes.max_timestamp_offset
        return segment

    @property
    def _suffixes(self) -> tuple[str, ...]:
        always = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        return (*always, TRANSACTION_INDEX_SUFFIX) if len(self.transactions) else always
