"""Logs with everything in them that a log may hold, written through `PartitionLog`."""

from __future__ import annotations

from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.records import Compression, Record, build_batch
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.log.logs import NOW_MS, data_batch, marker_batch

CONFIG = LogConfig(segment_bytes=6_000, index_interval_bytes=700)
TOPIC_CONFIGS = {"internal.segment.bytes": "6000", "index.interval.bytes": "700", "retention.ms": "-1"}
"""The same for a Java broker."""


async def lead(
    log: PartitionLog, leader_epoch: int, data: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT
) -> int:
    return (await log.append_as_leader(data, leader_epoch=leader_epoch, now_ms=NOW_MS, origin=origin)).last_offset


def compressed(codec: Compression, count: int, timestamp_ms: int) -> bytearray:
    records = [Record(i, timestamp_ms - i, value=b"%d " % i * 20, headers=(("h", b"x"),)) for i in range(count)]
    return bytearray(build_batch(records, base_offset=0, compression=codec))


async def fill_as_leader(log: PartitionLog, leader_epoch: int, producer_id: int, *, leaves_open: bool = True) -> None:
    """Some segments: every codec, timestamps that fall, idempotent batches, transactions that end either way; one stays
    open with `leaves_open`.
    """
    await log.assign_epoch(leader_epoch)
    sequence = 0
    for round_number in range(6):
        for codec in Compression:
            await lead(log, leader_epoch, compressed(codec, 3 + codec, NOW_MS + 1_000 * (2 * round_number + codec % 3)))
        batch = data_batch(2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, value=b"w" * 90)
        await lead(log, leader_epoch, batch)
        sequence += 2
        kind = ControlType.ABORT if round_number % 2 else ControlType.COMMIT
        for number in (1, 2):
            await lead(
                log,
                leader_epoch,
                data_batch(
                    producer_id=producer_id + number,
                    producer_epoch=0,
                    base_sequence=round_number,
                    is_transactional=True,
                    value=b"t" * 300,
                ),
            )
        for number in (2,) if leaves_open and round_number == 5 else (1, 2):
            await lead(
                log, leader_epoch, marker_batch(kind, producer_id=producer_id + number), AppendOrigin.COORDINATOR
            )


async def copy_as_follower(source: PartitionLog, target: PartitionLog) -> None:
    while target.state.log_end_offset < source.state.log_end_offset:
        piece = await source.read(target.state.log_end_offset, max_bytes=2_500, max_offset=source.state.log_end_offset)
        await target.append_as_follower(await piece.read())
        piece.release()
