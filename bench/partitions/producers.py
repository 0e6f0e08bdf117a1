"""What the producers of one partition cost: memory, and the longest pause by their snapshot or their expiry.

50,000 idempotent producers, each with five batches of a hundred records. A pause is the CPU time of the loop's thread
between two of its rounds, while the snapshot of a roll is taken and written, while a snapshot is loaded, and while
all producers expire: what else the machine does is not in it. Memory is what `tracemalloc` counts. No process is
started and nothing is sent. There is nothing of Apache Kafka's to compare with.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from tierfetch.log.core.producers import ProducerStateManager
from tierfetch.log.disk import OsDisk
from tierfetch.log.segment.snapshot_files import ProducerSnapshots
from tierfetch.protocol.records import BatchHeader

from ..measure import Results
from ..systems import TIERFETCH, System

PRODUCERS: Final = 50_000
BATCHES: Final = 5
RECORDS: Final = 100
FIRST_ID: Final = 2**32
LATER_MS: Final = 10**9


def run(system: System, base: Path, results: Results, total_mb: int, runs: int) -> None:
    """Measure tierfetch alone."""
    del total_mb
    if system is not TIERFETCH:
        return
    case = f"{PRODUCERS:,} producers, {BATCHES} batches each"
    for number in range(runs):
        tracemalloc.start()
        manager = _filled()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        results.add("producers", case, system.name, "memory", held / PRODUCERS, "bytes a producer")
        gc.collect()
        gc.freeze()
        for quantity, pause_s in asyncio.run(_pauses(manager, base / str(number))).items():
            results.add("producers", case, system.name, f"longest pause, {quantity}", pause_s * 1000, "CPU ms")
        gc.unfreeze()


def _filled() -> ProducerStateManager:
    manager = ProducerStateManager()
    for turn in range(BATCHES):
        for number in range(PRODUCERS):
            manager.apply(_batch(turn, number))
    return manager


def _batch(turn: int, number: int) -> BatchHeader:
    return BatchHeader(
        base_offset=(turn * PRODUCERS + number) * RECORDS,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=RECORDS - 1,
        base_timestamp=turn,
        max_timestamp=turn,
        producer_id=FIRST_ID + number,
        producer_epoch=0,
        base_sequence=turn * RECORDS,
        record_count=RECORDS,
    )


async def _pauses(manager: ProducerStateManager, directory: Path) -> dict[str, float]:
    disk = OsDisk()
    await disk.make_directory(directory)
    snapshots, offset = ProducerSnapshots(disk, directory), manager.map_end_offset

    async def snapshot() -> None:
        snapshots.stage(offset, manager.freeze())
        await snapshots.save()

    async def load() -> None:
        data = await snapshots.read(offset)
        assert data is not None
        loaded.append(await snapshots.decoded(data, offset))

    async def expire() -> None:
        for _ in manager.expire_stepwise(LATER_MS, 1):
            await asyncio.sleep(0)

    loaded: list[ProducerStateManager] = []
    found = {}
    steps: dict[str, Callable[[], Awaitable[None]]] = {
        "a snapshot is taken": snapshot,
        "a snapshot is loaded": load,
        "all expire": expire,
    }
    for quantity, work in steps.items():
        found[quantity] = await _longest_pause(work)
    await disk.close()
    return found


async def _longest_pause(work: Callable[[], Awaitable[None]]) -> float:
    """Return the longest time in s for which no other task could run."""
    task = asyncio.ensure_future(work())
    longest_s = 0.0
    while not task.done():
        began_s = time.thread_time()
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.thread_time() - began_s)
    await task
    return longest_s
