"""The offset checkpoints of one log directory: each log's start, recovery point, high watermark and clean end.

    replication-offset-checkpoint, recovery-point-offset-checkpoint, log-start-offset-checkpoint,
    cleaner-offset-checkpoint

* A file is replaced whole, from the logs as they are at that moment; one write of a file is under way at a time, and
  all callers that wait meanwhile share the next one.
* A log that could not be opened keeps its entries: once repaired, it needs them.
* An entry that a deleted log left, or may have left (`may_have_entry`), would be applied to its successor: a caller
  that creates a log of the same name rewrites the files first.
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...protocol import TopicPartition
from ..core.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    decode_offsets,
    encode_offsets,
)
from ..core.errors import CorruptFileError
from ..disk.port import Disk
from ..partition_log import PartitionLog

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]

ABSENT: Final = -1

FILES: Final = (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)


@dataclass(slots=True)
class _File:
    """One checkpoint file: its content, and the next write of it."""

    path: Path
    collect: Callable[[], Offsets]
    offsets: Offsets = field(default_factory=dict)
    at_least: Offsets = field(default_factory=dict)
    """The lowest value that each entry on disk may have, ABSENT if it may be missing; `offsets` if no write failed."""
    attempted: Offsets = field(default_factory=dict)
    """The entries that may be on disk besides: those of a write that is under way or has failed."""
    is_damaged: bool = False
    """Whether the file was damaged, or a write of it has failed."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_write: asyncio.Task[None] | None = None


class DirectoryCheckpoints:
    """The checkpoints of a directory with the open `logs`, and the failed ones in `kept`; read at each write."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        logs: Mapping[TopicPartition, PartitionLog],
        kept: Mapping[TopicPartition, object],
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._kept = kept
        self._writes: set[asyncio.Task[None]] = set()
        self.pending_log_starts: Offsets = {}
        """The log starts of state that is about to be adopted: written in place of the old log's."""
        collectors = (self._log_starts, self._recovery_points, self._high_watermarks, self._clean_ends)
        self._files = {name: _File(directory / name, collect) for name, collect in zip(FILES, collectors, strict=True)}

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

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        """Make the log start of one log durable; write nothing if it is already, even if others have changed."""
        file, log = self._files[LOG_START_OFFSET_CHECKPOINT], self._logs.get(partition)
        if log is None or file.at_least.get(partition, ABSENT) < log.state.log_start_offset:
            await self._save(file)

    async def save_recovery_points(self) -> None:
        """Make the current recovery points and high watermarks durable."""
        await self._save(self._files[RECOVERY_POINT_CHECKPOINT])
        await self._save(self._files[REPLICATION_OFFSET_CHECKPOINT])

    async def save_all(self) -> None:
        for file in self._files.values():
            await self._save(file)

    async def _save(self, file: _File) -> None:
        """Wait for the next write of the file to begin from now on, unless the file is up to date; the write continues
        if the caller is cancelled.
        """
        if file.next_write is None:
            if not (file.writing.locked() or file.is_damaged) and file.collect() == file.offsets:
                return
            task = file.next_write = asyncio.create_task(self._write(file))
            self._writes.add(task)
            task.add_done_callback(self._written)
        await asyncio.shield(file.next_write)

    async def _write(self, file: _File) -> None:
        async with file.writing:
            file.next_write = None
            offsets = file.collect()
            if offsets != file.offsets or file.is_damaged:
                # Until the write has ended either version may be on disk: a log start counts as durable at the lower.
                file.is_damaged = True
                file.at_least = {name: min(least, offsets.get(name, ABSENT)) for name, least in file.at_least.items()}
                file.attempted |= offsets
                await self._disk.write_file(file.path, encode_offsets(offsets))
                file.offsets, file.at_least, file.attempted = offsets, offsets, {}
                file.is_damaged = False

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # callers that still wait for it receive it

    def _log_starts(self) -> Offsets:
        offsets = self._with_kept(LOG_START_OFFSET_CHECKPOINT)
        for partition, log in self._logs.items():
            if log.state.log_start_known and (
                log.state.config.remote_storage_enable
                or log.state.log_start_offset > log.state.segments.first_base_offset
            ):
                offsets[partition] = log.state.log_start_offset
        return offsets | self.pending_log_starts

    def _recovery_points(self) -> Offsets:
        offsets = self._with_kept(RECOVERY_POINT_CHECKPOINT)
        return offsets | {partition: log.state.offsets.recovery_point for partition, log in self._logs.items()}

    def _high_watermarks(self) -> Offsets:
        offsets = self._with_kept(REPLICATION_OFFSET_CHECKPOINT)
        return offsets | {partition: log.state.high_watermark for partition, log in self._logs.items()}

    def _clean_ends(self) -> Offsets:
        """Return the clean ends of the logs that were compacted at least once."""
        offsets = self._with_kept(CLEANER_OFFSET_CHECKPOINT)
        clean = {partition: log.state.clean_end_offset for partition, log in self._logs.items()}
        return offsets | {partition: offset for partition, offset in clean.items() if offset > 0}

    def _with_kept(self, name: str) -> Offsets:
        return {partition: offset for partition, offset in self._files[name].offsets.items() if partition in self._kept}
