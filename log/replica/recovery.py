"""Opens the directory of a partition: repairs what a crash may leave, and rejects damage that no crash can explain.

After a clean shutdown nothing is scanned: the active segment is read from its last index entry on. A short one, of one
of many logs, was closed without index files and snapshot (`LogSegment.may_stay_unindexed`): it is scanned whole, with
the epochs as they were saved, and damage in it is rejected. Otherwise every segment that reaches the recovery point is
scanned whole (`segment.scan`): below the recovery point everything was flushed. A segment that ends exactly there may
have been flushed while it was active: its index files, and the name of the next segment, can be older than the recovery
point. The table, with a test for each row:

| found                                                   | done                                                     |
|---------------------------------------------------------|----------------------------------------------------------|
| torn tail: a segment ends, at or above the recovery     | cut there; later segments, which a power failure may     |
|   point, in bytes that are not a valid batch, or offsets| leave whole, are removed; reported with offset and bytes |
|   are missing between it and the next                   |                                                          |
| the same below the recovery point                       | rejected: these bytes had been flushed                   |
| `.index` or `.timeindex` impossible                     | rebuilt from the log                                     |
| `.index` or `.timeindex` missing, `.txnindex` impossible| the log is scanned from that segment on: without the     |
|                                                         | other two the `.txnindex` was not saved either           |
| the same of a short last segment, after a clean shutdown| the same, and not reported: it was closed so             |
| an index without a log: an interrupted removal          | removed                                                  |
| a snapshot above the log's end                          | removed                                                  |
| a damaged snapshot                                      | removed; an older one is used, with a longer replay      |
| `leader-epoch-checkpoint` missing or damaged            | rebuilt from the batches; rejected if the log begins in  |
|                                                         |   the tier: local batches do not have those epochs       |
| it is missing, and nothing was flushed yet              | it was never written; all of the log is scanned          |
| epochs at or above the log's end                        | dropped: the checkpoint was ahead of the data            |
| epochs within scanned segments                          | replaced by those of the batches                         |
| the log ends below its start                            | all of it was deleted data: removed; begins there, empty |
| no segment: a new directory, a removal of everything    | an empty one at the log start                            |
| a recovery point above the log's end: a crash in a      | lowered                                                  |
|   truncation                                            |                                                          |
| `unsynced`: an fsync has failed, and its data may be in | the scanned segments are rewritten, byte for byte,       |
|   the page cache only                                   |   flushed, and read from the device; then removed        |
| `.deleted`, `.cleaned`, `.tmp`                          | removed                                                  |
| `.swap`: a compaction that was interrupted after it was | finished (table in `segment.swap`); rejected if the new  |
|   committed                                             |   segment is incomplete                                  |
| any other file                                          | left alone, named in the report                          |
| `partition.metadata` missing, damaged                   | topic id unknown, rejected                               |
| a tiered log without a log-start entry whose first      | log start 0 and `log_start_known` false until the remote |
|   local offset is not 0                                 |   log metadata gives it: it must not be guessed          |

Nothing is cut or removed before every segment has proven servable, except leftovers and indexes without a log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

from ...light_dataclass import dataclass
from ...protocol import CorruptRecordError, TopicPartition
from ..core.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    decode_leader_epochs,
    decode_partition_metadata,
)
from ..core.config import LogConfig
from ..core.epochs import EpochEntry, LeaderEpochCache
from ..core.errors import CorruptFileError
from ..core.file_names import (
    INDEX_SUFFIXES,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    UNSYNCED_FILE,
    offset_file,
)
from ..core.index import RELATIVE_OFFSET_MAX
from ..core.listing import Listing, classify
from ..core.producers import ProducerStateManager
from ..disk.port import Disk
from ..segment.batch_scan import HeaderScan
from ..segment.open_limit import OpenSegments
from ..segment.scan import CorruptLogError, SegmentFault, recover_segment
from ..segment.segment import LogSegment, SegmentExtent
from ..segment.segment_list import LogSegments
from ..segment.snapshot_files import ProducerSnapshots
from ..segment.swap import finish_swaps
from .recovery_report import RecoveryReport
from .replay import load_producers, replay
from .state import LogKeeper, LogState

REWRITE_BYTES: Final = 1024 * 1024
"""The number of bytes that are read and rewritten at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLocation:
    """The location of a log, and what is known before its directory is read; the offsets come from the checkpoints.

    `log_start_offset` is None without a checkpoint entry; `high_watermark` is 0 without one.
    """

    topic_partition: TopicPartition
    directory: Path
    disk: Disk
    config: LogConfig
    keeper: LogKeeper
    open_segments: OpenSegments
    now_ms: Callable[[], int]
    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int | None = None
    high_watermark: int = 0
    clean_end_offset: int = 0


async def load(location: LogLocation) -> tuple[LogState, RecoveryReport]:
    """Open the log of an existing directory. Raise CorruptLogError if it must not be served, OSError from the disk."""
    return await _Loader(location).load()


class _Loader:
    """One opening of a log, from the directory listing to the state."""

    def __init__(self, location: LogLocation) -> None:
        self._location = location
        self._name = str(location.topic_partition)
        self._report = RecoveryReport()
        self._names_changed = False
        self._saved_epochs: tuple[EpochEntry, ...] = ()
        self._is_epochs_file_lost = False
        self._is_unsynced = False
        self._was_left_unindexed = False
        """Whether a clean close has left the index files of the last segment out."""
        self._unsaved_from: int | None = None
        """The base offset of the first scanned segment, whose indexes the next flush saves; None without a scan."""

    async def load(self) -> tuple[LogState, RecoveryReport]:
        location = self._location
        await self._finish_compaction()
        listing = classify(await location.disk.list_directory(location.directory))
        topic_id = await self._topic_id(listing)
        await self._sweep(listing)
        segments = self._segments(listing)
        snapshots = ProducerSnapshots(location.disk, location.directory, listing.snapshots)
        self._is_unsynced = listing.is_unsynced
        scan_from = await self._scan_from(segments, listing)
        closed = segments[:-1] if scan_from is None else segments[: segments.index(scan_from)]
        for segment in closed:
            await self._load_closed(segment)
        epochs = await self._epochs(listing, segments, closed)
        producers = ProducerStateManager()
        if segments:
            producers = await self._open_tail(segments, snapshots, epochs, scan_from)
        state = await self._assemble(topic_id, segments, snapshots, epochs, producers)
        state.is_adopted, state.is_thin = listing.is_adopted, listing.is_thin
        if listing.is_unsynced:
            await location.disk.remove(location.directory / UNSYNCED_FILE)
        return state, self._report

    async def _finish_compaction(self) -> None:
        location = self._location
        try:
            if await finish_swaps(
                location.disk, location.directory, await location.disk.list_directory(location.directory)
            ):
                self._report.note(f"{self._name}: an interrupted compaction was finished")
        except CorruptRecordError as error:
            raise CorruptLogError(
                f"{self._name}: the output of an interrupted compaction is damaged: {error.message}. Remove the "
                f"directory to have the partition replicated again",
                path=location.directory,
            ) from error

    # The small files.

    async def _topic_id(self, listing: Listing) -> UUID | None:
        if not listing.has_metadata:
            return None
        path = self._location.directory / PARTITION_METADATA
        try:
            return decode_partition_metadata(await self._location.disk.read_file(path), name=str(path))
        except CorruptFileError as error:
            raise CorruptLogError(
                f"{self._name}: {error}; the topic id is unknown: restore the file or remove the directory",
                path=path,
            ) from error

    async def _sweep(self, listing: Listing) -> None:
        orphans = [
            offset_file(self._location.directory, offset, suffix)
            for offset, suffix in sorted(listing.indexes)
            if offset not in listing.log_bytes
        ]
        for path in [*orphans, *(self._location.directory / name for name in listing.leftovers)]:
            await self._location.disk.remove(path)
            self._names_changed = True
        for name in listing.foreign:
            self._report.note(f"{self._name}: {name} is not a file of a Kafka log and is left alone")

    async def _epochs(
        self, listing: Listing, segments: list[LogSegment], whole: Sequence[LogSegment]
    ) -> LeaderEpochCache:
        """Return the leader epochs of the checkpoint, or of the batches. `whole`: the segments without a torn tail."""
        path = self._location.directory / LEADER_EPOCH_CHECKPOINT
        if listing.has_epochs:
            try:
                data = await self._location.disk.read_file(path)
                self._saved_epochs = decode_leader_epochs(data, name=str(path))
                return LeaderEpochCache(self._saved_epochs)
            except CorruptFileError as error:
                problem = str(error)
        elif not any(segment.size_bytes for segment in segments):
            return LeaderEpochCache()
        else:
            problem = f"{path} is missing"
        first = segments[0].base_offset if segments else 0
        if (self._location.log_start_offset or 0) < first and self._location.config.remote_storage_enable:
            raise CorruptLogError(
                f"{self._name}: {problem}, and no local batch has the leader epochs below offset {first}: remove "
                f"the directory to have the replica rebuilt from the tier",
                path=path,
            )
        if not (listing.has_epochs or self._location.is_clean) and self._location.recovery_point <= first:
            return LeaderEpochCache()  # nothing was flushed, so it was never written: the scan finds every epoch
        self._report.note(f"{self._name}: {problem}; the leader epochs are rebuilt from the batches")
        self._is_epochs_file_lost = True
        epochs = LeaderEpochCache()
        for segment in segments:
            with segment.pinned():
                end = segment.size_bytes
                whole_until = end if segment in whole else 0
                async for _, header in HeaderScan(await segment.file(), 0, end, whole_until=whole_until):
                    if header.partition_leader_epoch > epochs.latest_epoch:
                        epochs.assign(header.partition_leader_epoch, header.base_offset)
        return epochs

    # Segments.

    def _segments(self, listing: Listing) -> list[LogSegment]:
        bases = sorted(listing.log_bytes)
        following = dict(pairwise(bases))
        return [
            LogSegment(
                self._location.disk,
                self._location.directory,
                SegmentExtent(
                    base_offset=base,
                    next_offset=following.get(base, base),
                    size_bytes=listing.log_bytes[base],
                    has_transaction_index=(base, TRANSACTION_INDEX_SUFFIX) in listing.indexes,
                    has_index_files=any((base, suffix) in listing.indexes for suffix in INDEX_SUFFIXES),
                ),
                config=self._location.config,
                open_segments=self._location.open_segments,
                now_ms=self._location.now_ms(),
            )
            for base in bases
        ]

    async def _scan_from(self, segments: list[LogSegment], listing: Listing) -> LogSegment | None:
        """Return the first segment to scan, or None after a clean shutdown without visible damage."""
        for segment in segments:
            following = segment.next_offset if segment is not segments[-1] else None
            # A segment that ends exactly at the recovery point counts too: its indexes may be older than its data.
            is_unflushed = following is None or following >= self._location.recovery_point
            if is_unflushed and (self._is_unsynced or not self._location.is_clean):
                return segment
            indexes = {(segment.base_offset, OFFSET_INDEX_SUFFIX), (segment.base_offset, TIME_INDEX_SUFFIX)}
            if missing := sorted(suffix for _, suffix in indexes - listing.indexes):
                self._was_left_unindexed = following is None and segment.may_stay_unindexed
                if self._was_left_unindexed:
                    return segment
                self._report.note(f"{segment.path}: {' and '.join(missing)} missing, rebuilt from the log")
                return segment
            try:
                if segment.has_transaction_index:
                    await segment.transaction_index()
            except (CorruptFileError, FileNotFoundError) as error:
                self._report.note(f"{self._name}: {error}; the log is scanned from that segment on")
                return segment
        return None

    async def _load_closed(self, segment: LogSegment) -> None:
        try:
            await segment.load_largest_timestamp()
        except CorruptRecordError as error:
            raise self._corrupt(segment, SegmentFault(error.position, error.reason)) from error

    async def _open_tail(
        self,
        segments: list[LogSegment],
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochCache,
        scan_from: LogSegment | None,
    ) -> ProducerStateManager:
        """Find the log's end, and return the producer state there."""
        if scan_from is None and not await self._is_whole(segments[-1]):
            scan_from = segments[-1]
        known_end = segments[-1].next_offset if scan_from is None else scan_from.base_offset
        producers = await load_producers(snapshots, segments[0].base_offset, known_end)
        try:
            await replay(producers, LogSegments(segments), known_end)
        except CorruptRecordError as error:
            raise CorruptLogError(f"{self._name}: {error.message}", path=self._location.directory) from error
        if scan_from is not None:
            if not self._was_left_unindexed:
                # The checkpoint may be ahead of the data: in the scanned part only the batches are believed.
                epochs.truncate_from_end(scan_from.base_offset)
            await self._scan(segments, scan_from, snapshots, epochs, producers)
            if not self._was_left_unindexed:
                self._unsaved_from = scan_from.base_offset
        return producers

    async def _is_whole(self, segment: LogSegment) -> bool:
        try:
            return await segment.activate() == segment.size_bytes
        except CorruptRecordError:
            return False

    async def _scan(
        self,
        segments: list[LogSegment],
        scan_from: LogSegment,
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
    ) -> None:
        """Scan the log from `scan_from` on; `producers` end at its base offset. Segments after a cut are removed."""
        scanned = segments[segments.index(scan_from) :]
        for segment in scanned if self._is_unsynced else ():
            await _rewrite(segment)
        for segment, following in zip(scanned, [*scanned[1:], None], strict=True):
            file_bytes = segment.size_bytes
            if segment is not scan_from:
                producers.advance_to(segment.base_offset)
                snapshots.stage(segment.base_offset, producers.freeze())
            with segment.pinned():
                fault = await recover_segment(
                    segment,
                    producers,
                    epochs,
                    end_offset_max=following.base_offset if following is not None else None,
                    now_ms=self._location.now_ms(),
                )
            self._report.scanned_segments += 1
            if following is not None:
                fault = fault or self._hole(segment, following)
            if fault is not None:
                await self._cut(segment, fault, file_bytes)
            if fault is not None and following is not None and segment.next_offset != following.base_offset:
                # Whole segments after a hole are removed too: offsets without their predecessors are never served.
                await self._remove_after(segments, segment)
                return
            if following is not None:
                segment.deactivate(following.base_offset)

    def _hole(self, segment: LogSegment, following: LogSegment) -> SegmentFault | None:
        """Return the fault if offsets are missing between two segments, or None. Compaction and distant offsets leave
        legitimate holes.
        """
        is_reachable = following.base_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
        if segment.next_offset == following.base_offset or self._location.config.is_compacted or not is_reachable:
            return None
        return SegmentFault(
            segment.size_bytes,
            f"the segment ends there, offsets [{segment.next_offset}, {following.base_offset}) are missing",
        )

    async def _cut(self, segment: LogSegment, fault: SegmentFault, file_bytes: int) -> None:
        # Flushed data cannot be torn by a crash: the disk has damaged it, and cutting would lose acknowledged records.
        if segment.next_offset < self._location.recovery_point or self._was_left_unindexed:
            raise self._corrupt(segment, fault)
        file = await segment.file()
        await file.truncate(fault.position)
        try:
            await file.sync()
        except OSError:
            # The next opening must not trust what the page cache shows after this failed fsync.
            await self._location.disk.write_file(self._location.directory / UNSYNCED_FILE, b"")
            raise
        self._report.cut_bytes = file_bytes - fault.position
        self._report.note(
            f"{segment.path}: cut at byte {fault.position} (offset {segment.next_offset}), "
            f"{self._report.cut_bytes} bytes after it are removed: {fault.reason}"
        )

    async def _remove_after(self, segments: list[LogSegment], last: LogSegment) -> None:
        while segments[-1] is not last:
            segment = segments.pop()
            self._report.note(f"{segment.path}: removed with its {segment.size_bytes} bytes: the log now ends below it")
            await self._remove(segment)

    async def _remove(self, segment: LogSegment) -> None:
        await segment.remove_files()
        await segment.park()
        self._names_changed = True

    def _corrupt(self, segment: LogSegment, fault: SegmentFault) -> CorruptLogError:
        return CorruptLogError(
            f"{self._name}: {segment.path} is damaged at byte {fault.position} (offset {segment.next_offset}): "
            f"{fault.reason}. The log is not served, and flushed data is never dropped silently: restore the file, or "
            f"remove the directory to have the partition replicated again",
            path=segment.path,
            position=fault.position,
        )

    # Assembling the state.

    def _log_start(self, segments: list[LogSegment]) -> tuple[int, bool]:
        """Return the log start and whether it is known: a tiered log may begin below its first local segment."""
        known = self._location.log_start_offset
        first = segments[0].base_offset if segments else 0
        if not self._location.config.remote_storage_enable:
            return max(known or 0, first), True
        # Guessing the first local offset would make everything below it in the tier unreadable, and expire it.
        if known is None and first > 0:
            self._report.note(f"{self._name}: the log start is unknown until the remote log metadata gives it")
            return 0, False
        return known or 0, True

    async def _assemble(
        self,
        topic_id: UUID | None,
        segments: list[LogSegment],
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
    ) -> LogState:
        location = self._location
        log_start_offset, log_start_known = self._log_start(segments)
        if segments and segments[-1].next_offset < log_start_offset:
            await self._remove_all(segments, snapshots, log_start_offset)
            epochs.clear()
        is_new = not segments
        if is_new:
            segments.append(await self._first_segment(log_start_offset))
            producers = ProducerStateManager(log_start_offset)
        end_offset = segments[-1].next_offset
        if any(offset > end_offset for offset in snapshots.offsets):
            await snapshots.remove_above(end_offset)
            self._names_changed = True
        epochs.truncate_from_end(end_offset)
        epochs.truncate_from_start(log_start_offset)
        if location.recovery_point > end_offset:
            self._report.note(f"{self._name}: ends at {end_offset}, below its recovery point {location.recovery_point}")
        # What is no longer local was committed: it was deleted by retention or DeleteRecords, or is tiered.
        high_watermark = min(max(location.high_watermark, log_start_offset, segments[0].base_offset), end_offset)
        producers.on_high_watermark(high_watermark)
        if self._names_changed:
            await location.disk.sync_directory(location.directory)
        is_saved = epochs.entries == self._saved_epochs
        state = LogState(
            topic_partition=location.topic_partition,
            topic_id=topic_id,
            directory=location.directory,
            config=location.config,
            disk=location.disk,
            keeper=location.keeper,
            open_segments=location.open_segments,
            now_ms=location.now_ms,
            segments=LogSegments(segments),
            epochs=epochs,
            producers=producers,
            snapshots=snapshots,
            log_start_offset=log_start_offset,
            log_start_known=log_start_known,
            high_watermark=high_watermark,
            log_end_offset=end_offset,
            recovery_point=self._recovery_point(end_offset),
            clean_end_offset=min(location.clean_end_offset, end_offset),
            names_changed=int(is_new or not location.is_clean),  # a process that died may have synced no name
            epochs_saved=epochs.version if is_saved else -1,
        )
        # What has changed otherwise is above the recovery point, and found again by the next recovery.
        if self._is_epochs_file_lost:
            await state.save_epochs()
        return state

    def _recovery_point(self, end_offset: int) -> int:
        # The scanned part has unsaved indexes, so the next flush must begin there, whatever was flushed before.
        flushed = end_offset if self._location.is_clean else min(self._location.recovery_point, end_offset)
        return flushed if self._unsaved_from is None else min(flushed, self._unsaved_from)

    async def _remove_all(self, segments: list[LogSegment], snapshots: ProducerSnapshots, log_start: int) -> None:
        self._report.note(
            f"{self._name}: ends at {segments[-1].next_offset}, below its log start {log_start}: the rest was deleted "
            f"data and is removed"
        )
        while segments:
            await self._remove(segments.pop())
        await snapshots.remove_above(-1)
        self._names_changed = True

    async def _first_segment(self, base_offset: int) -> LogSegment:
        segment = LogSegment(
            self._location.disk,
            self._location.directory,
            SegmentExtent.empty(base_offset),
            config=self._location.config,
            open_segments=self._location.open_segments,
            now_ms=self._location.now_ms(),
        )
        await segment.start()
        return segment


async def _rewrite(segment: LogSegment) -> None:
    """Rewrite a segment with its own bytes: they become dirty in the page cache, so the fsync writes them or fails. The
    scan then reads from the device, as far as the kernel permits (`DiskFile.drop_cache`).
    """
    with segment.pinned():
        file = await segment.file()
        for position in range(0, segment.size_bytes, REWRITE_BYTES):
            count = min(REWRITE_BYTES, segment.size_bytes - position)
            await file.write(position, await file.read(position, count))
        await file.sync()
        await file.drop_cache()
