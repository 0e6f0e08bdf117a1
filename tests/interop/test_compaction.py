"""Apache Kafka as the judge of what our cleaner leaves, and we of what its own leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tierfetch.log.disk import OsDisk
from tierfetch.protocol.records.control import ControlType
from tierfetch.tests.interop.java import SUFFIXES, check_by_kafka, kafka_dump, our_dump
from tierfetch.tests.log.compaction import COMPACT, End, History, Write, clean, last_values, settled, uncommitted_view
from tierfetch.tests.log.logs import open_log
from tierfetch.tests.samples import BROKER

_HOLE = re.compile(r"^  \d+ is followed by \d+$|^Non-consecutive offsets in ")
"""What Kafka says with `--deep-iteration` of any compacted log."""


async def test_kafka_reads_a_log_that_we_compacted(disk: OsDisk, tmp_path: Path) -> None:
    """Batches with less records than offsets, empty ones, delete horizons, indexes."""
    log = await open_log(disk, tmp_path / "t-0", config=COMPACT, high_watermark=1 << 40)
    history = History(log)
    for number in range(12):
        kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
        await history.apply(
            [
                Write(((b"a", b"1"), (b"k%d" % number, b"1"), (b"b", None)), 1),
                Write(((b"c%d" % (number % 3), b"t"),), 2, True),
                End(2, kind),
            ]
        )
        if number % 4 == 3:
            await settled(log)
            await clean(log)
    await log.close()
    files = sorted(path for path in log.state.directory.iterdir() if path.suffix in SUFFIXES and path.stat().st_size)
    theirs = {
        path: [line for line in lines if not _HOLE.search(line)]
        for path, lines in kafka_dump(files, "--deep-iteration").items()
    }
    ours = our_dump(files, with_records=True)
    assert {path: len(lines) for path, lines in theirs.items()} == {path: len(ours[path]) for path in theirs}
    assert kafka_dump(files) == our_dump(files)
    indexes = [path for path in files if path.suffix in {".index", ".timeindex"}]
    assert kafka_dump(indexes, "--verify-index-only") == {path: [] for path in indexes}
    lines = [line for path in files if path.suffix == ".log" for line in theirs[path]]
    assert any("deleteHorizonMs: OptionalLong[" in line for line in lines)
    assert any("count: 0 " in line for line in lines)


@pytest.mark.parametrize("topic", ["s-compact-0"])
async def test_we_go_on_with_a_log_that_kafka_compacted(disk: OsDisk, tmp_path: Path, topic: str) -> None:
    log = await open_log(disk, _copied(topic, tmp_path), config=COMPACT, is_clean=True, high_watermark=1 << 40)
    before = last_values(await uncommitted_view(log))
    await History(log).apply([Write(((b"new", b"1"),))])
    await settled(log)
    await clean(log)
    assert last_values(await uncommitted_view(log)).keys() == before.keys() | {b"new"}
    await log.close()
    check_by_kafka(log.state.directory)


def _copied(topic: str, target: Path) -> Path:
    source = BROKER / topic
    directory = target / topic
    directory.mkdir()
    for path in source.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    return directory
