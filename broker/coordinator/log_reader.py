"""Reads one partition of a coordinator's topic from its start to the end at which leadership began.

The end has to be committed first: what a leader took over and what it acknowledged to no client are the same to it.
Then nothing below it can change, and what comes after it is this leader's own. Records are taken in on the event loop,
in slices; what small batches cost is added up until it is a slice.
A batch or a record that cannot be read is logged and skipped: no coordinator wrote it, and the rest must come back. A
batch that is damaged is an error: what follows it must come back too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ...limited_log import LimitedLog
from ...protocol import CorruptRecordError
from ...protocol.net import SLICE_ELEMENTS, pace, reading_batch
from ...protocol.records import (
    BatchHeader,
    SkimmedRecord,
    decompressed_bytes_max,
    iter_batches,
)
from ..replicas.partition import Partition
from .core.last_records import Rejected

READ_BYTES: Final = 512 * 1024
BATCH_RECORDS: Final = 10
"""A batch costs as much as this many records, besides its own."""

_log = LimitedLog(logging.getLogger(__name__))


Take = Callable[[BatchHeader, Sequence[SkimmedRecord]], Sequence[Rejected]]
"""Takes in records of one batch of the log; returns those that no coordinator wrote."""


def one_by_one(take: Callable[[BatchHeader, SkimmedRecord], None]) -> Take:
    """Return what takes in each record by itself; one for which CorruptRecordError is raised is rejected."""

    def take_all(header: BatchHeader, records: Sequence[SkimmedRecord]) -> list[Rejected]:
        rejected = []
        for record in records:
            try:
                take(header, record)
            except CorruptRecordError as error:
                rejected.append((record.offset, error))
        return rejected

    return take_all


async def read_log(partition: Partition, take: Take, weight: float = 1.0) -> int:
    """Take in what is there up to the end at which leadership began; return the number of records. A record costs the
    loop `weight` elements.

    Raise KafkaError, OSError if leadership or the disk goes, CorruptRecordError where the log is damaged.
    """
    log, name = partition.log, str(partition.partition.topic_partition)
    end_offset = log.state.log_end_offset
    committed = partition.committed(end_offset, partition.leader().leader_epoch)
    if committed is not None:
        await committed
    offset, records, owed = log.state.offsets.local_log_start_offset, 0, 0.0
    while offset < end_offset:
        with await log.read(offset, max_bytes=READ_BYTES, max_offset=end_offset) as piece:
            data = await piece.read()
        if not data:
            break
        begin = offset
        for position, header in iter_batches(data):
            if header.last_offset >= offset:
                bytes_max = log.state.config.max_message_bytes
                records += await replay_batch(take, data, position, header, bytes_max, name=name, weight=weight)
                offset = header.next_offset
                owed += weight * (BATCH_RECORDS + min(header.record_count, _slice_records(weight)))
                if owed >= SLICE_ELEMENTS:
                    await pace().spend(int(owed), records)
                    owed = 0.0
        if offset == begin:
            raise CorruptRecordError(f"{name}: no complete batch at offset {offset}")
    return records


async def replay_batch(
    take: Take,
    data: bytes,
    position: int,
    header: BatchHeader,
    max_message_bytes: int,
    *,
    name: str,
    weight: float = 1.0,
) -> int:
    """Take in one batch of the log of partition `name`, and return the number of its records."""
    count, size = 0, _slice_records(weight)
    try:
        bytes_max = decompressed_bytes_max(max_message_bytes)
        async with reading_batch(data, position, header, bytes_max, weight=weight, free=size) as slices:
            async for some in slices:
                count += len(some)
                for offset, error in take(header, some):
                    message = "%s: offset %d is passed over, as no coordinator wrote it: %s"
                    _log.error(name, message, name, offset, error)
                if len(some) < size:
                    break  # That was the last; to find no more would cost another slice.
    except CorruptRecordError as error:
        message = "%s: offsets %d to %d are skipped: %s; no coordinator wrote this batch"
        _log.error(name, message, name, header.base_offset + count, header.last_offset, error)
    return count


def _slice_records(weight: float) -> int:
    """Return the number of records of a slice; `read_log` accounts for the first one of each batch."""
    return int(SLICE_ELEMENTS / weight)
