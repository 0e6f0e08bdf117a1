"""Performs what the plan decided, all but copies: proofs, deletions in both tiers, the log start, rolls.

Deleting a remote segment takes three effects, and may restart at any of them:

    DELETE_SEGMENT_STARTED is committed -> every object of the id is deleted -> DELETE_SEGMENT_FINISHED is committed

A segment that another broker has finished deleting meanwhile is no error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from ..log import PartitionLog
from ..protocol import TopicIdPartition
from ..remote import RemoteStorageManager
from ..remote.core import (
    IllegalTransitionError,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    UsableSegments,
)
from .core.plan import AbandonOrphan, DeleteLocal, DeleteRemote, Prove, RaiseLogStart, RollActive, Upkeep
from .deadlines import MetadataWriter
from .metrics import RemoteLogCounters

logger = logging.getLogger(__name__)


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
        """Delete what a copy has left, unless it was finished after all: the last word of its copier may be in the
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
    """What this broker has found out about the objects of one partition. A good finding is kept until the local
    segments that it was needed for are deleted, a bad one for `disproven_for_s`; then the object is looked at again.
    """

    def __init__(self, usable: UsableSegments, disproven_for_s: float) -> None:
        """`usable` does not count a segment with a bad finding."""
        self._usable = usable
        self._disproven_for_s = disproven_for_s
        self._disproven_at_s: dict[RemoteLogSegmentId, float] = {}
        self._proven: dict[RemoteLogSegmentId, int] = {}
        self.version = 0
        """How many times the findings have changed."""

    @property
    def proven(self) -> AbstractSet[RemoteLogSegmentId]:
        """The segments that were found with their stated size."""
        return self._proven.keys()

    @property
    def disproven(self) -> AbstractSet[RemoteLogSegmentId]:
        """The segments that were found absent, or with another size."""
        return self._disproven_at_s.keys()

    def prove(self, segment: RemoteLogSegmentMetadata) -> None:
        """Note that the object is in the store with its stated size."""
        self._proven[segment.segment_id] = segment.end_offset
        self.version += 1

    def disprove(self, segment_id: RemoteLogSegmentId, now_s: float) -> None:
        """Note that the object is absent, or has another size."""
        self._disproven_at_s.pop(segment_id, None)  # the oldest finding stays the first
        self._disproven_at_s[segment_id] = now_s
        self._proven.pop(segment_id, None)
        self._usable.exclude(segment_id)
        self.version += 1

    def forget_below(self, local_log_start_offset: int) -> None:
        """Drop the good findings that no local segment needs any longer."""
        ended = [segment_id for segment_id, last in self._proven.items() if last < local_log_start_offset]
        for segment_id in ended:
            del self._proven[segment_id]
        self.version += bool(ended)

    def forget_old(self, now_s: float) -> None:
        """Drop the bad findings that have become old."""
        while self._disproven_at_s:
            segment_id, at_s = next(iter(self._disproven_at_s.items()))
            if now_s - at_s <= self._disproven_for_s:
                return
            del self._disproven_at_s[segment_id]
            self._usable.include(segment_id)
            self.version += 1


class PartitionUpkeep:
    """Performs upkeep for one partition."""

    def __init__(
        self,
        partition: TopicIdPartition,
        log: PartitionLog,
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
                self.proofs.forget_below(self._log.state.segments.first_base_offset)
            case RollActive(base_offset):
                if self._log.state.segments.active.base_offset == base_offset:
                    await self._log.roll()

    async def _prove(self, segment: RemoteLogSegmentMetadata) -> None:
        stored = await self._deleter.stored_size(segment)
        if stored == segment.segment_size_in_bytes:
            self.proofs.prove(segment)
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
