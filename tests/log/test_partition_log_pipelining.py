"""Appends under way together, and what a failure of one leaves."""

from __future__ import annotations

import asyncio

import pytest

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import Record, build_batch
from tierfetch.protocol.wire.framing import FrameAssembler
from tierfetch.tests.fakes.disk import FailNth, MemoryDisk
from tierfetch.tests.log.logs import (
    Stall,
    append,
    code_of,
    data_batch,
    offsets_of,
    open_log,
    read_bytes,
    records_of,
    settle,
)


async def test_queued_appends_keep_their_order_and_are_visible_only_when_written() -> None:
    stall = Stall()
    disk = MemoryDisk(before_effect=stall)
    log = await open_log(disk, config=LogConfig(segment_bytes=400))
    seen: list[int] = []
    log.state.listeners.append(lambda: seen.append(log.state.log_end_offset))
    tasks = [asyncio.create_task(append(log, value=b"%d" % i * 60)) for i in range(8)]
    await settle()
    assert (stall.held, log.state.log_end_offset) == (1, 0)
    with await log.read(0, max_bytes=1000, max_offset=100) as piece:
        assert piece.size == 0
    stall.is_open.set()
    infos = await asyncio.gather(*tasks)
    assert [info.first_offset for info in infos] == list(range(8))
    assert [record.value for record in records_of(await read_bytes(log))] == [b"%d" % i * 60 for i in range(8)]
    assert seen == sorted(set(seen))
    assert seen[-1] == 8
    assert len(log.state.segments) > 1


async def test_a_log_that_rests_holds_no_bytes_of_its_last_append() -> None:
    log = await open_log(MemoryDisk())
    received = bytearray(build_batch([Record(0, 0, value=b"v")], base_offset=0, partition_leader_epoch=0))
    await log.append_as_follower(memoryview(received))
    received.append(0)  # BufferError while a view of it is left


async def test_a_receive_buffer_is_not_used_again_while_a_write_refers_to_it() -> None:
    """Also where whoever appended has given up: the write goes on, and the next frame must not get its bytes."""
    stall = Stall()
    log = await open_log(MemoryDisk(before_effect=stall), config=LogConfig(segment_bytes=1_000_000))
    received = FrameAssembler(10_000_000, recycles=True)
    sent = [data_batch(base_offset=offset, epoch=0, value=bytes([offset]) * 100_000) for offset in range(3)]
    tasks = [asyncio.create_task(append(log, epoch=0))]  # it assigns the epoch, and holds up the others
    await settle()
    buffers: list[object] = []
    for offset, batch in enumerate(sent[1:], 1):
        frame = whole_frame(received, batch)
        buffers.append(frame.obj)
        tasks.append(asyncio.create_task(log.append_as_follower(frame[:])))
        del frame
        await settle()
        tasks[offset].cancel()
        await asyncio.wait([tasks[offset]])
    last = whole_frame(received, data_batch(value=b"x" * 100_000))
    assert len({id(each) for each in (*buffers, last.obj)}) == 3
    buffers.append(last.obj)
    del last
    stall.is_open.set()
    await tasks[0]
    await settle()
    assert log.state.log_end_offset == 3
    values = [record.value for record in records_of(await read_bytes(log))]
    assert values[1:] == [bytes([offset]) * 100_000 for offset in (1, 2)]
    del tasks
    again = whole_frame(received, data_batch(value=b"y" * 100_000))
    assert again.obj is buffers[-1], "nobody refers to it any longer"


def whole_frame(assembler: FrameAssembler, payload: bytes | bytearray) -> memoryview:
    """Return the frame of this payload, received through the assembler."""
    data = memoryview(len(payload).to_bytes(4, "big") + payload)
    while data:
        buffer = assembler.get_buffer()
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        del buffer
        assembler.filled(count)
        data = data[count:]
        frame = assembler.frame()
    assert frame is not None
    return frame


async def test_what_queues_up_behind_a_write_goes_into_the_file_as_one() -> None:
    stall = Stall()
    disk = MemoryDisk(before_effect=stall)
    log = await open_log(disk)
    tasks = [asyncio.create_task(append(log)) for _ in range(10)]
    await settle()
    stall.is_open.set()
    await asyncio.gather(*tasks)
    assert [effect.operation for effect in disk.effects].count("write") == 2
    assert offsets_of(await read_bytes(log)) == list(range(10))


async def test_a_failed_write_fails_everything_behind_it_and_the_log() -> None:
    stall = Stall()
    disk = MemoryDisk(before_effect=stall)
    log = await open_log(disk)
    await append_ok(log, stall)
    stall.is_open.clear()
    tasks = [asyncio.create_task(append(log)) for _ in range(3)]
    await settle()
    disk.faults = FailNth(1, only=frozenset({"write"}))
    stall.is_open.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)] == [
        ErrorCode.kafka_storage_error
    ] * 3
    assert log.state.log_end_offset == 1
    for call in (lambda: append(log), lambda: log.read(0, max_bytes=1, max_offset=1), log.flush, log.roll):
        with pytest.raises(KafkaError, match="must be reopened") as raised:
            await call()
        assert code_of(raised) is ErrorCode.kafka_storage_error
    await log.abandon()
    again = await open_log(disk)
    found = offsets_of(await read_bytes(again))
    assert found == list(range(len(found))), "what was not acknowledged may be there, but not in part"
    assert 1 <= len(found) < 4
    assert again.recovery_report.cut_bytes > 0


async def append_ok(log: PartitionLog, stall: Stall) -> None:
    stall.is_open.set()
    await append(log)


async def test_a_follower_acknowledges_nothing_behind_a_write_that_failed_during_a_roll() -> None:
    source = await open_log(MemoryDisk())
    for _ in range(6):
        await append(source, value=bytes(60))
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(segment_bytes=400))
    disk.faults = FailNth(1, only=frozenset({"write"}))
    with pytest.raises(KafkaError) as raised:
        await log.append_as_follower(await read_bytes(source))
    assert code_of(raised) is ErrorCode.kafka_storage_error
    assert log.state.log_end_offset == 0, "the fetcher tells its leader this offset"


async def test_a_full_disk_fails_the_log_and_nothing_acknowledged_is_lost() -> None:
    disk = MemoryDisk(capacity_bytes=1000)
    log = await open_log(disk)
    acknowledged = 0

    async def fill() -> None:
        nonlocal acknowledged
        while True:
            acknowledged = (await append(log, value=bytes(100))).last_offset + 1

    with pytest.raises(KafkaError) as raised:
        await fill()
    assert code_of(raised) is ErrorCode.kafka_storage_error
    assert "No space left" in raised.value.message
    await log.abandon()
    disk.capacity_bytes = None
    again = await open_log(disk)
    assert offsets_of(await read_bytes(again)) == list(range(acknowledged))
    assert acknowledged > 1


async def test_a_cancelled_append_is_written_nevertheless() -> None:
    stall = Stall()
    log = await open_log(MemoryDisk(before_effect=stall))
    task = asyncio.create_task(append(log, 2))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stall.is_open.set()
    assert (await append(log)).first_offset == 2
    assert offsets_of(await read_bytes(log)) == [0, 1, 2]


async def test_appends_are_durable_when_flush_messages_says_so() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=LogConfig(flush_messages=1, segment_bytes=300))
    tasks = [asyncio.create_task(append(log, value=bytes(50))) for _ in range(6)]
    await asyncio.gather(*tasks)
    assert log.state.offsets.recovery_point == 6
    again = await open_log(disk.restart())
    assert offsets_of(await read_bytes(again)) == list(range(6))


@pytest.mark.parametrize(("flush_messages", "settled"), [(1, [0, 1]), (2, [1]), (3, [1])])
async def test_what_flush_messages_wants_flushed_is_settled_only_then(flush_messages: int, settled: list[int]) -> None:
    log = await open_log(MemoryDisk(), config=LogConfig(flush_messages=flush_messages))
    seen: list[int] = []
    log.state.listeners.append(lambda: seen.append(log.state.offsets.settled_end_offset))
    await append(log)
    assert seen == settled


async def test_what_a_process_left_unflushed_is_settled_before_the_log_is_used() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 3)
    assert log.state.offsets.recovery_point == 0
    await log.abandon()
    again = await open_log(disk, config=LogConfig(flush_messages=1))
    assert again.state.offsets.settled_end_offset == again.state.offsets.recovery_point == 3


async def test_a_failed_sync_fails_the_log() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log)
    disk.faults = FailNth(1, only=frozenset({"sync"}))
    with pytest.raises(KafkaError, match="must be reopened"):
        await log.flush()
    with pytest.raises(KafkaError, match="must be reopened"):
        await append(log)
