"""A compacted log in a test: a history of keys, tombstones and transactions, and what has to be true of it for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tierfetch.log.cleaner.cleaning import Cleaned, Throttle
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.disk import Disk
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.records import Record, build_batch, iter_batches
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.log.logs import (
    NOW_MS,
    Clock,
    Keeper,
    committed_records_of,
    marker_batch,
    open_log,
    read_bytes,
    records_of,
)

COMPACT = LogConfig(
    segment_bytes=600,
    index_interval_bytes=0,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
)
MAP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Write:
    """One batch: `(key, value)` pairs, by a producer, in a transaction or not."""

    records: tuple[tuple[bytes, bytes | None], ...]
    producer_id: int = -1
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The end of a producer's transaction."""

    producer_id: int
    kind: ControlType


class History:
    """Writes into a log as a leader, sequences counted."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._sequences: dict[int, int] = {}

    async def apply(self, steps: Iterable[Write | End]) -> None:
        for step in steps:
            if isinstance(step, End):
                data, origin = marker_batch(step.kind, producer_id=step.producer_id), AppendOrigin.COORDINATOR
            else:
                data, origin = self._batch(step), AppendOrigin.CLIENT
            await self.log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS, origin=origin)

    def _batch(self, write: Write) -> bytearray:
        sequence = -1
        if write.producer_id >= 0:
            sequence = self._sequences.get(write.producer_id, 0)
            self._sequences[write.producer_id] = sequence + len(write.records)
        return bytearray(
            build_batch(
                [Record(i, NOW_MS + i, key, value) for i, (key, value) in enumerate(write.records)],
                base_offset=0,
                producer_id=write.producer_id,
                producer_epoch=0 if write.producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=write.is_transactional,
            )
        )


async def settled(log: PartitionLog) -> None:
    """Everything is committed, closed and flushed."""
    await log.roll()
    log.update_high_watermark(log.state.log_end_offset)
    await log.flush()


async def reopened(disk: Disk, *, clock: Clock | None = None, segments_max: int = 16) -> PartitionLog:
    """As after a crash; nothing is known from checkpoints."""
    return await open_log(
        disk, config=COMPACT, clock=clock, keeper=Keeper(), segments_max=segments_max, high_watermark=1 << 40
    )


async def clean(log: PartitionLog, map_bytes: int = MAP_BYTES) -> Cleaned:
    return await log.clean(map_bytes, Throttle(float("inf")))


def last_values(records: Sequence[Record]) -> dict[bytes, tuple[int, bytes]]:
    """What a table built from the log holds in the end: key to (offset, value); a tombstone takes its key away."""
    table: dict[bytes, tuple[int, bytes]] = {}
    for record in records:
        if record.key is None:
            continue
        table.pop(record.key, None)
        if record.value is not None:
            table[record.key] = (record.offset, record.value)
    return table


async def committed_view(log: PartitionLog) -> list[Record]:
    """What a consumer of committed data reads, whole batches from the log start on."""
    data = await read_bytes(log)
    return committed_records_of(
        data, await log.aborted_transactions(log.state.log_start_offset, log.state.log_end_offset)
    )


async def uncommitted_view(log: PartitionLog) -> list[Record]:
    return records_of(await read_bytes(log))


def next_sequences(log: PartitionLog) -> dict[int, tuple[int, int]]:
    """Epoch and last sequence of every producer that the log remembers."""
    return {
        producer_id: (entry.producer_epoch, entry.last_sequence)
        for producer_id, entry in log.state.producers.entries.items()
    }


def batch_offsets(data: bytes) -> list[tuple[int, int, int]]:
    """(base offset, last offset, records) of each batch."""
    return [(header.base_offset, header.last_offset, header.record_count) for _, header in iter_batches(data)]
