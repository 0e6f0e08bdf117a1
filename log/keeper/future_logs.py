"""Moves a log to another log directory of its node, while it is used (KIP-113): by way of a future log.

    create_future -> advance, until it returns None -> `take_history` -> advance again -> the controller counts on it
                  \\-> drop_future, in whatever state                                                    -> switch

| found at the start | becomes |
|---|---|
| a `-future` directory that the cluster counts on | the replica; the old one goes to `-stray` |
| a `-future` directory beside a current log, or while a directory is offline | the future log; `advance` continues |
| a second `-future` directory of the partition; one that cannot be opened | removed |
| a `-future` directory without a current log | `-stray` |
| two live directories: a crash in the switch | the one that the cluster counts on; the other goes to `-stray` |

The future log is a `PartitionLog` in `<topic>-<partition>.<32 hex digits>-future`, Kafka's name. It gets batches as a
follower does (`log/core/replica_copy.py` decides), so its indexes, snapshots and recovery are those of any log. Its
segments begin where those of the current log begin. Retention and compaction work on the current log; the future log
follows. Compaction keeps tombstones and markers meanwhile, because the future log may have got what they delete.

The caller makes one call at a time for a partition. Each is bounded: `advance` copies at most `TURN_BYTES` and a batch.
Errors: OSError and KafkaError of either log. One of the future log leaves the current log as it is.
"""

from __future__ import annotations

import logging
from typing import Final

from ...light_dataclass import dataclass
from ...protocol import ErrorCode, KafkaError, TopicPartition
from ...protocol.records import parse_header
from ..core.checkpoints import PARTITION_METADATA, encode_partition_metadata
from ..core.file_names import DELETE_SUFFIX, future_directory, marked_directory
from ..core.replica_copy import (
    CaughtUp,
    CopyFrom,
    FollowLogStart,
    Restart,
    Step,
    TrimTo,
    TruncateTo,
    epoch_span,
    next_step,
)
from ..disk.run_to_completion import run_to_completion
from ..partition_log import PartitionLog
from .log_directory import LogDirectory
from .manager import LogManager

TURN_BYTES: Final = 1024 * 1024
"""Kafka's `replica.fetch.max.bytes`."""
REST_TURNS_MAX: Final = 8
"""The number of turns under the gate of the current log, at which its appends wait."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _First:
    """The first batches of a log: where they begin, and their bytes; none of an empty log."""

    offset: int
    data: bytes


@run_to_completion
async def create_future(manager: LogManager, partition: TopicPartition, destination: LogDirectory) -> PartitionLog:
    """Create the future log of a partition in `destination`; it begins where the current log begins.

    Raise KAFKA_STORAGE_ERROR if there is no current log in another directory, or its start is not known yet.
    """
    async with manager.changing(partition) as source:
        current = source.logs.get(partition)
        assert manager.future_of(partition) is None, partition
        if current is None or source is destination or not current.state.log_start_known:
            raise KafkaError(
                ErrorCode.kafka_storage_error, f"{partition} cannot be moved to {destination.path} at present"
            )
        if destination.offline is not None:
            raise destination.offline_error()
        disk = manager.services.disk
        path = future_directory(destination.path / str(partition), manager.unique())
        await disk.make_directory(path)
        if current.state.topic_id is not None:
            await disk.write_file(path / PARTITION_METADATA, encode_partition_metadata(current.state.topic_id))
        await disk.sync_directory(destination.path)
        future = await destination.open_future(partition, path, is_new=True)
        current.begin_copy()
        await _restart(current, future)
        return future


@run_to_completion
async def drop_future(manager: LogManager, partition: TopicPartition) -> None:
    """Delete the future log, if there is one."""
    async with manager.changing(partition) as source:
        if partition in source.logs:
            source.logs[partition].end_copy()
        for directory in manager.directories:
            await directory.drop_future(partition, manager.unique())


def pending_step(current: PartitionLog, future: PartitionLog) -> Step:
    """Return what `advance` would do now."""
    return next_step(current.copied, future.copied)


async def advance(current: PartitionLog, future: PartitionLog) -> int | None:
    """Make one step; return the number of bytes copied, None if there is nothing to do."""
    current.begin_copy()
    future.update_high_watermark(current.state.high_watermark)
    match pending_step(current, future):
        case Restart():
            return await _restart(current, future)
        case TruncateTo(offset):
            await future.truncate_to(offset)
        case FollowLogStart(offset):
            await future.follow_log_start_offset(offset)
        case TrimTo(offset):
            await future.delete_local_segments(offset)
        case CopyFrom(offset):
            copied_bytes = await _copy(current, future, offset)
            # A segment at a time: a crash then has little to scan, and the switch little to flush.
            if future.state.has_unflushed_segments:
                await future.flush()
            return copied_bytes
        case CaughtUp():
            return None
    return 0


async def _restart(current: PartitionLog, future: PartitionLog) -> int:
    """Empty the future log, and copy the first batches of the current one, whose first one the log start may be in."""
    found = current.copied
    start = found.local_log_start_offset
    first = await _first(current, start)
    base_offset = min(start, first.offset)
    await future.truncate_fully_and_start_at(
        base_offset,
        log_start_offset=min(found.log_start_offset, base_offset),
        producers=await current.producer_snapshot_at(base_offset),
    )
    future.note_compacted(current.state.clean_end_offset)
    if first.data:
        await _append(current, future, first.data)
    return len(first.data)


async def _first(current: PartitionLog, offset: int) -> _First:
    found = await _read(current, offset, TURN_BYTES)
    return _First(parse_header(found).base_offset, found) if found else _First(offset, b"")


async def _copy(current: PartitionLog, future: PartitionLog, offset: int) -> int:
    """Append what follows; if compaction has left nothing, continue at the log's end."""
    end_offset = current.state.log_end_offset
    data = await _read(current, offset, TURN_BYTES)
    if data and parse_header(data).base_offset < offset:
        # The current log was truncated, and the log start is within its next batch: below it epochs prove nothing.
        return await _restart(current, future)
    if data:
        await _append(current, future, data)
    elif future.state.log_end_offset == offset < end_offset:
        if future.state.segments.size_bytes == 0:
            await future.truncate_fully_and_start_at(end_offset, log_start_offset=future.state.log_start_offset)
        else:
            await future.skip_to(end_offset)
    return len(data)


async def _read(current: PartitionLog, offset: int, max_bytes: int) -> bytes:
    """Return the batches of one epoch and one segment from `offset` on; none if compaction has left none."""
    end_offset = current.state.log_end_offset
    while offset < end_offset:
        _, limit = epoch_span(current.state.epochs, offset, end_offset)
        with await current.read(offset, max_bytes=max_bytes, max_offset=limit) as piece:
            if piece.size:
                return await piece.read()
        offset = limit
    return b""


async def _append(current: PartitionLog, future: PartitionLog, data: bytes) -> None:
    base_offset = parse_header(data).base_offset
    entry, _ = epoch_span(current.state.epochs, base_offset, current.state.log_end_offset)
    if entry is not None and entry.epoch > future.state.epochs.latest_epoch:
        await future.follow_epoch(entry.epoch, entry.start_offset)
    begins = [segment.base_offset for segment in current.state.segments if segment.base_offset <= base_offset]
    # Roll where the current log does: the tier is copied to by segments, and retention removes them.
    if begins and begins[-1] >= future.state.log_end_offset > future.state.segments.active.base_offset:
        await future.roll()
    await future.append_as_follower(data)


@run_to_completion
async def switch(manager: LogManager, partition: TopicPartition) -> bool:
    """Make the future log the current one; return False if it has not caught up.

    The current log stays open all the while. After an OSError or KafkaError it is as it was.
    """
    async with manager.changing(partition) as source:
        current, found = source.logs.get(partition), manager.future_of(partition)
        if current is None or found is None:
            return False
        destination, future = found
        left, live = current.state.directory, destination.path / str(partition)
        # Before the gate is taken: a flush takes time with what is dirty.
        await future.flush()

        async def copy_rest() -> bool:
            for _ in range(REST_TURNS_MAX):
                if await advance(current, future) is None:
                    return destination.offline is None
            return False

        def take() -> None:
            del source.logs[partition]
            destination.futures.pop(partition, None)
            source.failures.pop(partition, None)
            destination.logs[partition] = current

        if not await current.take_over(future, live, copy_rest, take):
            return False
        going = marked_directory(left, manager.unique(), DELETE_SUFFIX)
        try:
            await manager.services.disk.rename(left, going)
            await manager.services.disk.sync_directory(source.path)
            source.removals.add_directory(going, current.state.config.file_delete_delay_ms)
            await source.checkpoints.save_all()
        except OSError as error:
            logger.error("%s was moved to %s, and could not be deleted: %s; check the disk", left, live, error)
        return True
