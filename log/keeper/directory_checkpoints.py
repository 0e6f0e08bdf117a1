"""The offset checkpoints of one log directory: each log's start, recovery point, high watermark and clean end.

    replication-offset-checkpoint, recovery-point-offset-checkpoint, log-start-offset-checkpoint,
    cleaner-offset-checkpoint

* A file is replaced whole. Each entry is taken from its log after the write has begun, some logs at a time within the
  loop's share; one write of a file is under way at a time, and all callers that wait meanwhile share the next one.
* A log that could not be opened keeps its entries: once repaired, it needs them.
* An entry that a deleted log left, or may have left (`may_have_entry`), would be applied to its successor: a caller
  that creates a log of the same name rewrites the files first. What is collected for a write may be on disk soon.
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
from ...protocol.net import Slices
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
FREE_LOGS: Final = 100
"""Logs whose entries are collected without an account of the loop's share."""

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
    entry_of: Callable[[PartitionLog], int | None]
    """A log's entry, None if it has none."""
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
    """The checkpoints of a directory with the open `logs` and `futures`, and the failed logs in `kept`; read at each
    write.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        logs: Mapping[TopicPartition, PartitionLog],
        futures: Mapping[TopicPartition, PartitionLog],
        kept: Mapping[TopicPartition, object],
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._futures = futures
        self._kept = kept
        self._writes: set[asyncio.Task[None]] = set()
        self.pending_log_starts: Offsets = {}
        """The log starts of state that is about to be adopted: written in place of the old log's."""
        entries = (_log_start, _recovery_point, _high_watermark, _clean_end)
        self._files = {name: _File(directory / name, entry) for name, entry in zip(FILES, entries, strict=True)}

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
        file = self._files[LOG_START_OFFSET_CHECKPOINT]
        log = self._logs.get(partition) or self._futures.get(partition)
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
        """Wait for the next write of the file that begins from now on; it writes nothing if nothing has changed,
        and continues if the caller is cancelled.
        """
        if file.next_write is None:
            task = file.next_write = asyncio.create_task(self._write(file))
            self._writes.add(task)
            task.add_done_callback(self._written)
        await asyncio.shield(file.next_write)

    async def _write(self, file: _File) -> None:
        async with file.writing:
            file.next_write = None
            offsets = await self._collected(file)
            if offsets != file.offsets or file.is_damaged:
                # Until the write has ended either version may be on disk: a log start counts as durable at the lower.
                file.is_damaged = True
                file.at_least = {name: min(least, offsets.get(name, ABSENT)) for name, least in file.at_least.items()}
                await self._disk.write_file(file.path, encode_offsets(offsets))
                file.offsets, file.at_least = offsets, offsets
                file.is_damaged = False
            file.attempted = {}

    async def _collected(self, file: _File) -> Offsets:
        """Return the entries of all logs, and note each as one that may be on disk from now on."""
        offsets = {name: offset for name, offset in file.offsets.items() if name in self._kept} if self._kept else {}
        async for some in Slices([*({**self._futures, **self._logs}).items()], free=FREE_LOGS):
            for partition, log in some:
                offset = file.entry_of(log)
                if offset is not None:
                    offsets[partition] = file.attempted[partition] = offset
        if file.entry_of is _log_start:
            offsets |= self.pending_log_starts
            file.attempted |= self.pending_log_starts
        return offsets

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # callers that still wait for it receive it


def _log_start(log: PartitionLog) -> int | None:
    state = log.state
    is_written = state.log_start_known and (
        state.config.remote_storage_enable or state.log_start_offset > state.segments.first_base_offset
    )
    return state.log_start_offset if is_written else None


def _recovery_point(log: PartitionLog) -> int:
    return log.state.offsets.recovery_point


def _high_watermark(log: PartitionLog) -> int:
    return log.state.high_watermark


def _clean_end(log: PartitionLog) -> int | None:
    """Return where a log's clean part ends, if it was compacted at least once."""
    return log.state.clean_end_offset if log.state.clean_end_offset > 0 else None
