"""The offset checkpoints of one log directory: each log's start, recovery point, high watermark and clean end.

    replication-offset-checkpoint, recovery-point-offset-checkpoint, log-start-offset-checkpoint,
    cleaner-offset-checkpoint

* A file is replaced whole, from the logs as they are from that moment on; one write of a file is under way at a time,
  and all callers that wait meanwhile share the next one.
* A write that all its callers want for single partitions takes the other entries as they were written last: thousands
  of replicas that are adopted would else have every log looked at for each of them.
* The logs are looked at in slices, or those of ten thousand partitions would hold the loop up. So each entry is of a
  moment of its own; what lowers an offset, or replaces a log, saves the files after that. A log that fails, or is
  opened again, between two slices keeps its entry. One that another takes the place of meanwhile leaves none: at the
  end, the successors are looked at.
* A log that could not be opened keeps its entries: once repaired, it needs them.
* An entry that a deleted log left, or may have left (`may_have_entry`), would be applied to its successor: a caller
  that creates a log of the same name rewrites the files first. Of a log that has taken the place of another only what
  is above its own offsets must go (`ensure_none_above`): lower ones cost a scan, or an answer of the leader.
* A log start is written for tiered logs, and if it is above the first segment, as in Kafka; not while it is unknown.
* A damaged file counts as absent, with a warning, and the next write replaces it. A log without an entry does this:

| damaged                          | each log                                                                          |
|----------------------------------|-----------------------------------------------------------------------------------|
| recovery-point-offset-checkpoint | is recovered from its first segment on, unless the shutdown was clean             |
| replication-offset-checkpoint    | begins with a high watermark that is too low, and learns it from its followers or |
|                                  | its leader                                                                        |
| log-start-offset-checkpoint      | begins at its first segment; a tiered one that begins above 0 waits for the       |
|                                  | ledger (bootstrap rule 4)                                                         |
| cleaner-offset-checkpoint        | is compacted from its start again                                                 |
"""

from __future__ import annotations

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain, islice
from pathlib import Path
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import TopicPartition
from ...protocol.net import SLICE_ELEMENTS, exhausted
from ...protocol.wire import Steps, run_to_end
from ..core.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    decode_offsets,
    encode_offsets_stepwise,
)
from ..core.errors import CorruptFileError
from ..disk.port import Disk
from ..partition_log import PartitionLog

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]
_NamedLog = tuple[TopicPartition, PartitionLog]

ABSENT: Final = -1

FILES: Final = (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


@dataclass(slots=True)
class _File:
    """One checkpoint file: its content, and the next write of it. `offset_of` is a log's entry, None for no entry."""

    path: Path
    offset_of: Callable[[PartitionLog], int | None]
    offsets: Offsets = field(default_factory=dict)
    at_least: Offsets = field(default_factory=dict)
    """The lowest value that each entry on disk may have, ABSENT if it may be missing; `offsets` if no write failed."""
    attempted: Offsets = field(default_factory=dict)
    """The entries that may be on disk besides: those of a write that is being prepared, is under way or has failed."""
    is_damaged: bool = False
    """Whether the file was damaged, or a write of it has failed."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_write: asyncio.Task[None] | None = None
    wanted: set[TopicPartition] | None = None
    """The partitions that the next write is for; None: all."""


class DirectoryCheckpoints:
    """The checkpoints of a directory with the open `logs`, and the failed ones in `kept`; read at each write."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        logs: ChainMap[TopicPartition, PartitionLog],
        kept: Mapping[TopicPartition, object],
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._kept = kept
        self._writes: set[asyncio.Task[None]] = set()
        self.pending_log_starts: Offsets = {}
        """The log starts of state that is about to be adopted: written in place of the old log's."""
        offsets = (_log_start, _recovery_point, _high_watermark, _clean_end)
        self._files = {name: _File(directory / name, each) for name, each in zip(FILES, offsets, strict=True)}

    async def load(self) -> None:
        """Read the files; an absent or damaged file counts as empty."""
        for file in self._files.values():
            if not await self._disk.exists(file.path):
                continue
            try:
                offsets = decode_offsets(await self._disk.read_file(file.path), name=str(file.path))
                file.offsets = file.at_least = offsets
            except CorruptFileError as error:
                file.is_damaged = True
                logger.warning("%s; the checkpoint is ignored and will be rewritten", error)

    def log_start_offset(self, partition: TopicPartition) -> int | None:
        """Return the log start as last read or written, None without an entry. The other look-ups do likewise."""
        return self._files[LOG_START_OFFSET_CHECKPOINT].offsets.get(partition)

    def recovery_point(self, partition: TopicPartition) -> int:
        return self._files[RECOVERY_POINT_CHECKPOINT].offsets.get(partition, 0)

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._files[REPLICATION_OFFSET_CHECKPOINT].offsets.get(partition, 0)

    def clean_end_offset(self, partition: TopicPartition) -> int:
        return self._files[CLEANER_OFFSET_CHECKPOINT].offsets.get(partition, 0)

    def may_have_entry(self, partition: TopicPartition) -> bool:
        return any(partition in file.offsets or partition in file.attempted for file in self._files.values())

    async def save_log_start_offsets(self) -> None:
        """Make the current log starts durable."""
        await self._save(self._files[LOG_START_OFFSET_CHECKPOINT])

    async def save_log_start(self, partition: TopicPartition) -> None:
        """Make one log start durable: the pending one, or else that of the open log."""
        await self._save(self._files[LOG_START_OFFSET_CHECKPOINT], partition)

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        """Make the log start of one log durable; write nothing if it is already, even if others have changed."""
        file, log = self._files[LOG_START_OFFSET_CHECKPOINT], self._logs.get(partition)
        if log is None or file.at_least.get(partition, ABSENT) < log.state.log_start_offset:
            await self._save(file)

    async def save_recovery_points(self) -> None:
        """Make the current recovery points and high watermarks durable."""
        await self._save(self._files[RECOVERY_POINT_CHECKPOINT])
        await self._save(self._files[REPLICATION_OFFSET_CHECKPOINT])

    async def ensure_none_above(self, partition: TopicPartition) -> None:
        """Make durable that no recovery point or high watermark of the partition is above that of its log; write
        nothing if none can be, which is so of the first log of a partition.
        """
        log = self._logs[partition]
        for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT):
            file = self._files[name]
            highest = max(file.offsets.get(partition, 0), file.attempted.get(partition, 0))
            if file.is_damaged or highest > (file.offset_of(log) or 0):
                await self._save(file, partition)

    async def save_all(self) -> None:
        for file in self._files.values():
            await self._save(file)

    async def _save(self, file: _File, partition: TopicPartition | None = None) -> None:
        """Wait for the next write of the file to begin from now on, unless the file is up to date, for all partitions
        or for one; the write continues if the caller is cancelled.
        """
        if file.next_write is None:
            if not (file.writing.locked() or file.is_damaged) and self._is_as_saved(file, partition):
                return
            task = file.next_write = asyncio.create_task(self._write(file))
            file.wanted = set()
            self._writes.add(task)
            task.add_done_callback(self._written)
        if partition is None:
            file.wanted = None
        elif file.wanted is not None:
            file.wanted.add(partition)
        await asyncio.shield(file.next_write)

    def _is_as_saved(self, file: _File, partition: TopicPartition | None) -> bool:
        """Return whether there is nothing to write; False, without a look, if the logs are too many to look at once."""
        if partition is not None:
            return self._entry_of(file, partition) == file.offsets.get(partition)
        return sum(map(len, self._logs.maps)) <= SLICE_ELEMENTS and run_to_end(self._collected(file)) == file.offsets

    async def _write(self, file: _File) -> None:
        async with file.writing:
            file.next_write = None
            wanted = None if file.is_damaged else file.wanted
            if wanted is None:
                offsets = await exhausted(self._collected(file), SLICE_ELEMENTS)
            else:
                offsets = self._updated(file, wanted)
            if offsets != file.offsets or file.is_damaged:
                # Until the write has ended either version may be on disk: a log start counts as durable at the lower.
                at_least = await exhausted(_lower(file.at_least, offsets, wanted), SLICE_ELEMENTS)
                data = await exhausted(encode_offsets_stepwise(offsets), SLICE_ELEMENTS)
                file.is_damaged, file.at_least = True, at_least
                file.attempted |= offsets
                await self._disk.write_file(file.path, data)
                file.offsets = file.at_least = offsets
                file.is_damaged = False
            file.attempted = {}

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # callers that still wait for it receive it

    def _updated(self, file: _File, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the entries as they were written last, but for those of these partitions."""
        offsets = dict(file.offsets)
        for name in partitions:
            offset = self._entry_of(file, name)
            if offset is None:
                offsets.pop(name, None)
            else:
                offsets[name] = file.attempted[name] = offset
        return offsets

    def _entry_of(self, file: _File, name: TopicPartition) -> int | None:
        """Return one entry as it would be collected."""
        if file.path.name == LOG_START_OFFSET_CHECKPOINT and name in self.pending_log_starts:
            return self.pending_log_starts[name]
        log = self._log_of(name)
        if log is not None:
            return file.offset_of(log)
        return file.offsets.get(name) if name in self._kept else None

    def _collected(self, file: _File) -> Steps[Offsets]:
        """Return the entries as the generator's value; each step looks at `SLICE_ELEMENTS` logs."""
        offsets = self._kept_entries(file)
        listed = list(chain.from_iterable(each.items() for each in self._logs.maps))
        logs = iter(listed)
        is_first = True
        while some := list(islice(logs, SLICE_ELEMENTS)):
            if not is_first:
                yield
            is_first = False
            present = (each for each in some if self._log_of(each[0]) is each[1])
            found = {name: offset for name, log in present if (offset := file.offset_of(log)) is not None}
            # At once: a log that is deleted before the write begins must find that it has left an entry.
            file.attempted |= found
            offsets |= found
        self._look_at_replaced(file, listed, offsets)
        offsets = self._kept_entries(file) | offsets
        return offsets | self.pending_log_starts if file.path.name == LOG_START_OFFSET_CHECKPOINT else offsets

    def _log_of(self, name: TopicPartition) -> PartitionLog | None:
        """Look the log up as `ChainMap` does, which costs five times as much: it is done for each log and file."""
        for each in self._logs.maps:
            if (log := each.get(name)) is not None:
                return log
        return None

    def _look_at_replaced(self, file: _File, listed: Sequence[_NamedLog], offsets: Offsets) -> None:
        """Correct the entries of the logs that others have taken the place of since they were listed.

        In one step, and with nothing between it and the end: so an adoption finds its own log start written, of the
        pending ones before its log is open, and from its log afterwards.
        """
        current: dict[TopicPartition, PartitionLog] = {}
        for each in reversed(self._logs.maps):
            current |= each
        for name, log in listed:
            successor = current.get(name)
            if successor is log or successor is None:
                continue
            offset = file.offset_of(successor)
            if offset is None:
                offsets.pop(name, None)
            else:
                offsets[name] = file.attempted[name] = offset

    def _kept_entries(self, file: _File) -> Offsets:
        return {name: offset for name in self._kept if (offset := file.offsets.get(name)) is not None}


def _lower(at_least: Offsets, offsets: Offsets, changed: Collection[TopicPartition] | None) -> Steps[Offsets]:
    """Return the lower one of the two of each entry as the generator's value; each step looks at `SLICE_ELEMENTS`.
    `changed`: the others are as they were; None: all may have changed.
    """
    if changed is not None:
        fewer = {name: at_least[name] for name in changed if name in at_least}
        return at_least | {name: min(least, offsets.get(name, ABSENT)) for name, least in fewer.items()}
    lowest: Offsets = {}
    entries = iter(at_least.items())
    while some := list(islice(entries, SLICE_ELEMENTS)):
        if lowest:
            yield
        lowest |= {name: min(least, offsets.get(name, ABSENT)) for name, least in some}
    return lowest


def _log_start(log: PartitionLog) -> int | None:
    state = log.state
    # Also where the first segment begins there: a crash may bring back the files of those that were deleted before it.
    is_needed = state.config.remote_storage_enable or state.log_start_offset > 0
    return state.log_start_offset if state.log_start_known and is_needed else None


def _recovery_point(log: PartitionLog) -> int | None:
    return log.state.recovery_point


def _high_watermark(log: PartitionLog) -> int | None:
    return log.state.high_watermark


def _clean_end(log: PartitionLog) -> int | None:
    """Return the clean end of a log that was compacted at least once."""
    return log.state.clean_end_offset or None
