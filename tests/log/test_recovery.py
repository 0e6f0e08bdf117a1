"""The recovery table, row by row; and any crash at all: what was durable is found again, nothing is invented."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierfetch.log.core import LogConfig
from tierfetch.log.core.file_names import UNSYNCED_FILE
from tierfetch.log.disk import port
from tierfetch.log.partition_log import PartitionLog
from tierfetch.log.segment import index_files
from tierfetch.log.segment.scan import CorruptLogError
from tierfetch.protocol.errors import ErrorCode, KafkaError
from tierfetch.protocol.records import iter_batches, parse_header
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.fakes.disk import DiskCrash, FailNth, MemoryDisk, failures
from tierfetch.tests.log.logs import (
    DIRECTORY,
    NOW_MS,
    append,
    data_batch,
    end_transaction,
    epochs_of,
    offsets_of,
    open_log,
    read_bytes,
)

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=0)


async def written(disk: MemoryDisk) -> PartitionLog:
    """Offsets 0 to 11 in segments 0, 4 and 8, epochs 0@0, 1@4, 2@8, closed in order."""
    log = await open_log(disk, config=SMALL)
    for i in range(6):
        await append(log, 2, epoch=i // 2, value=bytes(50), producer_id=5, producer_epoch=0, base_sequence=2 * i)
    assert [segment.base_offset for segment in log.state.segments] == [0, 4, 8]
    await log.close()
    return log


async def changed(**files: bytes | None) -> MemoryDisk:
    """A disk with that log, some of its files replaced (`None`: removed); `_0_log` stands for `<20 digits>.log`."""
    disk = MemoryDisk()
    await written(disk)
    for key, data in files.items():
        path = name_of(key)
        if data is None:
            await disk.remove(path)
        else:
            disk.put(path, data)
    disk.settle()
    return disk


def name_of(key: str) -> Path:
    if key.startswith("_"):
        offset, suffix = key[1:].split("_")
        return DIRECTORY / f"{int(offset):020d}.{suffix}"
    return DIRECTORY / key.replace("_", "-").replace("metadata", "metadata").replace("partition-", "partition.")


async def content(key: str) -> bytes:
    disk = MemoryDisk()
    await written(disk)
    return disk.files()[name_of(key)]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def batch_starts(data: bytes) -> list[int]:
    return [position for position, _ in iter_batches(data)]


# Rows.


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: batch_starts(data)[1] + 30],
        lambda data: data + bytes(300),
        lambda data: data + b"garbage" * 20,
        lambda data: flipped(data, batch_starts(data)[1] + 70),
        lambda data: data[: batch_starts(data)[1]] + data[: batch_starts(data)[1]],
    ],
    ids=["short batch", "short header", "zeros", "garbage", "wrong CRC", "offsets that go back"],
)
async def test_row_torn_tail_is_cut_and_reported(damage: object) -> None:
    whole = await content("_8_log")
    broken = damage(whole)  # type: ignore[operator]
    disk = await changed(_8_log=broken)
    log = await open_log(disk, config=SMALL, recovery_point=5)
    end = log.state.log_end_offset
    assert end == (12 if broken[: len(whole)] == whole else 10)
    assert offsets_of(await read_bytes(log)) == list(range(end))
    report = log.recovery_report
    assert report.scanned_segments == 2
    assert report.cut_bytes == len(broken) - log.state.segments.active.size_bytes
    assert f"(offset {end})" in report.messages[0]
    assert "00000000000000000008.log: cut at byte" in report.messages[0]
    assert len(disk.files()[name_of("_8_log")]) == log.state.segments.active.size_bytes
    assert log.state.producers.entries[5].last_sequence == end - 1
    assert (await append(log, epoch=2)).first_offset == end


async def test_row_damage_below_the_recovery_point_is_refused() -> None:
    whole = await content("_8_log")
    disk = await changed(_8_log=flipped(whole, 70))
    before = disk.files()
    with pytest.raises(CorruptLogError, match=r"0008\.log is damaged at byte 0 \(offset 8\): CRC") as error:
        await open_log(disk, config=SMALL, recovery_point=12)
    assert (error.value.code, error.value.position) == (ErrorCode.kafka_storage_error, 0)
    assert disk.files() == before, "nothing was cut"


@pytest.mark.parametrize(
    "damage",
    [lambda data: flipped(data, batch_starts(data)[1] + 70), lambda data: data[:-5]],
    ids=["wrong CRC", "short"],
)
async def test_row_damaged_middle_below_the_recovery_point_is_reported_and_not_served(damage: object) -> None:
    whole = await content("_4_log")
    disk = await changed(_4_log=damage(whole))  # type: ignore[operator]
    before = disk.files()
    position = batch_starts(whole)[1]
    with pytest.raises(CorruptLogError, match="flushed data is never dropped silently") as error:
        await open_log(disk, config=SMALL, recovery_point=7)
    assert error.value.path == name_of("_4_log")
    assert error.value.position == position
    assert f"at byte {position} (offset 6)" in error.value.message
    assert {path: data for path, data in disk.files().items() if path.suffix == ".log"} == {
        path: data for path, data in before.items() if path.suffix == ".log"
    }


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: flipped(data, batch_starts(data)[1] + 70),
        lambda data: data[:-5],
        lambda data: data[: batch_starts(data)[1]],
        lambda data: data[: batch_starts(data)[1]] + bytes(300),
    ],
    ids=["wrong CRC", "short", "batch missing", "zeros"],
)
async def test_row_what_a_power_failure_tore_in_several_segments_is_cut_and_what_lies_behind_is_removed(
    damage: object,
) -> None:
    whole = await content("_4_log")
    disk = await changed(_4_log=damage(whole))  # type: ignore[operator]
    log = await open_log(disk, config=SMALL, recovery_point=6)
    assert (log.state.log_end_offset, [segment.base_offset for segment in log.state.segments]) == (6, [0, 4])
    assert offsets_of(await read_bytes(log)) == list(range(6))
    assert "00000000000000000008.log: removed with its" in log.recovery_report.messages[-1]
    assert not [path for path in disk.restart().files() if path.name.startswith(f"{8:020d}.l")]
    assert log.state.producers.entries[5].last_sequence == 5
    assert epochs_of(log) == [(0, 0), (1, 4)]
    assert (await append(log, epoch=2)).first_offset == 6


async def test_row_offsets_missing_between_flushed_segments_are_refused_unless_compacted() -> None:
    whole = await content("_4_log")
    shorter = whole[: batch_starts(whole)[1]]
    with pytest.raises(CorruptLogError, match=r"offsets \[6, 8\) are missing"):
        await open_log(await changed(_4_log=shorter), config=SMALL, recovery_point=7)
    compacted = LogConfig(segment_bytes=400, cleanup_policy=frozenset({"compact"}))
    log = await open_log(await changed(_4_log=shorter), config=compacted)
    assert offsets_of(await read_bytes(log)) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]


async def test_a_segment_that_reaches_into_the_next_is_cut() -> None:
    whole = await content("_4_log")
    extra = data_batch(base_offset=8, epoch=1)
    disk = await changed(_4_log=whole + bytes(extra))
    log = await open_log(disk, config=SMALL)
    assert "offsets 8..8 where [8, 8) are expected" in log.recovery_report.messages[0]
    assert offsets_of(await read_bytes(log)) == list(range(12))


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("base", [0, 8])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "beyond the log", "negative"])
async def test_row_indexes_are_made_anew(is_clean: bool, base: int, suffix: str, damage: str) -> None:
    key = f"_{base}_{suffix}"
    right = await content(key)
    size = 8 if suffix == "index" else 12
    wrong = {
        "missing": None,
        "odd size": right + b"x",
        "beyond the log": right[:-4] + (10**6).to_bytes(4, "big") if suffix == "index" else right + b"y",
        "negative": right + b"\xff" * size,
    }[damage]
    disk = await changed(**{key: wrong})
    log = await open_log(disk, config=SMALL, is_clean=is_clean, recovery_point=12)
    assert offsets_of(await read_bytes(log, max_bytes=1)) == list(range(12))
    assert await log.offset_for_timestamp(0) is not None
    await log.close()
    assert disk.files()[name_of(key)] == right


@pytest.mark.parametrize("is_clean", [True, False])
async def test_row_transaction_index_impossible(is_clean: bool) -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True, value=bytes(100))
    await end_transaction(log, ControlType.ABORT, 7)
    await append(log, 2, value=bytes(100))
    await log.close()
    path = name_of("_0_txnindex")
    right = disk.files()[path]
    disk.put(path, right[:-3])
    again = await open_log(disk, config=SMALL, is_clean=is_clean, recovery_point=5, high_watermark=5)
    assert [aborted.first_offset for aborted in await again.aborted_transactions(0, 5)] == [0]
    assert "the log is scanned from that segment on" in again.recovery_report.messages[0]
    await again.close()
    assert disk.files()[path] == right


@pytest.mark.parametrize("flushes_again", [False, True])
async def test_row_aborted_transactions_of_a_segment_that_was_flushed_before_it_was_closed(flushes_again: bool) -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    await append(log, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True, value=bytes(100))
    await end_transaction(log, ControlType.ABORT, 7)
    await log.flush()
    assert log.state.offsets.recovery_point == log.state.log_end_offset == 3
    await log.roll()
    if flushes_again:
        await append(log, value=bytes(10))
        await log.flush()
    after = disk.restart("lost" if flushes_again else "kept")
    assert (name_of("_0_txnindex") in after.files()) is flushes_again
    again = await open_log(after, config=SMALL, recovery_point=log.state.offsets.recovery_point)
    assert [aborted.first_offset for aborted in await again.aborted_transactions(0, 3)] == [0]


async def test_row_index_without_log_is_removed() -> None:
    disk = await changed(_0_log=None)
    log = await open_log(disk, config=SMALL)
    assert [segment.base_offset for segment in log.state.segments] == [4, 8]
    assert {path.name for path in disk.restart().files() if path.name.startswith(f"{0:020d}")} == set()
    assert log.state.log_start_offset == 4


async def test_row_snapshot_above_the_end_is_removed() -> None:
    whole = await content("_8_log")
    disk = await changed(_8_log=whole[: batch_starts(whole)[1]])
    assert name_of("_12_snapshot") in disk.files()
    log = await open_log(disk, config=SMALL)
    assert log.state.log_end_offset == 10
    assert name_of("_12_snapshot") not in disk.restart().files()
    assert log.state.producers.entries[5].last_sequence == 9


@pytest.mark.parametrize("is_clean", [True, False])
async def test_row_damaged_snapshots_are_removed_and_more_is_replayed(is_clean: bool) -> None:
    disk = await changed(_12_snapshot=b"nonsense", _8_snapshot=b"")
    log = await open_log(disk, config=SMALL, is_clean=is_clean, recovery_point=12)
    assert log.state.producers.entries[5].last_sequence == 11
    if is_clean:
        assert name_of("_12_snapshot") not in disk.files()
    disk = await changed(_12_snapshot=None, _8_snapshot=None, _4_snapshot=None)
    log = await open_log(disk, config=SMALL, is_clean=is_clean, recovery_point=12)
    assert log.state.producers.entries[5].last_sequence == 11
    assert await log.producer_snapshot_at(8) is not None


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("file", ["_12_snapshot", "_8_index", "_8_timeindex", "leader_epoch_checkpoint"])
async def test_a_file_that_is_far_too_large_counts_as_damaged(
    monkeypatch: pytest.MonkeyPatch, file: str, is_clean: bool
) -> None:
    monkeypatch.setattr(port, "file_bytes_max", lambda name: 10_000)
    monkeypatch.setattr(index_files, "index_bytes_max", lambda suffix, segment_bytes: 10_000)
    disk = await changed(**{file: bytes(10_001)})
    log = await open_log(disk, config=SMALL, is_clean=is_clean, recovery_point=12)
    assert (log.state.log_end_offset, log.state.producers.entries[5].last_sequence) == (12, 11)
    assert epochs_of(log) == [(0, 0), (1, 4), (2, 8)]
    await log.close()


@pytest.mark.parametrize("data", [None, b"0\n1\nzero 0\n"], ids=["missing", "damaged"])
async def test_row_epochs_are_taken_from_the_batches(data: bytes | None) -> None:
    disk = await changed(leader_epoch_checkpoint=data)
    log = await open_log(disk, config=SMALL, is_clean=True)
    assert epochs_of(log) == [(0, 0), (1, 4), (2, 8)]
    assert "the leader epochs are rebuilt from the batches" in log.recovery_report.messages[0]
    assert disk.restart().files()[name_of("leader_epoch_checkpoint")] == b"0\n3\n0 0\n1 4\n2 8\n"


async def test_row_epochs_were_never_written() -> None:
    disk = await changed(leader_epoch_checkpoint=None)
    log = await open_log(disk, config=SMALL)
    assert epochs_of(log) == [(0, 0), (1, 4), (2, 8)]
    assert log.recovery_report.messages == []
    assert log.state.has_unsaved_epochs


async def test_row_epochs_of_a_log_that_begins_in_the_tier_cannot_be_made_anew() -> None:
    disk = await changed(leader_epoch_checkpoint=b"x", _0_log=None)
    tiered = LogConfig(segment_bytes=400, remote_storage_enable=True)
    with pytest.raises(CorruptLogError, match="have the replica rebuilt from the tier"):
        await open_log(disk, config=tiered, log_start_offset=0)


async def test_row_epochs_above_the_end_are_dropped() -> None:
    disk = await changed(leader_epoch_checkpoint=b"0\n5\n0 0\n1 4\n2 8\n3 12\n4 15\n")
    log = await open_log(disk, config=SMALL)
    assert epochs_of(log) == [(0, 0), (1, 4), (2, 8)]


async def test_row_log_ends_below_its_start() -> None:
    disk = await changed()
    log = await open_log(disk, config=SMALL, log_start_offset=20, high_watermark=5)
    assert (log.state.log_start_offset, log.state.log_end_offset, log.state.high_watermark, epochs_of(log)) == (
        20,
        20,
        20,
        [],
    )
    assert "below its log start 20" in log.recovery_report.messages[0]
    assert [path.name for path in disk.files() if path.suffix in {".log", ".snapshot"}] == ["00000000000000000020.log"]
    assert (await append(log, epoch=5)).first_offset == 20


@pytest.mark.parametrize("log_start", [None, 7])
async def test_row_no_segment(log_start: int | None) -> None:
    log = await open_log(MemoryDisk(), log_start_offset=log_start)
    assert (log.state.log_start_offset, log.state.log_end_offset) == (log_start or 0, log_start or 0)
    assert log.recovery_report.messages == []


async def test_row_recovery_point_above_the_end_is_lowered() -> None:
    disk = await changed()
    log = await open_log(disk, config=SMALL, recovery_point=100)
    assert log.state.offsets.recovery_point == 8, "the active segment is not known to be flushed"
    assert "below its recovery point 100" in log.recovery_report.messages[0]


async def test_row_leftovers_are_removed() -> None:
    names = ["00000000000000000000.log.deleted", "00000000000000000000.log.cleaned", "leader-epoch-checkpoint.1-2.tmp"]
    disk = await changed()
    for name in names:
        disk.put(DIRECTORY / name, b"left")
    log = await open_log(disk, config=SMALL, is_clean=True)
    assert not [path for path in disk.files() if path.name in names]
    assert log.recovery_report.messages == []


async def test_row_interrupted_compaction_is_refused_if_its_segment_is_not_whole() -> None:
    disk = await changed()
    disk.put(DIRECTORY / "00000000000000000000.log.swap", b"left")
    before = disk.files()
    with pytest.raises(CorruptLogError, match=r"output of an interrupted compaction is damaged"):
        await open_log(disk, config=SMALL)
    assert disk.files() == before


async def test_row_interrupted_compaction_is_finished() -> None:
    disk = await changed()
    segment = DIRECTORY / "00000000000000000000.log"
    whole = disk.files()[segment]
    first = parse_header(whole)
    disk.put(segment.with_name(segment.name + ".swap"), whole[: first.size_bytes])
    log = await open_log(disk, config=replace(SMALL, cleanup_policy=frozenset({"compact"})))
    assert "an interrupted compaction was finished" in log.recovery_report.messages[0]
    assert disk.files()[segment] == whole[: first.size_bytes]
    assert not [path for path in disk.files() if path.suffix == ".swap"]


async def test_row_foreign_files_are_named_and_left_alone() -> None:
    disk = await changed()
    disk.put(DIRECTORY / "notes.txt", b"mine")
    disk.put(DIRECTORY / "123.log", b"mine too")
    log = await open_log(disk, config=SMALL, is_clean=True)
    assert [message.split(" ")[1] for message in log.recovery_report.messages] == ["123.log", "notes.txt"]
    assert disk.files()[DIRECTORY / "notes.txt"] == b"mine"


async def test_row_partition_metadata() -> None:
    disk = await changed()
    assert (await open_log(disk, config=SMALL)).state.topic_id is None
    disk.put(DIRECTORY / "partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ")
    assert (await open_log(disk, config=SMALL)).state.topic_id == UUID(int=5)
    disk.put(DIRECTORY / "partition.metadata", b"topic: who knows")
    with pytest.raises(CorruptLogError, match="the topic id is unknown"):
        await open_log(disk, config=SMALL)


@pytest.mark.parametrize(
    ("first_base", "log_start_offset", "expected", "known"),
    [(0, None, 0, True), (4, None, 0, False), (4, 2, 2, True), (4, 5, 5, True)],
)
async def test_bootstrap_rule_4_row_tiered_without_a_log_start_entry_is_not_guessed(
    first_base: int, log_start_offset: int | None, expected: int, known: bool
) -> None:
    disk = await (changed(_0_log=None) if first_base == 4 else changed())
    tiered = LogConfig(segment_bytes=400, remote_storage_enable=True)
    log = await open_log(disk, config=tiered, log_start_offset=log_start_offset)
    assert (log.state.log_start_offset, log.state.log_start_known) == (expected, known)
    assert log.state.offsets.local_log_start_offset == max(first_base, expected)
    if not known:
        await log.set_log_start_from_ledger(3)
        assert (log.state.log_start_offset, log.state.log_start_known, log.state.high_watermark) == (3, True, 4)


async def test_clean_shutdown_skips_the_scan() -> None:
    disk = await changed()
    log = await open_log(disk, config=SMALL, is_clean=True)
    assert (log.recovery_report.scanned_segments, log.state.offsets.recovery_point) == (0, 12)
    assert [segment.max_timestamp_ms for segment in log.state.segments] == [
        segment.max_timestamp_ms for segment in (await open_log(disk, config=SMALL)).state.segments.as_tuple()
    ]


async def test_a_marker_of_a_clean_shutdown_does_not_hide_a_torn_tail() -> None:
    whole = await content("_8_log")
    disk = await changed(_8_log=whole[:-1])
    with pytest.raises(CorruptLogError, match="damaged at byte"):
        await open_log(disk, config=SMALL, is_clean=True, recovery_point=12)
    log = await open_log(disk, config=SMALL, is_clean=True, recovery_point=9)
    assert log.state.log_end_offset == 10


@pytest.mark.parametrize(("recovery_point", "scanned"), [(0, 3), (4, 3), (5, 2), (8, 2), (9, 1), (12, 1)])
async def test_only_what_was_not_flushed_is_scanned(recovery_point: int, scanned: int) -> None:
    log = await open_log(await changed(), config=SMALL, recovery_point=recovery_point)
    assert log.recovery_report.scanned_segments == scanned
    assert log.state.offsets.recovery_point == log.state.segments[3 - scanned].base_offset
    assert log.state.producers.entries[5].last_sequence == 11


async def flushed_then_rolled(disk: MemoryDisk) -> PartitionLog:
    """[0, 2) of a run that ended in order; then an aborted transaction [2, 5), flushed, and a new, empty segment."""
    log = await open_log(disk)
    await append(log, 2)
    await log.close()
    log = await open_log(disk, is_clean=True, recovery_point=2)
    await append(
        log, 2, timestamp_ms=NOW_MS + 1000, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    await end_transaction(log, ControlType.ABORT, 7)
    await log.flush()
    assert log.state.offsets.recovery_point == 5
    await log.roll()
    return log


async def test_older_indexes_of_a_segment_that_was_flushed_before_it_was_closed_are_made_anew() -> None:
    disk = MemoryDisk()
    await flushed_then_rolled(disk)
    log = await open_log(disk, recovery_point=5, high_watermark=5)
    assert log.state.segments[0].max_timestamp_ms == NOW_MS + 1001
    (aborted,) = await log.aborted_transactions(0, 5)
    assert (aborted.producer_id, aborted.first_offset) == (7, 2)


async def test_a_segment_whose_name_a_process_left_to_the_kernel_is_durable_once_it_is_flushed() -> None:
    disk = MemoryDisk()
    await append(await flushed_then_rolled(disk))
    log = await open_log(disk, recovery_point=5)
    await log.flush()
    assert log.state.offsets.recovery_point == 6
    log = await open_log(disk.restart("lost"), recovery_point=6)
    assert log.state.log_end_offset == 6


async def test_the_high_watermark_stays_within_the_log() -> None:
    for high_watermark, expected in [(0, 3), (5, 5), (99, 12)]:
        log = await open_log(
            await changed(), config=SMALL, log_start_offset=3, high_watermark=high_watermark, is_clean=True
        )
        assert log.state.high_watermark == expected


# Any crash.


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_after_any_crash_a_prefix_is_found_with_everything_flushed(seed: int) -> None:
    """Appends, rolls, flushes and epochs in any order, then power fails: at least what was flushed survives."""
    asyncio.run(crash_somewhere(Random(seed)))


async def crash_somewhere(random: Random) -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    epoch = sequence = flushed = 0
    for _ in range(random.randrange(1, 25)):
        action = random.randrange(6)
        if action == 0:
            epoch += 1
            await log.assign_epoch(epoch)
        elif action == 1:
            await log.flush()
            flushed = log.state.log_end_offset
        elif action == 2:
            await log.roll()
        else:
            count = random.randrange(1, 4)
            await append(
                log, count, epoch=epoch, producer_id=5, producer_epoch=0, base_sequence=sequence, value=bytes(50)
            )
            sequence += count
    data, entries = await read_bytes(log), epochs_of(log)
    recovery_point = random.choice([0, log.state.offsets.recovery_point])
    refused: CorruptLogError | None = None
    try:
        again = await open_log(disk.restart(random), config=SMALL, recovery_point=recovery_point)
    except CorruptLogError as error:
        refused = error
    if refused is not None:
        # A segment behind it was made and survived, while its own tail was not flushed yet.
        assert int(refused.path.stem) in {segment.base_offset for segment in log.state.segments[:-1]}
        assert log.state.has_unflushed_segments
        return
    end = again.state.log_end_offset
    assert flushed <= end <= log.state.log_end_offset
    assert data.startswith(await read_bytes(again))
    assert epochs_of(again) == [(epoch, start) for epoch, start in entries if start < end]
    producer = again.state.producers.entries.get(5)
    assert (producer.last_sequence if producer else -1) == end - 1


async def test_a_crash_at_every_effect_of_opening_leaves_a_log_that_opens() -> None:
    """Recovery itself may be interrupted; what it finds afterwards is the same."""
    whole = await content("_8_log")
    for fault in failures(crash=True):
        disk = await changed(
            _8_log=whole[:-1], _4_index=None, _12_snapshot=b"bad", leader_epoch_checkpoint=b"0\n1\n9 99\n"
        )
        disk.put(DIRECTORY / "x.tmp", b"left")
        disk.faults = fault
        try:
            await open_log(disk, config=SMALL)
        except DiskCrash:
            pass
        else:
            assert not fault.fired
        again = await open_log(disk.restart(Random(fault.n)), config=SMALL)
        assert offsets_of(await read_bytes(again)) == list(range(10))
        assert epochs_of(again) == [(0, 0), (1, 4), (2, 8)]


async def test_recovered_segments_are_saved_by_the_next_flush() -> None:
    disk = await changed(_0_index=None, _4_index=None, _4_timeindex=None, _4_snapshot=None)
    log = await open_log(disk, config=SMALL)
    assert log.state.has_unflushed_segments
    await log.flush()
    assert not log.state.has_unflushed_segments
    found = disk.restart().files()
    for key in ("_0_index", "_4_index", "_4_timeindex"):
        assert found[name_of(key)] == await content(key)
    assert name_of("_4_snapshot") in found


async def test_row_epochs_within_scanned_segments_are_those_of_the_batches() -> None:
    disk = await changed(leader_epoch_checkpoint=b"0\n2\n0 0\n9 5\n")
    log = await open_log(disk, config=SMALL)
    assert epochs_of(log) == [(0, 0), (1, 4), (2, 8)]
    await log.flush()
    assert disk.restart().files()[name_of("leader_epoch_checkpoint")] == b"0\n3\n0 0\n1 4\n2 8\n"


@pytest.mark.parametrize("calls", [("sync",), ("truncate", "sync")])
async def test_row_unsynced_what_a_failed_fsync_gave_up_is_written_again(calls: tuple[str, ...]) -> None:
    """The kernel takes it for written: without the mark the flush below would succeed, and prove nothing."""
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    for _ in range(6):
        await append(log, 2, value=bytes(50))
    disk.faults = FailNth(1, persistent=True, only=frozenset({"sync"}))
    with pytest.raises(KafkaError) as caught:
        await (log.flush() if calls == ("sync",) else log.truncate_to(10))
    assert caught.value.code is ErrorCode.kafka_storage_error
    disk.faults = None
    kept = log.state.log_end_offset
    assert kept == (12 if calls == ("sync",) else 10)
    again = await open_log(disk, config=SMALL)
    assert DIRECTORY / UNSYNCED_FILE not in disk.files()
    await again.flush()
    after = await open_log(disk.restart("lost"), config=SMALL)
    assert offsets_of(await read_bytes(after)) == list(range(kept))


async def test_D3_what_a_failed_fsync_left_in_the_page_cache_counts_once_it_is_on_the_disk() -> None:
    """Nobody flushes after the log was opened again, and the power fails."""
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    for _ in range(6):
        await append(log, 2, value=bytes(50))
    disk.faults = FailNth(1, persistent=True, only=frozenset({"sync"}))
    with pytest.raises(KafkaError):
        await log.flush()
    disk.faults = None
    again = await open_log(disk, config=SMALL)
    after = await open_log(disk.restart("lost"), config=SMALL)
    assert offsets_of(await read_bytes(after)) == offsets_of(await read_bytes(again)) == list(range(12))


async def test_D3_a_log_whose_tail_cannot_be_written_again_is_not_opened() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    await append(log, 2, value=bytes(50))
    disk.faults = FailNth(1, persistent=True, only=frozenset({"sync"}))
    with pytest.raises(KafkaError):
        await log.flush()
    with pytest.raises(OSError, match="injected"):
        await open_log(disk, config=SMALL)
    assert DIRECTORY / UNSYNCED_FILE in disk.files()


async def test_a_mark_that_the_disk_does_not_take_is_told() -> None:
    disk = MemoryDisk()
    log = await open_log(disk, config=SMALL)
    await append(log)
    disk.faults = FailNth(1, persistent=True)
    with pytest.raises(KafkaError, match="unsynced could not be written either"):
        await log.flush()
