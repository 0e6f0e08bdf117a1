"""What appends wait for while retention removes segments: `python -m bench expiry --against nothing`.

One log on the real disk, a hundred closed segments of 1 GiB that have expired. Their files are sparse, so unlinking
them is cheap on most file systems; "unlink 50 ms" makes each unlink of a `.log` take what a GiB of real extents takes.
An appender writes one small batch after another, none of which waits for an fsync; the figure is its slowest append in
a phase before the removal, and while it runs. There is nothing of Apache Kafka's to compare with.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from tierfetch.log import LogLocation, PartitionLog
from tierfetch.log.core import LogConfig
from tierfetch.log.disk import OsDisk
from tierfetch.log.segment import OpenSegments
from tierfetch.protocol import TopicPartition
from tierfetch.protocol.records import Record, build_batch

from .measure import Results
from .systems import TIERFETCH, System

SEGMENTS: Final = 100
SEGMENT_BYTES: Final = 1 << 30
UNLINKS_S: Final = {"unlink as the file system": 0.0, "unlink 50 ms": 0.05}
DAY_MS: Final = 86_400_000
PHASE_S: Final = 6.0
PAUSE_S: Final = 0.001


class SlowDisk(OsDisk):
    """The machine's disk; unlinking a segment takes `unlink_s` longer."""

    def __init__(self, unlink_s: float) -> None:
        super().__init__()
        self._unlink_s = unlink_s

    async def remove(self, path: Path) -> None:
        if ".log" in path.suffixes:
            await asyncio.sleep(self._unlink_s)
        await super().remove(path)


class _Keeper:
    """Saves nothing: the benchmark opens its one log with offsets of its own."""

    async def save_log_start_offsets(self) -> None: ...

    async def ensure_log_start_saved(self, partition: TopicPartition) -> None: ...

    async def save_recovery_points(self) -> None: ...

    def segment_closed(self) -> None: ...

    accepts_clients = True
    accepts_replicas = True

    def has_room_for(self, size_bytes: int) -> bool:
        return True

    def writing(self, size_bytes: int) -> AbstractContextManager[None]:
        return nullcontext()


def run(system: System, base: Path, results: Results, size_mb: int, runs: int) -> None:
    """Measure tierfetch alone; sizes are fixed."""
    del size_mb
    if system is not TIERFETCH:
        return
    for case, unlink_s in UNLINKS_S.items():
        for number in range(runs):
            directory = base / f"{int(unlink_s * 1000)}-{number}" / "t-0"
            before_s, while_s, removal_s = asyncio.run(_measure(directory, unlink_s))
            for quantity, value in (("before", before_s), ("while they expire", while_s), ("removal", removal_s)):
                name = quantity if quantity == "removal" else f"slowest append {quantity}"
                results.add("expiry", f"{SEGMENTS} segments, {case}", system.name, name, value * 1000, "ms")


async def _measure(directory: Path, unlink_s: float) -> tuple[float, float, float]:
    """Return the slowest append before and while the segments are removed, and the time of the removal, in s."""
    disk = SlowDisk(unlink_s)
    await disk.make_directory(directory)
    log = await _open(disk, directory, recovery_point=0, is_clean=True)
    for _ in range(SEGMENTS):
        await _append(log, int(time.time() * 1000) - 2 * DAY_MS)
        await log.roll()
    await log.close()
    for path in sorted(directory.glob("*.log"))[:SEGMENTS]:
        os.truncate(path, SEGMENT_BYTES)
    log = await _open(disk, directory, recovery_point=SEGMENTS, is_clean=True)
    await _append(log, int(time.time() * 1000))
    log.update_high_watermark(log.state.log_end_offset)
    before_s = await _slowest_append(log, asyncio.sleep(PHASE_S))
    began = time.perf_counter()
    ended: list[float] = []

    async def removal() -> None:
        assert await log.delete_old_segments() == SEGMENTS
        ended.append(time.perf_counter())
        await asyncio.sleep(max(0.0, began + PHASE_S - ended[0]))

    while_s = await _slowest_append(log, removal())
    await log.close()
    await disk.close()
    return before_s, while_s, ended[0] - began


async def _slowest_append(log: PartitionLog, phase: Awaitable[None]) -> float:
    """Append until `phase` has ended; return the time of the slowest append in s."""
    task = asyncio.ensure_future(phase)
    slowest_s = 0.0
    while not task.done():
        began = time.perf_counter()
        await _append(log, int(time.time() * 1000))
        slowest_s = max(slowest_s, time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    await task
    return slowest_s


async def _append(log: PartitionLog, timestamp_ms: int) -> None:
    record = Record(offset=0, timestamp=timestamp_ms, key=b"k", value=bytes(100))
    batch = bytearray(build_batch([record], base_offset=0, partition_leader_epoch=0))
    await log.append_as_leader(batch, leader_epoch=0, now_ms=timestamp_ms)


async def _open(disk: OsDisk, directory: Path, *, recovery_point: int, is_clean: bool) -> PartitionLog:
    return await PartitionLog.open(
        LogLocation(
            topic_partition=TopicPartition("t", 0),
            directory=directory,
            disk=disk,
            config=LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=DAY_MS),
            keeper=_Keeper(),
            open_segments=OpenSegments(),
            now_ms=lambda: int(time.time() * 1000),
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=0,
        )
    )
