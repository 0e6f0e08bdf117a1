"""A log in a test: opened over a fake disk, fed with small batches, read back as records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tierfetch.log.core import AbortedTransaction, AppendOrigin, LogConfig
from tierfetch.log.disk import Disk
from tierfetch.log.partition_log import LogAppendInfo, LogLocation, PartitionLog
from tierfetch.log.segment.open_limit import OpenSegments
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import Record, build_batch, iter_batches, iter_records
from tierfetch.protocol.records.control import ControlType, EndTransactionMarker, build_end_transaction_batch
from tierfetch.protocol.topics import TopicPartition
from tierfetch.tests.fakes.disk import Effect

TP = TopicPartition("t", 0)
DIRECTORY = Path("/data/t-0")
NOW_MS = 1_700_000_000_000


class Keeper:
    """Remembers what it was asked to make durable."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def save_log_start_offsets(self) -> None:
        self.calls.append("log start")

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None:
        await self.save_log_start_offsets()

    async def save_recovery_points(self) -> None:
        self.calls.append("recovery point")

    def segment_closed(self) -> None:
        self.calls.append("segment closed")

    accepts_clients = True
    accepts_replicas = True

    def has_room_for(self, size_bytes: int) -> bool:
        return True

    def writing(self, size_bytes: int) -> AbstractContextManager[None]:
        return nullcontext()


class Clock:
    """A wall clock that a test moves."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


async def open_log(
    disk: Disk,
    directory: Path = DIRECTORY,
    *,
    config: LogConfig | None = None,
    keeper: Keeper | None = None,
    clock: Clock | None = None,
    segments_max: int = 16,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int | None = None,
    high_watermark: int = 0,
) -> PartitionLog:
    await disk.make_directory(directory)
    await disk.sync_directory(directory.parent)
    await disk.sync_directory(directory.parent.parent)
    return await PartitionLog.open(
        LogLocation(
            topic_partition=TP,
            directory=directory,
            disk=disk,
            config=config or LogConfig(),
            keeper=keeper or Keeper(),
            open_segments=OpenSegments(segments_max),
            now_ms=clock or Clock(),
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
        )
    )


def data_batch(
    count: int = 1,
    *,
    base_offset: int = 0,
    epoch: int = -1,
    value: bytes = b"v",
    timestamp_ms: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """`count` records, all with the same value; the i-th is i ms younger than the first."""
    records = [Record(offset=base_offset + i, timestamp=timestamp_ms + i, key=b"k", value=value) for i in range(count)]
    return bytearray(
        build_batch(
            records,
            base_offset=base_offset,
            partition_leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
    )


def marker_batch(
    kind: ControlType, *, base_offset: int = 0, epoch: int = -1, producer_id: int, producer_epoch: int = 0
) -> bytearray:
    marker = EndTransactionMarker(kind, coordinator_epoch=0)
    return bytearray(
        build_end_transaction_batch(
            marker,
            base_offset=base_offset,
            timestamp_ms=NOW_MS,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partition_leader_epoch=epoch,
        )
    )


async def append(log: PartitionLog, count: int = 1, *, epoch: int = 0, **batch: Any) -> LogAppendInfo:
    """Append one data batch as the leader of `epoch`."""
    return await log.append_as_leader(data_batch(count, **batch), leader_epoch=epoch, now_ms=NOW_MS)


async def end_transaction(log: PartitionLog, kind: ControlType, producer_id: int, *, epoch: int = 0) -> LogAppendInfo:
    return await log.append_as_leader(
        marker_batch(kind, producer_id=producer_id),
        leader_epoch=epoch,
        now_ms=NOW_MS,
        origin=AppendOrigin.COORDINATOR,
    )


async def read_bytes(
    log: PartitionLog, start: int | None = None, end: int | None = None, *, max_bytes: int = 1 << 20
) -> bytes:
    """Everything visible from `start` on, fetch for fetch."""
    offset = log.state.offsets.local_log_start_offset if start is None else start
    end = log.state.log_end_offset if end is None else end
    parts = []
    while offset < end:
        with await log.read(offset, max_bytes=max_bytes, max_offset=end) as piece:
            if piece.size == 0:
                break
            data = await piece.read()
        headers = [header for _, header in iter_batches(data)]
        assert sum(header.size_bytes for header in headers) == len(data), "a slice has whole batches"
        assert headers[0].last_offset >= offset
        parts.append(data)
        offset = headers[-1].next_offset
    return b"".join(parts)


def records_of(data: bytes) -> list[Record]:
    """Data records of whole batches, without control records."""
    return [
        record
        for position, header in iter_batches(data)
        if not header.is_control
        for record in iter_records(data, position, header)
    ]


def committed_records_of(data: bytes, aborted: Sequence[AbortedTransaction]) -> list[Record]:
    """What a consumer with `isolation.level=read_committed` keeps of them."""
    pending = sorted(aborted, key=lambda each: each.first_offset)
    open_aborted: set[int] = set()
    kept = []
    for position, header in iter_batches(data):
        while pending and pending[0].first_offset <= header.base_offset:
            open_aborted.add(pending.pop(0).producer_id)
        if header.is_control:
            open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            kept += iter_records(data, position, header)
    return kept


def offsets_of(data: bytes) -> list[int]:
    return [record.offset for record in records_of(data)]


def epochs_of(log: PartitionLog) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log.state.epochs.entries]


def code_of(raised: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return raised.value.code


class Stall:
    """Holds the writes of `.log` files back until it is opened."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.held = 0

    async def __call__(self, effect: Effect) -> None:
        if effect.operation == "write" and effect.path.suffix == ".log" and not self.is_open.is_set():
            self.held += 1
            await self.is_open.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
