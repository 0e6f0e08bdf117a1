"""Ledger snapshots: the format, the files under every failure and crash, and which of them are trusted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.protocol.topics import TopicIdPartition
from tierfetch.remote import snapshot_cutter
from tierfetch.remote.core import (
    IllegalTransitionError,
    RemoteLogLedger,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tierfetch.remote.core.records import encode_event
from tierfetch.remote.core.segment import RemoteLogEvent
from tierfetch.remote.core.snapshot import (
    FRAME_SIZE,
    HEADER_SIZE,
    ROWS_PER_SECTION,
    SnapshotError,
    SnapshotHeader,
    SnapshotLoader,
    encode_sections,
    read_frame,
)
from tierfetch.remote.metadata_topic import RemoteLogMetadataContext, metadata_partition
from tierfetch.remote.snapshot_cutter import EVENTS_BETWEEN_CUTS_MIN, SnapshotCutter, is_cut_due
from tierfetch.remote.snapshot_files import SnapshotFiles
from tierfetch.remote.topic_manager import TopicBasedRemoteLogMetadataManager, TopicManagerConfig
from tierfetch.tests.fakes.disk import DiskCrash, FailNth, MemoryDisk, failures
from tierfetch.tests.fakes.metadata_topic import FakeMetadataTopic, MetadataLog

from .builders import (
    DELETE_FINISHED,
    DELETE_STARTED,
    FINISHED,
    PARTITION,
    epochs_of,
    ledger_of,
    segment,
    segment_id,
    update,
)

DIRECTORY = Path("/data")
OTHER = TopicIdPartition(UUID(int=0x71), "other", 3)
HEADER = SnapshotHeader(UUID(int=0xAB), 2, 40, 5)
NUMBER = metadata_partition(PARTITION, 1)


def encoded(*ledgers: RemoteLogLedger) -> list[bytes]:
    return list(encode_sections(ledgers))


def loaded(sections: list[bytes], wanted: set[TopicIdPartition] | None = None) -> dict[Any, RemoteLogLedger]:
    loader = SnapshotLoader(wanted)
    for section in sections:
        _, checksum = read_frame(section)
        if loader.take(section[FRAME_SIZE:], checksum):
            return loader.ledgers
    raise SnapshotError("no end")


def check_same(one: RemoteLogLedger, other: RemoteLogLedger) -> None:
    assert one.version == other.version
    assert one.segments() == other.segments()
    assert one.finished() == other.finished()
    assert one.delete_state == other.delete_state
    assert one.newest_epoch == other.newest_epoch
    assert one.finished_size_bytes == other.finished_size_bytes
    assert one.started() == other.started()
    for epoch in range(4):
        for offset in range(32):
            assert one.find(epoch, offset) == other.find(epoch, offset)
            entries = epochs_of((epoch, 0)).entries
            assert one.deleted_to(entries, offset) == other.deleted_to(entries, offset)


events = st.one_of(
    st.builds(
        lambda number, bounds, epoch: segment(number, *sorted(bounds), (epoch, min(bounds))),
        st.integers(0, 9),
        st.tuples(st.integers(0, 30), st.integers(0, 30)),
        st.integers(0, 3),
    ),
    st.builds(
        lambda number, state, custom: update(number, state, custom_metadata=custom),
        st.integers(0, 9),
        st.sampled_from([FINISHED, FINISHED, DELETE_STARTED, DELETE_FINISHED]),
        st.none() | st.binary(max_size=3),
    ),
    st.builds(
        lambda state: RemotePartitionDeleteMetadata(PARTITION, state, 5, 1), st.sampled_from(RemotePartitionDeleteState)
    ),
)


def replay(ledger: RemoteLogLedger, stream: list[RemoteLogEvent]) -> RemoteLogLedger:
    for event in stream:
        try:
            ledger.apply(event)
        except IllegalTransitionError:
            continue
    return ledger


@given(st.lists(events, max_size=60), st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_D8_a_snapshot_and_what_came_after_it_make_what_all_events_make(stream: list[RemoteLogEvent], cut: int) -> None:
    resumed = loaded(encoded(replay(RemoteLogLedger(PARTITION), stream[:cut])))[PARTITION]
    check_same(replay(resumed, stream[cut:]), replay(RemoteLogLedger(PARTITION), stream))


def test_only_wanted_partitions_are_loaded() -> None:
    mine, others = ledger_of(segment(1, 0, 9)), RemoteLogLedger(OTHER)
    others.apply(segment(2, 0, 9, partition=OTHER))
    sections = encoded(others, mine)
    assert set(loaded(sections)) == {PARTITION, OTHER}
    assert set(loaded(sections, {PARTITION})) == {PARTITION}
    assert loaded(sections, {PARTITION})[PARTITION].finished() == mine.finished()


def test_no_step_of_writing_or_loading_has_more_than_a_slice_of_segments() -> None:
    count = 3 * ROWS_PER_SECTION + 1
    ledger = ledger_of(*(segment(number, number, number) for number in range(count)))
    sections = encoded(ledger)
    assert len(sections) == 1 + 4 + 1, "the partition, its readable segments, the end"
    assert max(map(len, sections)) <= FRAME_SIZE + 1 + ROWS_PER_SECTION * 100
    assert loaded(sections)[PARTITION].finished_count == count


@pytest.mark.parametrize("position", range(HEADER_SIZE))
def test_a_flipped_bit_of_the_header_is_seen(position: int) -> None:
    data = bytearray(HEADER.encode())
    data[position] ^= 1
    with pytest.raises(SnapshotError):
        SnapshotHeader.decode(bytes(data))
    assert SnapshotHeader.decode(HEADER.encode()) == HEADER


def files_on(disk: MemoryDisk) -> SnapshotFiles:
    return SnapshotFiles(disk, DIRECTORY)


async def prepared_disk(fault: FailNth | None = None) -> MemoryDisk:
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY)
    await disk.sync_directory(DIRECTORY.parent)
    await files_on(disk).write(HEADER, [ledger_of(segment(1, 0, 9))])
    disk = disk.restart()
    disk.faults = fault
    return disk


async def starts_after(disk: MemoryDisk) -> list[int]:
    found = await files_on(disk).read(2)
    assert found is not None
    return [metadata.start_offset for metadata in found.ledgers[PARTITION].finished()]


@pytest.mark.parametrize("unsynced", ["lost", "kept", Random(1), Random(2), Random(3)])
async def test_a_crash_at_any_effect_leaves_the_old_snapshot_or_the_new_one(unsynced: Any) -> None:
    new = ledger_of(*(segment(number, number, number) for number in range(2 * ROWS_PER_SECTION)))
    seen = set()
    for fault in failures(crash=True):
        disk = await prepared_disk(fault)
        with suppress(DiskCrash):
            await files_on(disk).write(HEADER, [new])
        seen.add(len(await starts_after(disk.restart(unsynced))))
    assert seen == {1, 2 * ROWS_PER_SECTION}


async def test_a_failure_at_any_effect_leaves_the_old_snapshot_or_the_new_one() -> None:
    for fault in failures():
        disk = await prepared_disk(fault)
        with suppress(OSError):
            await files_on(disk).write(HEADER, [ledger_of(segment(2, 10, 19))])
        assert await starts_after(disk) in ([0], [10])


async def test_a_torn_or_damaged_file_is_said() -> None:
    disk = await prepared_disk()
    path = files_on(disk).path(2)
    whole = await disk.read_file(path)
    for size in range(len(whole)):
        await disk.write_file(path, whole[:size])
        with pytest.raises(SnapshotError):
            await files_on(disk).read(2)
    for position in range(len(whole)):
        await disk.write_file(path, bytes((*whole[:position], whole[position] ^ 0x10, *whole[position + 1 :])))
        with pytest.raises(SnapshotError):
            await files_on(disk).read(2)
    assert await files_on(disk).read(1) is None


@pytest.mark.parametrize(
    ("position", "end", "segments", "is_due"),
    [(9_999, 0, 0, False), (10_000, 0, 0, True), (60_000, 20_000, 50_000, False), (70_000, 20_000, 50_000, True)],
)
def test_a_snapshot_is_due_once_reading_costs_more_than_writing(
    position: int, end: int, segments: int, is_due: bool
) -> None:
    assert EVENTS_BETWEEN_CUTS_MIN == 10_000
    assert is_cut_due(position, end, segments) is is_due


class Broker:
    """A metadata manager with a disk, over a topic of one partition; `restart` takes another one's place."""

    def __init__(self, log: MetadataLog, disk: MemoryDisk) -> None:
        self.topic = FakeMetadataTopic(log)
        self.disk = disk
        self.manager = TopicBasedRemoteLogMetadataManager(
            TopicManagerConfig(retry_backoff_ms=1, retry_backoff_max_ms=2),
            RemoteLogMetadataContext(self.topic, Random(1), files=files_on(disk)),
        )

    async def start(self, *partitions: TopicIdPartition) -> list[RemoteLogLedger]:
        await self.manager.start()
        await self.manager.assign(partitions)
        async with asyncio.timeout(10):
            return [await self.manager.wait_newer(partition, -1) for partition in partitions]


def fill(log: MetadataLog, *numbers: int, partition: TopicIdPartition = PARTITION) -> None:
    for number in numbers:
        log.append(NUMBER, encode_event(segment(number, 10 * number, 10 * number + 9, partition=partition)))
        log.append(NUMBER, encode_event(update(number, FINISHED, partition=partition)))


@pytest.fixture
def log() -> MetadataLog:
    return MetadataLog(partition_count=1)


async def cut_at_ten(log: MetadataLog) -> MemoryDisk:
    """The disk of a broker that has cut a snapshot of the first ten records: two partitions, segments 0 to 4."""
    fill(log, 0, 1, 2)
    fill(log, 3, 4, partition=OTHER)
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY)
    await SnapshotCutter(FakeMetadataTopic(log), NUMBER, files_on(disk), 5.0).cut(10)
    return disk


def starts_of(ledger: RemoteLogLedger) -> list[int]:
    return [metadata.start_offset for metadata in ledger.finished()]


async def test_D8_reading_resumes_at_the_snapshot(log: MetadataLog) -> None:
    """Also for a partition that nobody here followed when it was cut."""
    disk = await cut_at_ten(log)
    log.trim(NUMBER, 10)
    fill(log, 5)
    broker = Broker(log, disk)
    one, other = await broker.start(PARTITION, OTHER)
    assert (starts_of(one), starts_of(other)) == ([0, 10, 20, 50], [30, 40])
    await broker.manager.close()


async def test_a_snapshot_that_ends_at_the_high_watermark_is_checked_by_a_read_before_anything_is_ready(
    log: MetadataLog,
) -> None:
    disk = await cut_at_ten(log)
    log.truncate(NUMBER, 8)
    fill(log, 4, partition=PARTITION)
    broker = Broker(log, disk)
    one, other = await broker.start(PARTITION, OTHER)
    assert (starts_of(one), starts_of(other)) == ([0, 10, 20, 40], [30])
    assert broker.topic.calls["read"] >= 4, "the topic was read from its start"
    await broker.manager.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("recreate", "it is of topic"),
        ("truncate", "above the high watermark"),
        ("flip", "checksum"),
        ("version", "torn or damaged"),
    ],
)
async def test_a_snapshot_that_is_not_of_this_log_is_not_used(
    log: MetadataLog, caplog: pytest.LogCaptureFixture, change: str, message: str
) -> None:
    disk = await cut_at_ten(log)
    path = files_on(disk).path(NUMBER)
    data = bytearray(await disk.read_file(path))
    if change == "recreate":
        log.topic_id = UUID(int=0xCD)
        log.values.clear()
        log.epochs.clear()
        fill(log, *range(7, 20))
    elif change == "truncate":
        log.truncate(NUMBER, 4)
    else:
        data[-1 if change == "flip" else 9] ^= 1
        await disk.write_file(path, data)
    broker = Broker(log, disk)
    (ledger,) = await broker.start(PARTITION)
    expected = {"recreate": list(range(70, 200, 10)), "truncate": [0, 10]}
    assert starts_of(ledger) == expected.get(change, [0, 10, 20])
    assert message in caplog.text
    assert not await disk.exists(path)
    await broker.manager.close()


async def test_what_a_bounded_topic_no_longer_has_is_an_error_where_no_snapshot_has_it(
    log: MetadataLog, caplog: pytest.LogCaptureFixture
) -> None:
    disk = await cut_at_ten(log)
    fill(log, 5)
    log.trim(NUMBER, 11)
    broker = Broker(log, disk)
    await broker.start(PARTITION)
    assert "it ends at offset 10, and the topic begins at 11" in caplog.text
    assert "metadata partition 0 begins at offset 11, and no ledger snapshot has what was before" in caplog.text
    await broker.manager.close()


async def test_a_snapshot_is_cut_when_enough_was_read_and_the_next_one_continues_it(
    log: MetadataLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_cutter, "EVENTS_BETWEEN_CUTS_MIN", 4)
    disk = MemoryDisk()
    await disk.make_directory(DIRECTORY)
    fill(log, 0, 1)
    fill(log, 2, partition=OTHER)
    broker = Broker(log, disk)
    await broker.start(PARTITION)
    for numbers, expected in (((), 6), ((3, 4), 10), ((5, 6, 7), 16)):
        fill(log, *numbers)
        async with asyncio.timeout(10):
            while (snapshot := await files_on(disk).read(NUMBER)) is None or snapshot.header.end_offset < expected:  # noqa: ASYNC110
                await asyncio.sleep(0.001)  # a file has no event
    assert starts_of(snapshot.ledgers[OTHER]) == [20]
    assert len(snapshot.ledgers[PARTITION]) == 7
    await broker.manager.close()


async def test_a_full_disk_leaves_the_broker_without_snapshots_and_nothing_else(
    log: MetadataLog, caplog: pytest.LogCaptureFixture
) -> None:
    fill(log, 0, 1)
    for fault in failures():
        disk = MemoryDisk(fault)
        cutter = SnapshotCutter(FakeMetadataTopic(log), NUMBER, files_on(disk), 5.0)
        await cutter.cut(4)
        assert not cutter.is_due(5)
    assert "cannot write a ledger snapshot, continuing without" in caplog.text


def test_ids_are_those_of_the_fake() -> None:
    assert (NUMBER, segment_id(1).topic_id_partition) == (0, PARTITION)
