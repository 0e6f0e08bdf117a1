"""Replaces a replica by one that was rebuilt from the tier (docs/bootstrap-rules.md, rule 4).

The new replica is complete and durable beside the live directory before that one is touched; the crash table is in
`side_directories`. The live log stays open and usable until its directory is moved. If the disk fails before that, the
old replica continues unchanged; if it fails later, the partition is reopened from its files, as at a start.
"""

from __future__ import annotations

from pathlib import Path

from ...protocol import ErrorCode, KafkaError, TopicPartition
from ..core.file_names import adopt_directory
from ..disk.run_to_completion import run_to_completion
from ..partition_log import PartitionLog
from .log_directory import LogDirectory
from .manager import LogManager
from .side_directories import AdoptedState, build_sibling, complete_sibling, move_into_place, remove_sibling

__all__ = ["AdoptedState", "adopt"]


@run_to_completion
async def adopt(manager: LogManager, partition: TopicPartition, state: AdoptedState) -> PartitionLog:
    """Replace the partition's log; return the new one, with log start, epochs, producers and high watermark in place.

    The caller has stopped every append and drops the old log, on which every call fails from now on. An OSError leaves
    the old replica or the new one, see above; the manager has it. INCONSISTENT_TOPIC_ID if the log belongs to another
    incarnation; CorruptFileError for a damaged producer snapshot.
    """
    await state.check()
    async with manager.changing(partition) as directory:
        old = directory.logs.get(partition)
        if old is not None and old.state.topic_id not in (None, state.topic_id):
            raise KafkaError(
                ErrorCode.inconsistent_topic_id,
                f"{partition} has topic id {old.state.topic_id} on disk, the state from the tier has {state.topic_id}",
            )
        return await _adopt(manager, directory, partition, state)


async def _adopt(
    manager: LogManager, directory: LogDirectory, partition: TopicPartition, state: AdoptedState
) -> PartitionLog:
    disk = manager.services.disk
    live = directory.path / str(partition)
    sibling = adopt_directory(live)
    await remove_sibling(disk, live, manager.unique())
    await build_sibling(disk, sibling, state)
    # Saved before the switch: opened with the old log start, the new replica would claim offsets it does not have.
    directory.checkpoints.pending_log_starts[partition] = state.log_start_offset
    try:
        await directory.checkpoints.save_log_start(partition)
        await complete_sibling(disk, sibling, state)
        log = await _commit(manager, directory, partition, sibling)
    finally:
        del directory.checkpoints.pending_log_starts[partition]
    # All that the tier holds was committed, so the adopted range is below the high watermark.
    log.update_high_watermark(state.start_offset)
    await directory.checkpoints.ensure_none_above(partition)
    return log


async def _commit(
    manager: LogManager, directory: LogDirectory, partition: TopicPartition, sibling: Path
) -> PartitionLog:
    """Move the old directory away and the sibling into its place, and open it."""
    disk = manager.services.disk
    had_replica = partition in directory.logs or partition in directory.failures
    try:
        await manager.put_aside(directory, partition)
        await move_into_place(disk, sibling, directory.path / str(partition))
        return await directory.open_log(partition, is_clean=True)
    except OSError:
        if had_replica or await disk.exists(directory.path / str(partition)):
            await manager.reopen_locked(directory, partition)
        raise
