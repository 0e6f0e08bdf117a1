"""What one event of the remote log metadata costs a broker whose partition has many remote segments.

An event is a copy or a deletion of a segment, as the broker does it: the record is decoded and applied, the usable
segments are brought up to date, and the leader plans its next copy and its upkeep. The log start has passed the oldest
segments, which are deleted as new ones come. No process is started and nothing is sent. Times are CPU milliseconds of
one thread; memory is what the ledger and the usable segments hold, as `tracemalloc` counts it.
"""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Final
from uuid import UUID

from tierfetch.log.core import EpochEntry, LeaderEpochCache
from tierfetch.protocol import TopicIdPartition
from tierfetch.remote.core import (
    Bounds,
    RemoteLogLedger,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    UsableSegments,
    decode_event,
)
from tierfetch.remote.core.records import encode_event
from tierfetch.rlm.core.plan import plan
from tierfetch.rlm.core.view import CopyDeadline, LocalSegment, PartitionView, TierMode, TierPolicy

from .measure import Results
from .systems import TIERFETCH, System

SIZES: Final = (1_000, 10_000, 50_000)
EVENTS: Final = 400
OFFSETS: Final = 1_000
SEGMENT_BYTES: Final = 100 << 20
NOW_MS: Final = 10**12
PARTITION: Final = TopicIdPartition(UUID(int=0x5EED), "bench", 0)
POLICY: Final = TierPolicy(TierMode.COPYING, 10**12, 10**15, 3_600_000, 10**10)
_State = RemoteLogSegmentState


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """One segment is copied and one is deleted, in turn."""
    del base, total_mb
    if system is not TIERFETCH:
        return
    for size in SIZES:
        for _ in range(runs):
            event_ms, bytes_each = _measure(size)
            case = f"{size:,} remote segments"
            results.add("ledger", case, system.name, "one event", event_ms, "CPU ms")
            results.add("ledger", case, system.name, "memory", bytes_each, "bytes a segment")


def _measure(size: int) -> tuple[float, float]:
    values = [value for number in range(size) for value in copied(number)]
    tracemalloc.start()
    partition = _Partition(size)
    for value in values:
        partition.ledger.apply(decode_event(value))
    partition.look(0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    turns = [(*copied(size + turn), *deleted(turn)) for turn in range(EVENTS // 4)]
    began = time.process_time()
    for turn, events in enumerate(turns):
        for value in events:
            partition.ledger.apply(decode_event(value))
            partition.look(turn)
    return (time.process_time() - began) * 1000 / EVENTS, held / size


class _Partition:
    """A leader that has its last ten segments locally."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.ledger = RemoteLogLedger(PARTITION)
        self.epochs = LeaderEpochCache([EpochEntry(0, 0)])
        self.usable = UsableSegments()

    def look(self, turn: int) -> None:
        """Plan as after the event `turn`: as many segments were deleted and copied since the beginning."""
        log_start, log_end = (turn + 1) * OFFSETS, (self.size + turn + 1) * OFFSETS
        self.epochs.truncate_from_start(log_start)
        closed = [LocalSegment(log_end - n * OFFSETS, log_end - (n - 1) * OFFSETS, 1, NOW_MS) for n in range(10, 0, -1)]
        while not self.usable.advance(self.ledger, Bounds(self.epochs, log_start, log_end + 1), 512):
            pass
        view = PartitionView(
            partition=PARTITION,
            broker_id=1,
            leader_epoch=0,
            epochs=self.epochs.entries,
            log_start_offset=log_start,
            local_log_start_offset=closed[0].base_offset,
            high_watermark=log_end,
            last_stable_offset=log_end,
            log_end_offset=log_end + 1,
            closed=tuple(closed),
            active=LocalSegment(log_end, log_end + 1, 1, NOW_MS),
            ledger=self.ledger,
            usable=self.usable,
            deleted_to=self.ledger.deleted_to(self.epochs.entries, log_start),
            isr_log_start_min=log_start,
            policy=POLICY,
            copy_deadline=CopyDeadline(60_000, 1_000_000),
        )
        plan(view, NOW_MS)


def copied(number: int) -> tuple[bytes, bytes]:
    """Return the records of a copy, as the topic has them."""
    first = number * OFFSETS
    started = RemoteLogSegmentMetadata(
        segment_id=_id(number),
        start_offset=first,
        end_offset=first + OFFSETS - 1,
        max_timestamp_ms=NOW_MS,
        broker_id=1,
        event_timestamp_ms=NOW_MS,
        segment_size_in_bytes=SEGMENT_BYTES,
        segment_leader_epochs=(EpochEntry(0, first),),
    )
    return encode_event(started), _update(number, _State.COPY_SEGMENT_FINISHED)


def deleted(number: int) -> tuple[bytes, bytes]:
    """Return the records of a deletion."""
    return _update(number, _State.DELETE_SEGMENT_STARTED), _update(number, _State.DELETE_SEGMENT_FINISHED)


def _update(number: int, state: RemoteLogSegmentState) -> bytes:
    return encode_event(RemoteLogSegmentMetadataUpdate(_id(number), state, NOW_MS, 1))


def _id(number: int) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(PARTITION, UUID(int=number << 64 | 0x5EED))
