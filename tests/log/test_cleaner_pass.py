"""Cleaning a log: what survives, what a consumer sees, what a crash leaves."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import CorruptFileError
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import Compression, Record, build_batch, iter_batches
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.fakes.disk import DiskCrash, MemoryDisk, failures
from tierfetch.tests.log.compaction import (
    COMPACT,
    End,
    History,
    Write,
    batch_offsets,
    clean,
    committed_view,
    last_values,
    next_sequences,
    reopened,
    settled,
    uncommitted_view,
)
from tierfetch.tests.log.logs import DIRECTORY, NOW_MS, Clock, read_bytes

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def put(key: str, value: str | None, **producer: object) -> Write:
    return Write(((key.encode(), None if value is None else value.encode()),), **producer)


async def filled(
    disk: MemoryDisk, *steps: Write | End, clock: Clock | None = None, segments_max: int = 16
) -> PartitionLog:
    log = await reopened(disk, clock=clock, segments_max=segments_max)
    await History(log).apply(steps)
    await settled(log)
    return log


# What survives.


async def test_the_last_value_of_each_key_survives_at_its_offset() -> None:
    log = await filled(MemoryDisk(), *(put(f"k{i % 3}", f"v{i}") for i in range(60)), Write(((b"k9", b"x" * 200),)))
    before = last_values(await uncommitted_view(log))
    segments = len(log.state.segments)
    cleaned = await clean(log)
    assert [(record.key, record.offset) for record in await uncommitted_view(log)] == [
        (b"k0", 57),
        (b"k1", 58),
        (b"k2", 59),
        (b"k9", 60),
    ]
    assert last_values(await uncommitted_view(log)) == before
    assert cleaned.after_bytes < cleaned.before_bytes
    assert log.state.log_end_offset == 61
    assert log.state.clean_end_offset == log.state.segments.active.base_offset
    assert len(log.state.segments) == segments, "what becomes one is judged by what it was"
    await History(log).apply([put("k9", "again")])
    await settled(log)
    await clean(log)
    assert len(log.state.segments) == 2


async def test_the_active_segment_and_what_is_not_committed_stay_as_they_are() -> None:
    log = await reopened(MemoryDisk())
    await History(log).apply(put("k", f"v{i}") for i in range(30))
    await log.flush()
    before = await read_bytes(log)
    assert log.state.high_watermark == 0
    assert log.dirty_range().dirty_bytes == 0
    await clean(log)
    assert await read_bytes(log) == before
    log.update_high_watermark(log.state.log_end_offset)
    active = log.state.segments.active
    await clean(log)
    assert log.state.segments.active is active
    kept = [record.offset for record in await uncommitted_view(log)]
    assert kept == list(range(active.base_offset - 1, 30))


async def test_a_batch_keeps_its_offsets_when_records_in_it_go() -> None:
    batch = Write(((b"a", b"1"), (b"b", b"1"), (b"c", b"1")))
    log = await filled(MemoryDisk(), batch, put("a", "2"), put("c", "2"))
    await clean(log)
    assert batch_offsets(await read_bytes(log)) == [(0, 2, 1), (3, 3, 1), (4, 4, 1)]


async def test_a_tombstone_stays_until_its_horizon_and_goes_then() -> None:
    clock = Clock()
    log = await filled(MemoryDisk(), put("a", "1"), put("b", "1"), put("a", None), clock=clock)
    await clean(log)
    assert [(record.key, record.value) for record in await uncommitted_view(log)] == [(b"b", b"1"), (b"a", None)]
    (*_, (_, header)) = iter_batches(await read_bytes(log))
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + COMPACT.delete_retention_ms
    assert [record.timestamp for record in await uncommitted_view(log)] == [NOW_MS, NOW_MS]
    await cleaned_again(log, clock, COMPACT.delete_retention_ms - 1)
    assert [record.key for record in await uncommitted_view(log)][:2] == [b"b", b"a"]
    await cleaned_again(log, clock, 1)
    assert [record.key for record in await uncommitted_view(log)] == [b"b", b"x"]


async def test_D4_a_tombstone_stays_while_the_log_is_copied_and_a_compaction_that_had_begun_is_given_up() -> None:
    clock = Clock()
    log = await filled(MemoryDisk(), put("a", "1"), put("b", "1"), put("a", None), clock=clock)
    await clean(log)
    log.begin_copy()
    await cleaned_again(log, clock, COMPACT.delete_retention_ms)
    assert [record.key for record in await uncommitted_view(log)][:2] == [b"b", b"a"]
    log.end_copy()
    removals = log.state.removals
    log.begin_copy()
    assert log.state.removals == removals + 1
    log.end_copy()
    await cleaned_again(log, clock, 0)
    assert [record.key for record in await uncommitted_view(log)] == [b"b", b"x"]


async def cleaned_again(log: PartitionLog, clock: Clock, after_ms: int) -> None:
    clock.now_ms += after_ms
    await History(log).apply([put("x", str(clock.now_ms))])
    await settled(log)
    await clean(log)


async def test_aborted_data_goes_and_its_marker_after_it() -> None:
    clock = Clock()
    transaction = {"producer_id": 7, "is_transactional": True}
    log = await filled(
        MemoryDisk(), put("a", "1"), put("a", "aborted", **transaction), End(7, ABORT), put("b", "1"), clock=clock
    )
    await clean(log)
    assert [record.value for record in await uncommitted_view(log)] == [b"1", b"1"]
    assert batch_offsets(await read_bytes(log)) == [(0, 0, 1), (1, 1, 0), (2, 2, 1), (3, 3, 1)]
    assert [each.last_offset for each in await log.aborted_transactions(0, 4)] == [2]
    await cleaned_again(log, clock, 1)
    assert await log.aborted_transactions(0, 4) != []
    assert next_sequences(log) == {7: (0, 0)}


async def test_the_marker_of_a_transaction_that_is_gone_goes_after_its_horizon() -> None:
    clock = Clock()
    first, second = {"producer_id": 7, "is_transactional": True}, {"producer_id": 7, "is_transactional": True}
    log = await filled(
        MemoryDisk(), put("a", "1", **first), End(7, COMMIT), put("a", "2", **second), End(7, COMMIT), clock=clock
    )
    await clean(log)
    assert [offsets[0] for offsets in batch_offsets(await read_bytes(log))] == [1, 2, 3]
    await cleaned_again(log, clock, 0)
    assert [offsets[0] for offsets in batch_offsets(await read_bytes(log))][:3] == [1, 2, 3]
    await cleaned_again(log, clock, COMPACT.delete_retention_ms)
    assert [offsets[0] for offsets in batch_offsets(await read_bytes(log))][:2] == [2, 3]
    assert [record.value for record in (await committed_view(log))[:1]] == [b"2"]


async def test_an_open_transaction_holds_the_cleaner_back() -> None:
    log = await filled(
        MemoryDisk(), *(put("k", f"{i}") for i in range(20)), put("k", "open", producer_id=7, is_transactional=True)
    )
    await History(log).apply(put("k", f"{i}") for i in range(20))
    await settled(log)
    await clean(log)
    assert log.state.clean_end_offset <= log.state.offsets.last_stable_offset == 20
    values = [record.value for record in await uncommitted_view(log)]
    assert b"open" in values


async def test_a_record_without_a_key_is_not_taken_and_goes_where_there_is_one() -> None:
    log = await reopened(MemoryDisk())
    records = [Record(0, NOW_MS, None, b"?"), Record(1, NOW_MS, b"a", b"1")]
    batch = build_batch(records, base_offset=0, compression=Compression.ZSTD, partition_leader_epoch=0)
    with pytest.raises(KafkaError, match="without a key") as raised:
        await log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS)
    assert raised.value.code is ErrorCode.invalid_record
    assert log.state.log_end_offset == 0
    await log.append_as_follower(batch)
    await settled(log)
    await clean(log)
    assert [record.key for record in await uncommitted_view(log)] == [b"a"]


async def test_a_batch_that_comes_after_the_policy_changed_overtakes_none_whose_keys_are_checked() -> None:
    log = await reopened(MemoryDisk())
    compacted = replace(COMPACT, segment_bytes=1 << 20)
    log.update_config(compacted)
    many = [Record(index, NOW_MS, b"%d" % index, b"") for index in range(20_000)]
    batches = [
        build_batch(
            records,
            base_offset=0,
            compression=Compression.ZSTD,
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
        )
        for records, sequence in ((many, 0), (many[:1], len(many)))
    ]
    async with asyncio.TaskGroup() as group:
        for batch in batches:
            group.create_task(log.append_as_leader(bytearray(batch), leader_epoch=0, now_ms=NOW_MS))
            await asyncio.sleep(0)
            log.update_config(replace(compacted, cleanup_policy=frozenset({"delete"})))
    assert log.state.log_end_offset == len(many) + 1


async def test_a_full_map_cleans_what_it_covers_and_the_next_pass_the_rest() -> None:
    log = await filled(MemoryDisk(), *(put(f"k{i % 10}", f"v{i}") for i in range(100)))
    expected = last_values(await uncommitted_view(log))
    passes = 0
    while log.dirty_range().dirty_bytes:
        end = log.state.clean_end_offset
        await clean(log, map_bytes=4 * 200)
        assert log.state.clean_end_offset > end
        assert last_values(await uncommitted_view(log)) == expected
        passes += 1
    assert passes > 10
    await clean(log)


async def test_a_tombstone_above_a_full_map_stays_whatever_its_age() -> None:
    """What it hides lies below, and was not looked for together with it."""
    clock = Clock()
    fill = [put(f"c{i}", "1") for i in range(4)]
    log = await filled(MemoryDisk(), put("a", "1"), *fill, put("a", None), put("c0", "2"), clock=clock)
    for _ in range(3):
        log.state.clean_end_offset = 1
        await clean(log, map_bytes=4 * 200)
        assert log.state.clean_end_offset == 5
        assert [record.value for record in await uncommitted_view(log) if record.key == b"a"] == [b"1", None]
        clock.now_ms += COMPACT.delete_retention_ms


async def test_an_emptied_segment_is_read_over() -> None:
    log = await filled(MemoryDisk(), *(put("k", "x" * 200) for _ in range(12)))
    await clean(log)
    with await log.read(0, max_bytes=1000, max_offset=log.state.log_end_offset) as piece:
        assert [header.base_offset for _, header in iter_batches(await piece.read())] == [11]


async def test_nothing_is_rewritten_of_a_segment_in_which_nothing_goes() -> None:
    disk = MemoryDisk()
    log = await filled(disk, Write(tuple((b"%d" % i, b"x" * 100) for i in range(4))))
    before = disk.files()
    cleaned = await clean(log)
    assert disk.files() == before
    assert cleaned.after_bytes == cleaned.before_bytes


# What happens meanwhile.


async def test_a_reader_keeps_the_old_segment() -> None:
    log = await filled(MemoryDisk(), *(put("k", f"{i}") for i in range(30)))
    with await log.read(0, max_bytes=300, max_offset=log.state.log_end_offset) as piece:
        await clean(log)
        assert [header.base_offset for _, header in iter_batches(await piece.read())][:2] == [0, 1]
    await log.reap()
    assert not log.state.has_readers


@pytest.mark.slow
async def test_a_read_that_meets_a_swap_looks_again() -> None:
    """The segment whose file it was about to open may be another one by then."""
    for turns in range(120):
        log = await filled(MemoryDisk(), *(put(f"k{i % 3}", f"{i}") for i in range(30)), segments_max=1)
        expected = last_values(await uncommitted_view(log))
        task = asyncio.create_task(clean(log))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert last_values(await uncommitted_view(log)) == expected, turns
        await task


async def test_appends_and_reads_go_on_during_a_cleaning() -> None:
    log = await filled(MemoryDisk(), *(put(f"k{i % 4}", f"{i}") for i in range(60)))
    task = asyncio.create_task(clean(log))
    history = History(log)
    while not task.done():
        await history.apply([put("new", "1")])
        log.update_high_watermark(log.state.log_end_offset)
        assert last_values(await uncommitted_view(log)).keys() >= {b"k0", b"k1", b"k2", b"k3"}
    await task
    assert {key for key in last_values(await uncommitted_view(log))} == {b"k0", b"k1", b"k2", b"k3", b"new"}


async def test_a_truncation_during_a_cleaning_wins() -> None:
    disk = MemoryDisk()
    log = await filled(disk, *(put(f"k{i % 4}", f"{i}") for i in range(60)))
    task = asyncio.create_task(clean(log))
    for _ in range(12):
        await asyncio.sleep(0)
    await log.truncate_to(10)
    with suppress(KafkaError):
        await task
    assert log.state.failure is None
    assert [record.offset for record in await uncommitted_view(log)] == list(range(10))
    assert not [path for path in disk.files() if path.suffix in {".cleaned", ".swap"}]
    assert log.state.clean_end_offset <= 10


# After a crash.


def steps_with_everything() -> list[Write | End]:
    steps: list[Write | End] = []
    for i in range(5):
        steps += [put(f"k{i % 3}", f"v{i}"), put(f"p{i % 2}", f"w{i}", producer_id=1)]
        steps += [put(f"t{i % 2}", f"t{i}", producer_id=2, is_transactional=True)]
        steps += [End(2, ABORT if i % 2 else COMMIT)]
    return [*steps, put("k0", None)]


async def cleaned_once(disk: MemoryDisk) -> PartitionLog:
    """The next cleaning has dirty segments, and neighbours that are small enough to become one."""
    log = await filled(disk, *steps_with_everything())
    await clean(log)
    await History(log).apply([put(f"k{i}", "new") for i in range(8)])
    await settled(log)
    return log


@pytest.mark.slow
@pytest.mark.parametrize("unsynced", ["lost", "kept", "some"])
async def test_a_crash_at_every_effect_leaves_the_old_log_or_the_new(unsynced: str) -> None:
    ended = 0
    for fault in failures(crash=True):
        disk = MemoryDisk()
        log = await cleaned_once(disk)
        disk.settle()
        expected, sequences = last_values(await committed_view(log)), next_sequences(log)
        end_offset, old = log.state.log_end_offset, await uncommitted_view(log)
        disk.faults = fault
        with suppress(DiskCrash):
            await clean(log)
        after = disk.restart(Random(fault.n) if unsynced == "some" else unsynced)  # type: ignore[arg-type]
        again = await reopened(after)
        assert last_values(await committed_view(again)) == expected, fault.n
        assert next_sequences(again) == sequences, fault.n
        assert again.state.log_end_offset == end_offset
        assert set(await uncommitted_view(again)) <= set(old)
        assert not [path for path in after.files(DIRECTORY) if path.suffix in {".cleaned", ".swap"}]
        await again.flush()
        await clean(again)
        assert last_values(await committed_view(again)) == expected, fault.n
        ended += 1
    assert ended > 20


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
async def test_a_failure_at_every_effect_leaves_the_log_or_fails_it(persistent: bool) -> None:
    for fault in failures(persistent=persistent):
        disk = MemoryDisk()
        log = await cleaned_once(disk)
        expected = last_values(await committed_view(log))
        disk.faults = fault
        with suppress(OSError, KafkaError, CorruptFileError):
            await clean(log)
        disk.faults = None
        if log.state.failure is not None:
            await log.abandon()
            log = await reopened(disk)
        assert last_values(await committed_view(log)) == expected, fault.n
        await settled(log)
        await clean(log)
        assert last_values(await committed_view(log)) == expected, fault.n


# Any history.

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.one_of(st.none(), st.binary(min_size=1, max_size=40))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.builds(Write, RECORDS),
        st.builds(Write, RECORDS, st.just(1)),
        st.builds(Write, RECORDS, st.sampled_from([2, 3]), st.just(True)),
        st.builds(End, st.sampled_from([2, 3]), st.sampled_from([COMMIT, ABORT])),
        st.sampled_from(["roll", "clean", "later", "full"]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_any_history_reads_the_same_as_a_table(steps: list) -> None:  # type: ignore[type-arg]
    asyncio.run(check_history(steps))


async def check_history(steps: list) -> None:  # type: ignore[type-arg]
    clock, disk, plain_disk = Clock(), MemoryDisk(), MemoryDisk()
    log, plain = await reopened(disk, clock=clock), await reopened(plain_disk, clock=clock)
    histories = History(log), History(plain)
    for step in steps:
        if isinstance(step, Write | End):
            for history in histories:
                await history.apply([step])
            continue
        if step == "later":
            clock.now_ms += COMPACT.delete_retention_ms
            continue
        await settled(log)
        if step in ("clean", "full"):
            await clean(log, map_bytes=400 if step == "full" else 1 << 20)
            await check_same(log, plain)
    await settled(log)
    await clean(log)
    await check_same(log, plain)
    crashed = await reopened(disk.restart("kept"), clock=clock)
    await check_same(crashed, plain)
    assert (
        next_sequences(crashed).items()
        >= {producer: state for producer, state in next_sequences(log).items() if state[1] >= 0}.items()
    )


async def check_same(log: PartitionLog, plain: PartitionLog) -> None:
    """The compacted log and the whole one are the same to whoever builds a table; what is left is what was there."""
    assert log.state.log_end_offset == plain.state.log_end_offset
    assert last_values(await committed_view(log)) == last_values(await committed_view(plain))
    committed = {record.offset: record for record in await committed_view(plain)}
    for record in await committed_view(log):
        assert committed[record.offset] == record
    offsets = [header.base_offset for _, header in iter_batches(await read_bytes(log))]
    assert offsets == sorted(set(offsets))
