"""Performs what the plan decided, all but copies: proofs, deletions in both tiers, the log start, rolls.

Deleting a remote segment takes three effects, and may begin at any of them again:

    DELETE_SEGMENT_STARTED is committed -> every object of the id is gone -> DELETE_SEGMENT_FINISHED is committed

A segment that somebody else finished deleting meanwhile is no error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ..protocol.topics import TopicIdPartition
from ..remote.core.ledger import IllegalTransitionError, RemoteLogLedger
from ..remote.core.segment import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from ..remote.storage import RemoteStorageManager
from .core.plan import AbandonOrphan, DeleteLocal, DeleteRemote, Prove, RaiseLogStart, RollActive, Upkeep
from .deadlines import MetadataWriter
from .metrics import RemoteLogCounters

logger = logging.getLogger(__name__)


class RetainedLog(Protocol):
    """What upkeep changes in a partition's log."""

    @property
    def segments(self) -> Sequence[HasBaseOffset]: ...

    async def increment_log_start_offset(self, offset: int) -> object:
        """Durable when it returns: nothing is deleted below a log start that a crash could undo."""

    async def delete_local_segments(self, up_to_offset: int) -> object: ...

    async def roll(self) -> object: ...


class HasBaseOffset(Protocol):
    """A local segment."""

    @property
    def base_offset(self) -> int: ...


class RemoteSegmentDeleter:
    """Deletes and looks at segments in the tier; at most `concurrency_max` at the same time over all partitions."""

    def __init__(self, storage: RemoteStorageManager, writer: MetadataWriter, concurrency_max: int) -> None:
        self._storage = storage
        self._writer = writer
        self._concurrency_max = concurrency_max
        self._slots = asyncio.Semaphore(concurrency_max)

    async def stored_size(self, segment: RemoteLogSegmentMetadata) -> int | None:
        """Return the size of the `.log` in the store; None if it is not there."""
        async with self._slots:
            return await self._storage.log_segment_size(segment)

    async def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        """`segment` as the ledger has it, in any state."""
        async with self._slots:
            try:
                if segment.state is not RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                    await self._writer.update(segment.segment_id, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
                await self._storage.delete_log_segment_data(segment)
                await self._writer.update(segment.segment_id, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
            except IllegalTransitionError as error:
                if error.current is not None:
                    raise

    async def abandon(self, segment: RemoteLogSegmentMetadata) -> None:
        """Delete what a copy has left, unless it was finished after all: the last word of whoever made it may be in the
        metadata and not read here yet, and others may count on it already.
        """
        async with self._slots:
            try:
                await self._writer.confirm_started(segment)
            except IllegalTransitionError as error:
                logger.info("%s: is no longer an orphan: %s", segment.segment_id, error)
                return
        await self.delete(segment)

    async def delete_partition(self, partition: TopicIdPartition, ledger: RemoteLogLedger) -> None:
        """Delete all of a deleted topic's partition, going on where an earlier attempt stopped, or another broker.
        Nothing is written about a partition of which the tier holds nothing.
        """
        if ledger.delete_state is None and not len(ledger):
            return
        if ledger.delete_state is None:
            await self._writer.update_partition(partition, RemotePartitionDeleteState.DELETE_PARTITION_MARKED)
        if ledger.delete_state is RemotePartitionDeleteState.DELETE_PARTITION_MARKED:
            await self._writer.update_partition(partition, RemotePartitionDeleteState.DELETE_PARTITION_STARTED)
        await self.delete_all(ledger.segments())
        if ledger.delete_state is RemotePartitionDeleteState.DELETE_PARTITION_STARTED:
            await self._writer.update_partition(partition, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)

    async def delete_all(self, segments: Sequence[RemoteLogSegmentMetadata]) -> None:
        """An error ends it after the deletions under way; what is left is in the ledger."""
        for start in range(0, len(segments), self._concurrency_max):
            portion = segments[start : start + self._concurrency_max]
            results = await asyncio.gather(*map(self.delete, portion), return_exceptions=True)
            for error in filter(None, results):
                raise error


class Proofs:
    """What this node has found out about the objects of one partition; a bad finding is looked at again in time."""

    def __init__(self, disproven_for_s: float) -> None:
        self._disproven_for_s = disproven_for_s
        self._disproven_at_s: dict[RemoteLogSegmentId, float] = {}
        self.proven: set[RemoteLogSegmentId] = set()

    @property
    def disproven(self) -> Collection[RemoteLogSegmentId]:
        return self._disproven_at_s.keys()

    def disprove(self, segment_id: RemoteLogSegmentId, now_s: float) -> None:
        self._disproven_at_s[segment_id] = now_s

    def forget(self, ledger: RemoteLogLedger, now_s: float) -> None:
        """Drop what is not in the ledger any more, and bad findings that have become old."""
        self.proven = {segment_id for segment_id in self.proven if ledger.get(segment_id) is not None}
        for segment_id, at_s in list(self._disproven_at_s.items()):
            if ledger.get(segment_id) is None or now_s - at_s > self._disproven_for_s:
                del self._disproven_at_s[segment_id]


class PartitionUpkeep:
    """Performs upkeep for one partition."""

    def __init__(
        self,
        partition: TopicIdPartition,
        log: RetainedLog,
        deleter: RemoteSegmentDeleter,
        counters: RemoteLogCounters,
        proofs: Proofs,
    ) -> None:
        self._name = str(partition.topic_partition)
        self._log = log
        self._deleter = deleter
        self._counters = counters
        self.proofs = proofs

    async def perform(self, action: Upkeep, remote: Mapping[RemoteLogSegmentId, RemoteLogSegmentMetadata]) -> None:
        """`remote` are the segments of the view that `action` was planned for."""
        match action:
            case AbandonOrphan(segment_id):
                logger.info("%s: deleting the remains of an unfinished copy", segment_id)
                await self._deleter.abandon(remote[segment_id])
            case DeleteRemote(segment_ids):
                await self._deleter.delete_all([remote[segment_id] for segment_id in segment_ids])
            case Prove(segment_ids):
                for segment_id in segment_ids:
                    await self._prove(remote[segment_id])
            case RaiseLogStart(to_offset, reason):
                logger.info("%s: raising the log start offset to %d: %s", self._name, to_offset, reason)
                await self._log.increment_log_start_offset(to_offset)
            case DeleteLocal(up_to_offset):
                await self._log.delete_local_segments(up_to_offset)
            case RollActive(base_offset):
                if self._log.segments[-1].base_offset == base_offset:
                    await self._log.roll()

    async def _prove(self, segment: RemoteLogSegmentMetadata) -> None:
        stored = await self._deleter.stored_size(segment)
        if stored == segment.segment_size_in_bytes:
            self.proofs.proven.add(segment.segment_id)
            return
        self.proofs.disprove(segment.segment_id, asyncio.get_running_loop().time())
        self._counters.disproven_segments += 1
        logger.error(
            "%s [%d, %d]: the tier holds %s, expected %d bytes by the remote log metadata; keeping its local segments",
            segment.segment_id,
            segment.start_offset,
            segment.end_offset,
            "nothing" if stored is None else f"{stored} bytes",
            segment.segment_size_in_bytes,
        )


def raise_if_cancelled() -> None:
    """In an error handler: a plugin may have answered a cancellation with an error of its own."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
