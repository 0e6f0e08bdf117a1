"""The index cache: one fetch, a bounded directory, and never a wrong index."""

from __future__ import annotations

import asyncio
import errno
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tierfetch.log.core import (
    AbortedTransaction,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TransactionIndex,
    encode_snapshot,
)
from tierfetch.log.core.producer_state import ProducerStateEntry
from tierfetch.log.disk import OsDisk
from tierfetch.protocol.records import iter_batches, iter_records
from tierfetch.protocol.records.control import ControlType
from tierfetch.protocol.topics import uuid_from_text
from tierfetch.remote import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageCorruptError,
    RemoteStorageError,
    index_cache,
    segment_scan,
)
from tierfetch.remote.core import RemoteLogSegmentMetadata, decode_event
from tierfetch.remote.index_cache import BYTES_MAX, FILE_BYTES_MIN, RemoteIndexCache
from tierfetch.tests.fakes.disk import FailNth, MemoryDisk
from tierfetch.tests.fakes.remote_storage import MemoryRemoteStorage
from tierfetch.tests.log.logs import data_batch, marker_batch
from tierfetch.tests.samples import BROKER

from .builders import segment

LOG_DIRECTORY = Path("/data")
DIRECTORY = LOG_DIRECTORY / "remote-log-index-cache"
SEGMENT = segment(1, 100, 199, txn_index_empty=False)
ABORTED = AbortedTransaction(7, 120, 130, 131)


def indexes_of(metadata: RemoteLogSegmentMetadata) -> dict[IndexType, bytes]:
    offsets, times = OffsetIndex(metadata.start_offset), TimeIndex(metadata.start_offset)
    for step in range(1, 10):
        offsets.append(metadata.start_offset + 10 * step, 100 * step)
        times.maybe_append(1_000 * step, metadata.start_offset + 10 * step)
    return {IndexType.OFFSET: offsets.encode(), IndexType.TIMESTAMP: times.encode()}


def tier_of(*segments: RemoteLogSegmentMetadata) -> MemoryRemoteStorage:
    tier = MemoryRemoteStorage()
    for metadata in segments:
        tier.put(metadata, b"log", indexes_of(metadata))
    return tier


async def open_cache(
    tier: MemoryRemoteStorage, disk: MemoryDisk | None = None, files_max: int | None = None
) -> RemoteIndexCache:
    disk = disk or MemoryDisk()
    await disk.make_directory(LOG_DIRECTORY)
    bytes_max = BYTES_MAX if files_max is None else files_max * FILE_BYTES_MIN
    return await RemoteIndexCache.open(disk, LOG_DIRECTORY, tier, bytes_max)


async def names(disk: MemoryDisk) -> list[str]:
    return [entry.name for entry in await disk.list_directory(DIRECTORY)]


async def test_fetched_once_then_from_memory_then_from_the_file() -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    cache = await open_cache(tier, disk)
    for _ in range(3):
        assert (await cache.offset_index(SEGMENT)).lookup(155) == OffsetPosition(150, 500)
        assert (await cache.time_index(SEGMENT)).lookup(2_500).offset == 120
    assert len(tier.calls) == 2
    again = await open_cache(tier, disk)
    assert (await again.offset_index(SEGMENT)).lookup(155) == OffsetPosition(150, 500)
    assert (await again.time_index(SEGMENT)).lookup(2_500).offset == 120
    assert len(tier.calls) == 2


async def test_files_have_kafkas_names_and_bytes() -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    tier.objects[SEGMENT.segment_id, IndexType.TRANSACTION] = b""
    cache = await open_cache(tier, disk)
    await cache.offset_index(SEGMENT)
    await cache.time_index(SEGMENT)
    await cache.transaction_index(SEGMENT)
    stem = "100_AAAAAAAAAAAAAAAAAAAAAQ"
    assert await names(disk) == [f"{stem}.index", f"{stem}.timeindex", f"{stem}.txnindex"]
    assert await disk.read_file(DIRECTORY / f"{stem}.index") == indexes_of(SEGMENT)[IndexType.OFFSET]
    assert cache.size_bytes == 3 * FILE_BYTES_MIN


def tier_of_log(*batches: bytes) -> tuple[MemoryRemoteStorage, RemoteLogSegmentMetadata]:
    """Without a transaction index, of which the metadata say nothing, as those of Kafka before 4.0."""
    log = b"".join(batches)
    metadata = replace(SEGMENT, segment_size_in_bytes=len(log))
    tier = MemoryRemoteStorage()
    tier.put(metadata, log, indexes_of(metadata))
    return tier, metadata


ONE_TRANSACTION = bytes(data_batch(5, base_offset=100, producer_id=7, producer_epoch=0, is_transactional=True))


async def test_R4_a_transaction_index_that_was_lost_is_never_taken_for_none() -> None:
    tier, metadata = tier_of_log(ONE_TRANSACTION, marker_batch(ControlType.ABORT, base_offset=105, producer_id=7))
    disk = MemoryDisk()
    for _ in range(2):
        cache = await open_cache(tier, disk)
        with pytest.raises(RemoteResourceNotFoundError, match="was lost, its log has aborted transactions"):
            await cache.transaction_index(metadata)
    assert await names(disk) == []


async def test_R4_what_kafka_before_4_0_uploaded_without_a_transaction_index_has_an_empty_one() -> None:
    marker = bytes(marker_batch(ControlType.COMMIT, base_offset=105, producer_id=7))
    tier, metadata = tier_of_log(ONE_TRANSACTION, marker, bytes(data_batch(94, base_offset=106)))
    disk = MemoryDisk()
    for _ in range(2):
        cache = await open_cache(tier, disk)
        assert len(await cache.transaction_index(metadata)) == 0
    assert [operation for operation, _ in tier.calls] == ["fetch_index txnindex", "fetch_log_segment"], "proven once"


async def test_R4_a_batch_larger_than_what_is_looked_at_hides_no_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "SCAN_BYTES", 70)
    tier, metadata = tier_of_log(ONE_TRANSACTION, marker_batch(ControlType.ABORT, base_offset=105, producer_id=7))
    cache = await open_cache(tier)
    with pytest.raises(RemoteResourceNotFoundError, match="was lost"):
        await cache.transaction_index(metadata)


@pytest.mark.parametrize("at", [20, -1])
async def test_R4_a_damaged_log_proves_nothing(at: int) -> None:
    log = bytearray(ONE_TRANSACTION + marker_batch(ControlType.COMMIT, base_offset=105, producer_id=7))
    log[at] ^= 1
    tier, metadata = tier_of_log(bytes(log))
    cache = await open_cache(tier)
    with pytest.raises(RemoteStorageCorruptError):
        await cache.transaction_index(metadata)


@pytest.mark.parametrize("cut", [1, 80, 90])
async def test_R4_a_log_that_is_cut_off_proves_nothing(cut: int) -> None:
    log = ONE_TRANSACTION + marker_batch(ControlType.ABORT, base_offset=105, producer_id=7)
    tier, metadata = tier_of_log(log)
    tier.objects[metadata.segment_id, None] = bytes(log[:-cut])
    cache = await open_cache(tier)
    with pytest.raises(RemoteStorageCorruptError):
        await cache.transaction_index(metadata)


async def test_what_is_open_at_a_segments_end_is_asked_for_once_until_it_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index_cache, "OPEN_OFFSETS_MAX", 2)
    segments = [segment(number, 100 * number, 100 * number + 99) for number in range(4)]
    tier = tier_of(*segments)
    for metadata in segments:
        producers = [
            ProducerStateEntry(7, 0, current_txn_first_offset=None),
            ProducerStateEntry(8, 0, current_txn_first_offset=metadata.start_offset + 9),
            ProducerStateEntry(9, 0, current_txn_first_offset=metadata.start_offset + 3),
        ]
        tier.objects[metadata.segment_id, IndexType.PRODUCER_SNAPSHOT] = encode_snapshot(producers)
    cache = await open_cache(tier)
    for metadata in (*segments, segments[3], segments[2]):
        assert await cache.first_open_offset(metadata) == metadata.start_offset + 3
    assert len(tier.calls) == 4
    await cache.drop(segments[3].segment_id)
    tier.objects[segments[3].segment_id, IndexType.PRODUCER_SNAPSHOT] = encode_snapshot([])
    assert await cache.first_open_offset(segments[3]) is None
    tier.objects[segments[0].segment_id, IndexType.PRODUCER_SNAPSHOT] = b"damaged"
    with pytest.raises(RemoteStorageCorruptError):
        await cache.first_open_offset(segments[0])


async def test_segment_said_to_have_no_aborts_is_not_asked_for() -> None:
    tier = tier_of()
    cache = await open_cache(tier)
    assert len(await cache.transaction_index(segment(1, 100, 199, txn_index_empty=True))) == 0
    assert tier.calls == []


async def test_transaction_index_is_decoded() -> None:
    tier, index = tier_of(SEGMENT), TransactionIndex()
    index.append(ABORTED)
    tier.objects[SEGMENT.segment_id, IndexType.TRANSACTION] = index.encode()
    cache = await open_cache(tier)
    assert list(await cache.transaction_index(SEGMENT)) == [ABORTED]


@pytest.mark.parametrize(
    "wrong", [(-7, 120, 130, 131), (7, 120, 200, 131), (7, 0, 99, 99), (7, 131, 130, 131), (7, 120, 130, 132)]
)
async def test_transactions_that_cannot_have_ended_in_the_segment_are_corrupt_and_not_kept(
    wrong: tuple[int, ...],
) -> None:
    """A bit that has changed on the way would show what was aborted."""
    tier, index = tier_of(SEGMENT), TransactionIndex()
    index.append(ABORTED)
    tier.objects[SEGMENT.segment_id, IndexType.TRANSACTION] = struct.pack(">hqqqq", 0, *wrong)
    cache = await open_cache(tier)
    with pytest.raises(RemoteStorageCorruptError):
        await cache.transaction_index(SEGMENT)
    tier.objects[SEGMENT.segment_id, IndexType.TRANSACTION] = index.encode()
    assert list(await cache.transaction_index(SEGMENT)) == [ABORTED]


async def test_absent_segment_is_an_error_each_time() -> None:
    tier = tier_of()
    cache = await open_cache(tier)
    for _ in range(2):
        with pytest.raises(RemoteResourceNotFoundError):
            await cache.offset_index(SEGMENT)
    operations = [operation for operation, _ in tier.calls]
    assert operations == ["fetch_index index", "fetch_log_segment", "fetch_index index"], (
        "its log is not read each time"
    )


BATCHES = [bytes(data_batch(base_offset=100 + n, timestamp_ms=1_000 + n, value=1_000 * b"v")) for n in range(20)]


async def test_R4_an_index_too_large_for_its_segment_is_built_from_the_log() -> None:
    tier, metadata = tier_of_log(*BATCHES)
    for index_type in (IndexType.OFFSET, IndexType.TRANSACTION):
        tier.objects[metadata.segment_id, index_type] = bytes((10 << 20) + 1)
    cache = await open_cache(tier)
    assert [entry.offset for entry in await cache.offset_index(metadata)] == [104, 108, 112, 116]
    assert list(await cache.transaction_index(metadata)) == []
    assert cache.rebuilt == 2


@pytest.mark.parametrize("left", [None, b"", b"not an index"])
async def test_R4_an_offset_or_time_index_that_was_lost_is_built_from_the_log(
    left: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    tier, metadata = tier_of_log(*BATCHES)
    for index_type in (IndexType.OFFSET, IndexType.TIMESTAMP):
        if left is None:
            del tier.objects[metadata.segment_id, index_type]
        else:
            tier.objects[metadata.segment_id, index_type] = left
    disk = MemoryDisk()
    cache = await open_cache(tier, disk)
    size = len(BATCHES[0])
    offsets = await cache.offset_index(metadata)
    if left == b"":  # an index without entries is a legal one: it leads to the segment's begin
        assert list(offsets) == []
        return
    assert list(offsets) == [OffsetPosition(100 + n, n * size) for n in (4, 8, 12, 16)]
    assert (await cache.time_index(metadata)).last_entry.timestamp == 1_019
    assert f"{metadata.segment_id}: its index cannot be used, building it from the {20 * size} bytes" in caplog.text
    tier.objects.clear()
    again = await open_cache(tier, disk)
    assert list(await again.offset_index(metadata)) == list(offsets), "it is kept like any other"


async def test_R4_what_is_built_from_kafkas_logs_leads_to_every_batch() -> None:
    """Not entry for entry: Kafka's depend on how many batches came at once."""
    compared = 0
    for path in BROKER.glob("*/*.log"):
        log = path.read_bytes()
        batches = list(iter_batches(log))
        index, times = path.with_suffix(".index").read_bytes(), path.with_suffix(".timeindex").read_bytes()
        if not batches or not index or not any(index[-8:]):  # the file of an active segment is preallocated
            continue
        metadata = replace(segment(1, int(path.stem), batches[-1][1].last_offset), segment_size_in_bytes=len(log))
        tier = MemoryRemoteStorage()
        tier.put(metadata, log, {})
        cache = await open_cache(tier)
        offsets = await cache.offset_index(metadata)
        borders = {position for position, _ in batches}
        for position, header in batches:
            found = offsets.lookup(header.last_offset).position
            assert found in borders
            assert position - 2 * 4096 < found + header.size_bytes <= position + header.size_bytes
        assert (await cache.time_index(metadata)).last_entry == TimeIndex.decode(
            times, metadata.start_offset
        ).last_entry
        compared += 1
    assert compared > 5


@pytest.mark.parametrize("control", [ControlType.COMMIT, ControlType.ABORT])
async def test_R4_a_damaged_transaction_index_counts_as_lost(control: ControlType) -> None:
    tier, metadata = tier_of_log(ONE_TRANSACTION, marker_batch(control, base_offset=105, producer_id=7))
    tier.objects[metadata.segment_id, IndexType.TRANSACTION] = b"not an index"
    cache = await open_cache(tier)
    if control is ControlType.COMMIT:
        assert len(await cache.transaction_index(metadata)) == 0
        return
    for _ in range(3):
        with pytest.raises(RemoteStorageCorruptError):
            await cache.transaction_index(metadata)
    assert [operation for operation, _ in tier.calls].count("fetch_log_segment") == 1, "not again for a minute"


async def test_many_callers_share_one_fetch_and_its_error() -> None:
    tier = tier_of(SEGMENT)
    cache = await open_cache(tier)
    found = await asyncio.gather(*(cache.offset_index(SEGMENT) for _ in range(20)))
    assert all(index is found[0] for index in found)
    assert len(tier.calls) == 1
    del tier.objects[SEGMENT.segment_id, IndexType.TIMESTAMP]
    errors = await asyncio.gather(*(cache.time_index(SEGMENT) for _ in range(20)), return_exceptions=True)
    assert {type(error) for error in errors} == {RemoteResourceNotFoundError}
    assert [operation for operation, _ in tier.calls[1:]] == ["fetch_index timeindex", "fetch_log_segment"]


async def test_D7_a_cancelled_caller_does_not_end_the_fetch() -> None:
    tier = tier_of(SEGMENT)
    cache = await open_cache(tier)
    first, second = (asyncio.create_task(cache.offset_index(SEGMENT)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).lookup(155).offset == 150
    assert first.cancelled()
    third = asyncio.create_task(cache.time_index(SEGMENT))
    await asyncio.sleep(0)
    third.cancel()
    await cache.time_index(SEGMENT)
    assert len(tier.calls) == 2


async def test_R4_D7_what_is_open_at_a_segments_end_is_fetched_on_when_its_caller_is_out_of_time() -> None:
    tier = tier_of(SEGMENT)
    tier.objects[SEGMENT.segment_id, IndexType.PRODUCER_SNAPSHOT] = encode_snapshot([])
    cache = await open_cache(tier)
    for _ in range(3):
        caller = asyncio.create_task(cache.first_open_offset(SEGMENT))
        await asyncio.sleep(0)
        caller.cancel()
    assert await cache.first_open_offset(SEGMENT) is None
    assert len(tier.calls) == 1


async def test_files_stay_within_the_limit_and_the_least_used_goes() -> None:
    segments = [segment(number, 100 * number, 100 * number + 99) for number in range(1, 5)]
    tier, disk = tier_of(*segments), MemoryDisk()
    cache = await open_cache(tier, disk, files_max=3)
    for metadata in segments[:3]:
        await cache.offset_index(metadata)
    restarted = await open_cache(tier, disk, files_max=3)
    await restarted.offset_index(segments[0])
    await restarted.offset_index(segments[3])
    assert [name.partition("_")[0] for name in await names(disk)] == ["100", "300", "400"]
    assert restarted.size_bytes == 3 * FILE_BYTES_MIN


async def test_lower_limit_after_a_restart_removes_files() -> None:
    segments = [segment(number, 100 * number, 100 * number + 99) for number in range(1, 5)]
    tier, disk = tier_of(*segments), MemoryDisk()
    cache = await open_cache(tier, disk)
    for metadata in segments:
        await cache.offset_index(metadata)
    await open_cache(tier, disk, files_max=2)
    assert len(await names(disk)) == 2


async def test_index_larger_than_the_limit_is_served_but_not_kept() -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    cache = await open_cache(tier, disk, files_max=0)
    for _ in range(2):
        assert (await cache.offset_index(SEGMENT)).lookup(155).offset == 150
    assert await names(disk) == []
    assert len(tier.calls) == 2


async def test_dropped_segment_leaves_nothing() -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    cache = await open_cache(tier, disk)
    await cache.offset_index(SEGMENT)
    await cache.time_index(SEGMENT)
    await cache.drop(SEGMENT.segment_id)
    assert await names(disk) == []
    assert cache.size_bytes == 0
    await cache.offset_index(SEGMENT)
    assert len(tier.calls) == 3


async def test_segment_dropped_during_a_fetch_is_served_but_not_kept() -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    cache = await open_cache(tier, disk)
    asking = asyncio.create_task(cache.offset_index(SEGMENT))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await cache.drop(SEGMENT.segment_id)
    assert (await asking).lookup(155).offset == 150
    assert await names(disk) == []
    assert cache.size_bytes == 0


BACKWARDS = struct.pack(">ii", 10, 8192) + struct.pack(">ii", 5, 4096)
BEYOND = struct.pack(">ii", 100, 4096)


@pytest.mark.parametrize("data", [b"odd", BACKWARDS, BEYOND], ids=["no entry", "backwards", "beyond the segment"])
async def test_wrong_bytes_from_the_tier_are_refused_and_not_kept(data: bytes) -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    tier.objects[SEGMENT.segment_id, IndexType.OFFSET] = data
    cache = await open_cache(tier, disk)
    with pytest.raises(RemoteStorageCorruptError, match="index of segment"):
        await cache.offset_index(SEGMENT)
    assert await names(disk) == []
    tier.put(SEGMENT, b"log", indexes_of(SEGMENT))
    assert (await cache.offset_index(SEGMENT)).lookup(155).offset == 150


@pytest.mark.parametrize("data", [b"odd", BACKWARDS, BEYOND, None], ids=["no entry", "backwards", "beyond", "gone"])
async def test_damaged_file_of_an_earlier_run_is_fetched_again(data: bytes | None) -> None:
    tier, disk = tier_of(SEGMENT), MemoryDisk()
    await (await open_cache(tier, disk)).offset_index(SEGMENT)
    (name,) = await names(disk)
    restarted = await open_cache(tier, disk)
    if data is None:
        await disk.remove(DIRECTORY / name)
    else:
        await disk.write_file(DIRECTORY / name, data)
    assert (await restarted.offset_index(SEGMENT)).lookup(155).offset == 150
    assert await disk.read_file(DIRECTORY / name) == indexes_of(SEGMENT)[IndexType.OFFSET]


async def test_leftovers_are_removed_and_foreign_files_stay() -> None:
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY / "100_AAAAAAAAAAAAAAAAAAAAAQ.index.d")
    for name in ("README", "100_AAAAAAAAAAAAAAAAAAAAAQ.index.tmp", "1_AAAAAAAAAAAAAAAAAAAAAQ.timeindex.deleted"):
        await disk.write_file(DIRECTORY / name, b"x")
    await open_cache(tier_of(), disk)
    assert await names(disk) == ["100_AAAAAAAAAAAAAAAAAAAAAQ.index.d", "README"]


async def test_full_disk_does_not_stop_reads() -> None:
    fault = FailNth(1, persistent=True, error_number=errno.ENOSPC, only=frozenset({"write_file"}))
    tier, disk = tier_of(SEGMENT), MemoryDisk(fault)
    cache = await open_cache(tier, disk)
    assert (await cache.offset_index(SEGMENT)).lookup(155).offset == 150
    assert cache.size_bytes == 0
    assert fault.fired


async def test_every_disk_call_may_fail() -> None:
    """Whatever fails, the answer is right, and the next run can use what is left."""
    segments = [segment(number, 100 * number, 100 * number + 99) for number in range(1, 4)]
    for n in range(1, 60):
        disk = MemoryDisk()
        cache = await open_cache(tier_of(*segments), disk, files_max=2)
        fault = disk.faults = FailNth(n, reads=True)
        for _ in range(2):
            for metadata in segments:
                assert (await cache.offset_index(metadata)).base_offset == metadata.start_offset
        await cache.drop(segments[2].segment_id)
        disk.faults = None
        restarted = await open_cache(tier_of(*segments), disk, files_max=2)
        assert (await restarted.offset_index(segments[0])).lookup(155).offset == 150
        assert restarted.size_bytes <= 2 * FILE_BYTES_MIN
        if not fault.fired:
            return
    raise AssertionError("more disk calls than expected")


async def test_file_that_counts_has_survived_a_crash() -> None:
    """A name without its content would be an empty transaction index, and say that nothing was aborted."""
    tier, index, disk = tier_of(SEGMENT), TransactionIndex(), MemoryDisk()
    index.append(ABORTED)
    tier.objects[SEGMENT.segment_id, IndexType.TRANSACTION] = index.encode()
    cache = await open_cache(tier, disk)
    disk.settle()
    await cache.transaction_index(SEGMENT)
    after = await open_cache(tier, disk.restart())
    assert list(await after.transaction_index(SEGMENT)) == [ABORTED]
    assert len(tier.calls) == 1


async def test_kafkas_own_cache_is_taken_over(tmp_path: Path) -> None:
    shutil.copytree(BROKER / "remote-log-index-cache", tmp_path / "remote-log-index-cache")
    tier = tier_of()
    disk = OsDisk()
    cache = await RemoteIndexCache.open(disk, tmp_path, tier)
    cached = {
        uuid_from_text(path.name.split("_", 1)[1][:22]) for path in (tmp_path / "remote-log-index-cache").iterdir()
    }
    segments = [event for event in sample_segments() if event.segment_id.id in cached]
    assert len(segments) == len(cached) > 5
    for metadata in segments:
        assert (await cache.offset_index(metadata)).last_entry is not None
        assert (await cache.time_index(metadata)).last_entry.timestamp == metadata.max_timestamp_ms
        assert len(await cache.transaction_index(metadata)) == 0
    assert tier.calls == []
    await cache.close()
    await disk.close()


def sample_segments() -> list[RemoteLogSegmentMetadata]:
    events = []
    for path in BROKER.glob("__remote_log_metadata-*/*.log"):
        log = path.read_bytes()
        for position, header in iter_batches(log):
            events += [decode_event(record.value or b"") for record in iter_records(log, position, header)]
    return [event for event in events if isinstance(event, RemoteLogSegmentMetadata)]


async def test_close_ends_what_is_under_way() -> None:
    tier = tier_of(SEGMENT)
    tier.hang_on.add("fetch_index")
    cache = await open_cache(tier)
    asking = asyncio.create_task(cache.offset_index(SEGMENT))
    await asyncio.sleep(0)
    await cache.close()
    with pytest.raises(RemoteStorageError, match="closed"):
        await asking


@pytest.mark.parametrize("index_type", [IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION])
async def test_R4_a_large_index_is_looked_through_in_slices(
    index_type: IndexType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_cache, "CHECK_SLOTS", 10)
    count, turns = 4_000, 0
    large = replace(segment(1, 0, count, txn_index_empty=False), segment_size_in_bytes=70 * count)
    offsets, times, aborted = OffsetIndex(0), TimeIndex(0), TransactionIndex()
    for offset in range(1, count):
        offsets.append(offset, 70 * offset)
        times.maybe_append(offset, offset)
        aborted.append(AbortedTransaction(7, offset, offset, offset))
    indexes = {IndexType.OFFSET: offsets, IndexType.TIMESTAMP: times, IndexType.TRANSACTION: aborted}
    tier = MemoryRemoteStorage()
    tier.put(large, b"log", {each: index.encode() for each, index in indexes.items()})
    cache = await open_cache(tier)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    get = {
        IndexType.OFFSET: cache.offset_index,
        IndexType.TIMESTAMP: cache.time_index,
        IndexType.TRANSACTION: cache.transaction_index,
    }
    assert len(await get[index_type](large)) == count - 1
    counting.cancel()
    assert turns > 100, "an iteration of the loop takes two slices"


@pytest.mark.parametrize("index_type", [IndexType.OFFSET, IndexType.TIMESTAMP])
async def test_R4_more_entries_than_the_log_can_have_are_not_looked_at(
    index_type: IndexType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OffsetIndex, "check", None)
    monkeypatch.setattr(TimeIndex, "check", None)
    metadata = segment(1, 0, 99)  # of 1000 bytes
    offsets, times = OffsetIndex(0), TimeIndex(0)
    for offset in range(1, 19):
        offsets.append(offset, offset)
        times.maybe_append(offset, offset)
    tier = MemoryRemoteStorage()
    tier.put(metadata, b"log", {IndexType.OFFSET: offsets.encode(), IndexType.TIMESTAMP: times.encode()})
    cache = await open_cache(tier)
    get = cache.offset_index if index_type is IndexType.OFFSET else cache.time_index
    with pytest.raises(RemoteStorageCorruptError, match="18 entries, for a log of 1000 bytes"):
        await get(metadata)


async def test_R4_what_is_larger_than_any_index_of_the_log_is_not_decoded() -> None:
    metadata = segment(1, 0, 99)
    tier = MemoryRemoteStorage()
    tier.put(metadata, b"log", {IndexType.OFFSET: bytes((10 << 20) + 1)})
    cache = await open_cache(tier)
    with pytest.raises(RemoteStorageCorruptError, match="10485761 bytes, where a segment of 1000 bytes"):
        await cache.offset_index(metadata)
