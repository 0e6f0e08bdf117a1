"""Rebuilds producer state from the newest usable snapshot and the batches after it.

Used after a truncation, at start-up, and for a requested snapshot that was never taken. If no snapshot is left, the
whole local log is replayed; producer state from below the local log is then unknown, as in Kafka.
"""

from __future__ import annotations

import logging

from ..core.errors import CorruptFileError
from ..core.producers import CompletedTransaction, ProducerStateManager
from ..segment.batch_scan import BatchChunk, BatchScan
from ..segment.segment_list import LogSegments
from ..segment.snapshot_files import ProducerSnapshots
from .state import LogState

logger = logging.getLogger(__name__)


async def load_producers(snapshots: ProducerSnapshots, start_offset: int, end_offset: int) -> ProducerStateManager:
    """Return the state of the newest usable snapshot in `[start_offset, end_offset]`, or an empty one at the start.

    A damaged snapshot is removed; the next older one is used, and more is replayed.
    """
    for offset in reversed(snapshots.offsets):
        if not start_offset <= offset <= end_offset:
            continue
        try:
            data = await snapshots.read(offset)
            assert data is not None, offset
            return await snapshots.decoded(data, offset)
        except CorruptFileError as error:
            logger.warning("%s; an older snapshot is used", error)
            await snapshots.remove(offset)
    return ProducerStateManager(start_offset)


async def replay(producers: ProducerStateManager, segments: LogSegments, end_offset: int) -> None:
    """Apply the batches from the state's end up to `end_offset`, which is a segment's base or the log's end.
    CorruptRecordError if one is damaged, also in its length: the state would lack what comes after it.
    """
    for segment in segments.from_offset(producers.map_end_offset):
        if segment.base_offset >= end_offset:
            break
        with segment.pinned():
            begin, end = await segment.position_of(producers.map_end_offset), segment.written_bytes
            async for chunk in BatchScan(await segment.file(), begin, end, whole_until=end):
                apply_chunk(producers, chunk)
    if producers.map_end_offset < end_offset:
        producers.advance_to(end_offset)


def apply_chunk(producers: ProducerStateManager, chunk: BatchChunk) -> list[CompletedTransaction]:
    """Apply the batches of a chunk; return the transactions that they completed."""
    completed = []
    for position, header in chunk.batches:
        if header.producer_id >= 0:
            ended = producers.apply(header, marker=chunk.marker(position, header))
            if ended is not None:
                completed.append(ended)
    producers.advance_to(chunk.batches[-1][1].next_offset)
    return completed


async def producer_snapshot_at(state: LogState, offset: int) -> bytes | None:
    """See `PartitionLog.producer_snapshot_at`."""
    state.check_usable()
    data = await state.snapshots.read(offset)
    if data is not None:
        return data
    floor = state.segments.floor(offset)
    if offset != state.log_end_offset and (floor is None or floor.base_offset != offset):
        return None
    producers = await load_producers(state.snapshots, state.segments.first_base_offset, offset)
    await replay(producers, state.segments, offset)
    return producers.snapshot()
