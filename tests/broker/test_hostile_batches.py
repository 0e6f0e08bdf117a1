"""Batches that claim or hold more than they should, at a leader: what is rejected, and by which name."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tierfetch.broker.coordinator.core.last_records import LastRecords
from tierfetch.broker.coordinator.log_reader import one_by_one, read_log, replay_batch
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from tierfetch.protocol.net.pacing import ELEMENTS_PER_ITERATION
from tierfetch.protocol.records import Record, build_batch, parse_header
from tierfetch.tests.bombs import batch_of, header_bomb
from tierfetch.tests.broker.hosting import Host, append, batch

MIB = 1024 * 1024
LENGTH_LOW_BYTE = 11
"""Where a batch has the last byte of its length."""
COMPACTED = frozenset({"compact"})


async def test_a_batch_that_claims_more_records_than_it_can_hold_is_rejected(host: Host) -> None:
    partition = await host.topic("t", 1)
    with pytest.raises(CorruptRecordError, match="2147483647 records in a batch of"):
        await partition.append(memoryview(bytearray(batch_of(b"", 2**31 - 1))), AppendOrigin.CLIENT, acks_all=False)
    assert partition.log.state.log_end_offset == 0


async def test_the_size_is_checked_before_a_batch_is_recompressed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await host.topic("t", 1, config=LogConfig(compression_type="zstd", max_message_bytes=1000))
    monkeypatch.setattr("tierfetch.broker.replicas.partition.recompressed", None)
    large = build_batch([Record(0, 1, b"k", bytes(2000))], base_offset=0)
    with pytest.raises(KafkaError) as refused:
        await partition.append(memoryview(bytearray(large)), AppendOrigin.CLIENT, acks_all=False)
    assert refused.value.code is ErrorCode.message_too_large


async def test_headers_beyond_the_budget_are_not_decompressed_for_a_compacted_topic(host: Host) -> None:
    partition = await host.topic("t", 1, config=LogConfig(cleanup_policy=COMPACTED))
    await partition.append(memoryview(bytearray(header_bomb(8 * MIB))), AppendOrigin.CLIENT, acks_all=False)
    with pytest.raises(CorruptRecordError, match="holds more than the limit of 33554"):
        await partition.append(memoryview(bytearray(header_bomb(24 * MIB))), AppendOrigin.CLIENT, acks_all=False)
    assert partition.log.state.log_end_offset == 1


async def test_a_search_by_time_names_the_partition_whose_batch_it_rejects(host: Host) -> None:
    partition = await host.topic("t", 1)
    await partition.append(memoryview(bytearray(header_bomb(24 * MIB))), AppendOrigin.CLIENT, acks_all=False)
    with pytest.raises(CorruptRecordError, match="t-0: batch at offset 0: zstd: holds more than the limit"):
        await partition.log.offset_for_timestamp(0)


async def test_batches_for_a_compacted_topic_keep_their_order_while_keys_are_checked(host: Host) -> None:
    partition = await host.topic("t", 1, config=LogConfig(cleanup_policy=COMPACTED))
    many = [Record(number, 1, b"k") for number in range(3 * ELEMENTS_PER_ITERATION)]
    large = build_batch(many, base_offset=0, producer_id=7, producer_epoch=0, base_sequence=0)
    small = build_batch([Record(0, 1, b"k")], base_offset=0, producer_id=7, producer_epoch=0, base_sequence=len(many))
    async with asyncio.TaskGroup() as group:
        for data in (large, small):
            group.create_task(partition.append(memoryview(bytearray(data)), AppendOrigin.CLIENT, acks_all=False))
    assert partition.log.state.log_end_offset == len(many) + 1


async def test_groups_do_not_come_back_without_what_a_damaged_length_hides(host: Host) -> None:
    partition = await host.topic("t", 1)
    await append(partition, batch(b"a"), batch(b"b"), batch(b"c"))
    segment = partition.log.state.segments.active
    data = bytearray(await segment.open_file.read(0, segment.size_bytes))
    data[len(data) // 3 + LENGTH_LOW_BYTE] ^= 0x80
    await segment.open_file.write(0, bytes(data))
    seen: list[int] = []
    with pytest.raises(CorruptRecordError, match="t-0: no complete batch at offset 1"):
        async with asyncio.timeout(10):
            await read_log(partition, one_by_one(lambda header, record: seen.append(record.offset)))
    assert seen == [0]


async def test_groups_come_back_over_a_batch_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    bomb = header_bomb(24 * MIB)
    with caplog.at_level(logging.ERROR):
        assert await replay_batch(LastRecords().take, bomb, 0, parse_header(bomb), MIB, name="t-0") == 0
    assert "t-0: offsets 0 to 0 are skipped" in caplog.text
