"""Reading a log: positions, times, slices, aborted transactions, the high watermark, and what is uploaded."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.log.core.producers import ProducerStateManager
from tierfetch.log.disk import Disk
from tierfetch.log.partition_log import PartitionLog
from tierfetch.log.replica.replay import replay
from tierfetch.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.logs import (
    DIRECTORY,
    NOW_MS,
    Stall,
    append,
    code_of,
    end_transaction,
    marker_batch,
    offsets_of,
    open_log,
    read_bytes,
    settle,
)

LENGTH_LOW_BYTE = 11
"""Where a batch has the last byte of its length."""


async def log_of_six(disk: Disk | None = None) -> PartitionLog:
    """Six batches of two records in three segments."""
    log = await open_log(disk or MemoryDisk(), config=LogConfig(segment_bytes=400))
    for number in range(6):
        await append(log, 2, value=bytes(50), timestamp_ms=NOW_MS + 10 * number)
    assert [segment.base_offset for segment in log.state.segments] == [0, 4, 8]
    return log


async def test_E5_between_high_watermark_and_log_end_empty_and_beyond_an_error() -> None:
    log = await log_of_six()
    log.update_high_watermark(6)
    for offset in (6, 8, 12):
        with await log.read(offset, max_bytes=1000, max_offset=log.state.high_watermark) as piece:
            assert (piece.size, piece.first_offset, piece.end_offset) == (0, offset, offset)
            assert await piece.read() == b""
    with pytest.raises(KafkaError, match=r"offset 13 is not in the local log \[0, 12\]") as raised:
        await log.read(13, max_bytes=1000, max_offset=log.state.high_watermark)
    assert code_of(raised) is ErrorCode.offset_out_of_range


async def test_a_slice_ends_below_the_limit_and_within_its_segment() -> None:
    log = await log_of_six()
    cases = [(0, 12, [0, 1, 2, 3]), (1, 4, [0, 1, 2, 3]), (2, 4, [2, 3]), (2, 3, []), (4, 7, [4, 5])]
    for offset, max_offset, expected in cases:
        with await log.read(offset, max_bytes=10_000, max_offset=max_offset) as piece:
            assert offsets_of(await piece.read()) == expected, (offset, max_offset)
            assert piece.end_offset <= max_offset or not expected


async def test_what_a_damaged_length_hides_is_said_and_never_passed_over() -> None:
    """With a flipped bit in its length a batch seems to end beyond the file, as a torn one at the end of a log."""
    log = await log_of_six()
    segment = log.state.segments[0]
    with segment.pinned():
        file = await segment.file()
        damaged = bytearray(await file.read(0, segment.size_bytes))
        *_, (position, _) = iter_batches(damaged)
        damaged[position + LENGTH_LOW_BYTE] ^= 0x40
        await file.write(0, bytes(damaged))
    expected = rf"{segment.size_bytes - position} bytes are no complete batch \(batch at byte {position}\)"
    with await log.read(0, max_bytes=position, max_offset=12) as piece:
        assert offsets_of(await piece.read()) == [0, 1]
    with pytest.raises(CorruptRecordError, match=expected):
        await log.read(2, max_bytes=10_000, max_offset=12)
    with pytest.raises(CorruptRecordError, match=expected):
        await log.read(0, max_bytes=10_000, max_offset=3)
    with pytest.raises(CorruptRecordError, match=expected):
        await log.offset_for_timestamp(NOW_MS + 10)
    with pytest.raises(CorruptRecordError, match=expected):
        await replay(ProducerStateManager(0), log.state.segments, 12)


async def test_a_slice_has_whole_batches_and_at_least_one_if_asked() -> None:
    log = await log_of_six()
    size = log.state.segments[0].size_bytes // 2
    two, four = [0, 1], [0, 1, 2, 3]
    for max_bytes, expected in [(0, two), (1, two), (size, two), (2 * size - 1, two), (2 * size, four)]:
        with await log.read(0, max_bytes=max_bytes, max_offset=12) as piece:
            assert offsets_of(await piece.read()) == expected, max_bytes
    with await log.read(0, max_bytes=size - 1, max_offset=12, min_one_batch=False) as piece:
        assert piece.size == 0


async def test_reading_is_the_same_from_files_as_from_memory() -> None:
    disk = MemoryDisk()
    log = await log_of_six(disk)
    data = await read_bytes(log)
    await log.close()
    again = await open_log(disk, config=LogConfig(segment_bytes=400), is_clean=True, segments_max=1)
    for max_bytes in (1, 200, 10_000):
        assert await read_bytes(again, max_bytes=max_bytes) == data
    await append(again, 2)
    assert (await append(again)).first_offset == 14


async def test_a_held_slice_can_be_read_after_its_segment_was_removed() -> None:
    log = await log_of_six()
    log.update_high_watermark(12)
    piece = await log.read(0, max_bytes=10_000, max_offset=12)
    await log.increment_log_start_offset(5)
    assert await log.delete_old_segments_by_log_start() == 1
    assert offsets_of(await piece.read()) == [0, 1, 2, 3]
    assert log.state.has_readers
    piece.release()
    await log.reap()
    assert not log.state.has_readers
    with pytest.raises(KafkaError, match=r"not in the local log \[5, 12\]"):
        await log.read(3, max_bytes=1, max_offset=12)


async def test_look_up_by_time_in_a_log_that_is_being_written() -> None:
    stall = Stall()
    stall.is_open.set()
    log = await open_log(MemoryDisk(before_effect=stall))
    await append(log, 3, timestamp_ms=1000)
    stall.is_open.clear()
    task = asyncio.create_task(append(log, 3, timestamp_ms=2000))
    await settle()
    assert (log.state.segments.active.max_timestamp_ms, log.state.segments.active.next_offset) == (1002, 6)
    assert await log.offset_for_timestamp(1500) is None
    stall.is_open.set()
    await task
    found = await log.offset_for_timestamp(1500)
    assert found is not None
    assert (found.timestamp, found.offset, found.leader_epoch) == (2000, 3, 0)


async def test_times_below_the_log_start_are_not_found() -> None:
    log = await open_log(MemoryDisk())
    await append(log, 4, timestamp_ms=1000)
    log.update_high_watermark(4)
    await log.increment_log_start_offset(2)
    found = await log.offset_for_timestamp(0)
    assert found is not None
    assert (found.timestamp, found.offset) == (1002, 2)


async def test_an_empty_log_has_no_largest_timestamp() -> None:
    log = await open_log(MemoryDisk())
    assert await log.max_timestamp_offset() is None
    assert await log.offset_for_timestamp(0) is None


class Pipe(asyncio.WriteTransport):
    """Takes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def write(self, data: object) -> None:
        self.sent += bytes(data)  # type: ignore[call-overload]


async def test_a_slice_is_sent_as_it_is_read() -> None:
    log = await log_of_six()
    pipe = Pipe()
    with await log.read(2, max_bytes=10_000, max_offset=12) as piece:
        await piece.send(pipe)
        assert pipe.sent == await piece.read()
    assert offsets_of(pipe.sent) == [2, 3]
    with await log.read(12, max_bytes=10_000, max_offset=12) as nothing:
        await nothing.send(pipe)


async def test_a_transaction_index_that_was_damaged_later_is_said() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=200))
    await append(log, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    await end_transaction(log, ControlType.ABORT, 7)
    await append(log, value=bytes(100))
    await log.close()
    log = await open_log(disk, is_clean=True, segments_max=0)
    disk.put(DIRECTORY / "00000000000000000000.txnindex", b"bad")
    with pytest.raises(KafkaError, match=r"0000\.txnindex: 3 bytes") as raised:
        await log.aborted_transactions(0, 3)
    assert code_of(raised) is ErrorCode.kafka_storage_error


# High watermark.


async def test_C7_the_high_watermark_only_rises_and_stays_within_the_log() -> None:
    log = await log_of_six()
    calls = []
    log.state.listeners.append(lambda: calls.append(log.state.high_watermark))
    assert log.update_high_watermark(6)
    assert not log.update_high_watermark(4)
    assert log.update_high_watermark(100)
    assert not log.update_high_watermark(100)
    assert log.state.high_watermark == 12
    assert calls == [6, 12]


async def test_the_topic_id_is_written_once() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    assert log.state.topic_id is None
    await log.assign_topic_id(UUID(int=5))
    await log.close()
    assert (await open_log(disk, is_clean=True)).state.topic_id == UUID(int=5)


async def test_a_closed_log_refuses_everything() -> None:
    log = await log_of_six()
    await log.close()
    for call in (lambda: append(log), lambda: log.truncate_to(0), log.close):
        with pytest.raises(KafkaError, match="it was closed"):
            await call()


async def test_coordinators_may_write_markers_and_clients_may_not() -> None:
    log = await open_log(MemoryDisk())
    marker = marker_batch(ControlType.COMMIT, producer_id=1)
    info = await log.append_as_leader(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    assert info.first_offset == 0
    with pytest.raises(CorruptRecordError):
        await log.append_as_leader(bytearray(b"x" * 100), leader_epoch=0, now_ms=NOW_MS)


async def test_segment_files_are_what_is_uploaded() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=400, index_interval_bytes=0))
    await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    await end_transaction(log, ControlType.ABORT, 7)
    await log.assign_epoch(1)
    await append(log, 2, epoch=1)
    await log.roll()
    await log.assign_epoch(2)
    await append(log, 2, epoch=2)
    segment = log.state.segments[0]
    with await log.segment_files(segment) as held:
        contents = {kind: await source.read(0, source.size) for kind, source in held.files.items()}
        assert not segment.can_park
    assert contents["log"] == disk.files()[segment.path]
    assert len(contents["txnindex"]) == 34
    assert contents["leader_epoch_checkpoint"] == b"0\n2\n0 0\n1 3\n"
    assert contents["snapshot"] == await log.producer_snapshot_at(5)
    assert len(contents["index"]) == 16
    assert [header.base_offset for _, header in iter_batches(contents["log"])] == [0, 2, 3]
    plain = await log_of_six()
    with await plain.segment_files(plain.state.segments[0]) as held:
        assert "txnindex" not in held.files
