"""Every byte of a segment judged: each lie in an object beside a sound log is found, and named."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from tierfetch.log.core import (
    AbortedTransaction,
    EpochEntry,
    OffsetIndex,
    ProducerStateEntry,
    TransactionIndex,
    encode_snapshot,
)
from tierfetch.log.core.checkpoints import encode_leader_epochs
from tierfetch.log.core.producer_snapshot import DECODED_SLICE_ENTRIES
from tierfetch.plugins.local import LocalTieredStorage
from tierfetch.remote import IndexType, ListsPartitions
from tierfetch.remote.contents import check_contents
from tierfetch.remote.core import RemoteLogSegmentMetadata
from tierfetch.remote.index_cache import CHECK_SLOTS
from tierfetch.remote.survey import survey_partition
from tierfetch.tests import samples
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage


async def segments_of(topic: str) -> tuple[MemoryRemoteStorage, list[RemoteLogSegmentMetadata]]:
    """A topic of Kafka's tier, in memory."""
    source = LocalTieredStorage(LocalTieredStorage.Config(dir=samples.TIER.parent))
    assert isinstance(source, ListsPartitions)
    (partition,) = [one async for one in source.list_partitions() if one.topic == topic]
    found = (await survey_partition(source, partition)).ledger.finished()
    storage = MemoryRemoteStorage()
    for segment in found:
        storage.objects[segment.segment_id, None] = await source.fetch_log_segment(segment, 0, 1 << 30)
        for kind in IndexType:
            if kind is not IndexType.TRANSACTION or not segment.txn_index_empty:
                storage.objects[segment.segment_id, kind] = await source.fetch_index(segment, kind)
    await source.close()
    return storage, found


@pytest.mark.parametrize("topic", ["s-none", "s-trim"])
async def test_what_kafka_wrote_is_sound_and_counted(topic: str) -> None:
    storage, segments = await segments_of(topic)
    seen = 0
    for segment in segments:
        batches = []
        assert await check_contents(segment, storage, batches.append) == []
        assert batches[-1].last_offset == segment.end_offset
        seen += len(batches)
    assert seen > 20


def shifted(index: bytes) -> bytes:
    """The second entry one byte further."""
    offset, position = struct.unpack_from(">ii", index, 8)
    return index[:8] + struct.pack(">ii", offset, position + 1) + index[16:]


def before_its_batch(index: bytes) -> bytes:
    """The first entry names the segment's first offset, and a place far behind it."""
    return struct.pack(">i", 0) + index[4:]


def marker_behind(index: bytes) -> bytes:
    """Of a later segment."""
    found = TransactionIndex()
    for aborted in TransactionIndex.decode(index):
        found.append(replace(aborted, last_offset=aborted.last_offset + 100_000))
    return found.encode()


@pytest.mark.parametrize(
    ("kind", "damage", "message"),
    [
        (IndexType.OFFSET, shifted, "offset index: no batch begins at byte"),
        (IndexType.OFFSET, before_its_batch, "offset index: offset"),
        (IndexType.TRANSACTION, marker_behind, "transaction index: offset"),
        (IndexType.LEADER_EPOCH, lambda _: b"0\n1\n7 0\n", "leader epoch checkpoint: "),
        (IndexType.TIMESTAMP, lambda _: struct.pack(">qi", 1 << 40, 1 << 20), "time index: offset"),
    ],
)
async def test_a_lie_beside_the_log_is_found(kind: IndexType, damage: Callable[[bytes], bytes], message: str) -> None:
    storage, segments = await segments_of("s-none")
    segment = next(
        one
        for one in segments
        if not one.txn_index_empty
        and len(list(OffsetIndex.decode(storage.objects[one.segment_id, IndexType.OFFSET], 0))) > 3
    )
    key = (segment.segment_id, kind)
    storage.objects[key] = damage(storage.objects[key])
    (finding,) = await check_contents(segment, storage)
    assert message in finding.message
    assert finding.subject == str(segment.segment_id)


async def test_a_snapshot_of_another_segment_knows_too_much() -> None:
    storage, segments = await segments_of("s-none")
    first, last = segments[0], segments[-1]
    storage.objects[first.segment_id, IndexType.PRODUCER_SNAPSHOT] = storage.objects[
        last.segment_id, IndexType.PRODUCER_SNAPSHOT
    ]
    (finding,) = await check_contents(first, storage)
    assert "producer snapshot: producer" in finding.message


async def test_a_batch_of_another_epoch_is_corrupt() -> None:
    """Its CRC is right: the leader epoch is not covered by it."""
    storage, segments = await segments_of("s-trim")
    segment = segments[1]
    assert len(segment.segment_leader_epochs) == 2
    only = replace(segment, segment_leader_epochs=(EpochEntry(1, segment.start_offset),))
    findings = await check_contents(only, storage)
    assert "a batch of leader epoch 0 at offset 222" in findings[0].message
    assert "leader epoch checkpoint" in findings[1].message


async def test_what_lay_below_the_log_start_when_it_was_copied_is_no_fault() -> None:
    storage, (segment, *_) = await segments_of("s-none")
    (epoch,) = segment.segment_leader_epochs
    later = EpochEntry(epoch.epoch, segment.start_offset + (segment.end_offset - segment.start_offset) // 2)
    storage.objects[segment.segment_id, IndexType.LEADER_EPOCH] = encode_leader_epochs([later])
    assert await check_contents(replace(segment, segment_leader_epochs=(later,)), storage) == []


def many_aborted(segment: RemoteLogSegmentMetadata) -> bytes:
    """Far more aborted transactions than the segment has offsets, so that the last is wrong."""
    found = TransactionIndex()
    for number in range(20 * CHECK_SLOTS):
        found.append(AbortedTransaction(1, segment.start_offset, segment.start_offset + number, segment.start_offset))
    return found.encode()


def many_producers(segment: RemoteLogSegmentMetadata) -> bytes:
    return encode_snapshot(ProducerStateEntry(number) for number in range(20 * DECODED_SLICE_ENTRIES))


@pytest.mark.parametrize(
    ("kind", "content"), [(IndexType.TRANSACTION, many_aborted), (IndexType.PRODUCER_SNAPSHOT, many_producers)]
)
async def test_large_indexes_are_looked_through_in_slices(
    kind: IndexType, content: Callable[[RemoteLogSegmentMetadata], bytes]
) -> None:
    """Other work has its turn between them, and a check that is cancelled ends there."""
    storage, segments = await segments_of("s-none")
    small = next(one for one in segments if not one.txn_index_empty)
    segment = replace(small, end_offset=small.start_offset + 20 * CHECK_SLOTS)

    async def turns_of_check() -> int:
        check = asyncio.create_task(check_contents(segment, storage))
        count = 0
        while not check.done():
            await asyncio.sleep(0)
            count += 1
        return count

    before = await turns_of_check()
    storage.objects[segment.segment_id, kind] = content(segment)
    assert await turns_of_check() >= before + 9

    check = asyncio.create_task(check_contents(segment, storage))
    for _ in range(before + 2):
        await asyncio.sleep(0)
    assert not check.done()
    check.cancel()
    with pytest.raises(asyncio.CancelledError):
        await check
