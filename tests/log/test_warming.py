"""Segments from the tier in front of a thin replica's log: it grows downwards whole, or stays as it is."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import replace
from random import Random

import pytest

from tierfetch.log.core import CorruptFileError, LogConfig
from tierfetch.log.keeper.manager import LogManager
from tierfetch.log.keeper.replace_replica import AdoptedState, adopt
from tierfetch.log.partition_log import PartitionLog
from tierfetch.log.replica import warming
from tierfetch.log.replica.warming import SegmentToWarm
from tierfetch.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.log.logs import append, end_transaction, offsets_of, read_bytes
from tierfetch.tests.log.nodes import LIVE, TOPIC_ID, TP, loaded

LAST_OFFSET_DELTA = 23
"""Where a batch has it."""
TIERED = LogConfig(segment_bytes=250, index_interval_bytes=0, remote_storage_enable=True)


class Source:
    """A full replica: epochs 0@0 2@7, an aborted transaction [3, 5], the same idempotent producer throughout."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log

    @classmethod
    async def filled(cls) -> Source:
        manager = await loaded(MemoryDisk(), config=TIERED)
        log = await manager.create(TP, TOPIC_ID)
        for i in range(3):
            await append(log, producer_id=9, producer_epoch=0, base_sequence=i)
        await append(log, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
        await append(log, producer_id=9, producer_epoch=0, base_sequence=3)
        await end_transaction(log, ControlType.ABORT, 5)
        await append(log, producer_id=9, producer_epoch=0, base_sequence=4)
        for i in range(5, 14):
            await append(log, epoch=2, producer_id=9, producer_epoch=0, base_sequence=i)
        log.update_high_watermark(log.state.log_end_offset)
        assert [segment.base_offset for segment in log.state.segments][-1] >= 9
        return cls(log)

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.state.segments]

    async def segment(self, base_offset: int, *, damage: int | None = None) -> SegmentToWarm:
        segment = next(each for each in self.log.state.segments if each.base_offset == base_offset)
        files = (await self.log.segment_files(segment)).files
        data = bytearray(await files["log"].read(0, files["log"].size))
        if damage is not None:
            data[damage] ^= 1
        transactions = files.get("txnindex")

        async def read(start: int, end: int) -> bytes:
            return bytes(data[start:end])

        return SegmentToWarm(
            base_offset=base_offset,
            size_bytes=len(data),
            read=read,
            transactions=b"" if transactions is None else await transactions.read(0, transactions.size),
            producers=None if base_offset == 0 else await self.log.producer_snapshot_at(base_offset),
        )


async def thin(disk: MemoryDisk, source: Source, *, log_start_offset: int = 0) -> tuple[LogManager, PartitionLog]:
    """A replica that was adopted at the source's last segment, and has followed to its end."""
    manager = await loaded(disk, config=TIERED)
    start = source.bases[-1]
    snapshot = await source.log.producer_snapshot_at(start)
    assert snapshot is not None
    epochs = source.log.state.epochs.range(log_start_offset, start)
    state = AdoptedState(TOPIC_ID, log_start_offset, start, epochs, snapshot)
    log = await adopt(manager, TP, state)
    await log.append_as_follower(await read_bytes(source.log, start))
    log.update_high_watermark(log.state.log_end_offset)
    await log.confirm_adoption()
    await log.flush()
    await manager.upkeep.save_checkpoints()
    disk.settle()
    return manager, log


def last_sequences(log: PartitionLog) -> dict[int, int]:
    return {producer_id: entry.last_sequence for producer_id, entry in log.state.producers.entries.items()}


async def check_whole(log: PartitionLog, source: Source) -> None:
    """What is local is the source's, byte for byte, with everything that belongs to it."""
    start = log.state.offsets.local_log_start_offset
    assert await read_bytes(log) == await read_bytes(source.log, start)
    assert (log.state.log_end_offset, log.state.epochs.entries) == (
        source.log.state.log_end_offset,
        source.log.state.epochs.entries,
    )
    aborted = await log.aborted_transactions(start, log.state.log_end_offset)
    assert aborted == await source.log.aborted_transactions(start, log.state.log_end_offset)
    assert last_sequences(log) == last_sequences(source.log)
    for offset in range(start, log.state.log_end_offset):
        with await log.read(offset, max_bytes=1, max_offset=log.state.log_end_offset) as piece:
            assert piece.size


async def test_the_log_grows_downwards_to_the_whole(source: Source) -> None:
    manager, log = await thin(MemoryDisk(), source)
    for base in reversed(source.bases[:-1]):
        assert await log.prepend(await source.segment(base)) > 0
        assert log.state.offsets.local_log_start_offset == base
        await check_whole(log, source)
    assert log.state.segments[0].max_timestamp_ms == source.log.state.segments[0].max_timestamp_ms
    found = await log.offset_for_timestamp(source.log.state.segments[1].max_timestamp_ms)
    assert found == await source.log.offset_for_timestamp(source.log.state.segments[1].max_timestamp_ms)
    await manager.close()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_it_is_there_after_a_restart(source: Source, is_clean: bool) -> None:
    disk = MemoryDisk()
    manager, log = await thin(disk, source)
    for base in reversed(source.bases[:-1]):
        await log.prepend(await source.segment(base))
    if is_clean:
        await manager.close()
    again = (await loaded(disk.restart("lost"), config=TIERED)).get(TP)
    assert again is not None
    assert again.state.offsets.local_log_start_offset == 0
    await check_whole(again, source)


async def test_a_cut_into_it_finds_the_producers_of_that_point(source: Source) -> None:
    _, log = await thin(MemoryDisk(), source)
    base = source.bases[-2]
    await log.prepend(await source.segment(base))
    await log.truncate_to(base + 1)
    assert log.state.producers.entries[9].last_sequence == base - 2, "two of the offsets below are of another producer"


async def test_a_segment_that_reaches_above_the_local_start_is_cut_there(source: Source) -> None:
    _, log = await thin(MemoryDisk(), source)
    last, before = await source.segment(source.bases[-2]), await source.segment(source.bases[-3])
    joined = await last.read(0, last.size_bytes) + await read_bytes(source.log, source.bases[-1])

    async def read(start: int, end: int) -> bytes:
        return joined[start:end]

    across = SegmentToWarm(
        base_offset=last.base_offset, size_bytes=len(joined), read=read, transactions=b"", producers=last.producers
    )
    assert await log.prepend(across) == last.size_bytes
    await log.prepend(before)
    await check_whole(log, source)


async def joined(source: Source, first: int, last: int) -> SegmentToWarm:
    """The segments from one base to the other as one, wanted from the last of them on."""
    wanted, before = await source.segment(last), await source.segment(first)
    data = await read_bytes(source.log, first, last) + await wanted.read(0, wanted.size_bytes)

    async def read(start: int, end: int) -> bytes:
        return data[start:end]

    return SegmentToWarm(
        base_offset=last,
        size_bytes=len(data),
        read=read,
        transactions=before.transactions or wanted.transactions,
        producers=wanted.producers,
        begins_below=True,
    )


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 200, 70])
async def test_a_segment_that_begins_below_is_taken_from_an_offset_on(
    source: Source, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "CHUNK_BYTES", chunk_bytes)
    _, log = await thin(MemoryDisk(), source)
    *others, below, base, _ = source.bases
    assert len(others) >= 1
    assert await log.prepend(await joined(source, others[0], base)) == (await source.segment(base)).size_bytes
    assert log.state.offsets.local_log_start_offset == base
    await check_whole(log, source)
    for each in (below, *reversed(others)):
        await log.prepend(await source.segment(each))
    await check_whole(log, source)


async def test_it_is_not_taken_from_the_middle_of_a_batch(source: Source) -> None:
    _, log = await thin(MemoryDisk(), source)
    whole = await joined(source, source.bases[0], source.bases[-2])
    data = bytearray(await whole.read(0, whole.size_bytes))
    struct.pack_into(">i", data, LAST_OFFSET_DELTA, 1000)  # of the first batch

    async def read(start: int, end: int) -> bytes:
        return bytes(data[start:end])

    with pytest.raises(CorruptRecordError, match="no batch begins at its base offset"):
        await log.prepend(replace(whole, read=read))


async def test_what_lies_below_the_log_start_is_not_served(source: Source) -> None:
    _, log = await thin(MemoryDisk(), source, log_start_offset=1)
    for base in reversed(source.bases[:-1]):
        await log.prepend(await source.segment(base))
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (1, 1)
    assert offsets_of(await read_bytes(log, 1))[0] == 1


@pytest.mark.parametrize("damage", [60, 70, 80])
async def test_damaged_bytes_do_not_come_in(source: Source, damage: int) -> None:
    disk = MemoryDisk()
    _, log = await thin(disk, source)
    before = sorted(disk.files(LIVE))
    with pytest.raises((CorruptRecordError, CorruptFileError)):
        await log.prepend(await source.segment(source.bases[-2], damage=damage))
    assert sorted(disk.files(LIVE)) == before
    assert await log.prepend(await source.segment(source.bases[-2])) > 0


async def test_another_history_does_not_come_in(source: Source) -> None:
    other = await Source.filled()
    await other.log.truncate_fully_and_start_at(0)
    for i in range(16):
        await append(other.log, epoch=1, producer_id=9, producer_epoch=0, base_sequence=i)
    _, log = await thin(MemoryDisk(), source)
    base = source.bases[-2]
    foreign = await other.segment(other.bases[-2])
    assert foreign.base_offset <= base
    with pytest.raises(CorruptRecordError, match="leader epoch 1"):
        await log.prepend(foreign)
    assert log.state.offsets.local_log_start_offset == source.bases[-1]


async def test_a_gap_does_not_come_in(source: Source) -> None:
    _, log = await thin(MemoryDisk(), source)
    with pytest.raises(CorruptRecordError, match="it ends at offset"):
        await log.prepend(await source.segment(source.bases[-3]))


async def test_producer_state_of_another_point_does_not_come_in(source: Source) -> None:
    _, log = await thin(MemoryDisk(), source)
    wanted = await source.segment(source.bases[-2])
    later = await source.log.producer_snapshot_at(source.log.state.log_end_offset)
    with pytest.raises(CorruptFileError, match="at or above the snapshot offset"):
        await log.prepend(
            SegmentToWarm(
                base_offset=wanted.base_offset,
                size_bytes=wanted.size_bytes,
                read=wanted.read,
                transactions=b"",
                producers=later,
            )
        )


async def test_a_log_that_changes_meanwhile_refuses_it(source: Source) -> None:
    disk = MemoryDisk()
    _, log = await thin(disk, source)
    wanted = await source.segment(source.bases[-2])
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def read(start: int, end: int) -> bytes:
        arrived.set()
        await go_on.wait()
        return await wanted.read(start, end)

    slow = SegmentToWarm(
        base_offset=wanted.base_offset,
        size_bytes=wanted.size_bytes,
        read=read,
        transactions=wanted.transactions,
        producers=wanted.producers,
    )
    coming = asyncio.create_task(log.prepend(slow))
    await arrived.wait()
    await log.truncate_fully_and_start_at(log.state.log_end_offset, log_start_offset=0)
    go_on.set()
    with pytest.raises(KafkaError) as refused:
        await coming
    assert refused.value.code is ErrorCode.not_leader_or_follower
    assert not [path for path in disk.files(LIVE) if path.suffix == ".cleaned"]


@pytest.mark.parametrize("log_start_offset", [None, 1])
async def test_what_is_not_missing_any_more_is_refused(source: Source, log_start_offset: int | None) -> None:
    """Between the decision and its execution the tier is asked: log start and local log may move meanwhile."""
    _, log = await thin(MemoryDisk(), source)
    wanted = await source.segment(source.bases[-2])
    if log_start_offset is None:
        await log.increment_log_start_offset(log.state.log_end_offset)
    else:
        await log.truncate_fully_and_start_at(wanted.base_offset, log_start_offset=log_start_offset)
    with pytest.raises(KafkaError, match="has changed") as refused:
        await log.prepend(wanted)
    assert refused.value.code is ErrorCode.not_leader_or_follower


async def test_cancellation_leaves_nothing(source: Source) -> None:
    disk = MemoryDisk()
    _, log = await thin(disk, source)
    before = sorted(disk.files(LIVE))
    wanted = await source.segment(source.bases[-2])

    async def read(start: int, end: int) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    stuck = SegmentToWarm(
        base_offset=wanted.base_offset, size_bytes=wanted.size_bytes, read=read, transactions=b"", producers=None
    )
    coming = asyncio.create_task(log.prepend(stuck))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    coming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await coming
    assert sorted(disk.files(LIVE)) == before


@pytest.mark.parametrize("unsynced", ["lost", "kept", "some"])
async def test_a_crash_at_every_effect_leaves_it_whole_or_not_at_all(source: Source, unsynced: str) -> None:
    outcomes = []
    wanted = await source.segment(source.bases[-2])
    for fault in failures(crash=True):
        disk = MemoryDisk()
        _, log = await thin(disk, source)
        disk.faults = fault
        try:
            await log.prepend(wanted)
        except DiskCrash:
            pass
        else:
            assert not fault.fired
        after = disk.restart(Random(fault.n) if unsynced == "some" else unsynced)  # type: ignore[arg-type]
        again = (await loaded(after, config=TIERED)).get(TP)
        assert again is not None
        assert again.state.offsets.local_log_start_offset in (wanted.base_offset, source.bases[-1])
        await check_whole(again, source)
        outcomes.append(again.state.offsets.local_log_start_offset == wanted.base_offset)
        assert not [path for path in after.files(LIVE) if path.suffix in {".cleaned", ".swap"}]
        if not outcomes[-1]:
            await again.prepend(wanted)
            await check_whole(again, source)
    assert outcomes[-1]
    assert not outcomes[0]


async def test_a_failure_of_every_effect_leaves_a_log_that_can_be_opened_anew(source: Source) -> None:
    wanted = await source.segment(source.bases[-2])
    for fault in failures():
        disk = MemoryDisk()
        manager, log = await thin(disk, source)
        disk.faults = fault
        try:
            await log.prepend(wanted)
        except (OSError, KafkaError):
            assert fault.fired
        disk.faults = None
        if log.state.failure is not None:
            log = await manager.reopen(TP)
        await check_whole(log, source)
        if log.state.offsets.local_log_start_offset != wanted.base_offset:
            await log.prepend(wanted)
        await check_whole(log, source)


@pytest.fixture
async def source() -> Source:
    return await Source.filled()
