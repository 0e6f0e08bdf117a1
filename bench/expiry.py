"""What appends wait for while retention removes segments: `python -m bench expiry --against nothing`.

One log on the real disk, a hundred closed segments of 1 GiB that have expired. Their files are sparse, so unlinking
them is cheap on most file systems; "unlink 50 ms" makes each unlink of a `.log` take what a GiB of real extents takes.
An appender writes one small batch after another, none of which waits for an fsync; the figure is its slowest append.

In a run the segments expire in `ROUNDS` portions. Each round is a phase in which nothing expires and one, as long, in
which a portion does; which of them is first changes from round to round, so that what else the machine does falls into
both alike. The ratio is that of the slowest appends of all phases of a kind; one of 1.2 at most is the goal. Nothing of
Apache Kafka's is there to compare with.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
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
ROUNDS: Final = 10
PORTION: Final = SEGMENTS // ROUNDS
PHASE_S: Final = 2.0
PAUSE_S: Final = 0.001
RATIO_MAX: Final = 1.2


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
            quiet_s, while_s, removal_s = asyncio.run(_measure(directory, unlink_s))
            where = f"{SEGMENTS} segments, {case}"
            results.add("expiry", where, system.name, "slowest append while nothing expires", quiet_s * 1000, "ms")
            results.add("expiry", where, system.name, "slowest append while they expire", while_s * 1000, "ms")
            quantity = f"ratio of these two in a run, {RATIO_MAX} at most"
            results.add("expiry", where, system.name, quantity, while_s / quiet_s, "times")
            results.add("expiry", where, system.name, "removal of all", removal_s * 1000, "ms")


async def _measure(directory: Path, unlink_s: float) -> tuple[float, float, float]:
    """Return the slowest append while nothing expires and while segments do, and the time of the removals, in s."""
    disk = SlowDisk(unlink_s)
    await disk.make_directory(directory)
    log = await _open(disk, directory, recovery_point=0, is_clean=True)
    for _ in range(SEGMENTS):
        await _append(log)
        await log.roll()
    await log.close()
    for path in sorted(directory.glob("*.log"))[:SEGMENTS]:
        os.truncate(path, SEGMENT_BYTES)
    log = await _open(disk, directory, recovery_point=SEGMENTS, is_clean=True)
    await _append(log)
    slowest_s = {True: 0.0, False: 0.0}
    removal_s = 0.0
    for number in range(ROUNDS):
        for expires in (number % 2 == 0, number % 2 == 1):
            phase = _Phase(log, SEGMENTS - (number + 1) * PORTION if expires else None)
            slowest_s[expires] = max(slowest_s[expires], await _slowest_append(log, phase.run()))
            removal_s += phase.removal_s
    await log.close()
    await disk.close()
    return slowest_s[False], slowest_s[True], removal_s


class _Phase:
    """A while in which a portion of the segments expires, so that `left` are left, or nothing does."""

    def __init__(self, log: PartitionLog, left: int | None) -> None:
        self.removal_s = 0.0
        self._log = log
        self._left = left

    async def run(self) -> None:
        began = time.perf_counter()
        if self._left is not None:
            log = self._log
            log.update_high_watermark(log.state.log_end_offset)
            log.update_config(replace(log.state.config, retention_bytes=self._left * SEGMENT_BYTES))
            assert await log.delete_old_segments() == PORTION
            self.removal_s = time.perf_counter() - began
        await asyncio.sleep(max(0.0, PHASE_S - self.removal_s))


async def _slowest_append(log: PartitionLog, phase: Awaitable[None]) -> float:
    """Append until `phase` has ended; return the time of the slowest append in s."""
    task = asyncio.ensure_future(phase)
    slowest_s = 0.0
    while not task.done():
        began = time.perf_counter()
        await _append(log)
        slowest_s = max(slowest_s, time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    await task
    return slowest_s


async def _append(log: PartitionLog) -> None:
    timestamp_ms = int(time.time() * 1000)
    record = Record(offset=0, timestamp=timestamp_ms, key=b"k", value=bytes(100))
    batch = bytearray(build_batch([record], base_offset=0, partition_leader_epoch=0))
    await log.append_as_leader(batch, leader_epoch=0, now_ms=timestamp_ms)


async def _open(disk: OsDisk, directory: Path, *, recovery_point: int, is_clean: bool) -> PartitionLog:
    return await PartitionLog.open(
        LogLocation(
            topic_partition=TopicPartition("t", 0),
            directory=directory,
            disk=disk,
            config=LogConfig(segment_bytes=SEGMENT_BYTES),
            keeper=_Keeper(),
            open_segments=OpenSegments(),
            now_ms=lambda: int(time.time() * 1000),
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=0,
        )
    )
