"""Bytes that look like a batch, CRC and all: a log takes them whole or refuses them, and a crash changes nothing."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

import crc32c
import pytest

from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records.batch_header import BATCH_HEADER_SIZE
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.logs import NOW_MS, data_batch, open_log, read_bytes

CRC_AT = 17
CONTENT_AT = 21
LENGTH_AT = 8
ROUNDS = 120
EDGES = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
FIELDS = (
    (0, "Q"),
    (8, "I"),
    (12, "I"),
    (21, "H"),
    (23, "I"),
    (27, "Q"),
    (35, "Q"),
    (43, "Q"),
    (51, "H"),
    (53, "I"),
    (57, "I"),
)
REFUSALS = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.duplicate_sequence_number,
        ErrorCode.invalid_txn_state,
        ErrorCode.unknown_producer_id,
    }
)


def hostile(random: Random, base_offset: int) -> bytearray:
    """A batch with some header fields at their edges, or bits flipped, or an end cut off; mostly with a right CRC."""
    batch = data_batch(
        random.randint(1, 3),
        base_offset=base_offset,
        epoch=1,
        producer_id=random.choice((-1, 7)),
        producer_epoch=random.choice((-1, 0)),
        base_sequence=random.choice((-1, 0, min(base_offset, 2**31 - 9))),
        is_transactional=random.random() < 0.2,
        timestamp_ms=NOW_MS,
    )
    for _ in range(random.choice((0, 1, 1, 2))):
        at, code = random.choice(FIELDS)
        size = struct.calcsize(code)
        value = random.choice((*EDGES, random.getrandbits(64))) % (1 << (8 * size))
        batch[at : at + size] = value.to_bytes(size, "big")
    if random.random() < 0.2:
        at = random.randrange(len(batch))
        batch[at] ^= 1 << random.randrange(8)
    if random.random() < 0.1:
        del batch[random.randrange(1, len(batch)) :]
    if random.random() < 0.9 and len(batch) >= BATCH_HEADER_SIZE:
        batch[CRC_AT:CONTENT_AT] = crc32c.crc32c(bytes(batch[CONTENT_AT:])).to_bytes(4, "big")
    return batch


async def check_after_crash(disk: MemoryDisk, log: PartitionLog) -> None:
    """Not one batch more or less, and nothing that a recovery would call damaged."""
    await log.flush()
    found = await open_log(disk.restart("kept"), config=log.state.config)
    assert (found.state.log_end_offset, found.state.epochs.latest_epoch) == (
        log.state.log_end_offset,
        log.state.epochs.latest_epoch,
    )
    assert found.state.epochs.entries == log.state.epochs.entries
    assert found.recovery_report.cut_bytes == 0
    assert found.state.producers.snapshot() == log.state.producers.snapshot()
    assert await read_bytes(found, 0) == await read_bytes(log, 0)


@pytest.mark.parametrize("seed", range(6))
async def test_a_leader_takes_a_hostile_batch_whole_or_refuses_it(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=2000, max_message_bytes=1000))
    await log.assign_epoch(1)
    taken, refused = 0, Counter[ErrorCode]()
    for _ in range(ROUNDS):
        before = log.state.log_end_offset
        try:
            info = await log.append_as_leader(
                hostile(random, 0), leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.CLIENT
            )
        except KafkaError as refusal:
            refused[refusal.code] += 1
            assert log.state.log_end_offset == before
        else:
            taken += not info.duplicate
            assert info.duplicate or (info.first_offset, info.last_offset + 1) == (before, log.state.log_end_offset)
        assert log.state.failure is None
    assert set(refused) <= REFUSALS
    assert taken
    assert len(refused) > 1
    await check_after_crash(disk, log)


@pytest.mark.parametrize("seed", range(6))
async def test_a_follower_takes_hostile_batches_whole_or_refuses_them(seed: int) -> None:
    """Of a compacted topic: others have no gaps of more offsets than a segment can have."""
    random = Random(seed)
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=2000, cleanup_policy=frozenset({"compact"})))
    taken = 0
    for _ in range(ROUNDS):
        before = log.state.log_end_offset
        try:
            await log.append_as_follower(bytes(hostile(random, before)))
        except KafkaError:
            assert log.state.log_end_offset == before
        else:
            taken += 1
            assert log.state.log_end_offset > before
        assert log.state.failure is None
        if log.state.log_end_offset > 2**62:
            break
    assert taken
    await check_after_crash(disk, log)
