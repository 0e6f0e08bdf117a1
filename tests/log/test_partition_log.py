"""Appending to a log: offsets, epochs, producers, rolling, refusals."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from crc32c import crc32c

from tierfetch.log.core import LogConfig, encode_snapshot
from tierfetch.log.core.packed_producer import pack_entry
from tierfetch.log.core.producer_snapshot import SLICE_ENTRIES, ProducerSnapshot
from tierfetch.log.core.producer_state import ProducerStateEntry
from tierfetch.log.segment.snapshot_files import ProducerSnapshots
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import TimestampType, check_batch, iter_records, parse_header
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.fakes.disk import Effect, MemoryDisk
from tierfetch.tests.log.logs import (
    DIRECTORY,
    NOW_MS,
    Clock,
    Keeper,
    Stall,
    append,
    code_of,
    data_batch,
    end_transaction,
    marker_batch,
    offsets_of,
    open_log,
    read_bytes,
    settle,
)

# A leader's appends.


async def test_a_leader_stamps_offset_and_epoch_into_the_buffer() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await log.assign_epoch(4)
    await append(log, 3, epoch=4)
    data = data_batch(2, value=b"second")
    info = await log.append_as_leader(memoryview(data), leader_epoch=4, now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset, info.leader_epoch, info.duplicate) == (3, 4, 4, False)
    assert (info.log_append_time_ms, info.log_start_offset) == (-1, 0)
    header = parse_header(data)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 4)
    assert disk.files(DIRECTORY)[DIRECTORY / "00000000000000000000.log"].endswith(bytes(data))
    assert (log.state.log_end_offset, log.state.high_watermark, log.state.epochs.latest_epoch) == (5, 0, 4)


async def test_log_append_time_is_stamped_and_answered() -> None:
    log = await open_log(MemoryDisk(), config=LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    data = data_batch(3, timestamp_ms=5)
    info = await log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
    assert info.log_append_time_ms == NOW_MS
    header = parse_header(data)
    check_batch(data, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in iter_records(await read_bytes(log))} == {NOW_MS}


def _bytes(batch: bytearray, at: int, value: int) -> bytearray:
    batch[at] = value
    return batch


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (data_batch()[:-1], ErrorCode.invalid_record, "found 69 bytes where the first batch has 70"),
        (data_batch()[:40], ErrorCode.invalid_record, "40 bytes, expected a batch header"),
        (_bytes(data_batch(), 16, 1), ErrorCode.invalid_record, "magic 1 are no longer supported"),
        (_bytes(data_batch(), 16, 3), ErrorCode.corrupt_message, "magic 3"),
        (_bytes(data_batch(), -1, 7), ErrorCode.corrupt_message, "CRC-32C"),
        (data_batch() + data_batch(), ErrorCode.invalid_record, "exactly one record batch"),
        (data_batch(value=bytes(2000)), ErrorCode.message_too_large, "max.message.bytes is 1000"),
        (marker_batch(ControlType.COMMIT, producer_id=1), ErrorCode.invalid_record, "must not write control batches"),
        (data_batch(base_offset=7), ErrorCode.invalid_record, "base offset 7, expected 0"),
        (data_batch(is_transactional=True), ErrorCode.invalid_record, "needs a producer id"),
        (data_batch(timestamp_ms=NOW_MS + 3_600_001), ErrorCode.invalid_timestamp, "must be in"),
    ],
    ids=["torn", "short", "old", "magic", "crc", "two", "large", "control", "base offset", "transaction", "future"],
)
async def test_what_a_leader_refuses_changes_nothing(data: bytearray, code: ErrorCode, message: str) -> None:
    log = await open_log(MemoryDisk(), config=LogConfig(max_message_bytes=1000))
    await append(log)
    with pytest.raises(KafkaError, match=message) as raised:
        await log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
    assert code_of(raised) is code
    assert log.state.log_end_offset == 1
    await append(log)
    assert log.state.log_end_offset == 2


async def test_a_batch_larger_than_a_segment_is_refused() -> None:
    log = await open_log(MemoryDisk(), config=LogConfig(segment_bytes=1000))
    with pytest.raises(KafkaError, match=r"segment\.bytes is 1000") as raised:
        await append(log, value=bytes(1000))
    assert code_of(raised) is ErrorCode.record_list_too_large


async def test_a_batch_as_large_as_allowed_is_taken() -> None:
    size = len(data_batch(value=bytes(1000)))
    log = await open_log(MemoryDisk(), config=LogConfig(segment_bytes=size, max_message_bytes=size))
    await append(log, value=bytes(1000))
    assert log.state.log_end_offset == 1


async def test_a_count_that_is_not_the_offset_range_is_refused() -> None:
    log = await open_log(MemoryDisk())
    sparse = data_batch(3)
    sparse[23:27] = (5).to_bytes(4, "big")
    sparse[17:21] = crc32c(bytes(sparse[21:])).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="3 records in a batch whose last offset delta is 5"):
        await log.append_as_leader(sparse, leader_epoch=0, now_ms=NOW_MS)


async def test_old_timestamps_are_refused_where_the_topic_says_so() -> None:
    log = await open_log(MemoryDisk(), config=LogConfig(message_timestamp_before_max_ms=1000))
    await append(log, timestamp_ms=NOW_MS - 1000)
    with pytest.raises(KafkaError, match="must be in") as raised:
        await append(log, timestamp_ms=NOW_MS - 1001)
    assert code_of(raised) is ErrorCode.invalid_timestamp


# Epochs.


EPOCHS = DIRECTORY / "leader-epoch-checkpoint"


async def test_E1_an_epoch_without_data_waits_for_no_disk() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 2)
    await log.flush()
    effects: list[Effect] = []

    async def noted(effect: Effect) -> None:
        effects.append(effect)

    disk.before_effect = noted
    await log.assign_epoch(3)
    assert effects == []
    assert log.state.epochs.latest_epoch == 3
    assert [log.state.epochs.end_offset_for(epoch, log.state.log_end_offset).end_offset for epoch in (0, 3)] == [2, 2]


@pytest.mark.parametrize("is_saved", [False, True])
async def test_E1_recovery_drops_an_epoch_without_data_whether_it_was_saved_or_not(is_saved: bool) -> None:
    """What is not flushed needs no epochs on the disk: the batches alone are believed."""
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 2)
    await log.flush()
    await log.assign_epoch(3)
    if is_saved:
        await log.save_epochs()
    assert disk.restart().files(DIRECTORY)[EPOCHS] == (b"0\n2\n0 0\n3 2\n" if is_saved else b"0\n1\n0 0\n")
    after = await open_log(disk.restart(), recovery_point=2)
    assert [(entry.epoch, entry.start_offset) for entry in after.state.epochs.entries] == [(0, 0)]


async def test_E1_epochs_are_durable_before_the_recovery_point_passes_them() -> None:
    disk, seen = MemoryDisk(), list[tuple[bytes | None, int]]()
    log = await open_log(disk)
    log.state.listeners.append(
        lambda: seen.append((disk.restart().files(DIRECTORY).get(EPOCHS), log.state.offsets.recovery_point))
    )
    parts = ((0, 3, 0), (3, 2, 1), (5, 1, 4))
    await log.append_as_follower(
        b"".join(data_batch(count, base_offset=start, epoch=epoch) for start, count, epoch in parts)
    )
    assert [(entry.epoch, entry.start_offset) for entry in log.state.epochs.entries] == [(0, 0), (1, 3), (4, 5)]
    await log.flush()
    assert seen == [(None, 0), (b"0\n3\n0 0\n1 3\n4 5\n", 6)]


async def test_E1_a_disk_that_rejects_the_epochs_fails_the_flush_that_needs_them() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 2)

    async def refused(effect: Effect) -> None:
        if effect.operation == "write_file" and effect.path == EPOCHS:
            raise OSError(errno.EIO, "Input/output error")

    disk.before_effect = refused
    with pytest.raises(KafkaError, match="it must be reopened"):
        await log.flush()
    assert (log.state.offsets.recovery_point, log.state.failure is None) == (0, False)


async def test_E2_end_offset_for_epoch() -> None:
    log = await open_log(MemoryDisk())
    await log.append_as_follower(data_batch(3, base_offset=0, epoch=1) + data_batch(2, base_offset=3, epoch=4))
    answers = {epoch: log.state.epochs.end_offset_for(epoch, log.state.log_end_offset) for epoch in (0, 1, 2, 4, 5)}
    assert {epoch: (end.epoch, end.end_offset) for epoch, end in answers.items()} == {
        0: (0, 0),
        1: (1, 3),
        2: (1, 3),
        4: (4, 5),
        5: (-1, -1),
    }


async def test_C9_appends_of_an_older_leader_are_refused() -> None:
    log = await open_log(MemoryDisk())
    await log.assign_epoch(5)
    for stale in (lambda: append(log, epoch=4), lambda: log.assign_epoch(4)):
        with pytest.raises(KafkaError, match="at epoch 5") as raised:
            await stale()
        assert code_of(raised) is ErrorCode.not_leader_or_follower
    log.reject_leaders_below(6)
    with pytest.raises(KafkaError, match="at epoch 6"):
        await append(log, epoch=5)


async def test_C9_an_append_that_waits_for_its_turn_is_refused_when_leadership_ends() -> None:
    stall = Stall()
    disk = MemoryDisk(before_effect=stall)
    log = await open_log(disk, config=LogConfig(segment_bytes=200))
    first = asyncio.create_task(append(log, value=bytes(50)))
    await settle()
    assign = asyncio.create_task(log.assign_epoch(1))
    await settle()
    waiting = asyncio.create_task(append(log, epoch=0))
    await settle()
    stall.is_open.set()
    assert (await first).last_offset == 0
    await assign
    with pytest.raises(KafkaError, match="epoch 0, the log is at epoch 1"):
        await waiting


# Producers and transactions.


async def test_a_duplicate_is_answered_with_its_first_offsets() -> None:
    log = await open_log(MemoryDisk())
    batch = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    await append(log, 5)
    first = await append(log, 3, **batch)
    again = await append(log, 3, **batch)
    assert again.duplicate
    assert (again.first_offset, again.last_offset) == (first.first_offset, first.last_offset) == (5, 7)
    assert log.state.log_end_offset == 8
    with pytest.raises(KafkaError) as raised:
        await append(log, 1, producer_id=9, producer_epoch=0, base_sequence=7)
    assert code_of(raised) is ErrorCode.out_of_order_sequence_number


async def test_a_duplicate_of_a_batch_that_is_still_being_written_waits_for_it() -> None:
    stall = Stall()
    log = await open_log(MemoryDisk(before_effect=stall))
    batch = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    first = asyncio.create_task(append(log, **batch))
    await settle()
    again = asyncio.create_task(append(log, **batch))
    await settle()
    assert stall.held == 1
    assert not again.done()
    stall.is_open.set()
    assert (await again).duplicate
    assert not (await first).duplicate


async def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    log = await open_log(MemoryDisk())
    await append(log, 2)
    await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    await append(log, 2)
    log.update_high_watermark(6)
    assert (log.state.offsets.last_stable_offset, log.state.offsets.first_unstable_offset) == (2, 2)
    await end_transaction(log, ControlType.ABORT, 7)
    assert log.state.offsets.last_stable_offset == 2, "the marker is not committed yet"
    log.update_high_watermark(7)
    assert (log.state.offsets.last_stable_offset, log.state.offsets.first_unstable_offset) == (7, None)
    (aborted,) = await log.aborted_transactions(0, 7)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (7, 2, 6, 7)
    assert await log.aborted_transactions(0, 2) == []


async def test_an_abort_is_indexed_in_the_segment_of_its_marker() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=300))
    await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True, value=bytes(100))
    await append(log, value=bytes(100))
    await end_transaction(log, ControlType.ABORT, 7)
    await end_transaction(log, ControlType.COMMIT, 7)
    log.update_high_watermark(log.state.log_end_offset)
    await log.close()
    names = [path.name for path in disk.files(DIRECTORY) if path.suffix == ".txnindex"]
    assert names == ["00000000000000000002.txnindex"]


# A follower's appends.


async def test_a_follower_writes_the_leaders_bytes_also_with_gaps() -> None:
    log = await open_log(MemoryDisk())
    data = data_batch(3, base_offset=10, epoch=2) + data_batch(2, base_offset=40, epoch=2)
    info = await log.append_as_follower(bytes(data))
    assert (info.first_offset, info.last_offset, info.leader_epoch) == (10, 41, 2)
    assert await read_bytes(log) == bytes(data)
    assert log.state.log_end_offset == 42
    with await log.read(20, max_bytes=1000, max_offset=42) as piece:
        assert offsets_of(await piece.read()) == [40, 41]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (data_batch(base_offset=4, epoch=2), "offset 4, expected 5 or more"),
        (data_batch(base_offset=5, epoch=2) + data_batch(base_offset=5, epoch=2), "offset 5, expected 6 or more"),
        (data_batch(base_offset=5, epoch=1), "epoch 1 at offset 5, after epoch 2"),
        (data_batch(base_offset=5, epoch=-1), "epoch -1 at offset 5"),
        (data_batch(base_offset=5, epoch=2) + data_batch(base_offset=6, epoch=2)[:-1], "ends early"),
        (data_batch(base_offset=5, epoch=2) + data_batch(base_offset=6, epoch=2)[:30], "30 bytes left"),
        (data_batch(base_offset=5, epoch=2) + _bytes(data_batch(base_offset=6, epoch=2), -1, 9), "CRC-32C"),
        (b"", "at least one record batch"),
    ],
)
async def test_a_follower_takes_all_or_nothing(data: bytes, message: str) -> None:
    log = await open_log(MemoryDisk())
    await log.append_as_follower(data_batch(5, base_offset=0, epoch=2))
    with pytest.raises(KafkaError, match=message):
        await log.append_as_follower(data)
    assert (log.state.log_end_offset, log.state.epochs.latest_epoch, log.state.failure) == (5, 2, None)
    await log.append_as_follower(data_batch(base_offset=5, epoch=2))


async def test_one_append_of_a_follower_fills_several_segments_with_one_write_each() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=500))
    data = b"".join(bytes(data_batch(base_offset=i, epoch=0, value=bytes(50))) for i in range(12))
    before = len(disk.effects)
    await log.append_as_follower(data)
    writes = [effect for effect in disk.effects[before:] if effect.operation == "write"]
    assert len(writes) == 3
    assert [segment.base_offset for segment in log.state.segments] == [0, 4, 8]
    assert await read_bytes(log) == data


async def test_a_follower_takes_a_batch_that_is_larger_than_a_segment() -> None:
    log = await open_log(MemoryDisk(), config=LogConfig(segment_bytes=300))
    sizes = (10, 1000, 10)
    data = b"".join(bytes(data_batch(base_offset=i, epoch=0, value=bytes(n))) for i, n in enumerate(sizes))
    await log.append_as_follower(data)
    assert [segment.base_offset for segment in log.state.segments] == [0, 1, 2]
    assert await read_bytes(log, max_bytes=100) == data


async def test_offsets_too_far_for_an_index_begin_a_new_segment() -> None:
    log = await open_log(MemoryDisk())
    far = 2**31 + 5
    await log.append_as_follower(data_batch(base_offset=0, epoch=0) + data_batch(base_offset=far, epoch=0))
    assert [segment.base_offset for segment in log.state.segments] == [0, far]
    empty = await open_log(MemoryDisk())
    await empty.append_as_follower(data_batch(base_offset=far, epoch=0))
    assert [segment.base_offset for segment in empty.state.segments] == [0, far]
    assert offsets_of(await read_bytes(empty)) == [far]


# Rolling.


@pytest.mark.parametrize(
    ("config", "second"),
    [
        (LogConfig(segment_bytes=200), {"value": bytes(100)}),
        (LogConfig(segment_ms=1000), {"timestamp_ms": NOW_MS + 1001}),
        (LogConfig(segment_index_bytes=24, index_interval_bytes=0), {}),
    ],
    ids=["size", "time", "index"],
)
async def test_segments_roll(config: LogConfig, second: dict[str, Any]) -> None:
    keeper = Keeper()
    log = await open_log(MemoryDisk(), config=config, keeper=keeper)
    await append(log)
    for _ in range(2 if config.segment_index_bytes == 24 else 1):
        assert len(log.state.segments) == 1
        await append(log, **second)
    assert len(log.state.segments) == 2
    assert log.state.segments[1].base_offset == log.state.segments[0].next_offset
    assert keeper.calls == ["segment closed"]
    assert [segment.is_active for segment in log.state.segments] == [False, True]


async def test_batches_without_a_timestamp_roll_by_the_clock() -> None:
    clock = Clock()
    log = await open_log(MemoryDisk(), config=LogConfig(segment_ms=1000), clock=clock)
    await log.append_as_leader(data_batch(timestamp_ms=-1), leader_epoch=0, now_ms=NOW_MS)
    await log.append_as_leader(data_batch(timestamp_ms=-1), leader_epoch=0, now_ms=NOW_MS + 1000)
    assert len(log.state.segments) == 1
    await log.append_as_leader(data_batch(timestamp_ms=-1), leader_epoch=0, now_ms=NOW_MS + 1001)
    assert len(log.state.segments) == 2


async def test_roll_by_hand_is_a_no_op_on_an_empty_segment() -> None:
    log = await open_log(MemoryDisk())
    assert not await log.roll()
    await append(log, 3)
    assert await log.roll()
    assert not await log.roll()
    assert [segment.base_offset for segment in log.state.segments] == [0, 3]


async def test_a_snapshot_is_taken_at_each_roll_under_the_next_base_offset() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 3, producer_id=9, producer_epoch=0, base_sequence=0)
    await log.roll()
    await log.flush()
    assert DIRECTORY / "00000000000000000003.snapshot" in disk.restart().files(DIRECTORY)
    assert await log.producer_snapshot_at(3) == log.state.producers.snapshot()
    assert await log.producer_snapshot_at(2) is None


async def test_an_idle_producer_expires_though_no_snapshot_is_taken() -> None:
    clock = Clock()
    log = await open_log(MemoryDisk(), clock=clock)
    await append(log, producer_id=5, producer_epoch=0, base_sequence=0)
    clock.now_ms += 999
    assert await log.expire_producers(1_000) == 0
    clock.now_ms += 1
    assert await log.expire_producers(1_000) == 1
    assert len(log.state.producers.entries) == 0


async def test_D10_the_event_loop_is_free_while_a_large_producer_snapshot_is_encoded() -> None:
    disk = MemoryDisk()
    snapshots = ProducerSnapshots(disk, DIRECTORY)
    await disk.make_directory(DIRECTORY)
    producers = [ProducerStateEntry(i, 0) for i in range(5 * SLICE_ENTRIES)]
    snapshots.stage(9, ProducerSnapshot(range(len(producers)), [pack_entry(entry) for entry in producers]))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while not any(effect.operation == "write_file" for effect in disk.effects):
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await snapshots.save()
    await counting
    assert turns >= 4, "one between each two slices"
    assert disk.files()[snapshots.path(9)] == encode_snapshot(producers)
