"""Reads one partition of `__consumer_offsets` from its start to the end at which leadership began.

The end has to be committed first: what a leader took over and what it told nobody are the same to it. Then nothing
below it can change, and what comes behind it is this leader's own. Read in small pieces, because records are decoded
on the event loop.
"""

from __future__ import annotations

import logging
from typing import Final

from ...protocol.errors import CorruptRecordError
from ...protocol.records import BatchHeader, Record, iter_batches, iter_records
from ...protocol.records.control import ControlType, control_type
from ..replicas.partition import Partition
from .core.records import decode_record
from .core.shard import Shard

READ_BYTES: Final = 64 * 1024

_log = logging.getLogger(__name__)


async def load(partition: Partition, shard: Shard) -> int:
    """Fill an empty shard; returns the number of records. KafkaError, OSError if leadership or the disk goes."""
    log = partition.log
    end_offset = log.log_end_offset
    committed = partition.committed(end_offset, partition.leader().leader_epoch)
    if committed is not None:
        await committed
    offset, records = log.offsets.local_log_start_offset, 0
    while offset < end_offset:
        with await log.read(offset, max_bytes=READ_BYTES, max_offset=end_offset) as piece:
            data = await piece.read()
        if not data:
            break
        for position, header in iter_batches(data):
            if header.last_offset >= offset:
                records += replay_batch(shard, data, position, header)
                offset = header.next_offset
    return records


def replay_batch(shard: Shard, data: bytes, position: int, header: BatchHeader) -> int:
    """One batch of the log; a record that cannot be read is said and passed over."""
    count = 0
    for record in iter_records(data, position, header):
        count += 1
        try:
            _replay(shard, header, record)
        except CorruptRecordError as error:
            _log.error("offset %d of the groups' log is passed over: %s", record.offset, error)
    return count


def _replay(shard: Shard, header: BatchHeader, record: Record) -> None:
    if header.is_control:
        kind = control_type(record)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            shard.end_transaction(header.producer_id, is_committed=kind is ControlType.COMMIT)
        return
    decoded = None if record.key is None else decode_record(record.key, record.value)
    if decoded is None:
        return
    if header.is_transactional:
        shard.replay_undecided(header.producer_id, decoded)
    else:
        shard.replay(decoded)
