"""Truncation: what goes with the cut bytes, readers above the cut, KIP-101's scenarios, every effect that may fail."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tierfetch.log.core import LogConfig
from tierfetch.log.partition_log import PartitionLog
from tierfetch.log.replica import truncation
from tierfetch.log.segment.segment import LogSegment
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.log.logs import (
    DIRECTORY,
    Keeper,
    append,
    data_batch,
    end_transaction,
    epochs_of,
    offsets_of,
    open_log,
    read_bytes,
    records_of,
)

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=0)


async def log_of_twelve(disk: MemoryDisk, keeper: Keeper | None = None) -> PartitionLog:
    """Offsets 0 to 11: six batches of two in three segments, epochs 0@0, 1@4, 2@8."""
    log = await open_log(disk, config=SMALL, keeper=keeper)
    for i in range(6):
        await append(log, 2, epoch=i // 2, value=bytes(50))
    assert [segment.base_offset for segment in log.state.segments] == [0, 4, 8]
    return log


@pytest.mark.parametrize(
    ("offset", "end", "bases", "epochs"),
    [
        (11, 10, [0, 4, 8], [(0, 0), (1, 4), (2, 8)]),
        (10, 10, [0, 4, 8], [(0, 0), (1, 4), (2, 8)]),
        (8, 8, [0, 4, 8], [(0, 0), (1, 4)]),
        (6, 6, [0, 4], [(0, 0), (1, 4)]),
        (2, 2, [0], [(0, 0)]),
        (1, 0, [0], []),
        (0, 0, [0], []),
    ],
)
async def test_E1_everything_above_the_cut_goes(
    offset: int, end: int, bases: list[int], epochs: list[tuple[int, int]]
) -> None:
    disk, keeper = MemoryDisk(), Keeper()
    log = await log_of_twelve(disk, keeper)
    log.update_high_watermark(7)
    await log.flush()
    assert await log.truncate_to(offset) == end == log.state.log_end_offset
    assert [segment.base_offset for segment in log.state.segments] == bases
    assert offsets_of(await read_bytes(log)) == list(range(end))
    assert epochs_of(log) == epochs
    assert (log.state.high_watermark, log.state.offsets.recovery_point) == (min(7, end), end)
    assert keeper.calls[-1] == "recovery point"
    # All of it is durable: a crash right now finds the same, also the recovery point.
    after = await open_log(disk.restart(), config=SMALL, recovery_point=end)
    assert offsets_of(await read_bytes(after)) == list(range(end))
    assert epochs_of(after) == epochs
    assert after.recovery_report.messages == []
    # And it goes on where it was cut.
    assert (await append(log, 1, epoch=9)).first_offset == end


async def test_E1_a_cut_at_or_above_the_end_drops_epochs_without_data() -> None:
    disk = MemoryDisk()
    log = await log_of_twelve(disk)
    await log.assign_epoch(5)
    await log.save_epochs()
    assert await log.truncate_to(20) == 12
    assert epochs_of(log) == [(0, 0), (1, 4), (2, 8)]
    assert epochs_of(await open_log(disk.restart("kept"), config=SMALL)) == [(0, 0), (1, 4), (2, 8)]
    await log.close()
    assert b"5 12" not in disk.files(DIRECTORY)[DIRECTORY / "leader-epoch-checkpoint"]


async def test_bootstrap_rule_7_a_cut_below_the_local_log_start_empties_the_log() -> None:
    log = await log_of_twelve(MemoryDisk())
    log.update_config(LogConfig(segment_bytes=400, remote_storage_enable=True))
    log.update_high_watermark(12)
    assert await log.delete_local_segments(8) == 2
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset) == (0, 8)
    assert await log.truncate_to(5) == 5
    assert (
        log.state.log_start_offset,
        log.state.offsets.local_log_start_offset,
        log.state.log_end_offset,
        log.state.high_watermark,
    ) == (
        0,
        5,
        5,
        5,
    )
    assert epochs_of(log) == []
    assert (await append(log, epoch=3)).first_offset == 5


@pytest.mark.parametrize(("offset", "log_start"), [(20, None), (20, 3), (4, None), (0, None)])
async def test_truncate_fully_and_start_at(offset: int, log_start: int | None) -> None:
    disk, keeper = MemoryDisk(), Keeper()
    config = LogConfig(segment_bytes=400, remote_storage_enable=True)
    log = await log_of_twelve(disk, keeper)
    log.update_config(config)
    await log.flush()
    await log.truncate_fully_and_start_at(offset, log_start_offset=log_start)
    start = offset if log_start is None else log_start
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset, log.state.log_end_offset) == (
        start,
        offset,
        offset,
    )
    assert (log.state.high_watermark, log.state.offsets.recovery_point, epochs_of(log)) == (offset, offset, [])
    assert "log start" in keeper.calls
    after = await open_log(disk.restart(), config=config, log_start_offset=start, recovery_point=offset)
    assert (after.state.log_start_offset, after.state.offsets.local_log_start_offset, after.state.log_end_offset) == (
        start,
        offset,
        offset,
    )
    assert (await append(log, epoch=1)).first_offset == offset
    assert offsets_of(await read_bytes(log)) == [offset]


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    start=st.integers(0, 23),
    cut=st.integers(0, 30),
)
@example(sizes=[4], start=2, cut=3)
def test_a_log_never_ends_below_its_log_start(sizes: list[int], start: int, cut: int) -> None:
    async def run() -> None:
        disk, keeper = MemoryDisk(), Keeper()
        log = await open_log(disk, config=SMALL, keeper=keeper)
        for size in sizes:
            await append(log, size, epoch=0, value=bytes(50))
        await log.flush()
        end = log.state.log_end_offset
        log.update_high_watermark(end)
        log_start = min(start, end)
        await log.increment_log_start_offset(log_start)
        borders = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        whole = end if cut >= end else max(border for border in borders if border <= cut)
        expected = (cut, cut) if cut < log_start else (log_start, max(whole, log_start))
        assert await log.truncate_to(cut) == log.state.log_end_offset
        assert (log.state.log_start_offset, log.state.log_end_offset) == expected
        assert log.state.log_start_offset <= log.state.high_watermark <= log.state.log_end_offset
        after = await open_log(disk.restart(), config=SMALL, log_start_offset=expected[0], recovery_point=expected[1])
        assert (after.state.log_start_offset, after.state.log_end_offset) == expected
        assert (await append(log, 1, epoch=9)).first_offset == expected[1]

    asyncio.run(run())


async def test_E1_a_cut_of_the_batch_with_the_log_start_empties_the_log() -> None:
    disk = MemoryDisk()
    log = await open_log(disk)
    await append(log, 10)
    log.update_high_watermark(10)
    await log.increment_log_start_offset(5)
    assert await log.truncate_to(7) == 5
    assert (log.state.log_start_offset, log.state.offsets.local_log_start_offset, log.state.high_watermark) == (5, 5, 5)
    assert await read_bytes(log, 5) == b""
    after = await open_log(disk.restart(), log_start_offset=5, recovery_point=5)
    assert (after.state.log_start_offset, after.state.log_end_offset) == (5, 5)


async def test_producer_state_is_truncated_with_the_log() -> None:
    log = await open_log(MemoryDisk(), config=SMALL)
    await append(log, 2, producer_id=1, producer_epoch=0, base_sequence=0, value=bytes(50))
    await append(log, 2, producer_id=1, producer_epoch=0, base_sequence=2, is_transactional=True, value=bytes(50))
    await append(log, 2, value=bytes(50))
    await end_transaction(log, ControlType.ABORT, 1)
    await append(log, 1, producer_id=2, producer_epoch=0, base_sequence=0, value=bytes(50))
    log.update_high_watermark(log.state.log_end_offset)
    assert log.state.offsets.first_unstable_offset is None
    await log.truncate_to(6)
    assert log.state.offsets.first_unstable_offset == 2, "the marker is gone: the transaction is open again"
    assert set(log.state.producers.entries) == {1}
    assert await log.aborted_transactions(0, 6) == []
    await log.truncate_to(2)
    assert log.state.offsets.first_unstable_offset is None
    with pytest.raises(KafkaError, match="expected sequence 2"):
        await append(log, 1, producer_id=1, producer_epoch=0, base_sequence=7)
    again = await append(log, 2, producer_id=1, producer_epoch=0, base_sequence=0, value=bytes(50))
    assert again.duplicate


async def test_stale_snapshots_are_gone_before_anything_is_appended() -> None:
    disk = MemoryDisk()
    log = await log_of_twelve(disk)
    await log.flush()
    assert DIRECTORY / "00000000000000000008.snapshot" in disk.restart().files()
    await log.truncate_to(6)
    assert [path.name for path in disk.restart().files() if path.suffix == ".snapshot"] == [
        "00000000000000000004.snapshot"
    ]


# Readers.


async def test_a_truncation_waits_for_readers_above_the_cut_only() -> None:
    log = await log_of_twelve(MemoryDisk())
    below = await log.read(8, max_bytes=1, max_offset=12)
    above = await log.read(10, max_bytes=1000, max_offset=12)
    cut = asyncio.create_task(log.truncate_to(10))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not cut.done()
    with await log.read(10, max_bytes=1000, max_offset=12) as nothing:
        assert nothing.size == 0, "nobody begins to read above the cut any more"
    assert offsets_of(await above.read()) == [10, 11]
    above.release()
    assert await cut == 10
    assert offsets_of(await below.read()) == [8, 9]
    below.release()


async def test_a_truncation_aborts_readers_that_do_not_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "READER_WAIT_S", 0.001)
    log = await log_of_twelve(MemoryDisk())
    piece = await log.read(10, max_bytes=1000, max_offset=12)
    assert await log.truncate_to(10) == 10
    with pytest.raises(KafkaError, match="offset 10 was truncated during the read") as raised:
        await piece.read()
    assert raised.value.code is ErrorCode.not_leader_or_follower
    piece.release()
    piece.release()


class Pipe(asyncio.WriteTransport):
    """A transport that is slow until it is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = asyncio.Event()
        self.sent = b""

    def write(self, data: object) -> None:
        self.sent += bytes(data)  # type: ignore[call-overload]

    def abort(self) -> None:
        self.aborted.set()


async def test_a_truncation_cuts_the_connection_of_a_transfer_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "READER_WAIT_S", 0.001)
    pipe, started = Pipe(), asyncio.Event()
    log = await log_of_twelve(MemoryDisk())
    piece = await log.read(10, max_bytes=1000, max_offset=12)
    file = piece._file
    assert file is not None

    async def slow(offset: int, count: int, transport: asyncio.WriteTransport) -> None:
        started.set()
        await pipe.aborted.wait()
        raise ConnectionResetError

    monkeypatch.setattr(type(file), "send", lambda self, *args: slow(*args))
    sending = asyncio.create_task(piece.send(pipe))
    await started.wait()
    assert await log.truncate_to(10) == 10
    with pytest.raises(ConnectionResetError):
        await sending
    piece.release()


async def test_a_read_that_was_overtaken_is_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read has found its bytes when they are cut and replaced by others. It asks for less than what follows its
    offset: all of that would be found at once.
    """
    log = await log_of_twelve(MemoryDisk())
    found, go_on, find = asyncio.Event(), asyncio.Event(), LogSegment.position_of

    async def find_slowly(segment: LogSegment, offset: int) -> int:
        position = await find(segment, offset)
        if not found.is_set() and offset == 10:
            found.set()
            await go_on.wait()
        return position

    monkeypatch.setattr(LogSegment, "position_of", find_slowly)
    reading = asyncio.create_task(log.read(10, max_bytes=1, max_offset=12))
    await found.wait()
    await log.truncate_to(9)
    await append(log, 4, epoch=7, value=b"new")
    go_on.set()
    with await reading as piece:
        records = records_of(await piece.read())
    assert [(record.offset, record.value) for record in records] == [(offset, b"new") for offset in (8, 9, 10, 11)]


# KIP-101.


async def replicate(leader: PartitionLog, follower: PartitionLog) -> None:
    """One fetch: the follower asks where its latest epoch ended on the leader, cuts, and copies."""
    if follower.state.epochs.latest_epoch >= 0:
        end = leader.state.epochs.end_offset_for(follower.state.epochs.latest_epoch, leader.state.log_end_offset)
        if end.end_offset < follower.state.log_end_offset or end.epoch < follower.state.epochs.latest_epoch:
            own = follower.state.epochs.end_offset_for(end.epoch, follower.state.log_end_offset)
            await follower.truncate_to(min(end.end_offset, own.end_offset))
            return
    data = await read_bytes(leader, follower.state.log_end_offset)
    if data:
        await follower.append_as_follower(data)
    follower.update_high_watermark(leader.state.high_watermark)


@pytest.mark.parametrize("leader_restarts", [False, True])
async def test_E4_scenario_1_no_message_is_lost(leader_restarts: bool) -> None:
    """The follower restarts with a high watermark below its end: it does not cut there, and leads with everything."""
    disks = MemoryDisk(), MemoryDisk()
    leader, follower = [await open_log(disk, config=SMALL) for disk in disks]
    await append(leader)
    await append(leader, value=b"m2")
    await replicate(leader, follower)
    leader.update_high_watermark(2)
    assert follower.state.high_watermark == 0
    after = disks[1].restart("kept")
    follower = await open_log(after, config=SMALL, high_watermark=0)
    if leader_restarts:
        leader = await open_log(disks[0].restart("kept"), config=SMALL, high_watermark=2)
    else:
        await replicate(leader, follower)
    await follower.assign_epoch(1)
    assert offsets_of(await read_bytes(follower)) == [0, 1]


@pytest.mark.parametrize("seed", range(8))
async def test_E4_scenario_2_logs_never_diverge(seed: int) -> None:
    """Both crash and lose unsynced writes; each leads in turn. Records may be lost, the logs end up equal."""
    random = Random(seed)
    disks = [MemoryDisk(), MemoryDisk()]
    logs = [await open_log(disk, config=SMALL) for disk in disks]
    epoch = 0
    for _ in range(6):
        leader, follower = random.sample([0, 1], 2)
        epoch += 1
        await logs[leader].assign_epoch(epoch)
        for _ in range(random.randrange(4)):
            await append(logs[leader], epoch=epoch, value=random.randbytes(20))
        for _ in range(random.randrange(3)):
            await replicate(logs[leader], logs[follower])
        if random.random() < 0.5:
            disks = [disk.restart(Random(random.random())) for disk in disks]
            logs = [await open_log(disk, config=SMALL) for disk in disks]
    epoch += 1
    await logs[0].assign_epoch(epoch)
    await append(logs[0], epoch=epoch)
    for _ in range(10):
        await replicate(logs[0], logs[1])
    assert await read_bytes(logs[1]) == await read_bytes(logs[0])
    assert epochs_with_data(logs[1]) == epochs_with_data(logs[0])


def epochs_with_data(log: PartitionLog) -> dict[int, int | None]:
    return {offset: log.state.epochs.epoch_for_offset(offset) for offset in range(log.state.log_end_offset)}


# Failures.


@pytest.mark.parametrize("offset", [6, 10])
async def test_a_crash_at_every_effect_leaves_a_log_that_ends_at_the_cut_or_above(offset: int) -> None:
    for fault in failures(crash=True):
        disk = MemoryDisk()
        log = await log_of_twelve(disk)
        await log.flush()
        disk.faults = fault
        try:
            await log.truncate_to(offset)
        except DiskCrash:
            pass
        else:
            assert not fault.fired
        for seed in range(3):
            after = disk.restart(Random(seed))
            again = await open_log(after, config=SMALL, recovery_point=12)
            assert again.state.log_end_offset in {offset, 8, 12}, fault.n
            assert offsets_of(await read_bytes(again)) == list(range(again.state.log_end_offset))
            assert all(start < again.state.log_end_offset for _, start in epochs_of(again))
            assert all(int(path.stem) <= 12 for path in after.files() if path.suffix == ".snapshot")


async def test_a_failure_at_every_effect_fails_the_log_or_nothing() -> None:
    for fault in failures():
        disk = MemoryDisk()
        log = await log_of_twelve(disk)
        disk.faults = fault
        try:
            assert await log.truncate_to(6) == 6
        except KafkaError:
            assert log.state.failure is not None
            await log.abandon()
            disk.faults = None
            log = await open_log(disk, config=SMALL)
            assert log.state.log_end_offset in {6, 8, 12}
            await log.truncate_to(6)
        assert offsets_of(await read_bytes(log)) == list(range(6))


async def test_a_cancelled_truncation_runs_to_its_end() -> None:
    log = await log_of_twelve(MemoryDisk())
    task = asyncio.create_task(log.truncate_to(6))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.state.log_end_offset == 6
    assert (await append(log, epoch=3)).first_offset == 6


async def test_F9_the_worked_scenario_truncates_and_learns_epochs() -> None:
    """Segments 0-2 and 3-5, epochs (0,0)(1,3)(2,5)(3,7), cut at 6 and fed on from there."""
    batches = [data_batch(base_offset=i, epoch=epoch) for i, epoch in enumerate([0, 0, 0, 1, 1, 2, 2, 3])]
    log = await open_log(MemoryDisk(), config=LogConfig(segment_bytes=3 * len(batches[0])))
    await log.append_as_follower(b"".join(batches))
    assert [segment.base_offset for segment in log.state.segments] == [0, 3, 6]
    assert epochs_of(log) == [(0, 0), (1, 3), (2, 5), (3, 7)]
    assert await log.truncate_to(6) == 6
    assert epochs_of(log) == [(0, 0), (1, 3), (2, 5)]
    await log.append_as_follower(b"".join(batches[6:]))
    assert epochs_of(log) == [(0, 0), (1, 3), (2, 5), (3, 7)]
