"""What appends wait for while retention removes segments: `python -m bench expiry --against nothing`.

One log on the real disk, a hundred closed segments of 1 GiB that have expired. Their files are sparse, so unlinking
them is cheap on most file systems; "unlink 50 ms" makes each unlink of a `.log` take what a GiB of real extents takes.
An appender writes one small batch after another, none of which waits for an fsync; the figure is its slowest append.

In a run the segments expire in `ROUNDS` portions. Each round is a phase in which nothing expires and one, as long, in
which a portion does; which of them is first changes from round to round, so that what else the machine does falls into
both alike. The ratio is that of the slowest appends of all phases of a kind; one of 1.2 at most is the goal. Nothing of
Apache Kafka's is there to compare with.

A slowest one of thousands of appends is one pause of the process, whatever made it. So garbage is collected as in a
broker (`broker.pauses`): without that, one full collection in each run looks at all modules, for 50 CPU ms, and which
kind of phase it falls into is chance. And the CPU time of a turn of the loop is there: it is what the log itself has
held an append up with, where the clock has the machine's part too.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from tierfetch.broker.pauses import PAUSES
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
            gc.collect()
            gc.freeze()
            quiet, during, removal_s = asyncio.run(_measure(directory, unlink_s))
            gc.unfreeze()
            where = f"{SEGMENTS} segments, {case}"
            for when, slowest in (("nothing expires", quiet), ("they expire", during)):
                results.add("expiry", where, system.name, f"slowest append while {when}", slowest.append_s * 1000, "ms")
                quantity = f"longest turn of the loop while {when}"
                results.add("expiry", where, system.name, quantity, slowest.turn_cpu_s * 1000, "CPU ms")
            quantity = f"ratio of the two slowest appends in a run, {RATIO_MAX} at most"
            results.add("expiry", where, system.name, quantity, during.append_s / quiet.append_s, "times")
            results.add("expiry", where, system.name, "removal of all", removal_s * 1000, "ms")


class _Slowest(NamedTuple):
    """The slowest append of some time, and the most CPU time that the loop's thread used between two looks."""

    append_s: float = 0.0
    turn_cpu_s: float = 0.0

    def or_slower(self, other: _Slowest) -> _Slowest:
        return _Slowest(max(self.append_s, other.append_s), max(self.turn_cpu_s, other.turn_cpu_s))


async def _measure(directory: Path, unlink_s: float) -> tuple[_Slowest, _Slowest, float]:
    """Return what was slowest while nothing expires and while segments do, and the time of the removals in s."""
    async with PAUSES.measured():
        return await _measure_phases(directory, unlink_s)


async def _measure_phases(directory: Path, unlink_s: float) -> tuple[_Slowest, _Slowest, float]:
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
    slowest = {True: _Slowest(), False: _Slowest()}
    removal_s = 0.0
    for number in range(ROUNDS):
        for expires in (number % 2 == 0, number % 2 == 1):
            phase = _Phase(log, SEGMENTS - (number + 1) * PORTION if expires else None)
            slowest[expires] = slowest[expires].or_slower(await _slowest_append(log, phase.run()))
            removal_s += phase.removal_s
    await log.close()
    await disk.close()
    return slowest[False], slowest[True], removal_s


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


async def _slowest_append(log: PartitionLog, phase: Awaitable[None]) -> _Slowest:
    """Append until `phase` has ended; return what was slowest."""
    task, looks = asyncio.ensure_future(phase), asyncio.ensure_future(_longest_turn())
    append_s = 0.0
    while not task.done():
        began = time.perf_counter()
        await _append(log)
        append_s = max(append_s, time.perf_counter() - began)
        await asyncio.sleep(PAUSE_S)
    await task
    looks.cancel()
    return _Slowest(append_s, await looks)


async def _longest_turn() -> float:
    """Look at the CPU time of this thread until cancelled; return the most that passed between two looks, in s."""
    longest_s = 0.0
    with suppress(asyncio.CancelledError):
        while True:
            began_s = time.thread_time()
            await asyncio.sleep(PAUSE_S)
            longest_s = max(longest_s, time.thread_time() - began_s)
    return longest_s


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
