"""Batches in the codec that the topic asks for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tierfetch.broker.core.recompression import CODECS, recompressed
from tierfetch.log import LogAppendInfo
from tierfetch.log.core import AppendOrigin, LogConfig
from tierfetch.protocol.errors import CorruptRecordError, KafkaError
from tierfetch.protocol.records import Compression, check_batch, iter_records, parse_header
from tierfetch.tests.broker.hosting import Host, batch


@pytest.mark.parametrize("compression_type", CODECS)
def test_records_and_producer_survive(compression_type: str) -> None:
    given = batch(b"a" * 100, b"b", producer_id=5, sequence=3, transactional=True)
    found = recompressed(given, compression_type, 1000)
    header, before = parse_header(found), parse_header(given)
    check_batch(found, 0, header)
    assert header.compression is CODECS[compression_type]
    assert list(iter_records(found)) == list(iter_records(given))
    kept = ("producer_id", "producer_epoch", "base_sequence", "is_transactional", "base_timestamp", "max_timestamp")
    assert [getattr(header, name) for name in kept] == [getattr(before, name) for name in kept]


def test_batch_in_the_right_codec_is_left_alone() -> None:
    given = batch(b"a")
    assert recompressed(given, "uncompressed", 1000) is given


def test_wrong_checksum_is_not_hidden() -> None:
    given = batch(b"a")
    given[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        recompressed(given, "gzip", 1000)


async def test_a_second_batch_is_refused_with_the_first(host: Host) -> None:
    partition = await host.topic("t", 1, config=LogConfig(compression_type="zstd"))
    two = memoryview(bytearray(bytes(batch(b"a")) + bytes(batch(b"b"))))
    with pytest.raises(KafkaError, match="expected exactly one record batch"):
        await partition.append(two, AppendOrigin.CLIENT, acks_all=False)
    assert partition.log.state.log_end_offset == 0


async def test_topic_is_written_in_its_codec_and_in_order(host: Host) -> None:
    partition = await host.topic("t", 1, config=LogConfig(compression_type="zstd"))
    batches = [batch(b"%d" % number * 50, producer_id=5, sequence=number) for number in range(5)]
    async with asyncio.TaskGroup() as group:
        for each in batches:
            group.create_task(partition.append(each, AppendOrigin.CLIENT, acks_all=True))
    with await partition.log.read(0, max_bytes=10_000, max_offset=5) as found:
        data = await found.read()
    assert parse_header(data).compression is Compression.ZSTD
    assert partition.log.state.log_end_offset == 5


async def test_a_batch_that_comes_after_the_config_changed_overtakes_none(host: Host) -> None:
    partition = await host.topic("t", 1, config=LogConfig(compression_type="zstd"))
    batches = [batch(b"%d" % number * 50, producer_id=5, sequence=number) for number in range(3)]
    async with asyncio.TaskGroup() as group:
        for each in batches[:2]:
            group.create_task(partition.append(each, AppendOrigin.CLIENT, acks_all=True))
        await asyncio.sleep(0)
        partition.log.update_config(LogConfig(compression_type="producer"))
        group.create_task(partition.append(batches[2], AppendOrigin.CLIENT, acks_all=True))
    assert partition.log.state.log_end_offset == 3


async def test_a_batch_waits_for_no_write_of_the_one_before(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else those that come, one upon the other, would be written one by one for good once the config has changed."""
    partition = await host.topic("t", 1, config=LogConfig(compression_type="zstd"))
    append, came, both, may_write = partition.log.append_as_leader, list[int](), asyncio.Event(), asyncio.Event()

    async def held(data: memoryview, **options: Any) -> LogAppendInfo:
        came.append(parse_header(data).base_sequence)
        if len(came) == 2:
            both.set()
        await may_write.wait()
        return await append(data, **options)

    monkeypatch.setattr(partition.log, "append_as_leader", held)
    batches = [batch(b"%d" % number * 50, producer_id=5, sequence=number) for number in range(2)]
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for each in batches:
            group.create_task(partition.append(each, AppendOrigin.CLIENT, acks_all=True))
        await both.wait()
        may_write.set()
    assert came == [0, 1]
    assert partition.log.state.log_end_offset == 2
