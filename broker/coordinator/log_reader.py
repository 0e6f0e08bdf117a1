"""Reads one partition of a coordinator's topic from its start to the end at which leadership began.

The end has to be committed first: what a leader took over and what it acknowledged to no client are the same to it.
Then nothing below it can change, and what comes after it is this leader's own. Records are decoded on the event loop,
in slices.
A batch or a record that cannot be read is logged and skipped: no coordinator wrote it, and the rest must come back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...limited_log import LimitedLog
from ...protocol import CorruptRecordError
from ...protocol.net import reading_batch
from ...protocol.records import (
    BatchHeader,
    SkimmedRecord,
    decompressed_bytes_max,
    iter_batches,
)
from ..replicas.partition import Partition

READ_BYTES: Final = 64 * 1024

_log = LimitedLog(logging.getLogger(__name__))


Replay = Callable[[BatchHeader, SkimmedRecord], None]
"""Takes in a record of the log; raises CorruptRecordError for one that no coordinator wrote."""


async def read_log(partition: Partition, replay: Replay) -> int:
    """Replay to the end at which leadership began; return the number of records.

    Raise KafkaError, OSError if leadership or the disk goes.
    """
    log, name = partition.log, str(partition.partition.topic_partition)
    end_offset = log.state.log_end_offset
    committed = partition.committed(end_offset, partition.leader().leader_epoch)
    if committed is not None:
        await committed
    offset, records = log.state.offsets.local_log_start_offset, 0
    while offset < end_offset:
        with await log.read(offset, max_bytes=READ_BYTES, max_offset=end_offset) as piece:
            data = await piece.read()
        if not data:
            break
        for position, header in iter_batches(data):
            if header.last_offset >= offset:
                bytes_max = log.state.config.max_message_bytes
                records += await replay_batch(replay, data, position, header, bytes_max, name=name)
                offset = header.next_offset
    return records


async def replay_batch(
    replay: Replay, data: bytes, position: int, header: BatchHeader, max_message_bytes: int, *, name: str
) -> int:
    """Replay one batch of the log of partition `name`, and return the number of its records."""
    count = 0
    try:
        async with reading_batch(data, position, header, decompressed_bytes_max(max_message_bytes)) as slices:
            async for some in slices:
                for record in some:
                    count += 1
                    _try_to_replay(replay, header, record, name)
    except CorruptRecordError as error:
        message = "%s: offsets %d to %d are skipped: %s; no coordinator wrote this batch"
        _log.error(name, message, name, header.base_offset + count, header.last_offset, error)
    return count


def _try_to_replay(replay: Replay, header: BatchHeader, record: SkimmedRecord, name: str) -> None:
    try:
        replay(header, record)
    except CorruptRecordError as error:
        _log.error(name, "%s: offset %d is passed over, as no coordinator wrote it: %s", name, record.offset, error)
