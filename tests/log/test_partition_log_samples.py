"""Byte compatibility with Apache Kafka: every real partition opens, and reads as Kafka's own consumers read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tierfetch.log.core import EpochEntry, LogConfig, decode_leader_epochs, decode_snapshot
from tierfetch.log.core.producer_state import ProducerStateEntry
from tierfetch.log.partition_log import PartitionLog
from tierfetch.protocol.records import iter_batches
from tierfetch.tests import samples
from tierfetch.tests.fakes.disk import MemoryDisk
from tierfetch.tests.log.logs import DIRECTORY, committed_records_of, open_log, read_bytes, records_of

PARTITIONS = sorted(
    path for path in samples.ROOT.glob("*/*") if path.is_dir() and list(path.glob("*.log")) and "tier" not in path.parts
)
CONFIG = LogConfig(segment_bytes=65536)
COMPACTED = LogConfig(segment_bytes=65536, cleanup_policy=frozenset({"compact"}))


def disk_with(source: Path) -> MemoryDisk:
    disk = MemoryDisk()
    disk.put_tree(source, DIRECTORY)
    return disk


async def open_topic(topic: str, *, is_clean: bool) -> PartitionLog:
    config = COMPACTED if topic == "s-compact" else CONFIG
    log = await open_log(
        disk_with(samples.partition_directory(topic)), config=config, is_clean=is_clean, log_start_offset=0
    )
    log.update_high_watermark(log.state.log_end_offset)
    return log


def segments_in(directory: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in sorted(directory.glob("*.log"))}


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("source", PARTITIONS, ids=lambda path: path.name)
async def test_every_partition_opens_and_reads_byte_for_byte(source: Path, is_clean: bool) -> None:
    config = COMPACTED if source.name == "s-compact-0" else CONFIG
    log = await open_log(disk_with(source), config=config, is_clean=is_clean)
    files = segments_in(source)
    assert [segment.base_offset for segment in log.state.segments] == list(files)
    assert await read_bytes(log) == b"".join(files.values())
    assert log.recovery_report.messages == []
    assert log.recovery_report.scanned_segments == (0 if is_clean else len(files))


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("topic", [topic for topic in samples.TOPICS if topic != "s-trim"])
async def test_records_are_those_of_kafkas_consumer(topic: str, is_clean: bool) -> None:
    log = await open_topic(topic, is_clean=is_clean)
    data = await read_bytes(log, 0, log.state.offsets.last_stable_offset)
    expected = samples.expected()[topic]
    assert samples.digest(records_of(data)) == expected["read_uncommitted"]
    aborted = await log.aborted_transactions(0, log.state.offsets.last_stable_offset)
    assert samples.digest(committed_records_of(data, aborted)) == expected["read_committed"]


@pytest.mark.parametrize("topic", [topic for topic in samples.TOPICS if topic != "s-trim"])
async def test_aborted_transactions_are_found_from_every_offset(topic: str) -> None:
    """Fetch for fetch, as a broker answers: what is filtered in pieces is what is filtered as a whole."""
    log = await open_topic(topic, is_clean=True)
    kept = []
    offset = 0
    while offset < log.state.offsets.last_stable_offset:
        with await log.read(offset, max_bytes=20_000, max_offset=log.state.offsets.last_stable_offset) as piece:
            data = await piece.read()
        if not data:
            break
        batches = records_of(data)
        end = max((record.offset for record in batches), default=offset) + 1
        kept += committed_records_of(data, await log.aborted_transactions(offset, end))
        offset = max(end, offset + 1)
    assert samples.digest(kept) == samples.expected()[topic]["read_committed"]


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("topic", samples.TOPICS)
async def test_F2_list_offsets_answers_from_local_data(topic: str, is_clean: bool) -> None:
    log = await open_topic(topic, is_clean=is_clean)
    answers = samples.expected()[topic]["list_offsets_v11"]
    assert log.state.high_watermark == log.state.log_end_offset == answers["-1"]["offset"]
    assert log.state.offsets.last_stable_offset == log.state.log_end_offset
    assert log.state.offsets.local_log_start_offset == answers["-4"]["offset"]
    largest = await log.max_timestamp_offset()
    assert largest is not None
    assert (largest.timestamp, largest.offset, largest.leader_epoch) == (
        answers["-3"]["timestamp"],
        answers["-3"]["offset"],
        answers["-3"]["leader_epoch"],
    )
    assert await log.offset_for_timestamp(largest.timestamp) == largest
    assert await log.offset_for_timestamp(largest.timestamp + 1) is None


@pytest.mark.parametrize("topic", ["s-none", "s-zstd", "s-lat"])
async def test_look_up_by_time_is_the_first_record_that_is_not_older(topic: str) -> None:
    log = await open_topic(topic, is_clean=True)
    records = records_of(await read_bytes(log))
    for probe in records[::97]:
        first = next(record for record in records if record.timestamp >= probe.timestamp)
        found = await log.offset_for_timestamp(probe.timestamp)
        assert found is not None
        # Control records have timestamps too, and are found as well.
        assert found.offset <= first.offset
        assert found.timestamp >= probe.timestamp
        assert not [
            record for record in records if record.offset < found.offset and record.timestamp >= probe.timestamp
        ]


@pytest.mark.parametrize("topic", samples.TOPICS)
async def test_rebuilt_indexes_are_kafkas(topic: str) -> None:
    """A scan makes anew, byte for byte, the indexes that the Java broker wrote.

    Except where it was restarted within a segment (there a new leader epoch begins): it forgets then how far the last
    entry lies back.
    """
    disk = disk_with(samples.partition_directory(topic))
    before = disk.files(DIRECTORY)
    log = await open_log(disk, config=COMPACTED if topic == "s-compact" else CONFIG)
    restarted = {
        segment.base_offset
        for segment in log.state.segments.as_tuple()
        for entry in log.state.epochs.entries
        if segment.base_offset < entry.start_offset < segment.next_offset
    }
    await log.close()
    after = disk.files(DIRECTORY)
    for path in before:
        if path.suffix == ".txnindex" or (path.suffix in {".index", ".timeindex"} and int(path.stem) not in restarted):
            assert after[path] == before[path], path
    assert {path for path in after if path.suffix == ".txnindex"} <= before.keys()


@pytest.mark.parametrize("topic", [topic for topic in samples.TOPICS if topic not in {"s-trim", "s-compact"}])
async def test_appended_batch_for_batch_the_files_are_kafkas(topic: str) -> None:
    """As a follower appends them: the same segments, transaction indexes, epochs, and producers at each roll."""
    source = samples.partition_directory(topic)
    disk = MemoryDisk()
    log = await open_log(disk, config=CONFIG)
    for data in segments_in(source).values():
        for position, header in iter_batches(data):
            await log.append_as_follower(data[position : position + header.size_bytes])
            log.update_high_watermark(header.next_offset)
    await log.close()
    ours = {path.name: data for path, data in disk.files(DIRECTORY).items()}
    theirs = {path.name: path.read_bytes() for path in source.iterdir()}
    for name, data in theirs.items():
        if name.endswith((".log", ".txnindex")):
            assert ours[name] == data, name
        if name.endswith(".snapshot") and name.replace("snapshot", "log") in theirs:
            assert sorted(producers_in(ours[name])) == sorted(producers_in(data)), name
    assert {name for name in ours if name.endswith(".txnindex")} == {
        name for name in theirs if name.endswith(".txnindex")
    }
    assert [entry for entry in epochs_in(theirs) if entry.start_offset < log.state.log_end_offset] == epochs_in(ours)


def producers_in(snapshot: bytes) -> list[ProducerStateEntry]:
    return decode_snapshot(snapshot)


def epochs_in(files: dict[str, bytes]) -> list[EpochEntry]:
    return list(decode_leader_epochs(files["leader-epoch-checkpoint"]))
